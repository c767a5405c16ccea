/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libjvm describes itself for debuggers: four tables, each found by a symbol, each entry with names as C
 * strings; the sizes and offsets of the entries are published in more symbols.
 *
 *     gHotSpotVMStructs        {"nmethod", "_compile_id", "int", is static 0, offset 304, –}
 *                              {"CodeCache", "_heaps", "GrowableArray<CodeHeap*>*", 1, –, address}
 *     gHotSpotVMTypes          {"nmethod", superclass "CompiledMethod", …, size 352}
 *     gHotSpotVMIntConstants   {"ConstMethod::_has_linenumber_table", 1}
 *     gHotSpotVMLongConstants  the same in 64 bits (not needed here)
 *
 * A field that moves, from one release to the next, keeps its name, so nothing below is a number of one
 * release, but for what is not published: the words of interpreted frames, and compressed numbers
 * that leave out the zero byte since JDK 20.
 */
#include "host/runtime/hotspot/hotspot-layout.h"

#include <stdio.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"

enum {
        MAX_ENTRIES = 4096,             /* entries of a table: JDK 17 has 1,000 fields */
        MAX_STRIDE = 256,
        MAX_NAME = 96,
        MAX_STRUCT = 16 << 10,          /* bytes: JavaThread has 2,000 */
        FIRST_ON_ARM64 = 11,
};

enum {
        STRUCTS,
        STRUCT_STRIDE,
        STRUCT_TYPE,
        STRUCT_FIELD,
        STRUCT_TYPE_STRING,
        STRUCT_IS_STATIC,
        STRUCT_OFFSET,
        STRUCT_ADDRESS,
        TYPES,
        TYPE_STRIDE,
        TYPE_NAME,
        TYPE_SUPERCLASS,
        TYPE_SIZE,
        CONSTANTS,
        CONSTANT_STRIDE,
        CONSTANT_NAME,
        CONSTANT_VALUE,
        LONG_CONSTANTS,
};

const char *const hotspot_symbol_names[HOTSPOT_N_SYMBOLS] = {
        [STRUCTS] = "gHotSpotVMStructs",
        [STRUCT_STRIDE] = "gHotSpotVMStructEntryArrayStride",
        [STRUCT_TYPE] = "gHotSpotVMStructEntryTypeNameOffset",
        [STRUCT_FIELD] = "gHotSpotVMStructEntryFieldNameOffset",
        [STRUCT_TYPE_STRING] = "gHotSpotVMStructEntryTypeStringOffset",
        [STRUCT_IS_STATIC] = "gHotSpotVMStructEntryIsStaticOffset",
        [STRUCT_OFFSET] = "gHotSpotVMStructEntryOffsetOffset",
        [STRUCT_ADDRESS] = "gHotSpotVMStructEntryAddressOffset",
        [TYPES] = "gHotSpotVMTypes",
        [TYPE_STRIDE] = "gHotSpotVMTypeEntryArrayStride",
        [TYPE_NAME] = "gHotSpotVMTypeEntryTypeNameOffset",
        [TYPE_SUPERCLASS] = "gHotSpotVMTypeEntrySuperclassNameOffset",
        [TYPE_SIZE] = "gHotSpotVMTypeEntrySizeOffset",
        [CONSTANTS] = "gHotSpotVMIntConstants",
        [CONSTANT_STRIDE] = "gHotSpotVMIntConstantEntryArrayStride",
        [CONSTANT_NAME] = "gHotSpotVMIntConstantEntryNameOffset",
        [CONSTANT_VALUE] = "gHotSpotVMIntConstantEntryValueOffset",
        [LONG_CONSTANTS] = "gHotSpotVMLongConstants",
};

#define AT(_member) offsetof(HotspotLayout, _member)

