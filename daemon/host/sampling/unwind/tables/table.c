/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Merges two sources of functions by address and packs their rows step by step: call frame information, and
 * Go's table or what .debug_frame has beside .eh_frame. Gaps that both leave may be scanned.
 */

#include "host/sampling/unwind/tables/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "host/sampling/unwind/go/go-rows.h"
#include "host/sampling/unwind/scan/scan.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        GAP = 15,                       /* bytes of padding between functions that are not worth a row */
        /*
         * A larger gap that is not most of a file is code of a runtime (V8's builtins, more than a megabyte),
         * which keeps frame pointers. The kernels of OpenBLAS for one processor are 321 KiB.
         */
        MAX_GAP = 512 << 10,
        BYTES_A_STEP = 16,              /* bytes of a budget, which counts functions */
};

/* A source of functions in order of address. */
typedef struct Source {
        CfiFunction function;           /* the next one */
        bool is_there, is_over;
} Source;

struct TableBuilder {
        Cfi *cfi;                       /* NULL = none */
        Cfi *beside;                    /* .debug_frame beside .eh_frame, NULL = none */
        GoRows *go;                     /* NULL = not a program of Go; then there is no `beside` */
        Scan *scan;                     /* NULL = code without a description gets no rows */
        uint64_t left;                  /* bytes that may be scanned still */
        uint64_t n_passed;              /* bytes that were not scanned */
        Source first, second;           /* `cfi`; `go` or `beside` */
        uint64_t end;                   /* end of the last function; 0 = none yet */
        uint64_t n_overlaps;            /* functions of one source that were cut where the other's begin */
        Layout layout;
        Rows rows;
};

TableBuilder *table_builder_free(TableBuilder *builder) {
        if (!builder)
                return NULL;
        rows_deinit(&builder->rows);
        scan_free(builder->scan);
        go_rows_free(builder->go);
        cfi_free(builder->beside);
        cfi_free(builder->cfi);
        free(builder);
        return NULL;
}

/* The sources of one file: what cfi_new(), go_rows_new() and scan_new() have said and made. */
typedef struct Sources {
        int cfi_r, beside_r, go_r, scan_r;
        Cfi *cfi, *beside;
        GoRows *go;
        Scan *scan;
} Sources;

static void free_sources(const Sources *sources) {
        scan_free(sources->scan);
        go_rows_free(sources->go);
        cfi_free(sources->beside);
        cfi_free(sources->cfi);
}

/* Takes all over, of which not all may be NULL. */
static int new_builder(TableBuilder **builderp, const Sources *from, const TableLimits *limits) {
        _cleanup_(table_builder_freep) TableBuilder *builder = malloc(sizeof(*builder));
        int r;

        if (!builder) {
                free_sources(from);
                return error_origin(-ENOMEM);
        }
        memset(builder, 0, offsetof(TableBuilder, rows));
        builder->layout = from->cfi ? *cfi_layout(from->cfi)
                : from->go          ? *go_rows_layout(from->go)
                                    : *scan_layout(from->scan);
        builder->cfi = from->cfi;
        builder->beside = from->beside;
        builder->go = from->go;
        builder->scan = from->scan;
        builder->left = limits->max_scan;
        builder->first.is_over = !builder->cfi;
        builder->second.is_over = !builder->go && !builder->beside;
        r = rows_init(&builder->rows, builder->layout.text_low, builder->layout.text_high, limits->max_bytes);
        if (r == ROWS_E_TOO_LARGE)
                return TABLE_E_TOO_LARGE;
        if (r)
                return error_fold(r);
        *builderp = take(builder);
        return 0;
}

/* Takes the sources over. */
static int choose(TableBuilder **builderp, Sources *sources, const TableLimits *limits) {
        int r = sources->cfi_r, go_r = sources->go_r;
        int fatal = sources->scan_r < 0 ? sources->scan_r : go_r < 0 ? go_r : MIN(sources->beside_r, 0);

        if (fatal || (r && ((go_r && sources->scan_r) || r != CFI_E_NO_CFI))) {
                free_sources(sources);
                return fatal ? error_fold(fatal) : r;
        }
        /* Go's own .debug_frame knows less than its table. */
        if (sources->go && sources->cfi && cfi_layout(sources->cfi)->section.is_debug_frame)
                sources->cfi = cfi_free(sources->cfi);
        return new_builder(builderp, sources, limits);
}

static bool may_have_beside(const Sources *sources) {
        return sources->go_r == GO_ROWS_E_NONE && sources->cfi &&
                !cfi_layout(sources->cfi)->section.is_debug_frame;
}

