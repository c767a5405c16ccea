/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Distributions strip Ruby, so that its variables have no names. But each build exports functions that read
 * them, and says in their code where they are:
 *
 *     rb_thread_current()    the variable of each thread that points to its context, and a context's thread
 *     ruby_stack_check()     in a context: where the native stack begins, and its size
 *     rb_during_gc()         the heap's flag of the collector
 *     rb_thread_call_with_gvl()  whose context took the lock last
 *     rb_id2str()            names by their IDs
 *
 * vm_exec() is exported. It calls vm_exec_core(), the large function that runs the instructions, which the
 * compiler may have made a part of it.
 *
 * Code of another shape, and other releases than 3.1, whose frames and bodies of code have other places, are
 * refused. A field that no short function reads is that of 3.1, if the code that uses it has its offset.
 */
#include "host/runtime/ruby/ruby-program.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/dynamic-symbol.h"
#include "host/sampling/process/function-table.h"

enum {
        MAX_CODE = 4096,                /* bytes of a function that is read */
        NAMES_CODE = 128,               /* bytes of the function that rb_id2str() goes on to */
        MAX_VERSION = 16,
        MAX_FIELDS = 8,
        MAX_STRINGS = 1 << 20,          /* bytes of symbols' names */
        MIN_CORE = 8 << 10,             /* bytes of vm_exec_core() */
        MAX_CORE = 1 << 20,
        FRAME_SIZE = 64,                /* bytes in 3.1, as those below */
        THREAD = 48,
        COMPILED = 0x118,
};

typedef struct Place {
        uint64_t address, size;
} Place;

static bool find(const DynamicImage *image, const char *name, Place *place) {
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_find(image, name, &index, &symbol))
                return false;
        *place = (Place){ symbol.st_value, symbol.st_size };
        return true;
}

bool ruby_recognises(int fd, const void *data, uint64_t size) {
        DynamicImage image;
        Place place;

        return dynamic_image_open(&image, fd, data, size) && find(&image, "ruby_version", &place) &&
                find(&image, "rb_thread_current", &place) && find(&image, "rb_during_gc", &place);
}

/* ---- code ---- */

static int digit(char c) {
        return c <= '9' ? c - '0' : c - 'a' + 10;
}

/*
 * Whether @code begins with the bytes of @shape, in hex, with spaces anywhere. `.` stands for a byte that
 * may be any; `:` for a field of four bytes, `,` for one of one byte, signed both. fields[]: their values;
 * of those of four bytes behind `@`, the ELF address that they lead to.
 */
static bool match(const RubyCode *code, const char *shape, uint64_t fields[MAX_FIELDS]) {
        bool is_relative = false;
        size_t at = 0, n = 0;
        int32_t word;

        for (; *shape; shape++) {
                if (*shape == ' ')
                        continue;
                if (*shape == '@') {
                        is_relative = true;
                } else if (*shape == ':') {
                        if (at + 4 > code->size || n >= MAX_FIELDS)
                                return false;
                        memcpy(&word, code->bytes + at, 4);
                        at += 4;
                        fields[n++] = (uint64_t)(int64_t)word + (is_relative ? code->address + at : 0);
                        is_relative = false;
                } else if (at >= code->size) {
                        return false;
                } else if (*shape == ',') {
                        if (n >= MAX_FIELDS)
                                return false;
                        fields[n++] = (uint64_t)(int64_t)(int8_t)code->bytes[at++];
                } else if (*shape == '.') {
                        at++;
                } else {
                        if (code->bytes[at++] != (uint8_t)(digit(shape[0]) << 4 | digit(shape[1])))
                                return false;
                        shape++;
                }
        }
        return true;
}

/* Whether @code has these four bytes in it. */
static bool has_offset(const RubyCode *code, uint32_t offset) {
        return memmem(code->bytes, code->size, &offset, sizeof(offset));
}

/* lea variable(%rip),%rdi; call __tls_get_addr; mov (%rax),%rax; mov THREAD(%rax),%rax; then its object */
bool ruby_decode_current(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "4883ec08 66488d3d @: 666648e8 .... 488b00 488b40 , 488b40 , 4883c408 c3", fields) ||
            fields[1] != THREAD)
                return false;
        opened->variable = fields[0];
        opened->thread = (uint16_t)fields[1];
        return true;
}