/* Where a published field goes. Several names for one place are its names in different releases. */
static const struct {
        const char *type, *field;
        uint16_t to;                    /* a HotspotField of the layout */
        uint8_t size;                   /* bytes, unless the entry's type says it */
} fields[] = {
        { "GenericGrowableArray", "_len", AT(heap.array_length), 4 },
        { "GrowableArrayBase", "_len", AT(heap.array_length), 4 },
        { "GrowableArray<int>", "_data", AT(heap.array_data), 8 },
        { "CodeHeap", "_memory", AT(heap.memory), 8 },
        { "CodeHeap", "_segmap", AT(heap.segment_map), 8 },
        { "CodeHeap", "_log2_segment_size", AT(heap.log2_segment), 4 },
        { "VirtualSpace", "_low", AT(heap.low), 8 },
        { "VirtualSpace", "_high", AT(heap.high), 8 },
        { "VirtualSpace", "_high_boundary", AT(heap.end), 8 },
        { "HeapBlock::Header", "_length", AT(heap.block_length), 8 },
        { "HeapBlock::Header", "_used", AT(heap.block_used), 1 },

        { "CodeBlob", "_name", AT(blob.name), 8 },
        { "CodeBlob", "_size", AT(blob.size), 4 },
        { "CodeBlob", "_header_size", AT(blob.header_size), 4 },
        { "CodeBlob", "_frame_size", AT(blob.frame_size), 4 },
        { "CodeBlob", "_frame_complete_offset", AT(blob.frame_complete), 4 },
        { "CodeBlob", "_data_offset", AT(blob.data), 4 },
        { "CodeBlob", "_code_offset", AT(blob.code), 4 },
        { "CodeBlob", "_code_begin", AT(blob.code), 8 },
        { "CodeBlob", "_code_end", AT(blob.code_end), 8 },
        { "CodeBlob", "_mutable_data", AT(blob.mutable_data), 8 },
        { "CodeBlob", "_mutable_data_size", AT(blob.mutable_size), 4 },
        { "CodeBlob", "_relocation_size", AT(blob.relocation_size), 4 },

        { "nmethod", "_method", AT(nmethod.method), 8 },
        { "CompiledMethod", "_method", AT(nmethod.method), 8 },
        { "nmethod", "_compile_id", AT(nmethod.compile_id), 4 },
        { "nmethod", "_comp_level", AT(nmethod.comp_level), 4 },
        { "nmethod", "_entry_bci", AT(nmethod.entry_bci), 4 },
        { "nmethod", "_state", AT(nmethod.state), 1 },
        { "nmethod", "_orig_pc_offset", AT(nmethod.orig_pc), 4 },
        { "nmethod", "_verified_entry_point", AT(nmethod.verified_entry), 8 },
        { "nmethod", "_verified_entry_offset", AT(nmethod.verified_entry), 2 },
        { "nmethod", "_deoptimize_offset", AT(nmethod.deopt), 4 },
        { "nmethod", "_deoptimize_mh_offset", AT(nmethod.deopt_mh), 4 },
        { "CompiledMethod", "_deopt_handler_begin", AT(nmethod.deopt), 8 },
        { "CompiledMethod", "_deopt_mh_handler_begin", AT(nmethod.deopt_mh), 8 },
        { "nmethod", "_deopt_handler_offset", AT(nmethod.deopt), 4 },
        { "nmethod", "_deopt_mh_handler_offset", AT(nmethod.deopt_mh), 4 },
        { "nmethod", "_deopt_handler_entry_offset", AT(nmethod.deopt), 4 },
        { "nmethod", "_metadata_offset", AT(nmethod.metadata), 4 },
        { "nmethod", "_scopes_data_offset", AT(nmethod.scopes_data), 4 },
        { "CompiledMethod", "_scopes_data_begin", AT(nmethod.scopes_data), 8 },
        { "nmethod", "_scopes_pcs_offset", AT(nmethod.scopes_pcs), 4 },
        { "nmethod", "_dependencies_offset", AT(nmethod.dependencies), 4 },
        { "nmethod", "_nul_chk_table_offset", AT(nmethod.null_checks), 4 },
        { "nmethod", "_immutable_data", AT(nmethod.immutable_data), 8 },
        { "nmethod", "_immutable_data_size", AT(nmethod.immutable_size), 4 },

        { "Method", "_constMethod", AT(method.const_method), 8 },
        { "ConstMethod", "_constants", AT(method.constants), 8 },
        { "ConstMethod", "_constMethod_size", AT(method.const_size), 4 },
        { "ConstMethod", "_flags", AT(method.flags), 2 },
        { "ConstMethod", "_flags._flags", AT(method.flags), 4 },
        { "ConstMethod", "_code_size", AT(method.code_size), 2 },
        { "ConstMethod", "_name_index", AT(method.name), 2 },
        { "ConstMethod", "_signature_index", AT(method.signature), 2 },
        { "ConstantPool", "_tags", AT(method.tags), 8 },
        { "ConstantPool", "_pool_holder", AT(method.holder), 8 },
        { "ConstantPool", "_length", AT(method.pool_length), 4 },
        { "ConstantPool", "_source_file_name_index", AT(method.pool_source_file), 2 },
        { "Klass", "_name", AT(method.klass_name), 8 },
        { "InstanceKlass", "_constants", AT(method.klass_constants), 8 },
        { "InstanceKlass", "_source_file_name_index", AT(method.klass_source_file), 2 },
        { "Symbol", "_length", AT(method.symbol_length), 2 },
        { "Symbol", "_length_and_refcount", AT(method.symbol_length), 4 },
        { "Symbol", "_body", AT(method.symbol_body), 1 },
        { "Symbol", "_body[0]", AT(method.symbol_body), 1 },
        { "Array<int>", "_length", AT(method.array_length), 4 },
        { "Array<u1>", "_data", AT(method.array_u1), 1 },

        { "ConstantPool", "_cache", AT(calls.cache), 8 },
        { "Method", "_intrinsic_id", AT(calls.intrinsic), 2 },
        { "ConstantPoolCache", "_resolved_method_entries", AT(calls.entries), 8 },
        { "ResolvedMethodEntry", "_cpool_index", AT(calls.index), 2 },
        { "ConstantPoolCacheEntry", "_indices", AT(calls.index), 8 },
        { "ConstantPoolCacheEntry", "_f1", AT(calls.first), 8 },
        { "ConstantPoolCacheEntry", "_f2", AT(calls.second), 8 },

        { "JavaThread", "_anchor", AT(thread.anchor), 8 },
        { "JavaFrameAnchor", "_last_Java_sp", AT(thread.last_sp), 8 },
        { "JavaFrameAnchor", "_last_Java_fp", AT(thread.last_fp), 8 },
        { "JavaFrameAnchor", "_last_Java_pc", AT(thread.last_pc), 8 },
        { "JavaCallWrapper", "_anchor", AT(thread.wrapper_anchor), 8 },
        { "JavaThread", "_osthread", AT(thread.osthread), 8 },
        { "Thread", "_osthread", AT(thread.osthread), 8 },
        { "OSThread", "_thread_id", AT(thread.thread_id), 4 },
        { "JavaThread", "_cont_entry", AT(thread.cont_entry), 8 },

        { "Thread", "_allocated_bytes", AT(bytes.allocated), 8 },
        { "Thread", "_tlab", AT(bytes.tlab), 8 },
        { "ThreadLocalAllocBuffer", "_start", AT(bytes.start), 8 },
        { "ThreadLocalAllocBuffer", "_top", AT(bytes.top), 8 },

        { "InstanceKlass", "_fieldinfo_stream", AT(classes.fields), 8 },
        { "InstanceKlass", "_fields", AT(classes.old_fields), 8 },
        { "InstanceKlass", "_java_fields_count", AT(classes.n_old_fields), 2 },
        { "Array<u2>", "_data", AT(classes.array_u2), 2 },
        { "Klass", "_super", AT(classes.super), 8 },
        { "Klass", "_layout_helper", AT(classes.size), 4 },

        { "ThreadsList", "_length", AT(locks.n_threads), 4 },
        { "ThreadsList", "_threads", AT(locks.thread_array), 8 },
        { "JavaThread", "_next", AT(locks.next_thread), 8 },
        { "Thread", "_current_pending_monitor", AT(locks.pending), 8 },
        { "JavaThread", "_current_pending_monitor", AT(locks.pending), 8 },
        { "Thread", "_current_waiting_monitor", AT(locks.waiting), 8 },
        { "JavaThread", "_current_waiting_monitor", AT(locks.waiting), 8 },
        { "JavaThread", "_stack_base", AT(locks.stack_base), 8 },
        { "JavaThread", "_stack_size", AT(locks.stack_size), 8 },
        { "JavaThread", "_threadObj", AT(locks.object), 8 },
        { "JavaThread", "_vthread", AT(locks.virtual_object), 8 },
        { "JavaThread", "_monitor_owner_id", AT(locks.owner_id), 8 },
        { "JavaThread", "_lock_stack", AT(locks.lock_stack), 8 },
        { "LockStack", "_top", AT(locks.lock_top), 4 },
        { "LockStack", "_base[0]", AT(locks.lock_base), 8 },
        { "ObjectMonitor", "_owner", AT(locks.monitor_owner), 8 },
        { "ObjectMonitor", "_object", AT(locks.monitor_object), 8 },
        { "oopDesc", "_metadata._klass", AT(locks.object_klass), 8 },

        { "PerfDataPrologue", "entry_offset", AT(counts.first), 4 },
        { "PerfDataPrologue", "num_entries", AT(counts.n), 4 },
        { "PerfDataEntry", "entry_length", AT(counts.length), 4 },
        { "PerfDataEntry", "name_offset", AT(counts.name), 4 },
        { "PerfDataEntry", "data_offset", AT(counts.data), 4 },

        { "JVMFlag", "_name", AT(flags.name), 8 },
        { "JVMFlag", "_addr", AT(flags.value), 8 },
        { "Flag", "_name", AT(flags.name), 8 },
        { "Flag", "_addr", AT(flags.value), 8 },

        { "StubQueue", "_stub_buffer", AT(variables.queue_start), 8 },
        { "StubQueue", "_buffer_limit", AT(variables.queue_size), 4 },
};

