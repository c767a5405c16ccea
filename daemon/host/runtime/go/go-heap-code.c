/* SPDX-License-Identifier: Apache-2.0 */

/*
 * .gopclntab names the runtime's functions in each program, stripped or not (core/base/elf/go-functions.h).
 * Their code says where the variables are, by distances from the next instruction:
 *
 *     runtime.mProf_Flush         mov  mProfCycle(%rip),%eax           the first load of four bytes
 *                                 lea  profMemActiveLock(%rip),%rax    lock, and the same for unlock
 *     runtime.mProf_FlushLocked   mov  mbuckets(%rip),%rdx             the first load of eight bytes
 *     runtime.stkbucket           lea  mbuckets(%rip),%rax             must name the same word
 *     runtime.schedinit           cmpb $0,disableMemoryProfiling(%rip)
 *                                 movq $0,MemProfileRate(%rip)
 *
 * So it is from Go 1.20 to 1.27. Up to 1.19 runtime.init sets the rate. In 1.18 the lock is proflock, and
 * mProf_FlushLocked loads the cycle:
 *
 *     movzbl disableMemoryProfiling(%rip),%eax;  mov $0x80000,%eax;  …  mov %rax,MemProfileRate(%rip)
 */
#include "host/runtime/go/go-heap-code.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/go/go-code.h"

enum {
        MAX_CODE = 16 << 10,            /* bytes of a function that are read */
        MAX_NAMED = 64,                 /* addresses that `lea` of one function names */
        SHORT_LOAD = GO_CODE_NAMING - 1,        /* bytes of an instruction without REX.W */
        MAX_GAP = 32,                   /* bytes between the parts of a shape */
        SPLIT_MINOR = 18,               /* up to this release the cycle and its flag are two fields */
        INIT_MINOR = 19,                /* up to this one runtime.init sets the rate */
};

static const char *const names[GO_HEAP_N_FUNCTIONS] = {
        [GO_HEAP_FLUSH] = "runtime.mProf_Flush",
        [GO_HEAP_FLUSH_LOCKED] = "runtime.mProf_FlushLocked",
        [GO_HEAP_BUCKET] = "runtime.stkbucket",
        [GO_HEAP_INIT] = "runtime.schedinit",
};

/* ---- instructions ---- */

/* An instruction of eight bytes' operands with @opcode that names an address. */
static bool names_wide(const GoHeapCode *code, size_t at, uint8_t opcode, uint64_t *addressp) {
        return code->size >= GO_CODE_NAMING && at <= code->size - GO_CODE_NAMING &&
                go_code_names(code->bytes + at, opcode, code->address + at, addressp);
}

static bool find_wide(const GoHeapCode *code, uint8_t opcode, uint64_t *addressp) {
        for (size_t at = 0; at < code->size; at++)
                if (names_wide(code, at, opcode, addressp))
                        return true;
        return false;
}

/* The first load of four bytes. A wide one has the same bytes behind its prefix. */
static bool find_short(const GoHeapCode *code, uint64_t *addressp) {
        uint64_t wide;

        for (size_t at = 0; at + SHORT_LOAD <= code->size; at++) {
                const uint8_t *bytes = code->bytes + at;

                if (names_wide(code, at, 0x8b, &wide)) {
                        at += GO_CODE_NAMING - 1;
                } else if (bytes[0] == 0x8b && (bytes[1] & 0xc7) == 0x05) {
                        *addressp = go_code_address(bytes + 2, code->address + at + SHORT_LOAD);
                        return true;
                }
        }
        return false;
}

/* The one address that exactly two `lea` name. */
static bool find_twice(const GoHeapCode *code, uint64_t *addressp) {
        uint64_t all[MAX_NAMED];
        size_t n = 0, n_twice = 0;

        for (size_t at = 0; at < code->size && n < MAX_NAMED; at++)
                n += names_wide(code, at, 0x8d, &all[n]);
        for (size_t i = 0; i < n; i++) {
                size_t n_same = 0, first = n;

                for (size_t j = 0; j < n; j++)
                        if (all[j] == all[i]) {
                                first = MIN(first, j);
                                n_same++;
                        }
                if (n_same != 2 || first != i)
                        continue;
                *addressp = all[i];
                n_twice++;
        }
        return n_twice == 1;
}

/* ---- the functions ---- */

/* Whether stkbucket(), which adds buckets, names @address, too: to load from it, or as an address. */
static bool adds_to(const GoHeapCode *code, uint64_t address) {
        for (size_t at = 0; at < code->size; at++) {
                uint64_t word;

                if ((names_wide(code, at, 0x8d, &word) || names_wide(code, at, 0x8b, &word)) &&
                    word == address)
                        return true;
        }
        return false;
}

