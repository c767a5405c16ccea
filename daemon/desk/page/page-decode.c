/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads table by table, and checks each number against the size of the table that it points into before
 * anything uses it.
 */

#include "desk/page/page-decode.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"

#define MAGIC "spanprof page 2\n"
#define MAGIC_WITHOUT_LINES "spanprof page 1\n"
#define MAGIC_NAME_SIZE (sizeof(MAGIC) - sizeof("2\n"))          /* without the number of the form */
#define DATA_BEGIN "<script type=\"application/octet-stream\" id=\"data\">"
#define DATA_END "</script>"

/* Both are far more than pages have: no sum overflows, and no table takes more than some hundred MiB. */
enum { MAX_BUCKETS = 1 << 20, MAX_ROWS = 1 << 22 };

typedef struct Bytes {
        const uint8_t *at, *end;
        bool is_bad;
} Bytes;

static size_t left(const Bytes *bytes) {
        return (size_t)(bytes->end - bytes->at);
}

static uint64_t number(Bytes *bytes) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
                uint8_t byte = *bytes->at++;

                value |= (uint64_t)(byte & 0x7f) << shift;
                if (byte < 0x80)
                        return value;
        }
        bytes->is_bad = true;
        return 0;
}

/* A number that must be below @limit. */
static uint32_t index_below(Bytes *bytes, uint64_t limit) {
        uint64_t value = number(bytes);

        if (value < limit && value <= UINT32_MAX)
                return (uint32_t)value;
        bytes->is_bad = true;
        return 0;
}

/* A number of rows, each of which takes @least bytes or more of what is left. Pages have far fewer. */
static uint32_t count(Bytes *bytes, size_t least) {
        return index_below(bytes, MIN(left(bytes) / least, (uint64_t)MAX_ROWS) + 1);
}

static const uint8_t *skip(Bytes *bytes, uint64_t size) {
        const uint8_t *at = bytes->at;

        if (size > left(bytes)) {
                bytes->is_bad = true;
                return NULL;
        }
        bytes->at += size;
        return at;
}

/* Room for @n of @size bytes, zeroed. Return: 0, PAGE_DECODE_E_CORRUPT, -ENOMEM. */
static int table(Bytes *bytes, void *tablep, size_t n, size_t size) {
        void *rows;

        if (bytes->is_bad)
                return PAGE_DECODE_E_CORRUPT;
        rows = calloc(n + 1, size);
        if (!rows)
                return error_origin(-ENOMEM);
        memcpy(tablep, &rows, sizeof(rows));
        return 0;
}

static int end_of(const Bytes *bytes) {
        return bytes->is_bad ? PAGE_DECODE_E_CORRUPT : 0;
}

/* ---- what is no table ---- */

static const char *text_of(const cJSON *json, const char *key) {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));

        return text ? text : "";
}

static int read_kinds(DecodedPage *page, const cJSON *json) {
        const cJSON *kinds = cJSON_GetObjectItemCaseSensitive(json, "kinds"), *kind;

        cJSON_ArrayForEach(kind, kinds) {
                if (page->n_kinds == PAGE_MAX_KINDS)
                        return PAGE_DECODE_E_CORRUPT;
                page->kinds[page->n_kinds++] = (DecodedKind){
                        .type = text_of(kind, "type"),
                        .unit = text_of(kind, "unit"),
                        .period_type = text_of(kind, "periodType"),
                        .period_unit = text_of(kind, "periodUnit"),
                        .measured = cJSON_GetNumberValue(cJSON_GetArrayItem(
                                cJSON_GetObjectItemCaseSensitive(kind, "measured"), 0)),
                };
        }
        return page->n_kinds ? 0 : PAGE_DECODE_E_CORRUPT;
}

static int read_dimension_keys(DecodedPage *page, const cJSON *json) {
        const cJSON *keys = cJSON_GetObjectItemCaseSensitive(json, "dimensions"), *key;

        cJSON_ArrayForEach(key, keys) {
                const char *text = cJSON_GetStringValue(key);

                if (page->n_dimensions == PAGE_MAX_DIMENSIONS || !text)
                        return PAGE_DECODE_E_CORRUPT;
                page->dimensions[page->n_dimensions++].key = text;
        }
        return 0;
}

