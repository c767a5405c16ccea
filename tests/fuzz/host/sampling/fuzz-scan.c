/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of an ELF file: rows from its code. A scan ends, and its rows lie in order between the two ends
 * that were asked for; a table with them must be one that the daemon takes. Recipe of the corpus:
 * make-scan-corpus.py.
 */

#include <stdlib.h>

#include "host/sampling/unwind/scan/scan.h"
#include "host/sampling/unwind/tables/table-check.h"
#include "host/sampling/unwind/tables/table.h"

enum { MAX_BYTES = 1 << 20, MAX_SCAN = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void scan_all(const uint8_t *data, size_t size) {
        CfiFunction piece;
        uint64_t at, end;
        Scan *scan;
        int r = scan_new_memory(&scan, data, size);

        if (r < 0)
                abort();
        if (r)
                return;
        at = scan_layout(scan)->text_low;
        end = MIN(at + MAX_SCAN, scan_layout(scan)->text_high);
        if (scan_gap(scan, at, end))
                abort();
        while (scan_next(scan, &piece) == 0) {
                if (piece.start < at || piece.end <= piece.start || piece.end > end)
                        abort();
                for (uint32_t i = 0; i < piece.n_rows; i++)
                        if (piece.rows[i].address < at || piece.rows[i].address >= piece.end)
                                abort();
                        else
                                at = piece.rows[i].address;
        }
        scan_free(scan);
}

static void make_table(const uint8_t *data, size_t size) {
        const TableLimits limits = { .max_functions = 4096, .max_bytes = MAX_BYTES, .max_scan = MAX_SCAN };
        TableBuilder *builder;
        TableCheck check = { 0 };
        Table table;
        int r = table_builder_new_memory(&builder, data, size, &limits);

        if (r < 0)
                abort();
        if (r)
                return;
        while ((r = table_builder_step(builder, 1000, &table)) == TABLE_E_AGAIN)
                ;
        table_builder_free(builder);
        if (r == TABLE_E_TOO_LARGE || r == TABLE_E_NO_CFI)
                return;
        if (r || table_check(&check, &table, UINT64_MAX))
                abort();
        table_deinit(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        scan_all(data, size);
        make_table(data, size);
        return 0;
}