/* Names of types whose size matters, as their strings in the tables are. A pointer has 8 bytes. */
static const struct {
        const char *name;
        uint8_t size;
        bool is_signed;
} sizes[] = {
        { "int", 4, true },           { "jint", 4, true },          { "int32_t", 4, true },
        { "uint", 4, false },         { "uint32_t", 4, false },     { "unsigned int", 4, false },
        { "CompLevel", 1, true },     { "u4", 4, false },           { "int16_t", 2, true },
        { "u2", 2, false },           { "uint16_t", 2, false },     { "unsigned short", 2, false },
        { "jushort", 2, false },      { "u1", 1, false },           { "bool", 1, false },
        { "size_t", 8, false },       { "address", 8, false },      { "pid_t", 4, true },
        { "volatile signed char", 1, true },
};

/* Static variables: where their address goes, as uint64_t of the layout. */
static const struct {
        const char *type, *field;
        uint16_t to;
} static_fields[] = {
        { "CodeCache", "_heaps", AT(heap.heaps) },
        { "CodeCache", "_heap", AT(heap.heap) },
        { "AbstractInterpreter", "_code", AT(variables.interpreter) },
        { "StubRoutines", "_call_stub_return_address", AT(variables.call_stub_return) },
        { "ContinuationEntry", "_return_pc", AT(variables.cont_return_pc) },
        { "vmClasses", "_klasses[static_cast<int>(vmClassID::Object_klass_knum)]", AT(classes.list) },
        { "CompressedOops", "_narrow_oop._base", AT(classes.oop_base) },
        { "CompressedOops", "_base", AT(classes.oop_base) },
        { "CompressedOops", "_narrow_oop._shift", AT(classes.oop_shift) },
        { "CompressedOops", "_shift", AT(classes.oop_shift) },
        { "Universe", "_narrow_oop._base", AT(classes.oop_base) },
        { "Universe", "_narrow_oop._shift", AT(classes.oop_shift) },
        { "Universe", "_narrow_klass._base", AT(locks.klass_base) },
        { "CompressedKlassPointers", "_narrow_klass._base", AT(locks.klass_base) },
        { "CompressedKlassPointers", "_base", AT(locks.klass_base) },
        { "Universe", "_narrow_klass._shift", AT(locks.klass_shift) },
        { "CompressedKlassPointers", "_narrow_klass._shift", AT(locks.klass_shift) },
        { "CompressedKlassPointers", "_shift", AT(locks.klass_shift) },
        { "ThreadsSMRSupport", "_java_thread_list", AT(locks.threads) },
        { "Threads", "_thread_list", AT(locks.first_thread) },
        { "PerfMemory", "_start", AT(counts.start) },
        { "JVMFlag", "flags", AT(flags.list) },
        { "JVMFlag", "numFlags", AT(flags.count) },
        { "Flag", "flags", AT(flags.list) },
        { "Flag", "numFlags", AT(flags.count) },
};