static int read_times(DecodedPage *page, const cJSON *json) {
        const cJSON *sides = cJSON_GetObjectItemCaseSensitive(json, "sides");
        double bucket = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "bucketNs"));

        if (cJSON_GetArraySize(sides) > 1)
                return PAGE_DECODE_E_COMPARISON;
        if (cJSON_GetArraySize(sides) < 1)
                return PAGE_DECODE_E_CORRUPT;
        if (bucket >= 1 && bucket < 1e18 &&
            !text_u64(text_of(cJSON_GetArrayItem(sides, 0), "startNs"), INT64_MAX, &page->start_ns))
                page->bucket_ns = (uint64_t)bucket;
        return 0;
}

static int read_json(DecodedPage *page, Bytes *bytes) {
        uint64_t size = number(bytes);
        const uint8_t *text = skip(bytes, size);
        int r;

        if (!text)
                return PAGE_DECODE_E_CORRUPT;
        page->json = cJSON_ParseWithLength((const char *)text, size);
        if (!cJSON_IsObject(page->json))
                return PAGE_DECODE_E_CORRUPT;
        r = read_kinds(page, page->json);
        r = r ? r : read_dimension_keys(page, page->json);
        return r ? r : read_times(page, page->json);
}

/* ---- tables ---- */

static int read_strings(DecodedPage *page, Bytes *bytes) {
        const char *at, *end;
        uint64_t size;
        int r;

        page->n_strings = count(bytes, 1);
        size = number(bytes);
        at = (const char *)skip(bytes, size);
        r = table(bytes, &page->strings, page->n_strings, sizeof(*page->strings));
        if (r)
                return r;
        end = at + size;
        for (uint32_t i = 0; i < page->n_strings; i++) {
                const char *nul = memchr(at, 0, (size_t)(end - at));

                if (!nul)
                        return PAGE_DECODE_E_CORRUPT;
                page->strings[i] = at;
                at = nul + 1;
        }
        return 0;
}

static int read_frames(DecodedPage *page, Bytes *bytes) {
        uint32_t n = count(bytes, 6);
        int r = table(bytes, &page->frames, n, sizeof(*page->frames));

        if (r)
                return r;
        page->n_frames = n;
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].name = index_below(bytes, page->n_strings);
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].object = index_below(bytes, page->n_strings);
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].file = index_below(bytes, page->n_strings);
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].type = index_below(bytes, page->n_strings);
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].line = index_below(bytes, UINT32_MAX);
        for (uint32_t i = 0; i < n; i++)
                page->frames[i].inlined = index_below(bytes, 2);
        return end_of(bytes);
}

/* Parents by depth: `up` says how many of the open nodes end before this one. */
static int read_parents(DecodedPage *page, Bytes *bytes, uint32_t n) {
        _cleanup_(freep) uint32_t *open = calloc(n + 1u, sizeof(*open));
        uint32_t depth = 0;             /* depth of the node before */

        if (!open)
                return error_origin(-ENOMEM);
        for (uint32_t i = 1; i <= n; i++) {
                uint32_t up = index_below(bytes, (uint64_t)depth + 1);

                depth -= up;
                page->nodes[i].parent = open[depth];
                open[++depth] = i;
        }
        return end_of(bytes);
}

/*
 * Functions of nodes: a node is its caller's first, second … callee, in the order in which the walk met them.
 */
typedef struct Callees {
        Hashmap frames;                 /* caller << 32 | which of its callees → frame + 1, as a pointer */
        uint32_t *counts;               /* by caller; the root is behind all frames */
        uint32_t n_fresh;               /* callees that are still to come */
} Callees;

static int read_callee(DecodedPage *page, Callees *callees, uint32_t node, uint32_t which, Bytes *fresh) {
        uint32_t parent = page->nodes[node].parent;
        uint64_t caller = parent ? page->nodes[parent].frame : page->n_frames;
        uint32_t *frame = &page->nodes[node].frame;

        if (which) {
                if (which > callees->counts[caller])
                        return PAGE_DECODE_E_CORRUPT;
                *frame = (uint32_t)((uintptr_t)hashmap_get(&callees->frames, caller << 32 | which) - 1);
                return 0;
        }
        if (!callees->n_fresh--)
                return PAGE_DECODE_E_CORRUPT;
        *frame = index_below(fresh, page->n_frames);
        return error_fold(hashmap_put(&callees->frames, caller << 32 | ++callees->counts[caller],
                                      (void *)((uintptr_t)*frame + 1)));
}

