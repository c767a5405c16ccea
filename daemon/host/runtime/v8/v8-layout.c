/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A constant may have had several names: the type of a field is a part of them. The first one that the file
 * exports counts.
 *
 *     v8dbg_off_fp_function = -16                             read from the file's data, not from a process
 *     v8dbg_class_JSFunction__shared__SharedFunctionInfo = 32
 *
 * No table of releases is here. Where code made at run time has its header follows from the shape of Code,
 * which has had three:
 *
 *     the Code itself in front, 128 bytes             its instruction_start is a place in it (10.2)
 *     {map, Code}                                     nothing of Code is exported (11.3)
 *     {map, Code, relocation, size}                   Code points to an InstructionStream (12 and newer)
 *
 * Each is checked whenever code is looked up: the Code must say that its instructions begin there.
 */
#include "host/runtime/v8/v8-layout.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/dynamic-symbol.h"

enum {
        MAX_NAMES = 4,
        MAX_OFFSET = 4096,              /* largest offset of a field */
        UNSAID_HEADER = 16, UNSAID_START = 40, UNSAID_BYTES = 56, UNSAID_FLAGS = 48, UNSAID_DEOPT = 16,
        STREAM_HEADER = 32, STREAM_DEOPT = 8,
        CODE_DEOPT = 16,
};

typedef struct Constant {
        const char *names[MAX_NAMES];
} Constant;