/* Sizes of types, as uint32_t of the layout. */
static const struct {
        const char *name;
        uint16_t to;
} types[] = {
        { "HeapBlock", AT(heap.block_size) },
        { "nmethod", AT(nmethod.struct_size) },
        { "Method", AT(method.method_size) },
        { "ConstMethod", AT(method.const_method_size) },
        { "ConstantPool", AT(method.pool_size) },
        { "ConstantPoolCache", AT(calls.cache_size) },
        { "ConstantPoolCacheEntry", AT(calls.entry_size) },
        { "ResolvedMethodEntry", AT(calls.entry_size) },
        { "JVMFlag", AT(flags.struct_size) },
        { "Flag", AT(flags.struct_size) },
};

/* Fields that frames and names cannot do without: one of the two, if there is a second. */
static const struct {
        const char *name;
        uint16_t field, other;
} needs[] = {
        { "GrowableArrayBase::_len", AT(heap.array_length) },
        { "GrowableArray<int>::_data", AT(heap.array_data) },
        { "CodeHeap::_memory", AT(heap.memory) },
        { "CodeHeap::_segmap", AT(heap.segment_map) },
        { "CodeHeap::_log2_segment_size", AT(heap.log2_segment) },
        { "VirtualSpace::_low", AT(heap.low) },
        { "VirtualSpace::_high", AT(heap.high) },
        { "VirtualSpace::_high_boundary", AT(heap.end) },
        { "HeapBlock::Header::_length", AT(heap.block_length) },
        { "HeapBlock::Header::_used", AT(heap.block_used) },
        { "CodeBlob::_name", AT(blob.name) },
        { "CodeBlob::_size", AT(blob.size) },
        { "CodeBlob::_header_size", AT(blob.header_size) },
        { "CodeBlob::_frame_size", AT(blob.frame_size) },
        { "CodeBlob::_frame_complete_offset", AT(blob.frame_complete) },
        { "CodeBlob::_data_offset", AT(blob.data) },
        { "CodeBlob::_code_offset", AT(blob.code) },
        { "nmethod::_method", AT(nmethod.method) },
        { "nmethod::_compile_id", AT(nmethod.compile_id) },
        { "nmethod::_orig_pc_offset", AT(nmethod.orig_pc) },
        { "nmethod::_deopt_handler_offset", AT(nmethod.deopt) },
        { "nmethod::_metadata_offset", AT(nmethod.metadata), AT(blob.mutable_data) },
        { "nmethod::_scopes_data_offset", AT(nmethod.scopes_data) },
        { "nmethod::_scopes_pcs_offset", AT(nmethod.scopes_pcs) },
        { "nmethod::_dependencies_offset", AT(nmethod.dependencies), AT(nmethod.immutable_size) },
        { "Method::_constMethod", AT(method.const_method) },
        { "ConstMethod::_constants", AT(method.constants) },
        { "ConstMethod::_constMethod_size", AT(method.const_size) },
        { "ConstMethod::_flags", AT(method.flags) },
        { "ConstMethod::_code_size", AT(method.code_size) },
        { "ConstMethod::_name_index", AT(method.name) },
        { "ConstMethod::_signature_index", AT(method.signature) },
        { "ConstantPool::_tags", AT(method.tags) },
        { "ConstantPool::_pool_holder", AT(method.holder) },
        { "ConstantPool::_length", AT(method.pool_length) },
        { "ConstantPool::_source_file_name_index", AT(method.pool_source_file), AT(method.klass_source_file) },
        { "Klass::_name", AT(method.klass_name) },
        { "InstanceKlass::_constants", AT(method.klass_constants) },
        { "Symbol::_length", AT(method.symbol_length) },
        { "Symbol::_body", AT(method.symbol_body) },
        { "Array<int>::_length", AT(method.array_length) },
        { "Array<u1>::_data", AT(method.array_u1) },
        { "StubQueue::_stub_buffer", AT(variables.queue_start) },
        { "StubQueue::_buffer_limit", AT(variables.queue_size) },
};