static int read_callees(DecodedPage *page, Bytes *bytes, uint32_t n) {
        Callees callees = { .counts = calloc(page->n_frames + 1u, sizeof(*callees.counts)) };
        _cleanup_(freep) uint32_t *which = calloc(n + 1u, sizeof(*which));
        int r = which && callees.counts ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < n && !r; i++)
                which[i] = index_below(bytes, UINT32_MAX);
        callees.n_fresh = count(bytes, 1);
        for (uint32_t i = 0; i < n && !r; i++)
                r = read_callee(page, &callees, i + 1, which[i], bytes);
        if (!r && callees.n_fresh)
                r = PAGE_DECODE_E_CORRUPT;
        hashmap_deinit(&callees.frames);
        free(callees.counts);
        return r ? r : end_of(bytes);
}

static int read_nodes(DecodedPage *page, Bytes *bytes) {
        uint32_t n = count(bytes, 2);
        int r = table(bytes, &page->nodes, n, sizeof(*page->nodes));

        if (r)
                return r;
        page->n_nodes = n + 1;
        r = read_parents(page, bytes, n);
        return r ? r : read_callees(page, bytes, n);
}

static int read_dimension(DecodedPage *page, DecodedDimension *dimension, Bytes *bytes) {
        bool is_span = !strcmp(dimension->key, "span");
        uint32_t n;
        int r;

        /* values `none` and `others` have no bytes there */
        n = is_span ? index_below(bytes, MIN(left(bytes) / sizeof(WindowLink), (size_t)MAX_ROWS) + 3)
                    : count(bytes, 1);
        if (is_span) {
                dimension->spans = skip(bytes, n > 2 ? (uint64_t)(n - 2) * sizeof(WindowLink) : 0);
        } else {
                r = table(bytes, &dimension->labels, n, sizeof(*dimension->labels));
                if (r)
                        return r;
                for (uint32_t i = 0; i < n; i++)
                        dimension->labels[i] = index_below(bytes, page->n_strings);
        }
        dimension->n_values = n;
        return n ? end_of(bytes) : PAGE_DECODE_E_CORRUPT;
}

static int read_contexts(DecodedPage *page, Bytes *bytes) {
        uint32_t n = count(bytes, 3 + page->n_dimensions);
        int r = table(bytes, &page->contexts, n, sizeof(*page->contexts));

        if (r)
                return r;
        page->n_contexts = n;
        for (uint32_t i = 0; i < n; i++)
                page->contexts[i].kind = index_below(bytes, page->n_kinds);
        for (uint32_t i = 0; i < n; i++)
                index_below(bytes, 1);  /* the side */
        for (uint32_t i = 0; i < n; i++)
                page->contexts[i].first = index_below(bytes, MAX_BUCKETS + 1);
        for (uint32_t j = 0; j < page->n_dimensions; j++)
                for (uint32_t i = 0; i < n; i++)
                        page->contexts[i].values[j] = index_below(bytes, page->dimensions[j].n_values);
        return end_of(bytes);
}

static int read_lines(DecodedPage *page, Bytes *bytes) {
        uint32_t n = count(bytes, 2);
        int r = table(bytes, &page->lines, n, sizeof(*page->lines));

        if (r)
                return r;
        page->n_lines = n + 1;
        for (uint32_t i = 1; i <= n; i++)
                page->lines[i].outer = i - 1 - index_below(bytes, i);
        for (uint32_t i = 1; i <= n; i++)
                page->lines[i].line = index_below(bytes, UINT32_MAX);
        return end_of(bytes);
}

static void read_row_places(DecodedPage *page, Bytes *bytes) {
        uint64_t node = 0, context = 0;

        for (size_t i = 0; i < page->n_rows; i++) {
                node += index_below(bytes, page->n_nodes - node);
                page->rows[i].node = (uint32_t)node;
        }
        for (size_t i = 0; i < page->n_rows; i++) {
                bool same = i && page->rows[i].node == page->rows[i - 1].node;

                context = same ? context : 0;
                context += index_below(bytes, page->n_contexts - context);
                page->rows[i].context = (uint32_t)context;
        }
}