int table_builder_new(TableBuilder **builderp, int fd, const TableLimits *limits) {
        Sources sources = { .go_r = GO_ROWS_E_NONE, .scan_r = SCAN_E_NONE };

        sources.cfi_r = cfi_new(&sources.cfi, fd, limits->max_functions, LAYOUT_CFI_FIRST);
        if (!sources.cfi_r || sources.cfi_r == CFI_E_NO_CFI)
                sources.go_r = go_rows_new(&sources.go, fd, limits->max_functions);
        if (may_have_beside(&sources))
                sources.beside_r = cfi_new(&sources.beside, fd, limits->max_functions, LAYOUT_CFI_BESIDE);
        if (sources.go_r == GO_ROWS_E_NONE && limits->max_scan)
                sources.scan_r = scan_new(&sources.scan, fd);
        return choose(builderp, &sources, limits);
}

int table_builder_new_memory(TableBuilder **builderp, const void *data, size_t size,
                             const TableLimits *limits) {
        Sources sources = { .go_r = GO_ROWS_E_NONE, .scan_r = SCAN_E_NONE };

        sources.cfi_r = cfi_new_memory(&sources.cfi, data, size, limits->max_functions, LAYOUT_CFI_FIRST);
        if (!sources.cfi_r || sources.cfi_r == CFI_E_NO_CFI)
                sources.go_r = go_rows_new_memory(&sources.go, data, size, limits->max_functions);
        if (may_have_beside(&sources))
                sources.beside_r = cfi_new_memory(&sources.beside, data, size, limits->max_functions,
                                                  LAYOUT_CFI_BESIDE);
        if (sources.go_r == GO_ROWS_E_NONE && limits->max_scan)
                sources.scan_r = scan_new_memory(&sources.scan, data, size);
        return choose(builderp, &sources, limits);
}

static int add_function(TableBuilder *builder, const CfiFunction *function) {
        int r = 0;

        if (builder->end && function->start - builder->end > GAP)
                r = rows_add(&builder->rows, builder->end, 0);
        if (!r && function->n_rows == 0)
                r = rows_add(&builder->rows, function->start, 0);
        for (uint32_t i = 0; !r && i < function->n_rows; i++)
                r = rows_add(&builder->rows, function->rows[i].address, function->rows[i].rule);
        builder->end = function->end;
        return r;
}

/* Rows for code between @start and @end that no source describes. Return: as add_function(). */
static int fill_gap(TableBuilder *builder, uint64_t start, uint64_t end, uint64_t *budgetp) {
        uint64_t text = builder->layout.text_high - builder->layout.text_low;
        CfiFunction function;
        int r;

        if (!builder->scan || end <= start || end - start <= GAP)
                return 0;
        if ((end - start > MAX_GAP && end - start < text / 2) || end - start > SCAN_MAX_GAP ||
            end - start > builder->left) {
                builder->n_passed += end - start;
                return 0;
        }
        builder->left -= end - start;
        *budgetp -= MIN(*budgetp, (end - start) / BYTES_A_STEP);
        r = scan_gap(builder->scan, start, end);
        while (!r && scan_next(builder->scan, &function) == 0)
                r = add_function(builder, &function);
        return r;
}

static void add_counts(CfiCounts *counts, const CfiCounts *more) {
        counts->n_entries += more->n_entries;
        counts->n_rows += more->n_rows;
        counts->n_overlaps += more->n_overlaps;
        for (size_t i = 0; i < CFI_PROBLEM_N; i++)
                counts->problems[i] += more->problems[i];
        for (size_t i = 0; i < CFI_UNSUPPORTED_N; i++)
                counts->unsupported[i] += more->unsupported[i];
}

static int finish(TableBuilder *builder, Table *tablep) {
        Rows *rows = &builder->rows;
        int r = rows_finish(rows, builder->end);

        if (r)
                return r;
        *tablep = (Table){
                .data = take(rows->data),
                .size = (size_t)rows->n_blocks * UNWIND_BLOCK_SIZE,
                .text_low = builder->layout.text_low,
                .text_high = builder->layout.text_high,
                .n_rows = rows->n_rows,
                .counts = { .n_overlaps = builder->n_overlaps },
        };
        if (builder->cfi)
                add_counts(&tablep->counts, cfi_counts(builder->cfi));
        if (builder->beside)
                add_counts(&tablep->counts, cfi_counts(builder->beside));
        if (builder->go)
                add_counts(&tablep->counts, go_rows_counts(builder->go));
        if (builder->scan) {
                tablep->counts.n_derived = scan_n_bytes(builder->scan);
                tablep->counts.n_refused = scan_n_refused(builder->scan);
                tablep->counts.n_passed = builder->n_passed;
        }
        tablep->counts.unsupported[CFI_UNSUPPORTED_DENSE_PAGE] = rows->n_dense;
        return 0;
}