/* A comparison of a byte with 0, and soon behind it a store of 0 into a word. */
static bool find_rate(const GoHeapCode *code, uint64_t *addressp) {
        static const uint8_t zero[4] = { 0 };
        enum { COMPARE = 7, STORE = 11 };
        unsigned n_found = 0;

        for (size_t at = 0; at + COMPARE + STORE <= code->size; at++) {
                const uint8_t *bytes = code->bytes + at;
                size_t end = MIN(code->size - STORE, at + COMPARE + MAX_GAP);

                if (bytes[0] != 0x80 || bytes[1] != 0x3d || bytes[6] || bytes[COMPARE] != 0x74)
                        continue;
                for (size_t i = at + COMPARE; i <= end; i++) {
                        const uint8_t *store = code->bytes + i;

                        if (store[0] != 0x48 || store[1] != 0xc7 || store[2] != 0x05 ||
                            memcmp(store + 7, zero, sizeof(zero)))
                                continue;
                        *addressp = go_code_address(store + 3, code->address + i + STORE);
                        n_found++;
                        break;
                }
        }
        return n_found == 1;
}

/* A load of a byte, the rate that is usual, and soon behind it a store of one of both. */
static bool find_rate_119(const GoHeapCode *code, uint64_t *addressp) {
        static const uint8_t usual[4] = { 0, 0, 8, 0 };
        enum { CONSTANT = 5, BYTE_LOAD = 7 };
        unsigned n_found = 0;

        for (size_t at = BYTE_LOAD; at + CONSTANT + GO_CODE_NAMING <= code->size; at++) {
                const uint8_t *bytes = code->bytes + at;
                size_t end = MIN(code->size - GO_CODE_NAMING, at + CONSTANT + MAX_GAP);
                bool has_load = false;

                if ((bytes[0] & 0xf8) != 0xb8 || memcmp(bytes + 1, usual, sizeof(usual)))
                        continue;
                for (size_t i = at - MIN(at, (size_t)MAX_GAP); i + BYTE_LOAD <= at; i++)
                        has_load |= code->bytes[i] == 0x0f && code->bytes[i + 1] == 0xb6 &&
                                (code->bytes[i + 2] & 0xc7) == 0x05;
                for (size_t i = at + CONSTANT; i <= end && has_load; i++)
                        if (names_wide(code, i, 0x89, addressp)) {
                                n_found++;
                                break;
                        }
        }
        return n_found == 1;
}

bool go_heap_decode(const GoHeapCode code[static GO_HEAP_N_FUNCTIONS], uint32_t minor,
                    GoHeapPlaces *places) {
        const GoHeapCode *flush = &code[GO_HEAP_FLUSH], *locked = &code[GO_HEAP_FLUSH_LOCKED];
        bool is_split = minor <= SPLIT_MINOR;
        GoHeapPlaces new = { .is_split = is_split };

        /* the compiler may have made a part of one function of the other */
        if (!locked->size)
                locked = flush;
        if (!find_short(is_split ? locked : flush, &new.cycle) || !find_twice(flush, &new.lock) ||
            !find_wide(locked, 0x8b, &new.buckets) || !adds_to(&code[GO_HEAP_BUCKET], new.buckets))
                return false;
        if (!(minor <= INIT_MINOR ? find_rate_119 : find_rate)(&code[GO_HEAP_INIT], &new.rate))
                return false;
        *places = new;
        return new.cycle != new.lock && new.cycle != new.buckets && new.lock != new.buckets;
}

/* ---- in a file ---- */

typedef struct Search {
        GoCode file;
        char *owned[GO_HEAP_N_FUNCTIONS];
        GoHeapCode code[GO_HEAP_N_FUNCTIONS];
} Search;

static void read_code(Search *search, GoHeapFunction which, uint64_t address, uint32_t size) {
        if (!search->owned[which] && go_code_read(&search->file, address, size, &search->owned[which]))
                search->code[which] = (GoHeapCode){ (const uint8_t *)search->owned[which], size, address };
}

static void read_functions(Search *search, const GoFunctions *functions, uint32_t minor) {
        const char *init = minor <= INIT_MINOR ? "runtime.init" : names[GO_HEAP_INIT];

        for (uint32_t i = 0; i < functions->table.n; i++) {
                GoFunction function;

                if (!go_table_function(&functions->table, i, &function) || !function.size ||
                    function.size > MAX_CODE)
                        continue;
                for (GoHeapFunction which = 0; which < GO_HEAP_N_FUNCTIONS; which++) {
                        const char *name = which == GO_HEAP_INIT ? init : names[which];

                        if (go_function_has_name(&function, name))
                                read_code(search, which, functions->text + function.start, function.size);
                }
        }
}

static bool are_variables(const GoCode *file, const GoHeapPlaces *places) {
        return go_code_is_variable(file, places->cycle, 4) && go_code_is_variable(file, places->lock, 8) &&
                go_code_is_variable(file, places->buckets, 8) && go_code_is_variable(file, places->rate, 8);
}

bool go_heap_find(const ElfImage *image, const GoFunctions *functions, uint32_t minor, GoHeapPlaces *places) {
        Search search = { 0 };
        GoHeapPlaces new;
        bool is_found;

        if (image->header.e_machine != EM_X86_64 || !go_code_init(&search.file, image))
                return false;
        read_functions(&search, functions, minor);
        is_found = go_heap_decode(search.code, minor, &new) && are_variables(&search.file, &new);
        for (size_t i = 0; i < GO_HEAP_N_FUNCTIONS; i++)
                free(search.owned[i]);
        go_code_deinit(&search.file);
        if (is_found)
                *places = new;
        return is_found;
}
