/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the few instructions after a call of __builtin_eh_return for which gcc writes no rules, and inserts
 * rows for them.
 */

#include "host/sampling/unwind/cfi/eh-return.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/arch.h"

enum {
        N_INSTRUCTIONS = 3,             /* instructions that gcc has rows for: mov, pop, jmp; or mov, ret */
};

static void insert(RowList *list, uint32_t at, Row row) {
        memmove(&list->rows[at + 1], &list->rows[at], (list->n - at) * sizeof(list->rows[0]));
        list->rows[at] = row;
        list->n++;
}

/* Finds the rules that are missing between row @i and the one before it; in long code, only near its end. */
static size_t find(const RowList *list, uint32_t i, const Layout *layout, Reader *reader, Row *rows) {
        uint64_t end = list->rows[i].address,
                 size = MIN(end - list->rows[i - 1].address, (uint64_t)ARCH_LANDING_SIZE);
        ArchLanding landings[ARCH_N_LANDINGS];
        uint64_t offset, in_file;
        const uint8_t *code;
        size_t n;

        if (!layout_find(layout, end - size, &offset, &in_file) || in_file < size)
                return 0;
        code = reader_bytes(reader, offset, size);
        n = code ? arch_find_landing(code, size, landings) : 0;
        /*
         * Behind the last instruction that was found there must be another one, with its registers still to
         * be loaded.
         */
        if (n > 0 && landings[n - 1].from == size)
                return 0;
        for (size_t j = 0; j < n; j++)
                rows[j] = (Row){ .address = end - size + landings[j].from, .rule = landings[j].rule };
        return n;
}

void landing_amend(RowList *list, const Layout *layout, Reader *reader) {
        Row rows[ARCH_N_LANDINGS];

        for (uint32_t i = 1; i < list->n && list->n + ARCH_N_LANDINGS <= PROGRAM_MAX_ROWS; i++) {
                size_t n = arch_is_landing(list->rows[i].rule) ? find(list, i, layout, reader, rows) : 0;

                for (size_t j = 0; j < n; j++)
                        insert(list, i++, rows[j]);
                for (uint32_t j = i; n > 0 && j < list->n && j < i + N_INSTRUCTIONS; j++)
                        if (!arch_land(&list->rows[j].rule))
                                break;
        }
}
