/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bench: .eh_frame → table
 *
 *     cfi-parse FILE…
 *
 * For each file: the best of five runs (pages in the cache), the longest step of
 * the budget that the daemon uses, table, rows, distinct rules, and how much memory
 * building takes at its peak. The peak is measured in a child that builds once.
 */

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "host/sampling/unwind/tables/table.h"

enum {
        N_RUNS = 5,
        BUDGET = 256 << 10,
};

static int build(const char *path, Table *table, uint64_t *longest_nsp) {
        _cleanup_(table_builder_freep) TableBuilder *builder = NULL;
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint64_t begin = clock_monotonic_ns(), end;
        int r;

        *longest_nsp = 0;
        if (fd < 0)
                return -1;
        r = table_builder_new(&builder, fd, &TABLE_LIMITS_DEFAULT);
        while (!r || r == TABLE_E_AGAIN) {
                r = table_builder_step(builder, BUDGET, table);
                end = clock_monotonic_ns();
                *longest_nsp = MAX(*longest_nsp, end - begin);
                begin = end;
                if (r == 0)
                        return 0;
        }
        return r;
}

/* Peak of a child that does nothing but build, less the peak of one that does nothing. KiB. */
static long peak_kib(const char *path) {
        long peak[2] = { 0, 0 };

        malloc_trim(0);         /* what earlier files left in the heap would hide what this one needs */
        for (int i = 0; i < 2; i++) {
                struct rusage usage = { 0 };
                uint64_t longest;
                Table table;
                pid_t pid = fork();

                if (pid == 0)
                        _exit(i == 1 && build(path, &table, &longest) ? 1 : 0);
                if (pid > 0 && wait4(pid, NULL, 0, &usage) == pid)
                        peak[i] = usage.ru_maxrss;
        }
        return peak[1] - peak[0];
}

/* Distinct rules of all blocks that rows use. */
static uint32_t count_rules(const Table *table) {
        Intern rules;
        uint32_t n, index;

        intern_init(&rules, UINT32_MAX);
        for (uint64_t page = table->text_low; page < table->text_high; page += UNWIND_PAGE_SIZE) {
                uint64_t at = (page - table->text_low) / UNWIND_PAGE_SIZE, word, rule;
                const uint8_t *block;

                memcpy(&word, table->data + at * 8, 8);
                block = table->data + (size_t)unwind_word_block(word) * UNWIND_BLOCK_SIZE;
                for (uint32_t i = 0; i < unwind_word_rows(word); i++) {
                        uint8_t id = block[unwind_word_offset(word) + 2 * unwind_word_rows(word) + i];

                        memcpy(&rule, block + UNWIND_BLOCK_SIZE - 8 * (id + 1), 8);
                        intern_add(&rules, &rule, 8, &index);
                }
        }
        n = rules.n_items;
        intern_deinit(&rules);
        return n;
}

static uint64_t sum(const uint64_t *values, size_t n) {
        uint64_t total = 0;

        for (size_t i = 0; i < n; i++)
                total += values[i];
        return total;
}

static int run(const char *path) {
        uint64_t best = UINT64_MAX, longest = UINT64_MAX;
        const char *slash = strrchr(path, '/');
        Table table = { 0 };

        for (int i = 0; i < N_RUNS; i++) {
                uint64_t begin = clock_monotonic_ns(), step;

                table_deinit(&table);
                if (build(path, &table, &step)) {
                        fprintf(stderr, "%s: no table\n", path);
                        return 1;
                }
                best = MIN(best, clock_monotonic_ns() - begin);
                longest = MIN(longest, step);
        }
        printf("%-26.26s %7lu %6lu %8lu %8lu %6u %7zu %8.1f %8.1f %8ld\n", slash ? slash + 1 : path,
               table.counts.n_entries, sum(table.counts.problems, CFI_PROBLEM_N), table.counts.n_rows,
               table.n_rows, count_rules(&table), table.size >> 10, (double)best / 1e6, (double)longest / 1e6,
               peak_kib(path));
        table_deinit(&table);
        return 0;
}

int main(int argc, char **argv) {
        int failed = 0;

        printf("%-26s %7s %6s %8s %8s %6s %7s %8s %8s %8s\n", "file", "entries", "bad", "rows", "merged",
               "rules", "KiB", "ms", "step ms", "peak KiB");
        fflush(stdout);
        for (int i = 1; i < argc; i++) {
                failed |= run(argv[i]);
                fflush(stdout);
        }
        return failed;
}
