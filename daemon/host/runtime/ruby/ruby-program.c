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
 * vm_exec() calls vm_exec_core(), the large function that runs the instructions, which the compiler may have
 * made a part of it. Up to 3.1 it is exported. In 3.3 two exported functions end with a jump there.
 *
 * What lies elsewhere in each release is in a table, and code that reads it must say the same:
 *
 *     rb_profile_frames()    the size of a frame
 *     rb_iseq_line_no()      where a body of code has its lines, and their size
 *     rb_str_hash()          where a string has its bytes
 *     rb_mod_name()          where a class has its name
 *     vm_exec()              where a body has code that a JIT has made
 *
 * 2.7 has one variable for all threads; pthread_self() of its context's thread tells whose it is. Releases
 * that are not in the table, and code of another shape, are refused.
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
        NAMES_CODE = 128,               /* bytes of the function that rb_id2str() goes on to, */
        LINES_CODE = 160,               /* rb_iseq_line_no(), */
        FRAMES_CODE = 256,              /* rb_profile_frames() */
        MAX_VERSION = 16,
        MAX_FIELDS = 8,
        MAX_STRINGS = 1 << 20,          /* bytes of symbols' names */
        MIN_CORE = 8 << 10,             /* bytes of vm_exec_core() */
        MAX_CORE = 1 << 20,
        TEXT_BEHIND = 24,               /* in a string: bytes behind their length */
};

/* Layouts by releases; patch releases have the same. */
static const struct {
        const char *version;
        RubyLayout layout;
} layouts[] = {
        { "2.7.",
          { .frame_size = 56, .thread = 56, .compiled = 0x100, .compiled_there = 0x100, .owner = 72,
            .lines = 120, .lines_size = 136, .lines_ranks = 144, .line_size = 8, .text = 16 } },
        { "3.1.",
          { .frame_size = 64, .thread = 48, .compiled = 0x118, .compiled_there = 0x118, .lines = 120,
            .lines_size = 136, .lines_ranks = 144, .line_size = 12, .text = 16 } },
        { "3.3.",
          { .frame_size = 56, .thread = 48, .compiled = 0x110, .compiled_there = 0x120, .class = 128,
            .lines = 112, .lines_size = 128, .lines_ranks = 136, .line_size = 12, .text = TEXT_BEHIND } },
};

typedef struct Place {
        uint64_t address, size;
} Place;

const RubyLayout *ruby_layout_find(const char *version) {
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
                if (!strncmp(version, layouts[i].version, strlen(layouts[i].version)))
                        return &layouts[i].layout;
        return NULL;
}

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

/* As match(), by the first of @shapes that fits; NULL ends them. */
static bool match_any(const RubyCode *code, const char *const *shapes, uint64_t fields[MAX_FIELDS]) {
        for (; *shapes; shapes++)
                if (match(code, *shapes, fields))
                        return true;
        return false;
}

/* As match_any(), anywhere in @code. */
static bool find_any(const RubyCode *code, const char *const *shapes, uint64_t fields[MAX_FIELDS]) {
        for (size_t i = 0; i < code->size; i++) {
                const RubyCode rest = { code->bytes + i, code->size - i, code->address + i };

                if (match_any(&rest, shapes, fields))
                        return true;
        }
        return false;
}

/* Whether @code has these four bytes in it. */
static bool has_offset(const RubyCode *code, uint32_t offset) {
        return memmem(code->bytes, code->size, &offset, sizeof(offset));
}

/* The same in 2.7: mov variable@GOT(%rip),%rax; mov (%rax),%rax; mov THREAD(%rax),%rax; then its object */
static bool decode_only_current(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "488b05 .... 488b00 488b40 , 488b40 , c3", fields) ||
            fields[0] != opened->layout.thread)
                return false;
        return opened->variable;
}

/* lea variable(%rip),%rdi; call __tls_get_addr; mov (%rax),%rax; mov THREAD(%rax),%rax; then its object */
bool ruby_decode_current(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        if (opened->layout.owner)
                return decode_only_current(code, opened);
        if (!match(code, "4883ec08 66488d3d @: 666648e8 .... 488b00 488b40 , 488b40 , 4883c408 c3", fields) ||
            fields[1] != opened->layout.thread)
                return false;
        opened->variable = fields[0];
        return true;
}

