/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a worker that somebody has taken over may answer: a header, then the table. What passes the checks is
 * searched at every address that a page begins, ends or changes at; each look must stay in the table, and
 * what it finds must be a rule.
 */

#include <stdlib.h>
#include <string.h>

#include "host/sampling/unwind/tables/table-check.h"
#include "host/sampling/unwind/tables/table-job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void search(const Table *table) {
        uint64_t pages = (table->text_high - table->text_low) >> UNWIND_PAGE_SHIFT;

        for (uint64_t page = 0; page < pages; page++)
                for (uint64_t at = 0; at < UNWIND_PAGE_SIZE; at += UNWIND_PAGE_SIZE / 8 - 1)
                        if (unwind_rule_cfa(
                                    table_find(table, table->text_low + (page << UNWIND_PAGE_SHIFT) + at)) ==
                            UNWIND_CFA_FP)
                                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        TableJobAnswer answer;
        TableCheck check = { 0 };
        Table table = { 0 };
        int r;

        if (size < sizeof(answer))
                return 0;
        memcpy(&answer, data, sizeof(answer));
        if (!table_job_check_answer(&answer, &TABLE_LIMITS_DEFAULT) || answer.result ||
            answer.size > size - sizeof(answer))
                return 0;
        table = (Table){ .data = malloc(answer.size),
                         .size = answer.size,
                         .text_low = answer.text_low,
                         .text_high = answer.text_high };
        if (!table.data)
                return 0;
        memcpy(table.data, data + sizeof(answer), table.size);
        do
                r = table_check(&check, &table, 1000);
        while (r == TABLE_CHECK_E_AGAIN);
        if (r == 0)
                search(&table);
        table_deinit(&table);
        return 0;
}