/* The same of sizes, constants and static variables. */
static const struct {
        const char *name;
        uint16_t to;
} needed_sizes[] = {
        { "sizeof(HeapBlock)", AT(heap.block_size) },
        { "sizeof(nmethod)", AT(nmethod.struct_size) },
        { "sizeof(Method)", AT(method.method_size) },
        { "sizeof(ConstMethod)", AT(method.const_method_size) },
        { "sizeof(ConstantPool)", AT(method.pool_size) },
        { "ConstMethod::_has_linenumber_table", AT(method.line_table_flag) },
};

typedef struct Tables {
        const HotspotReader *reader;
        HotspotLayout *layout;
        /* values of the variables: addresses of tables, strides, offsets */
        uint64_t values[HOTSPOT_N_SYMBOLS];
        uint64_t bias;
        uint64_t version;                       /* address of Abstract_VM_Version::_vm_major_version */
        const char *absent;                     /* name of a missing part; NULL = a read failed */
} Tables;

static HotspotField *field_of(HotspotLayout *layout, uint16_t to) {
        return (HotspotField *)((uint8_t *)layout + to);
}

/* A C string of the process, as far as it fits; a longer one is none of ours. */
static bool read_name(const Tables *tables, uint64_t address, char name[MAX_NAME]) {
        name[0] = '\0';
        for (size_t n = 0; address && n < MAX_NAME;) {
                /* Up to a multiple of 16: what is behind the string may be in no page. */
                size_t size = MIN(16 - (address + n) % 16, MAX_NAME - n);

                if (!hotspot_read(tables->reader, address + n, name + n, size))
                        return false;
                if (memchr(name + n, 0, size))
                        return true;
                n += size;
        }
        name[0] = '\0';
        return true;
}

