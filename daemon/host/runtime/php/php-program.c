/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A build of PHP exports its interpreter, since extensions need it; one that is linked statically does not,
 * and is refused in words. No table of releases is here: where
 * the innermost frame is, and where a function has its file, is what PHP's own exported functions read
 * (php-decode.c).
 *
 * The compiler has put rare parts of execute_ex() elsewhere, where its jumps lead: into one function of the
 * sorted table of .eh_frame_hdr, and not to its begin.
 */
#include "host/runtime/php/php-program.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/dynamic-symbol.h"
#include "host/sampling/process/function-table.h"

enum {
        MAX_CODE = 512,                 /* bytes of a function that is decoded */
        MAX_EVALUATOR = 1 << 20,
        MIN_COLD = 4,                   /* jumps that lead there */
        HYBRID = 4,                     /* the kind of virtual machine that gcc makes */
        MAX_VERSION = 24,
};

typedef struct Place {
        uint64_t address, size;
} Place;

/* Return: whether it is there. */
static bool find(const DynamicImage *image, const char *name, Place *place) {
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_find(image, name, &index, &symbol))
                return false;
        *place = (Place){ symbol.st_value, symbol.st_size };
        return true;
}

/* ---- the release ---- */

static const char mark[] = "X-Powered-By: PHP/";

enum { VERSION_OVERLAP = sizeof(mark) + MAX_VERSION };

/* Of what begins so late the version may be cut: the next chunk has all of it. */
static bool read_version(void *userdata, uint64_t address, const char *text, size_t size) {
        const char *found = memmem(text, size, mark, sizeof(mark) - 1);
        char *version = userdata;
        size_t length;

        if (!found || found >= text + DYNAMIC_CHUNK - VERSION_OVERLAP)
                return false;
        length = strspn(found + sizeof(mark) - 1, "0123456789.");
        if (length < MAX_VERSION)
                memcpy(version, found + sizeof(mark) - 1, length);
        return true;
}

/* In what every build sends as a header, unless it is told not to. */
static void find_version(const DynamicImage *image, char version[MAX_VERSION]) {
        dynamic_image_search(image, PF_W | PF_X, VERSION_OVERLAP, read_version, version);
}

typedef struct Texts {
        char version[MAX_VERSION];
        bool has_engine;
} Texts;

static bool read_texts(void *userdata, uint64_t address, const char *text, size_t size) {
        static const char engine[] = "Zend Engine v";
        Texts *texts = userdata;

        texts->has_engine = texts->has_engine || memmem(text, size, engine, sizeof(engine) - 1);
        if (!*texts->version)
                read_version(texts->version, address, text, size);
        return *texts->version && texts->has_engine;
}

/*
 * Whether it is a static build, which exports nothing, by the texts of its header and its engine; then its
 * version. Linkers keep texts apart from code, which is not searched. Programs of Go's own linker, which are
 * many and large, have no RELRO, and are not searched at all.
 */
static bool is_static(const DynamicImage *image, char version[MAX_VERSION]) {
        Texts texts = { 0 };
        bool has_relro = false;

        for (unsigned i = 0; i < image->n_headers; i++)
                has_relro = has_relro || image->headers[i].p_type == PT_GNU_RELRO;
        if (!has_relro || !dynamic_image_search(image, PF_W | PF_X, VERSION_OVERLAP, read_texts, &texts))
                return false;
        memcpy(version, texts.version, MAX_VERSION);
        return true;
}

bool php_recognises(int fd, const void *data, uint64_t size) {
        char version[MAX_VERSION];
        DynamicImage image;
        Place place;

        if (!dynamic_image_init(&image, fd, data, size))
                return false;
        if (!dynamic_image_find_tables(&image))
                return is_static(&image, version);
        return find(&image, "zend_vm_kind", &place) && find(&image, "execute_ex", &place);
}

static int unknown(PhpOpened *opened, const char *version, const char *what) {
        snprintf(opened->reason, sizeof(opened->reason), "PHP%s%s: not walked: %s", *version ? " " : "",
                 version, what);
        return PHP_OPEN_E_UNKNOWN;
}