/* The same variable; mov %rsp,%rcx; mov START(%rdx),%rax; mov %rcx,END(%rdx); mov SIZE(%rdx),%rdx */
bool ruby_decode_stack(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "4883ec08 66488d3d @: 666648e8 .... 488b10 4889e1 488b82 : 48898a : 488b92 :",
                   fields) ||
            fields[0] != opened->variable || fields[1] > RUBY_CONTEXT_SIZE - 8 ||
            fields[3] > RUBY_CONTEXT_SIZE - 8)
                return false;
        opened->stack_start = (uint16_t)fields[1];
        opened->stack_size = (uint16_t)fields[3];
        return true;
}

/* mov machine@GOT(%rip),%rax; mov (%rax),%rax; mov SPACE(%rax),%rax; movzbl FLAGS(%rax),%eax; shr, and $1 */
bool ruby_decode_collector(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "488b05 .... 488b00 488b80 : 0fb640 , c0e8 , 83e001 c3", fields) ||
            !fields[0] || fields[0] > UINT16_MAX || fields[1] > INT8_MAX || fields[2] > 7)
                return false;
        opened->space = (uint16_t)fields[0];
        opened->space_flags = (uint16_t)fields[1];
        opened->collects = (uint16_t)(1u << fields[2]);
        return true;
}

/* mov %rdi,%rax; shr $4,%rax; cmp $LAST,%rdi; cmova %eax,%edi; xor %esi,%esi; jmp */
bool ruby_decode_name(const RubyCode *code, RubyOpened *opened, uint64_t *targetp) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "4889f8 48c1e804 4881ff : 0f47f8 31f6 e9 @:", fields) || !fields[0] ||
            fields[0] > UINT16_MAX)
                return false;
        opened->last_operator = fields[0];
        *targetp = fields[1];
        return true;
}

/* As match(), anywhere in @code. */
static bool find_shape(const RubyCode *code, const char *shape, uint64_t fields[MAX_FIELDS]) {
        for (size_t i = 0; i < code->size; i++) {
                const RubyCode rest = { code->bytes + i, code->size - i, code->address + i };

                if (match(&rest, shape, fields))
                        return true;
        }
        return false;
}

/* mov RACTOR(thread),%rdi; mov CONTEXT(thread),%rax; cmp %rax,RUNNING(%rdi) */
bool ruby_decode_lock(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!find_shape(code, "498b7e , 498b46 , 483987 :", fields) || fields[0] > INT8_MAX ||
            fields[2] > UINT16_MAX)
                return false;
        opened->ractor = (uint16_t)fields[0];
        opened->running = (uint16_t)fields[2];
        return true;
}

/* mov ids(%rip),%rdi, the first one behind a comparison with their number */
bool ruby_decode_names(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!find_shape(code, "488b3d @: 89de c1ee09 488b07", fields))
                return false;
        opened->ids = fields[0];
        return true;
}

/* ---- the file ---- */

/* @code: borrows @bytes. At most @room bytes. */
static bool read_at(const DynamicImage *image, const Place *place, uint8_t *bytes, size_t room,
                    RubyCode *code) {
        size_t size = MIN(place->size, (uint64_t)room);

        *code = (RubyCode){ bytes, size, place->address };
        return size && dynamic_image_read(image, place->address, bytes, size);
}

static bool read_code(const DynamicImage *image, const char *name, uint8_t bytes[MAX_CODE], RubyCode *code) {
        Place place;

        return find(image, name, &place) && read_at(image, &place, bytes, MAX_CODE, code);
}

static bool decode_names(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        Place place = { .size = NAMES_CODE };
        RubyCode code;

        return read_code(image, "rb_id2str", bytes, &code) &&
                ruby_decode_name(&code, opened, &place.address) &&
                read_at(image, &place, bytes, MAX_CODE, &code) && ruby_decode_names(&code, opened);
}

static bool decode(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        RubyCode code;

        return read_code(image, "rb_thread_current", bytes, &code) && ruby_decode_current(&code, opened) &&
                read_code(image, "ruby_stack_check", bytes, &code) && ruby_decode_stack(&code, opened) &&
                read_code(image, "rb_during_gc", bytes, &code) && ruby_decode_collector(&code, opened) &&
                read_code(image, "rb_thread_call_with_gvl", bytes, &code) && ruby_decode_lock(&code, opened) &&
                read_code(image, "rb_vm_exec", bytes, &code) && has_offset(&code, COMPILED) &&
                decode_names(image, opened);
}

