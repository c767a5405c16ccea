/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A model as bytes. Numbers are varints (7 bits a byte, the lowest first; the top bit says that more come); a
 * table is its number of rows and then its columns, one behind the other, since like numbers pack best side
 * by side. In this order:
 *
 *     "spanprof page 2\n"
 *     bytes, JSON                         what is no table: title, kinds, keys, times, facts, words
 *     n, bytes, texts                     strings, each ended by NUL
 *     n: name object file type line inlined           frames; strings by number
 *     n: up callee                        nodes in the order of a walk; up = by how much the depth of the
 *                                         node before exceeds that of the parent. Node 0 is the root, and is
 *                                         not written. callee: which one of the parent's function, since
 *                                         functions call few others: 1, 2, … = the first, second … that was
 *                                         seen in the walk, 0 = a new one
 *     n: frame                            of the new ones, in their order
 *     for each dimension: n, labels       strings; value 0 is none, 1 is "others". Spans: 24 bytes each from
 *                                         value 2 on
 *     n: kind side first, one for each dimension      contexts; first: the earliest bucket of the context's
 *                                                     rows
 *     n: outer line                       lines of paths, from number 1 on. outer: which lines are outside of
 *                                         these, counted back from the number before: 0 = that, 1 = the one
 *                                         before that …; the last is number 0, which has no line
 *     n: step, context, bucket, value     rows; step: from the node of the row before. Where it is 0, context
 *                                         is the difference to the row before. bucket: 0 = no time, else 1 +
 *                                         the distance from the context's first, which is short for spans;
 *                                         where step and context are 0, the difference to that of the row
 *                                         before
 *     lines                               of the rows, one more column; only where there are any
 *
 * Pages of version 1 have no lines: neither their table nor the column.
 *
 * tests/oracles/page_read.py reads it, and desk/page/data.js.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/page/page-encode.h"
#include "desk/report/glossary.h"

enum { MAX_VARINT = 10 };

typedef struct Bytes {
        uint8_t *data;
        size_t size, room;
        bool failed;
} Bytes;

static bool reserve(Bytes *bytes, size_t more) {
        if (!bytes->failed && bytes->room - bytes->size < more)
                bytes->failed = array_reserve(&bytes->data, &bytes->room, bytes->size + more, 4096);
        return !bytes->failed;
}

static void put_raw(Bytes *bytes, const void *data, size_t size) {
        if (!size || !reserve(bytes, size))
                return;
        memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
}

static void put(Bytes *bytes, uint64_t value) {
        if (!reserve(bytes, MAX_VARINT))
                return;
        for (; value >= 0x80; value >>= 7)
                bytes->data[bytes->size++] = (uint8_t)(value | 0x80);
        bytes->data[bytes->size++] = (uint8_t)value;
}

/* Parts of a page that are no tables */

/* Strings of the model are masked already; titles, facts and names of files are not. */
static void put_text(JsonWriter *json, const char *key, const char *value) {
        _cleanup_(text_deinit) Text shown = { 0 };

        text_append_masked(&shown, value);
        json_text(json, key, shown.data ? shown.data : "");
}

static void put_kinds(const PageModel *model, JsonWriter *json) {
        json_open(json, "kinds", '[');
        for (uint32_t i = 0; i < model->n_kinds; i++) {
                const PageKind *kind = &model->kinds[i];

                json_open(json, NULL, '{');
                json_number(json, "events", kind->n_events);
                put_text(json, "type", page_get_string(model, kind->type));
                put_text(json, "unit", page_get_string(model, kind->unit));
                put_text(json, "periodType", page_get_string(model, kind->period_type));
                put_text(json, "periodUnit", page_get_string(model, kind->period_unit));
                json_open(json, "measured", '[');
                json_decimal(json, NULL, kind->measured[0], 0);
                json_decimal(json, NULL, kind->measured[1], 0);
                json_close(json, ']');
                json_close(json, '}');
        }
        json_close(json, ']');
        json_number(json, "mainKind", page_main_kind(model));
}