/* Return: 0, TABLE_E_AGAIN, -ENOMEM. */
static int fetch_cfi(Cfi *cfi, Source *source, uint64_t *budgetp) {
        int r;

        if (source->is_there || source->is_over)
                return 0;
        r = cfi_next(cfi, budgetp, &source->function);
        if (r == CFI_E_AGAIN)
                return TABLE_E_AGAIN;
        if (r && r != CFI_E_END)
                return error_fold(r);
        source->is_over = r == CFI_E_END;
        source->is_there = !r;
        return 0;
}

/* Fetches the next function of both sources. Return: 0, TABLE_E_AGAIN, -ENOMEM. */
static int fetch(TableBuilder *builder, uint64_t *budgetp) {
        Source *second = &builder->second;
        int r = *budgetp ? fetch_cfi(builder->cfi, &builder->first, budgetp) : TABLE_E_AGAIN;

        if (!r && builder->beside)
                r = fetch_cfi(builder->beside, second, budgetp);
        if (r)
                return r < 0 ? error_fold(r) : r;
        if (builder->go && !second->is_there && !second->is_over) {
                r = go_rows_next(builder->go, budgetp, &second->function);
                second->is_over = r == GO_ROWS_E_END;
                second->is_there = !r;
        }
        return 0;
}

/*
 * Whether a function of .debug_frame gets no row: .eh_frame has some of its code, or the linker has dropped
 * it, and left its start at 0, where the text begins.
 */
static bool is_known(const TableBuilder *builder, const CfiFunction *function) {
        return builder->beside && function == &builder->second.function &&
                (function->start < builder->end || !function->start);
}

/*
 * Takes the lower function, cut where the other begins; .debug_frame cuts nothing. Return: NULL = none is
 * left.
 */
static CfiFunction *take_lower(TableBuilder *builder) {
        Source *low = &builder->first, *high = &builder->second;
        CfiFunction *function;

        if (!low->is_there || (high->is_there && high->function.start < low->function.start)) {
                low = &builder->second;
                high = &builder->first;
        }
        if (!low->is_there)
                return NULL;
        low->is_there = false;
        function = &low->function;
        if (high->is_there && high->function.start < function->end &&
            (!builder->beside || high == &builder->first)) {
                function->end = high->function.start;
                builder->n_overlaps++;
        }
        while (function->n_rows > 0 && function->rows[function->n_rows - 1].address >= function->end)
                function->n_rows--;
        return function;
}

int table_builder_step(TableBuilder *builder, uint64_t budget, Table *tablep) {
        for (;;) {
                const CfiFunction *function;
                int r = fetch(builder, &budget);

                if (r)
                        return r < 0 ? error_fold(r) : r;
                function = take_lower(builder);
                if (function && is_known(builder, function))
                        continue;
                r = fill_gap(builder, builder->end ?: builder->layout.text_low,
                             function ? function->start : builder->layout.text_high, &budget);
                if (!r && !function && !builder->cfi && !builder->go && !scan_n_bytes(builder->scan))
                        return TABLE_E_NO_CFI;
                if (!r && !function)
                        r = finish(builder, tablep);
                else if (!r && function->end > function->start)
                        r = add_function(builder, function);
                if (r == ROWS_E_TOO_LARGE)
                        return TABLE_E_TOO_LARGE;
                if (r)
                        return error_fold(r);
                if (!function)
                        return 0;
        }
}

void table_deinit(Table *table) {
        free(table->data);
        *table = (Table){ 0 };
}

static uint64_t read_word(const Table *table, uint32_t block, uint32_t at) {
        uint64_t word;

        memcpy(&word, table->data + (size_t)block * UNWIND_BLOCK_SIZE + at, sizeof(word));
        return word;
}

uint64_t table_find(const Table *table, uint64_t address) {
        uint64_t offset = address - table->text_low, word;
        uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_SHIFT), block, n, low = 0;
        const uint8_t *record;

        if (address < table->text_low || address >= table->text_high)
                return 0;
        word = read_word(table, page >> UNWIND_DIRECTORY_SHIFT, page % (1 << UNWIND_DIRECTORY_SHIFT) * 8);
        block = unwind_word_block(word);
        n = unwind_word_rows(word);
        if (n == 0)
                return 0;
        record = table->data + (size_t)block * UNWIND_BLOCK_SIZE + unwind_word_offset(word);
        for (uint32_t left = n; left > 1; left -= left / 2) {
                uint16_t key;

                memcpy(&key, record + 2 * (low + left / 2), sizeof(key));
                if (key <= offset % UNWIND_PAGE_SIZE)
                        low += left / 2;
        }
        return read_word(table, block, UNWIND_BLOCK_SIZE - 8 * (record[2 * n + low] + 1U));
}