/* The largest function that @code calls; some calls may be none. */
static void find_core(const FunctionTable *functions, const RubyCode *code, RubyOpened *opened) {
        for (size_t i = 0; i + 5 <= code->size; i++) {
                int32_t distance;
                uint64_t target, size;
                uint32_t which;

                if (code->bytes[i] != 0xe8)
                        continue;
                memcpy(&distance, code->bytes + i + 1, sizeof(distance));
                target = code->address + i + 5 + (uint64_t)(int64_t)distance;
                which = function_table_find(functions, target);
                if (which >= functions->n - 1 || function_table_begin(functions, which) != target)
                        continue;
                size = function_table_begin(functions, which + 1) - target;
                if (size < MIN_CORE || size > MAX_CORE || size <= opened->core_size)
                        continue;
                opened->core = target;
                opened->core_size = size;
        }
}

static void read_core(const DynamicImage *image, RubyOpened *opened) {
        FunctionTable functions = { 0 };
        uint8_t bytes[MAX_CODE];
        RubyCode code;

        if (read_code(image, "rb_vm_exec", bytes, &code) && function_table_read(&functions, image))
                find_core(&functions, &code, opened);
        function_table_deinit(&functions);
}

static void read_version(const DynamicImage *image, char version[MAX_VERSION]) {
        Place place;

        memset(version, 0, MAX_VERSION);
        if (!find(image, "ruby_version", &place) || place.size > MAX_VERSION - 1 ||
            !dynamic_image_read(image, place.address, version, place.size) ||
            version[strspn(version, "0123456789.")])
                *version = '\0';
}

/* Threads' variables lie as glibc has them, whose versions are in the names of symbols. */
static bool is_glibcs(const DynamicImage *image) {
        static const char mark[] = "GLIBC_2.";
        _cleanup_(freep) char *strings = NULL;
        size_t size = image->strings_size;

        if (!size || size > MAX_STRINGS)
                return false;
        strings = malloc(size);
        return strings && dynamic_image_read(image, image->strings, strings, size) &&
                memmem(strings, size, mark, sizeof(mark) - 1);
}

static int unknown(RubyOpened *opened, const char *version, const char *what) {
        snprintf(opened->reason, sizeof(opened->reason), "Ruby%s%s: not walked: %s", *version ? " " : "",
                 version, what);
        return RUBY_OPEN_E_UNKNOWN;
}

int ruby_open(int fd, const void *data, uint64_t size, RubyOpened *opened) {
        char version[MAX_VERSION] = "";
        Place evaluator, machine;
        DynamicImage image;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_open(&image, fd, data, size))
                return unknown(opened, version, "the file has changed");
        read_version(&image, version);
        if (ELF_MACHINE != EM_X86_64)
                return unknown(opened, version, "this processor");
        if (strncmp(version, "3.1.", 4) != 0)
                return unknown(opened, version, "layout unknown; 3.1 is known");
        if (!is_glibcs(&image))
                return unknown(opened, version, "a C library other than glibc");
        if (!find(&image, "rb_vm_exec", &evaluator) || !evaluator.size || evaluator.size > MAX_CODE ||
            !find(&image, "ruby_current_vm_ptr", &machine) || !decode(&image, opened))
                return unknown(opened, version, "another build than is known");
        opened->machine = machine.address;
        opened->evaluator = evaluator.address;
        opened->evaluator_size = evaluator.size;
        read_core(&image, opened);
        opened->frame_size = FRAME_SIZE;
        opened->compiled = COMPILED;
        snprintf(opened->reason, sizeof(opened->reason), "Ruby %s", version);
        return 0;
}

bool ruby_opened_is_sound(const RubyOpened *opened) {
        return opened->variable && opened->machine && opened->ids && opened->evaluator_size &&
                opened->evaluator_size <= MAX_CODE &&
                opened->evaluator + opened->evaluator_size > opened->evaluator &&
                opened->core_size <= MAX_CORE && opened->core + opened->core_size >= opened->core &&
                opened->frame_size == FRAME_SIZE && opened->thread == THREAD &&
                opened->stack_start <= RUBY_CONTEXT_SIZE - 8 && opened->stack_size <= RUBY_CONTEXT_SIZE - 8 &&
                opened->last_operator && opened->last_operator <= UINT16_MAX;
}
