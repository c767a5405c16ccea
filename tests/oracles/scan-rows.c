/* SPDX-License-Identifier: Apache-2.0 */

/*
 * scan-rows FILE…: what a scan of the code says, beside what call frame information says. Each file is
 * scanned as if it described none of its code. Counts are bytes of code with a row of both kinds;
 * one line a file:
 *
 *     FILE same N wrong N refuted N other N missing N refused N
 *
 * refuted: they differ, but the file's own row contradicts the code under it: a push, pop or addition to rsp
 * goes on with the same distance from rsp, or a `ret` is not at rsp + 8. glibc's and OpenSSL's assembly has
 * some. other: they go by two registers, so that no number can be compared. missing: only the file's own.
 * refused: functions that were not understood. Lines before tell of the first few differences. Exit 1 if
 * something is wrong.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/base/file/file.h"
#include "host/sampling/unwind/cfi/reader.h"
#include "host/sampling/unwind/scan/scan-arch.h"
#include "host/sampling/unwind/scan/scan.h"
#include "host/sampling/unwind/tables/table.h"

enum { SAY = 10 };

typedef struct Sums {
        uint64_t same, wrong, refuted, other, missing;
} Sums;

typedef struct Check {
        Scan *scan;
        Reader reader;
        Table table;
        Sums sums;
} Check;

static bool is_frame(uint32_t cfa) {
        return cfa == UNWIND_CFA_RSP || cfa == UNWIND_CFA_RBP || cfa == UNWIND_CFA_RBX;
}

static bool decode(Check *check, uint64_t address, ScanInstruction *instruction) {
        uint64_t offset, size;
        const uint8_t *code;

        if (!layout_find(scan_layout(check->scan), address, &offset, &size))
                return false;
        size = MIN(size, (uint64_t)SCAN_MAX_SIZE);
        code = reader_bytes(&check->reader, offset, size);
        return code && scan_decode(code, size, address, instruction);
}

/* Whether the instruction contradicts the row that holds before it, and holds after it if @goes_on. */
static bool contradicts(const ScanInstruction *instruction, uint64_t row, bool goes_on) {
        if (instruction->flow == SCAN_RETURN)
                return unwind_rule_offset(row) != SCAN_WORD;
        return goes_on && instruction->flow == SCAN_NEXT &&
                (instruction->effect == SCAN_PUSH || instruction->effect == SCAN_POP ||
                 (instruction->effect == SCAN_ADD && instruction->value));
}

/* Looks at all code under the file's own row at @address. */
static bool is_refuted(Check *check, uint64_t address) {
        uint64_t row = table_find(&check->table, address), at = address;
        ScanInstruction instruction;

        if (unwind_rule_cfa(row) != UNWIND_CFA_RSP)
                return false;
        while (table_find(&check->table, at - 1) == row)
                at--;
        for (; table_find(&check->table, at) == row; at += instruction.size) {
                if (!decode(check, at, &instruction))
                        return false;
                if (contradicts(&instruction, row, table_find(&check->table, at + instruction.size) == row))
                        return true;
        }
        return false;
}

static void differ(Check *check, uint64_t address, uint64_t rule, uint64_t truth) {
        if (is_refuted(check, address))
                check->sums.refuted++;
        else if (check->sums.wrong++ < SAY)
                printf("# %" PRIx64 ": %u %d, not %u %d\n", address, unwind_rule_cfa(rule),
                       unwind_rule_offset(rule), unwind_rule_cfa(truth), unwind_rule_offset(truth));
}

static void compare(Check *check, uint64_t address, uint64_t rule) {
        uint64_t truth = table_find(&check->table, address);
        uint32_t cfa = unwind_rule_cfa(rule), true_cfa = unwind_rule_cfa(truth);

        if (!is_frame(true_cfa))
                return;
        if (!rule)
                check->sums.missing++;
        else if (cfa == true_cfa && unwind_rule_offset(rule) == unwind_rule_offset(truth))
                check->sums.same++;
        else if (cfa != true_cfa && is_frame(cfa))
                check->sums.other++;
        else
                differ(check, address, rule, truth);
}

static void compare_piece(Check *check, const CfiFunction *piece) {
        for (uint32_t i = 0; i < piece->n_rows; i++) {
                uint64_t end = i + 1 < piece->n_rows ? piece->rows[i + 1].address : piece->end;

                for (uint64_t at = piece->rows[i].address; at < end; at++)
                        compare(check, at, piece->rows[i].rule);
        }
}

static int build(int fd, Table *table) {
        _cleanup_(table_builder_freep) TableBuilder *builder = NULL;
        int r = table_builder_new(&builder, fd, &TABLE_LIMITS_DEFAULT);

        return r ?: table_builder_step(builder, UINT64_MAX, table);
}

static int compare_all(Check *check) {
        CfiFunction piece;

        for (uint64_t at = check->table.text_low; at < check->table.text_high; at += SCAN_MAX_GAP) {
                if (scan_gap(check->scan, at, MIN(at + SCAN_MAX_GAP, check->table.text_high)))
                        return 2;
                while (scan_next(check->scan, &piece) == 0)
                        compare_piece(check, &piece);
        }
        return 0;
}

static int look_at(const char *path, uint64_t *wrongp) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        Check check = { 0 };
        const Sums *sums = &check.sums;

        if (fd < 0 || build(fd, &check.table) || scan_new(&check.scan, fd) ||
            reader_init_file(&check.reader, fd) || compare_all(&check))
                return 2;
        printf("%s same %" PRIu64 " wrong %" PRIu64 " refuted %" PRIu64 " other %" PRIu64 " missing %" PRIu64
               " refused %" PRIu64 "\n",
               path, sums->same, sums->wrong, sums->refuted, sums->other, sums->missing,
               scan_n_refused(check.scan));
        *wrongp += sums->wrong;
        reader_deinit(&check.reader);
        scan_free(check.scan);
        table_deinit(&check.table);
        return 0;
}

int main(int argc, char **argv) {
        uint64_t wrong = 0;

        for (int i = 1; i < argc; i++)
                if (look_at(argv[i], &wrong)) {
                        fprintf(stderr, "scan-rows: no table of %s\n", argv[i]);
                        return 2;
                }
        return wrong ? 1 : 0;
}