static void put_side(const PageSide *side, const char *name, JsonWriter *json) {
        char start[24];

        json_open(json, NULL, '{');
        json_number(json, "timed", side->n_timed);
        put_text(json, "name", name);
        if (side->end_ns) {             /* as text: the numbers of scripts are exact up to 2^53 only */
                snprintf(start, sizeof(start), "%" PRIu64, side->start_ns);
                json_text(json, "startNs", start);
                json_number(json, "lengthNs", side->end_ns - side->start_ns);
        }
        json_number(json, "recordedNs", side->recorded_ns);
        json_close(json, '}');
}

static void put_sides(const PageModel *model, JsonWriter *json) {
        const PageOptions *options = model->options;
        const char *names[] = { options->baseline ? options->baseline : "before",
                                options->comparison ? options->comparison : "after" };

        json_number(json, "bucketNs", model->bucket_ns);
        json_open(json, "sides", '[');
        for (uint32_t i = 0; i < model->n_sides; i++)
                put_side(&model->sides[i], names[i], json);
        json_close(json, ']');
}

static void put_losses(const PageOptions *options, JsonWriter *json) {
        json_open(json, "losses", '[');
        for (size_t i = 0; i < options->n_losses; i++) {
                json_open(json, NULL, '[');
                json_text(json, NULL, options->losses[i].reason);
                json_number(json, NULL, options->losses[i].n_samples);
                json_close(json, ']');
        }
        json_close(json, ']');
}

static void put_facts(const PageOptions *options, JsonWriter *json) {
        json_open(json, "facts", '[');
        for (size_t i = 0; i < options->n_facts; i++) {
                json_open(json, NULL, '[');
                json_text(json, NULL, options->facts[i].name);
                put_text(json, NULL, options->facts[i].value);
                json_close(json, ']');
        }
        json_close(json, ']');
        if (isfinite(options->coverage) && options->coverage > 0)
                json_decimal(json, "coverage", options->coverage, 6);
        if (options->losses_known)
                put_losses(options, json);
}

/* Words for how stacks end: [reason, words]. */
static void put_ends(const PageModel *model, JsonWriter *json) {
        const PageDimension *ends = &model->dimensions[DIMENSION_END];

        json_open(json, "ends", '[');
        for (uint32_t i = 2; i < ends->values.n_items; i++) {
                const char *reason = page_get_string(model, ends->labels[i]), *words = glossary_end(reason);

                if (words == reason)
                        continue;
                json_open(json, NULL, '[');
                json_text(json, NULL, reason);
                json_text(json, NULL, words);
                json_close(json, ']');
        }
        json_close(json, ']');
}

/* Dimensions in which something has a value. */
static uint32_t used_dimensions(const PageModel *model, uint32_t used[static PAGE_MAX_DIMENSIONS]) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < model->n_dimensions; i++)
                if (model->dimensions[i].values.n_items > 2)
                        used[n++] = i;
        return n;
}

static int put_json(const PageModel *model, const uint32_t *used, uint32_t n_used, Bytes *bytes) {
        _cleanup_(text_deinit) Text text = { 0 }, title = { 0 };
        JsonWriter json = { .text = &text };
        int r = page_title(model, &title);

        json_open(&json, NULL, '{');
        json_text(&json, "version", SPANPROF_VERSION);
        put_text(&json, "title", title.data ? title.data : "");
        put_kinds(model, &json);
        put_sides(model, &json);
        put_facts(model->options, &json);
        put_ends(model, &json);
        if (model->lines_left_out)
                json_bool(&json, "linesLeftOut", true);
        json_open(&json, "dimensions", '[');
        for (uint32_t i = 0; i < n_used; i++)
                json_text(&json, NULL, page_get_string(model, model->dimensions[used[i]].key));
        json_close(&json, ']');
        json_close(&json, '}');
        if (text.failed && !r)
                r = error_origin(-ENOMEM);
        put(bytes, text.size);
        put_raw(bytes, text.data, text.size);
        return r;
}

/* Tables */

