/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names that are kept of PHP's functions, and how much memory they take at most. A function has here as long
 * texts as there are: 1,023 bytes and a NUL, twice.
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/php/php-met.h"

enum {
        LINE = 42,
        TEXT = 1023,
        BYTES = 2048,                   /* of both texts */
        OF_A_PROCESS = 65536 / BYTES,
        PROCESSES = 16777216 / 65536,
};

static ReaderFunction function;

static const uint64_t *words_of(uint32_t cookie) {
        static uint64_t words[2];

        words[0] = (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT |
                (uint64_t)(PHP_FUNCTION_USER | PHP_FUNCTION_NAMED) << PHP_FUNCTION_SHIFT;
        words[1] = (uint64_t)cookie << 32 | LINE;
        return words;
}

static void keep(PhpMet *met, uint32_t cookie, const char *name, const char *file) {
        ReaderFunction kept = { .first_line = cookie + 1 };

        strcpy(kept.name, name);
        strcpy(kept.file, file);
        php_met_keep(met, words_of(cookie), &kept);
}

static void keep_long(PhpMet *met, uint32_t cookie) {
        char text[TEXT + 1];

        memset(text, 'x', TEXT);
        text[TEXT] = '\0';
        keep(met, cookie, text, text);
}

static bool recall(const PhpMet *met, uint32_t cookie) {
        return php_met_recall(met, words_of(cookie), &function);
}

static size_t count(const PhpMet *met, uint32_t n_cookies) {
        size_t n = 0;

        for (uint32_t cookie = 0; cookie < n_cookies; cookie++)
                n += recall(met, cookie);
        return n;
}

Test(php_met, a_function_that_was_met_has_its_name_and_the_line_of_the_sample) {
        PhpMet met = { 0 };

        cr_assert_not(recall(&met, 7));
        keep(&met, 7, "App\\Cart::total", "/srv/app/cart.php");
        keep(&met, 8, "total", "");
        cr_assert(recall(&met, 7));
        cr_assert_str_eq(function.name, "App\\Cart::total");
        cr_assert_str_eq(function.file, "/srv/app/cart.php");
        cr_assert_eq(function.line, LINE);
        cr_assert_eq(function.first_line, 8);
        cr_assert(recall(&met, 8));
        cr_assert_str_eq(function.name, "total");
        cr_assert_str_eq(function.file, "");
        php_met_deinit(&met);
}

Test(php_met, another_function_takes_the_place_and_has_its_own_name) {
        PhpMet met = { 0 };

        keep(&met, 7, "first", "");
        cr_assert_not(recall(&met, 7 + PHP_MET_MAX));
        keep(&met, 7 + PHP_MET_MAX, "second", "");
        cr_assert_not(recall(&met, 7));
        cr_assert(recall(&met, 7 + PHP_MET_MAX));
        cr_assert_str_eq(function.name, "second");
        php_met_deinit(&met);
}

Test(php_met, names_of_a_process_take_64_kib_and_the_newest_is_there) {
        PhpMet met = { 0 };

        for (uint32_t cookie = 0; cookie < 3 * PHP_MET_MAX; cookie++) {
                keep_long(&met, cookie);
                cr_assert(recall(&met, cookie), "%u", cookie);
                cr_assert_eq(strlen(function.name), TEXT);
                cr_assert_eq(strlen(function.file), TEXT);
                cr_assert_leq(count(&met, cookie + 1), (size_t)OF_A_PROCESS);
        }
        cr_assert_eq(count(&met, 3 * PHP_MET_MAX), (size_t)OF_A_PROCESS);
        php_met_deinit(&met);
}

Test(php_met, names_of_all_processes_take_16_mib_and_who_has_most_gives_way) {
        PhpMet *processes = calloc(PROCESSES + 1, sizeof(*processes)), *last = &processes[PROCESSES];
        size_t n_others = 0;

        cr_assert_not_null(processes);
        for (size_t i = 0; i < PROCESSES; i++)
                for (uint32_t cookie = 0; cookie < OF_A_PROCESS; cookie++)
                        keep_long(&processes[i], cookie);
        for (size_t i = 0; i < PROCESSES; i++)
                cr_assert_eq(count(&processes[i], OF_A_PROCESS), (size_t)OF_A_PROCESS);
        for (uint32_t cookie = 0; cookie < OF_A_PROCESS; cookie++)
                keep_long(last, cookie);
        cr_assert_eq(count(last, OF_A_PROCESS), (size_t)OF_A_PROCESS, "a later one has as much");
        for (size_t i = 0; i < PROCESSES; i++) {
                size_t n = count(&processes[i], OF_A_PROCESS);

                cr_assert_geq(n, (size_t)OF_A_PROCESS - 1, "each gives a little");
                n_others += n;
        }
        cr_assert_eq(n_others, (size_t)(PROCESSES - 1) * OF_A_PROCESS, "16 MiB in all");
        keep_long(&processes[0], OF_A_PROCESS);
        cr_assert(recall(&processes[0], OF_A_PROCESS), "in the place of its own");
        php_met_deinit(last);
        for (size_t i = 0; i < PROCESSES; i++)
                php_met_deinit(&processes[i]);
        keep(last, 1, "one", "");
        cr_assert(recall(last, 1), "all are gone, and none is asked to give way");
        php_met_deinit(last);
        free(processes);
}
