/* SPDX-License-Identifier: Apache-2.0 */

/*
 * dump-rows [--scan | --derive] FILE: the unwind table of an ELF file as text, for comparison
 * with what other programs make of the same file. One line a row:
 *
 *     ADDRESS CFA OFFSET RBP RBP-OFFSET RBX
 *
 * (the enums of unwind_abi.h by number), then one line `# NAME N` for each counter
 * that is not zero. --scan hides the linker's sorted table by passing a copy
 * without PT_GNU_EH_FRAME. --derive adds rows from code that nobody describes.
 */

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file/file.h"
#include "host/sampling/unwind/tables/table.h"

static void print_rule(uint64_t address, uint64_t rule) {
        printf("%" PRIx64 " %u %d %u %d %u\n", address, unwind_rule_cfa(rule), unwind_rule_offset(rule),
               unwind_rule_rbp(rule), unwind_rule_rbp_offset(rule), unwind_rule_rbx(rule));
}

static void print_page(const Table *table, uint64_t page) {
        uint64_t word, rule;
        const uint8_t *block, *record;
        uint32_t n;

        memcpy(&word, table->data + (page - table->text_low) / UNWIND_PAGE_SIZE * 8, 8);
        n = unwind_word_rows(word);
        block = table->data + (size_t)unwind_word_block(word) * UNWIND_BLOCK_SIZE;
        record = block + unwind_word_offset(word);
        if (n == 0)
                print_rule(page, 0);
        for (uint32_t i = 0; i < n; i++) {
                uint16_t key;

                memcpy(&key, record + 2 * i, 2);
                memcpy(&rule, block + UNWIND_BLOCK_SIZE - 8 * (record[2 * n + i] + 1), 8);
                print_rule(page + key, rule);
        }
}

static void print_counts(const CfiCounts *counts) {
#define X(name, text) \
        if (counts->problems[CFI_PROBLEM_##name]) \
                printf("# problem-%s %" PRIu64 "\n", #name, counts->problems[CFI_PROBLEM_##name]);
        CFI_PROBLEMS(X)
#undef X
#define X(name, text) \
        if (counts->unsupported[CFI_UNSUPPORTED_##name]) \
                printf("# unsupported-%s %" PRIu64 "\n", #name, counts->unsupported[CFI_UNSUPPORTED_##name]);
        CFI_UNSUPPORTED(X)
#undef X
        printf("# entries %" PRIu64 "\n# overlaps %" PRIu64 "\n", counts->n_entries, counts->n_overlaps);
}

/* A memfd with the file's bytes, PT_GNU_EH_FRAME made PT_NULL. */
static int open_without_hdr(const char *path) {
        _cleanup_(freep) char *data = NULL;
        int fd = memfd_create("scan", MFD_CLOEXEC);
        Elf64_Ehdr *ehdr;
        Elf64_Phdr *phdr;
        size_t size;

        if (fd < 0 || file_read(path, SIZE_MAX / 4, &data, &size) || size < sizeof(*ehdr))
                return -1;
        ehdr = (Elf64_Ehdr *)data;
        phdr = (Elf64_Phdr *)(data + ehdr->e_phoff);
        for (uint32_t i = 0; i < ehdr->e_phnum; i++)
                if (phdr[i].p_type == PT_GNU_EH_FRAME)
                        phdr[i].p_type = PT_NULL;
        return file_write(fd, data, size) ? -1 : fd;
}

static int build(int fd, bool derives, Table *table) {
        const TableLimits limits = { .max_functions = 1 << 20, .max_bytes = 32 << 20,
                                     .max_scan = derives ? 64 << 20 : 0 };
        _cleanup_(table_builder_freep) TableBuilder *builder = NULL;
        int r = table_builder_new(&builder, fd, &limits);

        if (r)
                return r;
        do
                r = table_builder_step(builder, 10000, table);
        while (r == TABLE_E_AGAIN);
        return r;
}

int main(int argc, char **argv) {
        bool scan = argc == 3 && strcmp(argv[1], "--scan") == 0,
             derives = argc == 3 && strcmp(argv[1], "--derive") == 0;
        _cleanup_(closep) int fd = -1;
        Table table = { 0 };
        int r;

        if (argc != 2 + (scan || derives)) {
                fprintf(stderr, "usage: dump-rows [--scan | --derive] FILE\n");
                return 2;
        }
        fd = scan ? open_without_hdr(argv[2]) : open(argv[argc - 1], O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
                perror(argv[argc - 1]);
                return 2;
        }
        r = build(fd, derives, &table);
        if (r) {
                printf("# no-table %d\n", r);
                return 1;
        }
        for (uint64_t page = table.text_low; page < table.text_high; page += UNWIND_PAGE_SIZE)
                print_page(&table, page);
        print_counts(&table.counts);
        printf("# rows %" PRIu64 "\n# bytes %zu\n", table.n_rows, table.size);
        table_deinit(&table);
        return 0;
}