static void put_strings(const PageModel *model, Bytes *bytes) {
        size_t size = 0;

        for (uint32_t i = 0; i < model->strings.n_items; i++)
                size += intern_get(&model->strings, i)->size;
        put(bytes, model->strings.n_items);
        put(bytes, size);
        for (uint32_t i = 0; i < model->strings.n_items; i++)
                put_raw(bytes, intern_get(&model->strings, i)->data, intern_get(&model->strings, i)->size);
}

static void put_frames(const PageModel *model, Bytes *bytes) {
        static const size_t columns[] = { offsetof(PageFrame, name), offsetof(PageFrame, object),
                                          offsetof(PageFrame, file), offsetof(PageFrame, type),
                                          offsetof(PageFrame, line), offsetof(PageFrame, inlined) };

        put(bytes, model->frames.n_items);
        for (size_t column = 0; column < ARRAY_SIZE(columns); column++)
                for (uint32_t i = 0; i < model->frames.n_items; i++)
                        put(bytes,
                            *(const uint32_t *)((const uint8_t *)page_get_frame(model, i) + columns[column]));
}

static int put_depths(const PageModel *model, Bytes *bytes) {
        _cleanup_(freep) uint32_t *depths = calloc(model->n_nodes, sizeof(*depths));

        if (!depths)
                return error_origin(-ENOMEM);
        put(bytes, model->n_nodes - 1);
        for (uint32_t i = 1; i < model->n_nodes; i++) {
                uint32_t parent = model->nodes[i].parent;

                depths[i] = depths[parent] + 1;
                put(bytes, depths[i - 1] - depths[parent]);
        }
        return 0;
}

typedef struct Callees {
        Intern pairs;                   /* {caller, callee} */
        uint32_t *numbers;              /* by pair: which of the caller's it is, from 1 */
        uint32_t room;
        uint32_t *counts;               /* by caller; the root is behind all frames */
        Bytes fresh;
        uint32_t n_fresh;
} Callees;

static int new_callee(Callees *callees, uint32_t pair, uint32_t caller, uint32_t callee) {
        int r = array_reserve(&callees->numbers, &callees->room, (size_t)pair + 1, 1024);

        if (r)
                return r;
        callees->numbers[pair] = ++callees->counts[caller];
        callees->n_fresh++;
        put(&callees->fresh, callee);
        return 0;
}

static int put_callee(const PageModel *model, Callees *callees, const PageNode *node, Bytes *bytes) {
        uint32_t caller = node->parent ? model->nodes[node->parent].frame : model->frames.n_items;
        uint32_t key[] = { caller, node->frame }, pair;
        int r = intern_add(&callees->pairs, key, sizeof(key), &pair);

        if (r == INTERN_E_FOUND) {
                put(bytes, callees->numbers[pair]);
                return 0;
        }
        put(bytes, 0);
        return r ? error_fold(r) : new_callee(callees, pair, caller, node->frame);
}

static int put_nodes(const PageModel *model, Bytes *bytes) {
        Callees callees = { .counts = calloc(model->frames.n_items + 1u, sizeof(*callees.counts)) };
        int r = callees.counts ? put_depths(model, bytes) : error_origin(-ENOMEM);

        intern_init(&callees.pairs, UINT32_MAX / 4);
        for (uint32_t i = 1; i < model->n_nodes && !r; i++)
                r = put_callee(model, &callees, &model->nodes[i], bytes);
        put(bytes, callees.n_fresh);
        put_raw(bytes, callees.fresh.data, callees.fresh.size);
        bytes->failed |= callees.fresh.failed;
        intern_deinit(&callees.pairs);
        free(callees.numbers);
        free(callees.counts);
        free(callees.fresh.data);
        return r;
}

static void put_dimension(const PageModel *model, uint32_t number, Bytes *bytes) {
        const PageDimension *dimension = &model->dimensions[number];

        put(bytes, dimension->values.n_items);
        for (uint32_t i = 0; i < dimension->values.n_items; i++)
                if (number != DIMENSION_SPAN)
                        put(bytes, dimension->labels[i]);
                else if (i >= 2)
                        put_raw(bytes, intern_get(&dimension->values, i)->data, sizeof(WindowLink));
}