static const Constant constants[V8_N_CONSTANTS] = {
        [V8_TAGGED_SIZE] = { { "TaggedSize" } },
        [V8_SLOT_OF_CONTEXT] = { { "off_fp_context_or_frame_type" } },
        [V8_SLOT_OF_FUNCTION] = { { "off_fp_function" } },
        [V8_SLOT_OF_BYTECODE] = { { "off_fp_bytecode_array" } },
        [V8_SLOT_OF_OFFSET] = { { "off_fp_bytecode_offset" } },
        [V8_INSTANCE_TYPE] = { { "class_Map__instance_type__uint16_t" } },
        [V8_SHARED] = { { "class_JSFunction__shared__SharedFunctionInfo" } },
        [V8_INFO_NAME] = { { "class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
                             "class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
                             "class_SharedFunctionInfo__name_or_scope_info__Object" } },
        [V8_INFO_SCRIPT] = { { "class_SharedFunctionInfo__raw_script__Tagged_Object_",
                               "class_SharedFunctionInfo__script__Tagged_HeapObject_",
                               "class_SharedFunctionInfo__script_or_debug_info__HeapObject" } },
        [V8_INFO_LENGTH] = { { "class_SharedFunctionInfo__length__uint16_t" } },
        [V8_INFO_TOKEN] = { { "class_SharedFunctionInfo__raw_function_token_offset__int16_t" } },
        [V8_SCRIPT_SOURCE] = { { "class_Script__source__Object" } },
        [V8_SCRIPT_NAME] = { { "class_Script__name__Object" } },
        [V8_SCRIPT_LINE_ENDS] = { { "class_Script__line_ends__Object" } },
        [V8_BYTECODE_DATA] = { { "class_BytecodeArray__data__uintptr_t" } },
        [V8_ARRAY_LENGTH] = { { "class_FixedArrayBase__length__SMI" } },
        [V8_ARRAY_DATA] = { { "class_FixedArray__data__uintptr_t" } },
        [V8_STRING_LENGTH] = { { "class_String__length__int32_t" } },
        [V8_STRING_ONE_BYTE] = { { "class_SeqOneByteString__chars__char" } },
        [V8_STRING_TWO_BYTE] = { { "class_SeqTwoByteString__chars__char" } },
        [V8_CONS_FIRST] = { { "class_ConsString__first__String" } },
        [V8_CONS_SECOND] = { { "class_ConsString__second__String" } },
        [V8_THIN_ACTUAL] = { { "class_ThinString__actual__String" } },
        [V8_SLICED_PARENT] = { { "class_SlicedString__parent__String" } },
        [V8_SLICED_OFFSET] = { { "class_SlicedString__offset__SMI" } },
        [V8_EXTERNAL_RESOURCE] = { { "class_ExternalString__resource__Object" } },
        [V8_FIRST_NO_STRING] = { { "FirstNonstringType" } },
        [V8_SCOPE_FIRST] = { { "scopeinfo_idx_first_vars" } },
        [V8_SCOPE_N_LOCALS] = { { "scopeinfo_idx_ncontextlocals" } },
        [V8_TYPE_INFO] = { { "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE" } },
        [V8_TYPE_SCRIPT] = { { "type_Script__SCRIPT_TYPE" } },
        [V8_TYPE_SCOPE] = { { "type_ScopeInfo__SCOPE_INFO_TYPE" } },
        [V8_TYPE_BYTECODE] = { { "type_BytecodeArray__BYTECODE_ARRAY_TYPE" } },
        [V8_TYPE_CODE] = { { "type_Code__CODE_TYPE" } },
        [V8_TYPE_BYTES] = { { "type_ByteArray__BYTE_ARRAY_TYPE" } },
        [V8_TYPE_ARRAY] = { { "type_FixedArray__FIXED_ARRAY_TYPE" } },
        [V8_KIND_MASK] = { { "CodeKindFieldMask" } },
        [V8_KIND_INTERPRETED] = { { "CodeKindInterpretedFunction" } },
        [V8_KIND_BASELINE] = { { "CodeKindBaseline" } },
        [V8_TYPE_TRUSTED_BYTES] = { { "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE" } },
        [V8_TYPE_TRUSTED_ARRAY] = { { "type_TrustedFixedArray__TRUSTED_FIXED_ARRAY_TYPE" } },
        [V8_TYPE_PROTECTED_ARRAY] = { { "type_ProtectedFixedArray__PROTECTED_FIXED_ARRAY_TYPE" } },
        [V8_TYPE_WEAK_ARRAY] = { { "type_WeakFixedArray__WEAK_FIXED_ARRAY_TYPE" } },
        [V8_TYPE_TRUSTED_WEAK_ARRAY] = { { "type_TrustedWeakFixedArray__TRUSTED_WEAK_FIXED_ARRAY_TYPE" } },
        [V8_TYPE_PROTECTED_WEAK_ARRAY] = { { "type_ProtectedWeakFixedArray__PROTECTED_WEAK_FIXED_ARRAY_TYPE" } },
        [V8_TYPE_STREAM] = { { "type_InstructionStream__INSTRUCTION_STREAM_TYPE" } },
        [V8_TYPE_WRAPPER] = { { "type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE" } },
        [V8_WRAPPER_INFO] = { { "class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_" } },
        [V8_CODE_STREAM] = { { "class_Code__instruction_stream__Tagged_InstructionStream_" } },
        [V8_CODE_START] = { { "class_Code__instruction_start__Address" } },
        [V8_CODE_BEGIN] = { { "class_Code__instruction_start__uintptr_t" } },
        [V8_CODE_N_BYTES] = { { "class_Code__instruction_size__int" } },
        [V8_CODE_FLAGS] = { { "class_Code__flags__uint32_t" } },
        [V8_DEOPT_LITERALS] = { { "DeoptimizationDataLiteralArrayIndex" } },
        [V8_DEOPT_POSITIONS] = { { "DeoptimizationDataInliningPositionsIndex" } },
        [V8_DEOPT_INFO] = { { "DeoptimizationDataSharedFunctionInfoIndex" } },
        [V8_DEOPT_WRAPPED] = { { "DeoptimizationDataWrappedSharedFunctionInfoIndex" } },
        [V8_DEOPT_ID] = { { "DeoptimizationDataOptimizationIdIndex" } },
        [V8_FRAME_REGEXP] = { { "frametype_IrregexpFrame" } },
        [V8_FRAME_WASM] = { { "frametype_WasmFrame" } },
        [V8_FRAME_TO_WASM] = { { "frametype_JsToWasmFrame" } },
        [V8_FRAME_FROM_WASM] = { { "frametype_WasmToJsFrame" } },
};

static const char *const version_names[] = { "_ZN2v88internal7Version6major_E",
                                             "_ZN2v88internal7Version6minor_E",
                                             "_ZN2v88internal7Version6build_E" };

/* ---- the file ---- */

static bool read_number(const DynamicImage *image, const char *name, int32_t *valuep) {
        Elf64_Sym symbol;
        uint32_t index;

        return dynamic_image_find(image, name, &index, &symbol) &&
                dynamic_image_read(image, symbol.st_value, valuep, sizeof(*valuep));
}

static bool read_constant(const DynamicImage *image, const Constant *constant, int32_t *valuep) {
        char name[128];

        for (size_t i = 0; i < MAX_NAMES && constant->names[i]; i++) {
                snprintf(name, sizeof(name), "v8dbg_%s", constant->names[i]);
                if (read_number(image, name, valuep))
                        return true;
        }
        return false;
}