static uint64_t word_at(const uint8_t *entry, uint64_t offset, size_t size) {
        uint64_t value = 0;

        memcpy(&value, entry + offset, size);
        return value;
}

/* Entry @i of the table whose address, stride and last member are named. */
static bool read_entry(const Tables *tables, int table, int stride, unsigned i, uint8_t entry[MAX_STRIDE]) {
        return hotspot_read(tables->reader, tables->values[table] + i * tables->values[stride], entry,
                            tables->values[stride]);
}

/* ---- one entry each ---- */

static HotspotField make_field(const char *type, uint64_t offset, uint8_t size) {
        size_t length = strlen(type);

        if (length && type[length - 1] == '*')
                return (HotspotField){ (uint16_t)offset, 8, false };
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                if (!strcmp(type, sizes[i].name))
                        return (HotspotField){ (uint16_t)offset, sizes[i].size, sizes[i].is_signed };
        return (HotspotField){ (uint16_t)offset, size, false };
}

static void take_static(Tables *tables, const char *type, const char *field, uint64_t address) {
        for (size_t i = 0; i < ARRAY_SIZE(static_fields); i++)
                if (!strcmp(type, static_fields[i].type) && !strcmp(field, static_fields[i].field)) {
                        uint64_t relative = address - tables->bias;

                        memcpy((uint8_t *)tables->layout + static_fields[i].to, &relative, sizeof(relative));
                }
        if (!strcmp(type, "Abstract_VM_Version") && !strcmp(field, "_vm_major_version"))
                tables->version = address;
}

static bool take_struct(Tables *tables, const uint8_t *entry, const char *type, const char *field) {
        uint64_t offset = word_at(entry, tables->values[STRUCT_OFFSET], 8);
        char type_string[MAX_NAME];

        if (word_at(entry, tables->values[STRUCT_IS_STATIC], 4)) {
                take_static(tables, type, field, word_at(entry, tables->values[STRUCT_ADDRESS], 8));
                return true;
        }
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                if (strcmp(field, fields[i].field) || strcmp(type, fields[i].type) || offset >= MAX_STRUCT)
                        continue;
                if (!read_name(tables, word_at(entry, tables->values[STRUCT_TYPE_STRING], 8), type_string))
                        return false;
                *field_of(tables->layout, fields[i].to) = make_field(type_string, offset, fields[i].size);
        }
        return true;
}