/* The earliest bucket with a time of each context; 0 for those without any. */
static int find_first(const PageModel *model, uint32_t **firstp) {
        uint32_t *first = calloc(model->contexts.n_items + 1u, sizeof(*first));

        if (!first)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < model->n_rows; i++) {
                const PageRow *row = &model->rows[i];

                if (row->bucket && (!first[row->context] || row->bucket < first[row->context]))
                        first[row->context] = row->bucket;
        }
        *firstp = first;
        return 0;
}

static void put_contexts(const PageModel *model, const uint32_t *used, uint32_t n_used, const uint32_t *first,
                         Bytes *bytes) {
        uint32_t n = model->contexts.n_items;

        put(bytes, n);
        for (uint32_t i = 0; i < n; i++)
                put(bytes, page_get_context(model, i)->kind);
        for (uint32_t i = 0; i < n; i++)
                put(bytes, page_get_context(model, i)->side);
        for (uint32_t i = 0; i < n; i++)
                put(bytes, first[i]);
        for (uint32_t j = 0; j < n_used; j++)
                for (uint32_t i = 0; i < n; i++)
                        put(bytes, page_get_context(model, i)->values[used[j]]);
}

static bool has_lines(const PageModel *model) {
        for (size_t i = 0; i < model->n_rows; i++)
                if (model->rows[i].lines)
                        return true;
        return false;
}

/* Return: how many there are, which is 0 if the rows have forgotten theirs. */
static uint32_t put_lines(const PageModel *model, Bytes *bytes) {
        uint32_t n = has_lines(model) ? model->lines.n_items - 1 : 0;

        put(bytes, n);
        for (uint32_t i = 1; i <= n; i++)
                put(bytes, i - 1 - page_get_lines(model, i)->outer);
        for (uint32_t i = 1; i <= n; i++)
                put(bytes, page_get_lines(model, i)->line);
        return n;
}

static uint32_t distance(const PageRow *row, const uint32_t *first) {
        return row->bucket ? row->bucket - first[row->context] + 1 : 0;
}

static void put_rows(const PageModel *model, const uint32_t *first, bool with_lines, Bytes *bytes) {
        const PageRow *row = model->rows, *end = row + model->n_rows;

        put(bytes, model->n_rows);
        for (const PageRow *p = row; p < end; p++)
                put(bytes, p->node - (p > row ? p[-1].node : 0));
        for (const PageRow *p = row; p < end; p++)
                put(bytes, p->context - (p > row && p[-1].node == p->node ? p[-1].context : 0));
        for (const PageRow *p = row; p < end; p++) {
                bool same = p > row && p[-1].node == p->node && p[-1].context == p->context;

                put(bytes, distance(p, first) - (same ? distance(p - 1, first) : 0));
        }
        for (const PageRow *p = row; p < end; p++)
                put(bytes, p->value);
        for (const PageRow *p = row; p < end && with_lines; p++)
                put(bytes, p->lines);
}

int page_encode(const PageModel *model, uint8_t **datap, size_t *sizep) {
        static const char magic[] = "spanprof page 2\n";
        _cleanup_(freep) uint32_t *first = NULL;
        uint32_t used[PAGE_MAX_DIMENSIONS], n_used = used_dimensions(model, used);
        Bytes bytes = { 0 };
        int r = find_first(model, &first);

        if (r)
                return error_fold(r);
        put_raw(&bytes, magic, sizeof(magic) - 1);
        r = put_json(model, used, n_used, &bytes);
        put_strings(model, &bytes);
        put_frames(model, &bytes);
        if (!r)
                r = put_nodes(model, &bytes);
        for (uint32_t i = 0; i < n_used; i++)
                put_dimension(model, used[i], &bytes);
        put_contexts(model, used, n_used, first, &bytes);
        put_rows(model, first, put_lines(model, &bytes), &bytes);
        if (!r && bytes.failed)
                r = error_origin(-ENOMEM);
        if (r) {
                free(bytes.data);
                return r;
        }
        *datap = bytes.data;
        *sizep = bytes.size;
        return 0;
}
