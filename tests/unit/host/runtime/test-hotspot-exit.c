/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An nmethod by hand: `main` has inlined `append`, and that `getChars`. Two calls of append are described, with
 * checks of some byte codes between them, whose slow paths stand behind. Offsets are from the code's start.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-exit.h"
#include "host/runtime/hotspot/hotspot-scopes.h"

enum {
        BASE = 0x100000,                /* the heap of code */
        SIZE = 0x1000,
        LOG2 = 7,
        MAP = BASE + SIZE,
        TABLES = MAP + 0x100,
        CODE = BASE + 0x100,
        CODE_SIZE = 0x400,
        TRAP = BASE + 0x800,            /* blocks of other code */
        JAVA = BASE + 0xa00,
        BLOCK = 16,                     /* bytes of a block's head */
        IN_BLOB = 0x80,                 /* its code */
        NAMES = TABLES + 0x400,
        PCS = TABLES,
        SCOPES = TABLES + 0x100,
        METADATA = TABLES + 0x180,
        CHECKS = TABLES + 0x200,        /* of nulls */
        END = TABLES + 0x800,
        /* methods */
        MAIN = 0x1110,
        APPEND,
        GET_CHARS,
        /* places */
        BEFORE = 5,
        FIRST = 8,                      /* a branch of 6 bytes */
        PC = 20,
        SECOND = 24,
        AFTER = 45,
        SLOW = 0x100,                   /* slow paths, 16 bytes each */
};

static uint8_t memory[END - BASE];

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < BASE || address + size > END)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static const HotspotReader reader = { read_memory, NULL };
static const HotspotCode code = { .heaps = { { BASE, BASE + SIZE, MAP, LOG2 } }, .n_heaps = 1 };
static HotspotLayout layout = {
        .heap = { .block_used = { 8, 1, false }, .block_size = BLOCK },
        .blob = { .name = { 0, 8, false }, .size = { 8, 4, false }, .header_size = { 12, 4, false },
                  .code = { 16, 4, false }, .data = { 20, 4, false } },
        .nmethod = { .struct_size = 64 },
};
static HotspotBlob blob;
static unsigned n_places;

static void put(uint64_t address, const void *bytes, size_t size) {
        memcpy(memory + (address - BASE), bytes, size);
}

static void put_u32(uint64_t address, uint32_t value) {
        put(address, &value, sizeof(value));
}

/* An instruction of @size bytes that ends in a distance to @target: a call, or a branch if equal. */
static void put_flow(unsigned at, uint64_t target, bool is_call) {
        static const uint8_t call[] = { 0xe8 }, branch[] = { 0x0f, 0x84 };
        unsigned size = is_call ? sizeof(call) : sizeof(branch);

        put(CODE + at, is_call ? call : branch, size);
        put_u32(CODE + at + size, (uint32_t)(target - (CODE + at + size + 4)));
}

/* In the order of their offsets. */
static void put_place(unsigned offset, uint32_t scope) {
        const uint32_t desc[] = { offset, scope, 0, 0 };

        put(PCS + n_places++ * sizeof(desc), desc, sizeof(desc));
        blob.pcs_end = PCS + n_places * sizeof(desc);
}

static void put_blob(uint64_t block, const char *name, uint64_t name_at) {
        put(name_at, name, strlen(name) + 1);
        memory[block + 8 - BASE] = 1;
        put(block + BLOCK, &name_at, sizeof(name_at));
        put_u32(block + BLOCK + 8, 0x100);
        put_u32(block + BLOCK + 16, IN_BLOB);
        put_u32(block + BLOCK + 20, 0x100);
        memory[MAP - BASE + ((block - BASE) >> LOG2)] = 0;
        memory[MAP - BASE + ((block - BASE) >> LOG2) + 1] = 1;
}

/* Scopes, three numbers each: where the sender's is, method + 1, bci + 1. 0 is none. */
enum { IN_MAIN = 1, APPEND_4 = 4, GET_CHARS_2 = 7, GET_CHARS_9 = 10, APPEND_7 = 13 };

static void setup(void) {
        static const uint8_t scopes[] = { 0,        0, 1, 6, IN_MAIN,  2, 5, APPEND_4, 3, 3,
                                          APPEND_4, 3, 10, IN_MAIN,    2, 8 };
        static const uint64_t methods[] = { MAIN, APPEND, GET_CHARS };

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: its code is of x86-64");
        memset(memory, 0, sizeof(memory));
        memset(memory + (CODE - BASE), 0x90, CODE_SIZE);
        memset(memory + (MAP - BASE), 0xff, SIZE >> LOG2);
        put(SCOPES, scopes, sizeof(scopes));
        put(METADATA, methods, sizeof(methods));
        put_blob(TRAP, "UncommonTrapBlob", NAMES);
        put_blob(JAVA, "resolve_static_call", NAMES + 64);
        blob = (HotspotBlob){ .address = BASE + 0x80, .end = CODE + CODE_SIZE, .code = CODE,
                              .code_end = CODE + CODE_SIZE, .kind = HOTSPOT_COMPILED, .method = MAIN,
                              .scopes_data = SCOPES, .scopes_data_end = SCOPES + sizeof(scopes), .pcs = PCS,
                              .metadata = METADATA, .metadata_end = METADATA + sizeof(methods) };
        layout.version = 17;
        n_places = 0;
        put_place(BEFORE, APPEND_4);
        put_place(AFTER, APPEND_7);
        put_flow(BEFORE - 5, JAVA + BLOCK + IN_BLOB, true);
        put_flow(AFTER - 5, JAVA + BLOCK + IN_BLOB, true);
}