static int read_structs(Tables *tables) {
        char type[MAX_NAME], field[MAX_NAME];
        uint8_t entry[MAX_STRIDE];

        for (unsigned i = 0; i < MAX_ENTRIES; i++) {
                if (!read_entry(tables, STRUCTS, STRUCT_STRIDE, i, entry) ||
                    !read_name(tables, word_at(entry, tables->values[STRUCT_TYPE], 8), type) ||
                    !read_name(tables, word_at(entry, tables->values[STRUCT_FIELD], 8), field))
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
                if (!word_at(entry, tables->values[STRUCT_TYPE], 8))
                        return 0;
                if (!take_struct(tables, entry, type, field))
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
        }
        tables->absent = "end of gHotSpotVMStructs";
        return HOTSPOT_LAYOUT_E_UNKNOWN;
}

static int read_types(Tables *tables) {
        uint8_t entry[MAX_STRIDE];
        char name[MAX_NAME];

        for (unsigned i = 0; i < MAX_ENTRIES; i++) {
                if (!read_entry(tables, TYPES, TYPE_STRIDE, i, entry) ||
                    !read_name(tables, word_at(entry, tables->values[TYPE_NAME], 8), name))
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
                if (!word_at(entry, tables->values[TYPE_NAME], 8))
                        return 0;
                for (size_t k = 0; k < ARRAY_SIZE(types); k++) {
                        uint64_t size = word_at(entry, tables->values[TYPE_SIZE], 8);

                        if (!strcmp(name, types[k].name) && size < MAX_STRUCT)
                                *(uint32_t *)((uint8_t *)tables->layout + types[k].to) = (uint32_t)size;
                }
        }
        tables->absent = "end of gHotSpotVMTypes";
        return HOTSPOT_LAYOUT_E_UNKNOWN;
}

static int read_constants(Tables *tables) {
        uint8_t entry[MAX_STRIDE];
        char name[MAX_NAME];

        for (unsigned i = 0; i < MAX_ENTRIES; i++) {
                if (!read_entry(tables, CONSTANTS, CONSTANT_STRIDE, i, entry) ||
                    !read_name(tables, word_at(entry, tables->values[CONSTANT_NAME], 8), name))
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
                if (!word_at(entry, tables->values[CONSTANT_NAME], 8))
                        return 0;
                if (!strcmp(name, "ConstMethod::_has_linenumber_table") ||
                    !strcmp(name, "ConstMethodFlags::_misc_has_linenumber_table"))
                        tables->layout->method.line_table_flag =
                                (uint32_t)word_at(entry, tables->values[CONSTANT_VALUE], 4);
        }
        tables->absent = "end of gHotSpotVMIntConstants";
        return HOTSPOT_LAYOUT_E_UNKNOWN;
}

/* ---- the whole ---- */

/*
 * The values of the variables. @symbols are addresses of words; a table that is empty, an entry that is
 * larger than any, or a member outside of it is no description.
 */
static int read_variables(Tables *tables, const uint64_t *symbols) {
        static const struct {
                uint8_t member, stride, size;
        } members[] = {
                { STRUCT_TYPE, STRUCT_STRIDE, 8 },        { STRUCT_FIELD, STRUCT_STRIDE, 8 },
                { STRUCT_TYPE_STRING, STRUCT_STRIDE, 8 }, { STRUCT_IS_STATIC, STRUCT_STRIDE, 4 },
                { STRUCT_OFFSET, STRUCT_STRIDE, 8 },      { STRUCT_ADDRESS, STRUCT_STRIDE, 8 },
                { TYPE_NAME, TYPE_STRIDE, 8 },            { TYPE_SIZE, TYPE_STRIDE, 8 },
                { CONSTANT_NAME, CONSTANT_STRIDE, 8 },    { CONSTANT_VALUE, CONSTANT_STRIDE, 4 },
        };

        for (unsigned i = 0; i < HOTSPOT_N_SYMBOLS; i++)
                if (!hotspot_read_u64(tables->reader, symbols[i], &tables->values[i]))
                        return HOTSPOT_LAYOUT_E_UNREADABLE;
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                uint64_t stride = tables->values[members[i].stride], at = tables->values[members[i].member];

                if (stride > MAX_STRIDE || at > stride || members[i].size > stride - at) {
                        tables->absent = hotspot_symbol_names[members[i].member];
                        return HOTSPOT_LAYOUT_E_UNKNOWN;
                }
        }
        return 0;
}