/* The same variable; mov %rsp,%rcx; mov START(%rdx),%rax; mov %rcx,END(%rdx); mov SIZE(%rdx),%rdx */
bool ruby_decode_stack(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS], *offsets = fields;

        if (opened->layout.owner) {
                if (!match(code, "488b05 .... 488b00 4889e1 488b90 : 488988 : 488b80 :", fields))
                        return false;
        } else {
                if (!match(code,
                           "4883ec08 66488d3d @: 666648e8 .... 488b10 4889e1 488b82 : 48898a : 488b92 :",
                           fields) ||
                    fields[0] != opened->variable)
                        return false;
                offsets++;
        }
        if (offsets[0] > RUBY_CONTEXT_SIZE - 8 || offsets[2] > RUBY_CONTEXT_SIZE - 8)
                return false;
        opened->stack_start = (uint16_t)offsets[0];
        opened->stack_size = (uint16_t)offsets[2];
        return true;
}

/*
 * mov machine@GOT(%rip),%rax; mov (%rax),%rax; mov SPACE(%rax),%rax; movzbl FLAGS(%rax),%eax; shr, and $1.
 * From 3.3 on the machine is no symbol: lea machine(%rip),%rax; mov (%rax),%rax; test %rax,%rax; je
 */
bool ruby_decode_collector(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS], *offsets = fields;

        if (!opened->machine) {
                if (!match(code, "488d05 @: 488b00 4885c0 74. 488b80 : 0fb640 , c0e8 , 83e001 c3", fields))
                        return false;
                opened->machine = fields[0];
                offsets++;
        } else if (!match(code, "488b05 .... 488b00 488b80 : 0fb640 , c0e8 , 83e001 c3", fields)) {
                return false;
        }
        if (!offsets[0] || offsets[0] > UINT16_MAX || offsets[1] > INT8_MAX || offsets[2] > 7)
                return false;
        opened->space = (uint16_t)offsets[0];
        opened->space_flags = (uint16_t)offsets[1];
        opened->collects = (uint16_t)(1u << offsets[2]);
        return true;
}

/* mov %rdi,%rax; shr $4,%rax; cmp $LAST,%rdi; cmova %eax,%edi; xor %esi,%esi; jmp: in four orders */
bool ruby_decode_name(const RubyCode *code, RubyOpened *opened, uint64_t *targetp) {
        static const char *const shapes[] = { "4889f8 48c1e804 4881ff : 0f47f8 31f6 e9 @:",
                                              "4889f8 48c1e804 4881ff : 0f47f8 85ff 74. 3b3d.... 77. 31f6 e9 @:",
                                              "4889f8 31f6 48c1e804 4881ff : 480f47f8 e9 @:",
                                              "4889f8 31f6 48c1ef04 483d : 480f46f8 e9 @:", NULL };
        uint64_t fields[MAX_FIELDS];

        if (!match_any(code, shapes, fields) || !fields[0] || fields[0] > UINT16_MAX)
                return false;
        opened->last_operator = fields[0];
        *targetp = fields[1];
        return true;
}

/* mov RACTOR(thread),%rdi; mov CONTEXT(thread),%rax; cmp %rax,RUNNING(%rdi) */
bool ruby_decode_lock(const RubyCode *code, RubyOpened *opened) {
        static const char *const shapes[] = { "498b7e , 498b46 , 483987 :", "488b78 , 488b40 , 483987 :",
                                              NULL };
        uint64_t fields[MAX_FIELDS];

        if (opened->layout.owner)
                return true;            /* there are no ractors */
        if (!find_any(code, shapes, fields) || fields[0] > INT8_MAX || fields[2] > UINT16_MAX)
                return false;
        opened->ractor = (uint16_t)fields[0];
        opened->running = (uint16_t)fields[2];
        return true;
}

/* mov ids(%rip),%rdi; shr $9 of an ID's number; mov (%rdi),%rax */
bool ruby_decode_names(const RubyCode *code, RubyOpened *opened) {
        static const char *const shapes[] = { "488b3d @: 89 . c1ee09 488b07",
                                              "c1ee09 4883ec08 488b3d @: 488b07", NULL };
        uint64_t fields[MAX_FIELDS];

        if (!find_any(code, shapes, fields))
                return false;
        opened->ids = fields[0];
        return true;
}

/* Bytes behind the length: add $24,%rdi. Else the length is among the flags: shr $14,%rsi */
bool ruby_decode_text(const RubyCode *code, RubyOpened *opened) {
        static const char *const behind[] = { "4883c718", NULL }, *const among[] = { "48c1ee0e", NULL };
        uint64_t fields[MAX_FIELDS];

        return find_any(code, opened->layout.text == TEXT_BEHIND ? behind : among, fields);
}

