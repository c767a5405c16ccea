/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects the functions of a section in order of address, and then makes the rows of one function at a
 * time, so that its caller may stop in between.
 */

#include "host/sampling/unwind/cfi/cfi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "host/sampling/unwind/cfi/entry.h"
#include "host/sampling/unwind/cfi/eh-return.h"
#include "host/sampling/unwind/cfi/function-order.h"

enum {
        COST_FUNCTION = 64,             /* bytes of work in addition to the entry's own */
};

struct Cfi {
        Reader entries, cies, table;    /* a window for each stream of reads */
        Layout layout;
        CieCache cache;
        CfiCounts counts;
        Order order;
        uint64_t at;                    /* next function, as order_get() counts */
        uint64_t last;                  /* end of the one before */
        RowList list;
        /* the last field: 256 KiB that are not read before they are written */
        Row rows[PROGRAM_MAX_ROWS];
};

/* Allocates; all but the rows is cleared. */
static Cfi *allocate(void) {
        Cfi *cfi = malloc(sizeof(*cfi));

        if (cfi)
                memset(cfi, 0, offsetof(Cfi, rows));
        return cfi;
}

Cfi *cfi_free(Cfi *cfi) {
        if (!cfi)
                return NULL;
        order_deinit(&cfi->order);
        reader_deinit(&cfi->table);
        reader_deinit(&cfi->cies);
        reader_deinit(&cfi->entries);
        free(cfi);
        return NULL;
}

static int start(Cfi *cfi, uint32_t max_functions, LayoutCfi which) {
        int r = layout_read(&cfi->layout, &cfi->table, which);

        if (r)
                return r;
        cfi->cache.reader = &cfi->cies;
        cfi->cache.section = &cfi->layout.section;
        cfi->list.rows = cfi->rows;
        order_init(&cfi->order, &cfi->layout, &cfi->table, &cfi->cache, &cfi->counts, max_functions);
        return 0;
}

int cfi_new(Cfi **cfip, int fd, uint32_t max_functions, LayoutCfi which) {
        _cleanup_(cfi_freep) Cfi *cfi = allocate();
        int r;

        if (!cfi)
                return error_origin(-ENOMEM);
        r = reader_init_file(&cfi->entries, fd);
        if (!r)
                r = reader_init_file(&cfi->cies, fd);
        if (!r)
                r = reader_init_file(&cfi->table, fd);
        if (r)
                return error_fold(r);
        r = start(cfi, max_functions, which);
        if (r)
                return r;
        *cfip = take(cfi);
        return 0;
}

int cfi_new_memory(Cfi **cfip, const void *data, size_t size, uint32_t max_functions, LayoutCfi which) {
        _cleanup_(cfi_freep) Cfi *cfi = allocate();
        int r;

        if (!cfi)
                return error_origin(-ENOMEM);
        reader_init_memory(&cfi->entries, data, size);
        reader_init_memory(&cfi->cies, data, size);
        reader_init_memory(&cfi->table, data, size);
        r = start(cfi, max_functions, which);
        if (r)
                return r;
        *cfip = take(cfi);
        return 0;
}

static int read_fde(Cfi *cfi, uint64_t address, uint64_t offset, Fde *fde, uint64_t *sizep) {
        Entry entry;
        int r = entry_read(&entry, &cfi->entries, &cfi->layout.section, offset);

        if (r == ENTRY_E_END || (!r && entry.is_cie))
                return CFI_PROBLEM_MISMATCH;
        if (r)
                return r;
        *sizep = entry.size;
        r = fde_read(fde, &cfi->entries, &cfi->cache, &entry);
        if (r)
                return r;
        if (fde->start != address)
                return CFI_PROBLEM_MISMATCH;
        if (fde->start < cfi->layout.text_low || fde->end > cfi->layout.text_high)
                return CFI_PROBLEM_RANGE;
        return 0;
}

/* Cuts a function where the next one begins: of two that overlap, the second is right from its start. */
static void cut(Cfi *cfi, CfiFunction *function) {
        uint64_t next, offset;

        if (order_get(&cfi->order, cfi->at, &next, &offset) && next >= function->start &&
            next < function->end) {
                function->end = next;
                cfi->counts.n_overlaps++;
        }
        while (function->n_rows > 0 && function->rows[function->n_rows - 1].address >= function->end)
                function->n_rows--;
}

/* Return: 0 and a function, or a problem that has cost it. */
static int read_function(Cfi *cfi, uint64_t address, uint64_t offset, CfiFunction *function,
                         uint64_t *sizep) {
        Fde fde;
        int r;

        cfi->counts.n_entries++;
        r = read_fde(cfi, address, offset, &fde, sizep);
        if (r)
                return r;
        *function = (CfiFunction){ .start = fde.start, .end = fde.end, .rows = cfi->list.rows };
        r = program_run(&fde, &cfi->list, &cfi->counts);
        if (r) {
                cfi->counts.problems[r]++;
        } else {
                if (cfi->list.may_land)
                        landing_amend(&cfi->list, &cfi->layout, &cfi->table);
                function->n_rows = cfi->list.n;
        }
        cfi->counts.n_rows += function->n_rows;
        cut(cfi, function);
        return 0;
}

int cfi_next(Cfi *cfi, uint64_t *budgetp, CfiFunction *functionp) {
        uint64_t address, offset;
        int r = order_prepare(&cfi->order, budgetp);

        if (r == ORDER_E_AGAIN)
                return CFI_E_AGAIN;
        if (r)
                return error_fold(r);
        while (*budgetp > 0) {
                uint64_t size = 0;

                if (!order_get(&cfi->order, cfi->at, &address, &offset))
                        return CFI_E_END;
                cfi->at++;
                r = read_function(cfi, address, offset, functionp, &size);
                *budgetp -= MIN(*budgetp, size + COST_FUNCTION);
                if (r)
                        cfi->counts.problems[r]++;
                if (r || functionp->start < cfi->last || functionp->end == functionp->start)
                        continue;
                cfi->last = functionp->end;
                return 0;
        }
        return CFI_E_AGAIN;
}

const Layout *cfi_layout(const Cfi *cfi) {
        return &cfi->layout;
}

const CfiCounts *cfi_counts(const Cfi *cfi) {
        return &cfi->counts;
}