/* JDK 8 calls itself HotSpot 25, and has but one code heap. Since 9 both versions are one. */
static int read_version(Tables *tables) {
        HotspotLayout *layout = tables->layout;
        uint32_t version = 0;

        if (!tables->version) {
                tables->absent = "Abstract_VM_Version::_vm_major_version";
                return HOTSPOT_LAYOUT_E_UNKNOWN;
        }
        if (!hotspot_read(tables->reader, tables->version, &version, sizeof(version)))
                return HOTSPOT_LAYOUT_E_UNREADABLE;
        layout->version = layout->heap.heaps ? version : 8;
        layout->has_zero_free_numbers = layout->version >= 20;
        return 0;
}

static const char *find_absent(HotspotLayout *layout) {
        for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
                if (!field_of(layout, needs[i].field)->size &&
                    !(needs[i].other && field_of(layout, needs[i].other)->size))
                        return needs[i].name;
        for (size_t i = 0; i < ARRAY_SIZE(needed_sizes); i++)
                if (!*(uint32_t *)((uint8_t *)layout + needed_sizes[i].to))
                        return needed_sizes[i].name;
        if (!layout->heap.heaps && !layout->heap.heap)
                return "CodeCache::_heaps";
        return layout->variables.interpreter ? NULL : "AbstractInterpreter::_code";
}

/*
 * Words of frames (frame_x86.hpp, frame_aarch64.hpp). JDK 9 put the mirror between method and bcp, and on
 * arm64 one word more. Return: what is not known, or NULL.
 */
static const char *set_unpublished(HotspotLayout *layout) {
        const bool is_arm64 = ELF_MACHINE == EM_AARCH64;
        uint32_t version = layout->version;

        if (is_arm64 && version < FIRST_ON_ARM64)
                return "frames on arm64";
        layout->interpreter = (HotspotInterpreterLayout){ .sender_sp = -8,
                                                          .method = -24,
                                                          .bcp = is_arm64 ? -72 : version == 8 ? -56 : -64,
                                                          .entry_wrapper = is_arm64 ? -64 : -48 };
        if (layout->method.symbol_length.size == 4)
                layout->method.symbol_shift = 16;
        return NULL;
}

static int read_tables(Tables *tables, const uint64_t *symbols) {
        int r = read_variables(tables, symbols);

        r = r ? r : read_structs(tables);
        r = r ? r : read_types(tables);
        r = r ? r : read_constants(tables);
        r = r ? r : read_version(tables);
        if (r)
                return r;
        tables->absent = find_absent(tables->layout);
        if (!tables->absent)
                tables->absent = set_unpublished(tables->layout);
        return tables->absent ? HOTSPOT_LAYOUT_E_UNKNOWN : 0;
}

int hotspot_layout_read(HotspotLayout *layoutp, const HotspotReader *reader,
                        const uint64_t symbols[HOTSPOT_N_SYMBOLS], uint64_t bias,
                        char reason[HOTSPOT_MAX_REASON]) {
        HotspotLayout layout = { 0 };
        Tables tables = { .reader = reader, .layout = &layout, .bias = bias };
        char version[16] = "";
        int r;

        r = read_tables(&tables, symbols);
        if (layout.version)
                snprintf(version, sizeof(version), " %u", layout.version);
        if (r == HOTSPOT_LAYOUT_E_UNKNOWN)
                snprintf(reason, HOTSPOT_MAX_REASON, "java%s: layout unknown: %s", version, tables.absent);
        else if (r)
                snprintf(reason, HOTSPOT_MAX_REASON, "java: its description of itself could not be read");
        else
                *layoutp = layout;
        return r;
}

uint64_t hotspot_field(HotspotField field, const void *data, size_t size) {
        uint64_t value = 0;

        if (!field.size || field.offset > size || field.size > size - field.offset)
                return 0;
        memcpy(&value, (const uint8_t *)data + field.offset, field.size);
        if (field.is_signed && field.size < 8)
                value = (uint64_t)((int64_t)(value << (64 - 8 * field.size)) >> (64 - 8 * field.size));
        return value;
}

bool hotspot_read_field(const HotspotReader *reader, HotspotField field, uint64_t address, uint64_t *valuep) {
        uint8_t bytes[8];

        if (!field.size || !hotspot_read(reader, address + field.offset, bytes, field.size))
                return false;
        field.offset = 0;
        *valuep = hotspot_field(field, bytes, field.size);
        return true;
}