bool v8_recognises(int fd, const void *data, uint64_t size) {
        DynamicImage image;
        int32_t value;

        return dynamic_image_open(&image, fd, data, size) &&
                read_constant(&image, &constants[V8_SLOT_OF_FUNCTION], &value) &&
                read_constant(&image, &constants[V8_TYPE_INFO], &value);
}

static const char *read_constants(const DynamicImage *image, V8Layout *layout) {
        const char *missing = NULL;

        for (size_t i = 0; i < V8_N_CONSTANTS; i++)
                if (!read_constant(image, &constants[i], &layout->values[i]) && i <= V8_LAST_NEEDED &&
                    !missing)
                        missing = constants[i].names[0];
        for (size_t i = 0; i < ARRAY_SIZE(version_names); i++) {
                int32_t number = 0;

                layout->version[i] = read_number(image, version_names[i], &number) ? (uint32_t)number & 0xffff
                                                                                   : 0;
        }
        return missing;
}

static void find_text(const DynamicImage *image, V8Opened *opened) {
        uint64_t low = UINT64_MAX, high = 0;

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];

                if (header->p_type != PT_LOAD || !(header->p_flags & PF_X) ||
                    header->p_vaddr + header->p_memsz < header->p_vaddr)
                        continue;
                low = MIN(low, (uint64_t)header->p_vaddr);
                high = MAX(high, (uint64_t)(header->p_vaddr + header->p_memsz));
        }
        if (low < high) {
                opened->text = low;
                opened->text_size = high - low;
        }
}

/* ---- spans ---- */

enum { MAX_CODE = 64, MAX_ISOLATE = 4096, ISOLATE_FAR = 1 << 20 };