/* A slow path, which ends in a call of @called; slow paths are made in their order. */
static uint64_t slow_path(unsigned i, uint64_t called, uint32_t scope) {
        unsigned at = SLOW + i * 16;

        put_flow(at + 3, called + BLOCK + IN_BLOB, true);
        put_place(at + 8, scope);
        return CODE + at;
}

static HotspotScope scopes[HOTSPOT_MAX_INLINED];

static uint32_t frames_at(unsigned offset, bool *is_shortp) {
        const HotspotCompiled in = { &code, &layout, &reader, &blob };
        uint32_t n = 0;

        cr_assert_eq(hotspot_scopes_read(scopes, &n, &in, CODE + offset, is_shortp), 0);
        cr_assert_eq(scopes[n - 1].method, MAIN);
        return n;
}

/* @n: frames, of which 2 are main and append, 3 getChars too. */
static void check(uint32_t n) {
        bool is_short;

        cr_assert_eq(frames_at(PC, &is_short), n);
        cr_assert_eq(scopes[n - 2].method, APPEND);
        cr_assert(n < 3 || scopes[0].method == GET_CHARS);
}

TestSuite(hotspot_exit, .init = setup);

Test(hotspot_exit, without_a_way_out_the_places_around_tell) {
        check(2);
}

Test(hotspot_exit, a_method_runs_between_two_of_its_checks) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_2), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_9), false);
        check(3);
}

Test(hotspot_exit, jdk_11_is_asked) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_2), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_9), false);
        layout.version = 11;
        check(3);
}

Test(hotspot_exit, jdk_8_is_not_asked) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_2), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_9), false);
        layout.version = 8;
        check(2);
}

Test(hotspot_exit, a_check_on_one_side_is_not_enough) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_2), false);
        check(2);
}

/* It may have ended, and begun again: C2 writes a loop down more than once. */
Test(hotspot_exit, the_same_check_twice_says_nothing) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_2), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_2), false);
        check(2);
}

Test(hotspot_exit, checks_that_go_back_say_nothing) {
        put_flow(FIRST, slow_path(0, TRAP, GET_CHARS_9), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_2), false);
        check(2);
}

/* Such code runs in getChars, if it runs; what leaves for it need not be of getChars. */
Test(hotspot_exit, rare_code_of_the_program_is_no_slow_path) {
        put_flow(FIRST, slow_path(0, JAVA, GET_CHARS_2), false);
        put_flow(SECOND, slow_path(1, JAVA, GET_CHARS_9), false);
        check(2);
}

Test(hotspot_exit, a_slow_path_has_no_branch) {
        uint64_t first = slow_path(0, TRAP, GET_CHARS_2), second = slow_path(1, TRAP, GET_CHARS_9);
        static const uint8_t branch[] = { 0x74, 0 };

        put(first, branch, sizeof(branch));
        put(second, branch, sizeof(branch));
        put_flow(FIRST, first, false);
        put_flow(SECOND, second, false);
        check(2);
}

/* An allocation's slow path comes back; here it is the caller's, in front of getChars. */
Test(hotspot_exit, a_check_of_the_caller_is_the_caller_s) {
        put_flow(FIRST, slow_path(0, TRAP, APPEND_4), false);
        put_flow(SECOND, slow_path(1, TRAP, GET_CHARS_9), false);
        check(2);
}

static void put_null_checks(uint32_t n, uint32_t first, uint32_t second) {
        const uint32_t table[] = { n, FIRST, first, SECOND, second };

        put(CHECKS, table, sizeof(table));
        blob.null_checks = CHECKS;
        blob.end = CHECKS + sizeof(table);
}

Test(hotspot_exit, a_load_that_may_meet_a_null_is_a_check) {
        uint32_t first = (uint32_t)(slow_path(0, TRAP, GET_CHARS_2) - CODE),
                 second = (uint32_t)(slow_path(1, TRAP, GET_CHARS_9) - CODE);

        put_null_checks(2, first, second);
        check(3);
        put_null_checks(1, first, second);
        check(2);
        put_null_checks(UINT32_MAX, first, second);
        check(2);
        put_null_checks(3, first, second);      /* more than fit */
        check(2);
        put_null_checks(2, UINT32_MAX, UINT32_MAX);
        check(2);
        blob.null_checks = END;
        check(2);
}

Test(hotspot_exit, of_many_checks_the_nearest_count) {
        struct {
                uint32_t n;
                uint32_t pairs[40][2];
        } table = { .n = 40 };
        uint32_t first = (uint32_t)(slow_path(0, TRAP, APPEND_4) - CODE),
                 near = (uint32_t)(slow_path(1, TRAP, GET_CHARS_2) - CODE),
                 second = (uint32_t)(slow_path(2, TRAP, GET_CHARS_9) - CODE);

        for (uint32_t i = 0; i < 40; i++) {
                table.pairs[i][0] = i < 20 ? BEFORE + 1 : SECOND + i - 20;
                table.pairs[i][1] = i < 19 ? first : i == 19 ? near : second;
        }
        put(CHECKS, &table, sizeof(table));
        blob.null_checks = CHECKS;
        blob.end = CHECKS + sizeof(table);
        check(3);
}