/* mov PATH(%rdi),%rax; mov $nil,%edx; test %rax,%rax; cmove %rdx,%rax; ret */
bool ruby_decode_class(const RubyCode *code, RubyOpened *opened) {
        uint64_t fields[MAX_FIELDS];

        return !opened->layout.class ||
                (match(code, "488b87 : ba04000000 4885c0 480f44c2 c3", fields) &&
                 fields[0] == opened->layout.class + 8u * RUBY_CLASS_PATH);
}

/* mov BODY(%rdi),%rdi; call */
bool ruby_decode_line(const RubyCode *code, uint64_t *targetp) {
        uint64_t fields[MAX_FIELDS];

        if (!match(code, "4883ec08 488b7f , e8 @:", fields) || fields[0] != RUBY_CODE_BODY)
                return false;
        *targetp = fields[1];
        return true;
}

/* mov LINES_SIZE(%rdi),%eax; mov LINES(%rdi); mov LINES_RANKS(%rdi); and 12 * %rax, or 8 */
bool ruby_decode_lines(const RubyCode *code, RubyOpened *opened) {
        static const char *const sizes[] = { "8b87 :", NULL }, *const triples[] = { "488d0440", NULL };
        static const char *const lines[] = { "488b5f ,", "488b57 ,", "4c8b67 ,", NULL };
        static const char *const ranks[] = { "488baf :", "4c8ba7 :", "4c8b87 :", NULL };
        const RubyLayout *layout = &opened->layout;
        uint64_t fields[MAX_FIELDS];

        return find_any(code, sizes, fields) && fields[0] == layout->lines_size &&
                find_any(code, lines, fields) && fields[0] == layout->lines &&
                find_any(code, ranks, fields) && fields[0] == layout->lines_ranks &&
                find_any(code, triples, fields) == (layout->line_size == 12);
}

/* add $FRAME_SIZE to any register */
bool ruby_decode_frames(const RubyCode *code, RubyOpened *opened) {
        for (size_t i = 0; i + 4 <= code->size; i++)
                if ((code->bytes[i] | 1) == 0x49 && code->bytes[i + 1] == 0x83 &&
                    code->bytes[i + 2] >> 3 == 0xc0 >> 3 && code->bytes[i + 3] == opened->layout.frame_size)
                        return true;
        return false;
}