/* ---- the layout ---- */

static bool decode(const DynamicImage *image, const char *name, uint64_t globals, PhpLayout *layout) {
        uint8_t code[MAX_CODE];
        Place place;

        return find(image, name, &place) && place.size && place.size <= sizeof(code) &&
                dynamic_image_read(image, place.address, code, place.size) &&
                php_layout_decode(code, place.size, place.address, globals, layout);
}

typedef struct Slot {
        uint32_t index;                 /* of its symbol */
        uint64_t address;               /* 0 = there is none */
} Slot;

static void take_slot(void *userdata, const Elf64_Rela *entry) {
        Slot *slot = userdata;

        if (entry->r_info == ELF64_R_INFO((uint64_t)slot->index, R_X86_64_GLOB_DAT) && !entry->r_addend)
                slot->address = entry->r_offset;
}

/*
 * A library does not know where its own variables lie: the dynamic linker writes it into a word. Return: 0,
 * -ENOMEM.
 */
static int find_slot(const DynamicImage *image, const char *name, uint64_t *slotp) {
        Slot slot = { 0 };
        Elf64_Sym symbol;
        int r = dynamic_image_find(image, name, &slot.index, &symbol)
                ? dynamic_image_relocations(image, take_slot, &slot)
                : 0;

        *slotp = slot.address;
        return error_fold(r);
}

/* `mov $4,%eax; ret` */
static bool is_hybrid(const DynamicImage *image) {
        static const uint8_t expected[] = { 0xb8, HYBRID, 0, 0, 0, 0xc3 };
        uint8_t code[sizeof(expected) + 4], branch[] = { 0xf3, 0x0f, 0x1e, 0xfa };
        Place place;

        if (!find(image, "zend_vm_kind", &place) ||
            !dynamic_image_read(image, place.address, code, sizeof(code)))
                return false;
        return !memcmp(code, expected, sizeof(expected)) ||
                (!memcmp(code, branch, sizeof(branch)) &&
                 !memcmp(code + sizeof(branch), expected, sizeof(expected)));
}

/* ---- rare parts of the evaluator ---- */

/* Votes of the evaluator's jumps (0f 8x, four bytes), of which some may be no jumps. */
static void find_cold(const FunctionTable *functions, const uint8_t *code, PhpOpened *opened) {
        _cleanup_(freep) uint32_t *votes = calloc(functions->n, sizeof(*votes));
        uint32_t own = function_table_find(functions, opened->evaluator), best = functions->n;

        for (uint64_t i = 0; votes && i + 6 <= opened->evaluator_size; i++) {
                int32_t distance;
                uint64_t target;
                uint32_t which;

                if (code[i] != 0x0f || (code[i + 1] & 0xf0) != 0x80)
                        continue;
                memcpy(&distance, code + i + 2, sizeof(distance));
                target = opened->evaluator + i + 6 + (uint64_t)(int64_t)distance;
                which = function_table_find(functions, target);
                if (which == own || which >= functions->n - 1 ||
                    function_table_begin(functions, which) == target)
                        continue;
                votes[which]++;
                if (best == functions->n || votes[which] > votes[best])
                        best = which;
        }
        if (best == functions->n || votes[best] < MIN_COLD)
                return;
        opened->cold = function_table_begin(functions, best);
        opened->cold_size = function_table_begin(functions, best + 1) - opened->cold;
}

static void read_cold(const DynamicImage *image, PhpOpened *opened) {
        _cleanup_(freep) uint8_t *code = malloc(opened->evaluator_size);
        FunctionTable functions = { 0 };

        if (code && dynamic_image_read(image, opened->evaluator, code, opened->evaluator_size) &&
            function_table_read(&functions, image))
                find_cold(&functions, code, opened);
        function_table_deinit(&functions);
}

/* ---- functions that are called without a frame ---- */

typedef struct Calls {
        PhpTable table;
        PhpOpened *opened;
        size_t n;
} Calls;