/* Places that the kernel half has in its lines (bpf/runtimes/v8_spans.bpf.h). */
static bool has_known_properties(const DynamicImage *image) {
        static const struct {
                const char *name;
                int32_t value;
        } known[] = {
                { "class_Map__instance_size_in_words__char", 8 },
                { "class_Map__inobject_properties_start_or_constructor_function_index__char", 9 },
                { "class_Map__instance_type__uint16_t", 12 },
                { "class_Map__bit_field3__int", 16 },
                { "class_Map__instance_descriptors_offset", 40 },
                { "bit_field3_number_of_own_descriptors_mask", 0xffc00 },
                { "bit_field3_number_of_own_descriptors_shift", 10 },
                { "bit_field3_is_dictionary_map_shift", 21 },
                { "prop_desc_details", 1 },
                { "prop_desc_value", 2 },
                { "prop_desc_size", 3 },
                { "prop_location_mask", 1 << 5 },
                { "prop_representation_mask", 7 << 6 },
                { "prop_representation_double", 2 },
                { "prop_index_mask", 0x3ff << 19 },
                { "class_JSObject__internal_fields__uintptr_t", 24 },
                { "class_FixedArray__data__uintptr_t", 16 },
                { "class_String__length__int32_t", 12 },
                { "class_SeqOneByteString__chars__char", 16 },
                { "class_SlicedString__parent__String", 16 },
                { "class_SlicedString__offset__SMI", 24 },
                { "class_ThinString__actual__String", 16 },
                { "class_Symbol__name__Object", 16 },
                { "class_Oddball__kind__int", 40 },
                { "OddballTrue", 1 },
                { "FirstNonstringType", 0x80 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                const Constant constant = { { known[i].name } };
                int32_t value;

                if (!read_constant(image, &constant, &value) || value != known[i].value)
                        return false;
        }
        return true;
}

static bool read_code(const DynamicImage *image, const char *name, uint8_t code[MAX_CODE]) {
        Elf64_Sym symbol;
        uint32_t index;
        size_t size;

        memset(code, 0, MAX_CODE);
        if (!dynamic_image_find(image, name, &index, &symbol))
                return false;
        size = MIN(symbol.st_size, (uint64_t)MAX_CODE);
        return dynamic_image_read(image, symbol.st_value, code, size);
}

/* Finds an instruction of @n bytes at @bytes, which a number of 32 bits ends. */
static bool find_number(const uint8_t code[MAX_CODE], const uint8_t *bytes, size_t n, int32_t *numberp) {
        for (size_t i = 0; i + n + sizeof(*numberp) <= MAX_CODE; i++)
                if (!memcmp(code + i, bytes, n)) {
                        memcpy(numberp, code + i + n, sizeof(*numberp));
                        return true;
                }
        return false;
}

/* The variable of a program itself lies in front of the thread pointer, where the linker has said. */
static bool find_isolate(const DynamicImage *image, int64_t *isolatep) {
        static const uint8_t mov_from_fs[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 };
        uint8_t code[MAX_CODE];
        bool is_program = false;
        Elf64_Sym symbol;
        uint32_t index;
        int32_t number;

        if (read_code(image, "_ZN2v87Isolate13TryGetCurrentEv", code) &&
            find_number(code, mov_from_fs, sizeof(mov_from_fs), &number)) {
                *isolatep = number;
                return true;
        }
        for (unsigned i = 0; i < image->n_headers; i++)
                is_program |= image->headers[i].p_type == PT_INTERP;
        if (!is_program || !image->tls || !image->tls->p_align ||
            !dynamic_image_find(image, "_ZN2v88internal18g_current_isolate_E", &index, &symbol))
                return false;
        *isolatep = (int64_t)(symbol.st_value -
                              (image->tls->p_memsz + image->tls->p_align - 1) / image->tls->p_align *
                                      image->tls->p_align);
        return true;
}

static bool find_spans(const DynamicImage *image, struct v8_spans *spans) {
        static const char setter[] = "_ZN2v87Isolate36SetContinuationPreservedEmbedderDataENS_5LocalINS_"
                                     "5ValueEEE";
        static const uint8_t mov_to_rdi[] = { 0x48, 0x89, 0x87 };
        const struct {
                const char *name;
                uint16_t *to;
        } numbers[] = { { "type_JSMap__JS_MAP_TYPE", &spans->map_type },
                        { "type_JSObject__JS_OBJECT_TYPE", &spans->object_type },
                        { "type_Symbol__SYMBOL_TYPE", &spans->symbol_type },
                        { "class_DescriptorArray__header_size__uintptr_t", &spans->descriptors } };
        uint8_t code[MAX_CODE];
        int32_t value;

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                const Constant constant = { { numbers[i].name } };

                if (!read_constant(image, &constant, &value))
                        return false;
                *numbers[i].to = (uint16_t)value;
        }
        if (!read_code(image, setter, code) || !find_number(code, mov_to_rdi, sizeof(mov_to_rdi), &value))
                return false;
        spans->current = (uint16_t)value;
        return value > 0 && value < MAX_ISOLATE && has_known_properties(image) &&
                find_isolate(image, &spans->isolate) && v8_spans_are_sound(spans);
}

bool v8_spans_are_sound(const struct v8_spans *spans) {
        return spans->isolate >= -ISOLATE_FAR && spans->isolate <= ISOLATE_FAR && !(spans->isolate & 7) &&
                !(spans->current & 7) && spans->current < MAX_ISOLATE && !(spans->descriptors & 7) &&
                spans->descriptors <= MAX_CODE;
}

int v8_open(int fd, const void *data, uint64_t size, V8Opened *opened) {
        const char *missing;
        DynamicImage image;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_open(&image, fd, data, size)) {
                snprintf(opened->reason, sizeof(opened->reason), "V8: layout unknown: the file has changed");
                return V8_OPEN_E_UNKNOWN;
        }
        missing = read_constants(&image, &opened->layout);
        find_text(&image, opened);
        if (ELF_MACHINE != EM_X86_64 || !find_spans(&image, &opened->spans))
                memset(&opened->spans, 0, sizeof(opened->spans));
        return v8_layout_finish(&opened->layout, missing, opened->reason);
}

/* ---- what it makes ---- */

static int unknown(const V8Layout *layout, const char *what, const char *detail, char reason[V8_MAX_REASON]) {
        snprintf(reason, V8_MAX_REASON, "V8 %u.%u.%u: layout unknown: %s%s", layout->version[0],
                 layout->version[1], layout->version[2], what, detail);
        return V8_OPEN_E_UNKNOWN;
}

/* The walk reads frames at these places (bpf/runtimes/v8.bpf.h). */
static bool has_known_slots(const int32_t *values) {
        return values[V8_SLOT_OF_CONTEXT] == -8 && values[V8_SLOT_OF_FUNCTION] == -16 &&
                values[V8_SLOT_OF_BYTECODE] == -32 && values[V8_SLOT_OF_OFFSET] == -40;
}