/* pop %r13 or %r15, the last register that it has kept; jmp */
bool ruby_decode_tail(const RubyCode *code, uint64_t *targetp) {
        static const char *const shapes[] = { "415d e9 @:", "415f e9 @:", NULL };
        uint64_t fields[MAX_FIELDS];

        if (!find_any(code, shapes, fields))
                return false;
        *targetp = fields[0];
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

/* Reads the function without the mark that a jump may lead there (endbr64). */
static bool read_code(const DynamicImage *image, const char *name, uint8_t bytes[MAX_CODE], RubyCode *code) {
        static const uint8_t mark[] = { 0xf3, 0x0f, 0x1e, 0xfa };
        Place place;

        if (!find(image, name, &place) || !read_at(image, &place, bytes, MAX_CODE, code))
                return false;
        if (code->size > sizeof(mark) && !memcmp(bytes, mark, sizeof(mark)))
                *code = (RubyCode){ bytes + sizeof(mark), code->size - sizeof(mark),
                                    code->address + sizeof(mark) };
        return true;
}

/* At most @size bytes of the function at @address, which no symbol is of. */
static bool read_more(const DynamicImage *image, uint64_t address, uint64_t size, uint8_t bytes[MAX_CODE],
                      RubyCode *code) {
        const Place place = { address, size };

        return read_at(image, &place, bytes, MAX_CODE, code);
}

static bool decode_names(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        uint64_t target;
        RubyCode code;

        return read_code(image, "rb_id2str", bytes, &code) && ruby_decode_name(&code, opened, &target) &&
                read_more(image, target, NAMES_CODE, bytes, &code) && ruby_decode_names(&code, opened);
}

static bool decode_lines(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        uint64_t target;
        RubyCode code;

        return read_code(image, "rb_iseq_line_no", bytes, &code) && ruby_decode_line(&code, &target) &&
                read_more(image, target, LINES_CODE, bytes, &code) && ruby_decode_lines(&code, opened);
}

/* The function goes over the frames itself, or jumps to what does. */
static bool decode_frames(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        uint64_t target;
        RubyCode code;

        return read_code(image, "rb_profile_frames", bytes, &code) &&
                (ruby_decode_frames(&code, opened) ||
                 (ruby_decode_tail(&code, &target) && read_more(image, target, FRAMES_CODE, bytes, &code) &&
                  ruby_decode_frames(&code, opened)));
}

static bool decode(const DynamicImage *image, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        RubyCode code;

        return read_code(image, "rb_thread_current", bytes, &code) && ruby_decode_current(&code, opened) &&
                read_code(image, "ruby_stack_check", bytes, &code) && ruby_decode_stack(&code, opened) &&
                read_code(image, "rb_during_gc", bytes, &code) && ruby_decode_collector(&code, opened) &&
                read_code(image, "rb_thread_call_with_gvl", bytes, &code) && ruby_decode_lock(&code, opened) &&
                read_code(image, "rb_str_hash", bytes, &code) && ruby_decode_text(&code, opened) &&
                read_code(image, "rb_mod_name", bytes, &code) && ruby_decode_class(&code, opened) &&
                decode_names(image, opened) && decode_lines(image, opened) && decode_frames(image, opened);
}

/* In 3.3, vm_exec() is what the functions that run code of a file end with. */
static bool find_evaluator(const DynamicImage *image, const FunctionTable *functions, RubyOpened *opened) {
        uint8_t bytes[MAX_CODE];
        uint64_t target, other;
        uint32_t which;
        RubyCode code;
        Place place;

        if (find(image, "rb_vm_exec", &place)) {
                opened->evaluator = place.address;
                opened->evaluator_size = place.size;
                return place.size;
        }
        if (!read_code(image, "rb_iseq_eval", bytes, &code) || !ruby_decode_tail(&code, &target) ||
            !read_code(image, "rb_iseq_eval_main", bytes, &code) || !ruby_decode_tail(&code, &other) ||
            target != other)
                return false;
        which = function_table_find(functions, target);
        if (which >= functions->n - 1 || function_table_begin(functions, which) != target)
                return false;
        opened->evaluator = target;
        opened->evaluator_size = function_table_begin(functions, which + 1) - target;
        return true;
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

/* Return: whether the evaluator is found, and has the layout's place of code by a JIT. */
static bool read_evaluator(const DynamicImage *image, RubyOpened *opened) {
        FunctionTable functions = { 0 };
        uint8_t bytes[MAX_CODE];
        RubyCode code;
        bool has;

        has = function_table_read(&functions, image) && find_evaluator(image, &functions, opened) &&
                opened->evaluator_size <= MAX_CODE &&
                read_more(image, opened->evaluator, opened->evaluator_size, bytes, &code) &&
                has_offset(&code, opened->layout.compiled_there);
        if (has)
                find_core(&functions, &code, opened);
        function_table_deinit(&functions);
        return has;
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

/* Reads what the layout that is there says of the file. Return: whether the file agrees. */
static bool open_image(const DynamicImage *image, RubyOpened *opened) {
        Place place;

        if (find(image, "ruby_current_vm_ptr", &place))
                opened->machine = place.address;
        if (opened->layout.owner && find(image, "ruby_current_execution_context_ptr", &place))
                opened->variable = place.address;
        return decode(image, opened) && read_evaluator(image, opened);
}

int ruby_open(int fd, const void *data, uint64_t size, RubyOpened *opened) {
        char version[MAX_VERSION] = "";
        const RubyLayout *layout;
        DynamicImage image;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_open(&image, fd, data, size))
                return unknown(opened, version, "the file has changed");
        read_version(&image, version);
        if (ELF_MACHINE != EM_X86_64)
                return unknown(opened, version, "this processor");
        layout = ruby_layout_find(version);
        if (!layout)
                return unknown(opened, version, "layout unknown; 2.7, 3.1 and 3.3 are known");
        if (!is_glibcs(&image))
                return unknown(opened, version, "a C library other than glibc");
        opened->layout = *layout;
        if (!open_image(&image, opened))
                return unknown(opened, version, "another build than is known");
        snprintf(opened->reason, sizeof(opened->reason), "Ruby %s", version);
        return 0;
}

static bool is_layout(const RubyLayout *layout) {
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
                if (!memcmp(layout, &layouts[i].layout, sizeof(*layout)))
                        return true;
        return false;
}

bool ruby_opened_is_sound(const RubyOpened *opened) {
        return opened->variable && opened->machine && opened->ids && opened->evaluator_size &&
                opened->evaluator_size <= MAX_CODE &&
                opened->evaluator + opened->evaluator_size > opened->evaluator &&
                opened->core_size <= MAX_CORE && opened->core + opened->core_size >= opened->core &&
                opened->stack_start <= RUBY_CONTEXT_SIZE - 8 && opened->stack_size <= RUBY_CONTEXT_SIZE - 8 &&
                opened->last_operator && opened->last_operator <= UINT16_MAX && is_layout(&opened->layout);
}