static void take_call(Calls *calls, uint64_t goes_on) {
        int64_t distance = (int64_t)(goes_on - calls->opened->evaluator);

        if (distance != (int32_t)distance)
                return;
        for (size_t i = 0; i < calls->n && i < PHP_MAX_CALLS; i++)
                if (calls->opened->calls[i] == distance)
                        return;         /* two ways lead to it */
        if (calls->n < PHP_MAX_CALLS)
                calls->opened->calls[calls->n] = (int32_t)distance;
        calls->n++;
}

static bool find_calls(void *userdata, uint64_t address, const char *text, size_t size) {
        Calls *calls = userdata;
        uint64_t goes_on;

        for (size_t i = 0; i + PHP_CALL_CODE <= size; i++)
                if (php_call_decode((const uint8_t *)text + i, address + i, &calls->table, &goes_on))
                        take_call(calls, goes_on);
        return false;
}

/* *are_missingp: the file has such functions, but not in a way that is known. Return: 0, -ENOMEM. */
static int read_calls(const DynamicImage *image, PhpOpened *opened, bool *are_missingp) {
        Calls calls = { .opened = opened };
        Place functions, handlers;
        int r;

        *are_missingp = false;
        if (!find(image, "zend_flf_functions", &functions) || !find(image, "zend_flf_handlers", &handlers))
                return 0;
        calls.table.address = handlers.address;
        r = find_slot(image, "zend_flf_handlers", &calls.table.slot);
        if (r)
                return error_fold(r);
        dynamic_image_search(image, PF_W, PHP_CALL_CODE - 1, find_calls, &calls);
        *are_missingp = !calls.n || calls.n > PHP_MAX_CALLS;
        if (!*are_missingp)
                opened->frameless = functions.address;
        return 0;
}

int php_open(int fd, const void *data, uint64_t size, PhpOpened *opened) {
        Place globals, evaluator, generators = { 0 };
        char version[MAX_VERSION] = "";
        PhpLayout layout = { 0 };
        DynamicImage image;
        bool are_missing;
        int r;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_init(&image, fd, data, size))
                return unknown(opened, version, "the file has changed");
        if (!dynamic_image_find_tables(&image) && is_static(&image, version))
                return unknown(opened, version, "a static build, which exports nothing");
        if (!find(&image, "execute_ex", &evaluator))
                return unknown(opened, version, "the file has changed");
        find_version(&image, version);
        if (ELF_MACHINE != EM_X86_64)
                return unknown(opened, version, "this processor");
        if (!find(&image, "executor_globals", &globals))
                return unknown(opened, version, "thread-safe build (ZTS)");
        if (!is_hybrid(&image))
                return unknown(opened, version, "another kind of virtual machine");
        r = find_slot(&image, "executor_globals", &layout.slot);
        if (r)
                return error_fold(r);
        if (!evaluator.size || evaluator.size > MAX_EVALUATOR ||
            !decode(&image, "zend_get_executed_filename_ex", globals.address, &layout))
                return unknown(opened, version, "layout unknown");
        decode(&image, "zend_get_executed_lineno", globals.address, &layout);
        find(&image, "zend_ce_generator", &generators);
        opened->current = globals.address + layout.current;
        opened->generators = generators.address;
        opened->slot = layout.slot;
        opened->globals = globals.address;
        opened->evaluator = evaluator.address;
        opened->evaluator_size = evaluator.size;
        opened->file = layout.file;
        opened->ops = layout.ops;
        read_cold(&image, opened);
        r = read_calls(&image, opened, &are_missing);
        if (r)
                return error_fold(r);
        snprintf(opened->reason, sizeof(opened->reason), "PHP%s%s%s", *version ? " " : "", version,
                 are_missing ? "; functions without frames are not found" : "");
        return 0;
}

bool php_opened_is_sound(const PhpOpened *opened) {
        return opened->file && opened->file <= PHP_MAX_OFFSET && opened->ops <= PHP_MAX_OFFSET &&
                opened->evaluator_size && opened->evaluator_size <= MAX_EVALUATOR &&
                opened->evaluator + opened->evaluator_size > opened->evaluator &&
                opened->cold + opened->cold_size >= opened->cold;
}