static void read_row_times(DecodedPage *page, Bytes *bytes) {
        uint64_t distance = 0;

        for (size_t i = 0; i < page->n_rows; i++) {
                PageRow *row = &page->rows[i];
                bool same = i && row->node == row[-1].node && row->context == row[-1].context;

                distance = same ? distance : 0;
                distance += index_below(bytes, MAX_BUCKETS + 1 - distance);
                row->bucket = distance ? page->contexts[row->context].first + (uint32_t)distance - 1 : 0;
        }
}

/* Lines belong to the steps of a path: the path has as many steps or more. */
static int check_lines(const DecodedPage *page) {
        _cleanup_(freep) uint32_t *steps = calloc(page->n_nodes, sizeof(*steps)),
                                  *depths = calloc(page->n_lines + 1u, sizeof(*depths));

        if (!steps || !depths)
                return error_origin(-ENOMEM);
        for (uint32_t i = 1; i < page->n_nodes; i++)
                steps[i] = steps[page->nodes[i].parent] + 1;
        for (uint32_t i = 1; i < page->n_lines; i++)
                depths[i] = depths[page->lines[i].outer] + 1;
        for (size_t i = 0; i < page->n_rows; i++)
                if (depths[page->rows[i].lines] > steps[page->rows[i].node])
                        return PAGE_DECODE_E_CORRUPT;
        return 0;
}

static int read_rows(DecodedPage *page, Bytes *bytes) {
        uint32_t n = count(bytes, 4);
        int r = table(bytes, &page->rows, n, sizeof(*page->rows));

        if (r)
                return r;
        page->n_rows = n;
        if (n && !page->n_contexts)
                return PAGE_DECODE_E_CORRUPT;
        read_row_places(page, bytes);
        if (bytes->is_bad)              /* places are in their tables only if not */
                return PAGE_DECODE_E_CORRUPT;
        read_row_times(page, bytes);
        for (uint32_t i = 0; i < n; i++)
                page->rows[i].value = number(bytes);
        for (uint32_t i = 0; i < n && page->n_lines > 1; i++)
                page->rows[i].lines = index_below(bytes, page->n_lines);
        return bytes->at == bytes->end && !bytes->is_bad ? check_lines(page) : PAGE_DECODE_E_CORRUPT;
}

int page_decode(DecodedPage *page, const uint8_t *data, size_t size) {
        Bytes bytes = { data, data + size };
        const uint8_t *magic;
        bool with_lines;
        int r;

        *page = (DecodedPage){ 0 };
        magic = skip(&bytes, strlen(MAGIC));
        with_lines = magic && !memcmp(magic, MAGIC, strlen(MAGIC));
        if (!with_lines && (!magic || memcmp(magic, MAGIC_WITHOUT_LINES, strlen(MAGIC))))
                return magic && !memcmp(magic, MAGIC, MAGIC_NAME_SIZE) ? PAGE_DECODE_E_VERSION
                                                                       : PAGE_DECODE_E_CORRUPT;
        r = read_json(page, &bytes);
        r = r ? r : read_strings(page, &bytes);
        r = r ? r : read_frames(page, &bytes);
        r = r ? r : read_nodes(page, &bytes);
        for (uint32_t i = 0; i < page->n_dimensions && !r; i++)
                r = read_dimension(page, &page->dimensions[i], &bytes);
        r = r ? r : read_contexts(page, &bytes);
        if (!r && with_lines)
                r = read_lines(page, &bytes);
        return r ? r : read_rows(page, &bytes);
}

void page_decode_deinit(DecodedPage *page) {
        cJSON_Delete(page->json);
        for (uint32_t i = 0; i < page->n_dimensions; i++)
                free(page->dimensions[i].labels);
        free(page->strings);
        free(page->frames);
        free(page->nodes);
        free(page->contexts);
        free(page->lines);
        free(page->rows);
        *page = (DecodedPage){ 0 };
}

bool page_find_data(const char *html, size_t size, const char **textp, size_t *text_sizep) {
        const char *begin = memmem(html, size, DATA_BEGIN, strlen(DATA_BEGIN)), *end;

        if (!begin)
                return false;
        begin += strlen(DATA_BEGIN);
        end = memmem(begin, size - (size_t)(begin - html), DATA_END, strlen(DATA_END));
        *textp = begin;
        *text_sizep = end ? (size_t)(end - begin) : 0;
        return end;
}