static bool derive_code(int32_t *values) {
        if (values[V8_CODE_STREAM] && values[V8_CODE_START] && values[V8_CODE_N_BYTES] &&
            values[V8_CODE_FLAGS]) {
                values[V8_CODE_HEADER] = STREAM_HEADER;
                values[V8_CODE_DEOPT] = STREAM_DEOPT;
        } else if (values[V8_CODE_BEGIN] && values[V8_CODE_N_BYTES] && values[V8_CODE_FLAGS]) {
                values[V8_CODE_HEADER] = values[V8_CODE_BEGIN];
                values[V8_CODE_START] = 0;
                values[V8_CODE_DEOPT] = CODE_DEOPT;
        } else if (values[V8_TYPE_STREAM] && !values[V8_CODE_BEGIN]) {
                values[V8_CODE_HEADER] = UNSAID_HEADER;
                values[V8_CODE_START] = UNSAID_START;
                values[V8_CODE_N_BYTES] = UNSAID_BYTES;
                values[V8_CODE_FLAGS] = UNSAID_FLAGS;
                values[V8_CODE_DEOPT] = UNSAID_DEOPT;
        } else {
                return false;
        }
        values[V8_CODE_POSITIONS] = values[V8_CODE_DEOPT] + 8;
        return true;
}

bool v8_layout_is_sound(const V8Layout *layout) {
        for (size_t i = 0; i < V8_N_FIELDS; i++)
                if (layout->values[i] < -MAX_OFFSET || layout->values[i] > MAX_OFFSET ||
                    (layout->values[i] < 0 && (i < V8_SLOT_OF_CONTEXT || i > V8_SLOT_OF_OFFSET)))
                        return false;
        return true;
}

int v8_layout_finish(V8Layout *layout, const char *missing, char reason[V8_MAX_REASON]) {
        int32_t *values = layout->values;

        if (ELF_MACHINE != EM_X86_64)
                return unknown(layout, "this processor", "", reason);
        if (missing)
                return unknown(layout, "no constant ", missing, reason);
        if (values[V8_TAGGED_SIZE] != sizeof(uint64_t))
                return unknown(layout, "compressed pointers", "", reason);
        if (!has_known_slots(values))
                return unknown(layout, "another frame", "", reason);
        if (values[V8_INFO_TOKEN] != values[V8_INFO_LENGTH] + 4 || values[V8_INFO_LENGTH] % 8)
                return unknown(layout, "another SharedFunctionInfo", "", reason);
        if (!derive_code(values))
                return unknown(layout, "another Code", "", reason);
        /* Since Code has its stream, a SharedFunctionInfo has a number of its own, too. */
        values[V8_HAS_UNIQUE_ID] = values[V8_CODE_STREAM] != 0;
        if (!v8_layout_is_sound(layout))
                return unknown(layout, "a constant is too large", "", reason);
        snprintf(reason, V8_MAX_REASON, "V8 %u.%u.%u", layout->version[0], layout->version[1],
                 layout->version[2]);
        return 0;
}

/* Kinds of frames that are named, a bit each. */
static uint64_t marks_of(const int32_t *values) {
        uint64_t marks = 0;

        for (size_t i = V8_FRAME_REGEXP; i <= V8_FRAME_FROM_WASM; i++)
                if (values[i] > 0 && values[i] < 64)
                        marks |= 1ull << values[i];
        return marks;
}

bool v8_layout_entry(const V8Layout *layout, struct v8_process *entry) {
        const int32_t *values = layout->values;

        *entry = (struct v8_process){ .marks = marks_of(values),
                                      .instance_type = (uint16_t)values[V8_INSTANCE_TYPE],
                                      .shared = (uint16_t)values[V8_SHARED],
                                      .cookie = (uint16_t)values[V8_INFO_LENGTH],
                                      .has_unique_id = (uint16_t)values[V8_HAS_UNIQUE_ID],
                                      .info_type = (uint16_t)values[V8_TYPE_INFO],
                                      .bytecode_type = (uint16_t)values[V8_TYPE_BYTECODE],
                                      .code_type = (uint16_t)values[V8_TYPE_CODE],
                                      .code_header = (uint16_t)values[V8_CODE_HEADER],
                                      .code_start = (uint16_t)values[V8_CODE_START] };
        return entry->shared % 8 == 0 && entry->shared <= V8_MAX_SHARED && entry->cookie <= V8_MAX_COOKIE;
}
