/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Of a table, reads the names of the columns from the first line, then the two that are needed from each
 * other line. Of traces, keeps all spans first, and then goes from each one to the entry span of its process:
 *
 *     render (internal) ─▶ GET /cart/:id (server): its parent is another service ─▶ operation of both
 */

#include "desk/report/spans.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/otlp/traces.h"

struct SpanList {
        Intern operations;              /* with their NUL */
        Hashmap spans;                  /* span id → InternItem of the operation + 1 as a pointer */
};

typedef struct Field {
        const char *text;
        size_t size;
} Field;

typedef struct Lines {
        const char *at, *end;
        SpanListProblem *problem;       /* problem of the current line */
        Field fields[SPAN_LIST_MAX_COLUMNS];
        unsigned n_fields;
} Lines;

_printf_(2, 3) static int invalid(Lines *lines, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(lines->problem->text, sizeof(lines->problem->text), format, args);
        va_end(args);
        return SPAN_LIST_E_INVALID;
}

static int split(Lines *lines, const char *end) {
        lines->n_fields = 0;
        for (const char *at = lines->at;;) {
                const char *comma = memchr(at, ',', (size_t)(end - at));

                if (lines->n_fields == SPAN_LIST_MAX_COLUMNS)
                        return invalid(lines, "more than %d columns", SPAN_LIST_MAX_COLUMNS);
                lines->fields[lines->n_fields++] = (Field){ at, (size_t)((comma ? comma : end) - at) };
                if (!comma)
                        return 0;
                at = comma + 1;
        }
}

enum { LINES_E_END = SPAN_LIST_E_INVALID + 1 };

/* Return: 0 and the fields of the next line, LINES_E_END, SPAN_LIST_E_INVALID. */
static int next_line(Lines *lines) {
        const char *newline, *end;
        int r;

        if (lines->at == lines->end)
                return LINES_E_END;
        lines->problem->line++;
        newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
        end = newline ? newline : lines->end;
        if (end > lines->at && end[-1] == '\r')
                end--;
        r = split(lines, end);
        lines->at = newline ? newline + 1 : lines->end;
        return r;
}

static int find_column(Lines *lines, const char *name, unsigned *columnp) {
        for (unsigned i = 0; i < lines->n_fields; i++)
                if (lines->fields[i].size == strlen(name) &&
                    !memcmp(lines->fields[i].text, name, strlen(name))) {
                        *columnp = i;
                        return 0;
                }
        return invalid(lines, "no column `%s` in the first line", name);
}

static int parse_id(Lines *lines, const Field *field, uint64_t *idp) {
        if (field->size != 16 || text_hex(field->text, field->text + field->size, idp) || !*idp)
                return invalid(lines, "`%.*s` is no span id: 16 hexadecimal digits, not all 0",
                               (int)MIN(field->size, (size_t)32), field->text);
        return 0;
}

static int add_operation(SpanList *list, Lines *lines, const Field *field, uint32_t *indexp) {
        _cleanup_(freep) char *name = NULL;
        int r;

        if (!field->size || field->size > 1024 || !text_is_utf8(field->text, field->size))
                return invalid(lines, "the operation is empty, too long, or no text");
        name = strndup(field->text, field->size);
        if (!name)
                return error_origin(-ENOMEM);
        r = intern_add(&list->operations, name, field->size + 1, indexp);
        if (r == INTERN_E_FULL)
                return invalid(lines, "more than %d operations", SPAN_LIST_MAX_OPERATIONS);
        return r < 0 ? error_fold(r) : 0;
}

static int add_span(SpanList *list, Lines *lines, uint64_t id, uint32_t operation) {
        void *value = (void *)(uintptr_t)(operation + 1u), *old = hashmap_get(&list->spans, id);
        int r;

        if (old)
                return old == value ? 0 : invalid(lines, "span %016lx is in the list with another operation",
                                                  (unsigned long)id);
        if (list->spans.n_entries >= SPAN_LIST_MAX_SPANS)
                return invalid(lines, "more than %d spans", SPAN_LIST_MAX_SPANS);
        r = hashmap_put(&list->spans, id, value);
        return r ? error_fold(r) : 0;
}

static int parse_line(SpanList *list, Lines *lines, unsigned n_columns, unsigned id_column,
                      unsigned operation_column) {
        uint32_t operation;
        uint64_t id;
        int r;

        if (lines->n_fields != n_columns)
                return invalid(lines, "%u fields, the first line has %u: is the file cut off?",
                               lines->n_fields, n_columns);
        r = parse_id(lines, &lines->fields[id_column], &id);
        if (!r)
                r = add_operation(list, lines, &lines->fields[operation_column], &operation);
        return r ? r : add_span(list, lines, id, operation);
}

static int parse(SpanList *list, Lines *lines) {
        unsigned n_columns, id_column = 0, operation_column = 0;
        int r = next_line(lines);

        if (r == LINES_E_END) {
                lines->problem->line = 1;
                return invalid(lines, "the file is empty");
        }
        if (!r)
                r = find_column(lines, "span_id", &id_column);
        if (!r)
                r = find_column(lines, "operation", &operation_column);
        n_columns = lines->n_fields;
        while (!r) {
                r = next_line(lines);
                if (r == LINES_E_END)
                        return 0;
                if (!r)
                        r = parse_line(list, lines, n_columns, id_column, operation_column);
        }
        return r;
}

/* ---- traces in OTLP ---- */

enum { MAX_STEPS = 1000 };              /* from a span to the entry span of its process */

/* A span as its process exported it. */
typedef struct Exported {
        uint64_t parent, process;
        uint32_t operation;             /* if it is an entry span; NO_NAME = it has no name */
        bool is_entry, is_twice;        /* is_twice: another one has this id, and says something else */
} Exported;

#define NO_NAME UINT32_MAX

typedef struct Traces {
        SpanList *list;
        SpanListProblem *problem;
        Hashmap numbers;                /* span id → number + 1 as a pointer */
        Exported *spans;                /* by number; their ids beside them */
        uint64_t *ids;
        uint32_t n, spans_room, ids_room;
} Traces;

/* `GET` says nothing without its route. */
static bool is_method(const char *name) {
        size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

        return n && !name[n];
}

/* As the publishers of sdk/ name a span (sdk/src/name.c). Return: as asprintf(). */
static int make_name(const OtlpSpan *span, char **namep) {
        const char *name = span->name;

        if (*span->route && !strncmp(name, "HTTP ", 5) && is_method(name + 5))
                name += 5;
        if (*span->route && is_method(name))
                return asprintf(namep, "%s %s", name, span->route);
        return asprintf(namep, "%s", *name ? name : span->route);
}

static int number_name(Traces *traces, const OtlpSpan *span, uint32_t *operationp) {
        _cleanup_(freep) char *name = NULL;
        int r = make_name(span, &name);
        size_t size;

        if (r < 0)
                return error_origin(-ENOMEM);
        size = strlen(name);
        *operationp = NO_NAME;
        if (!size || size > 1024 || !text_is_utf8(name, size))
                return 0;
        r = intern_add(&traces->list->operations, name, size + 1, operationp);
        if (r == INTERN_E_FULL) {
                snprintf(traces->problem->text, sizeof(traces->problem->text), "more than %d operations",
                         SPAN_LIST_MAX_OPERATIONS);
                return SPAN_LIST_E_INVALID;
        }
        return r < 0 ? error_fold(r) : 0;
}

static int add_exported(Traces *traces, uint64_t id, const Exported *span) {
        int r = traces->n < SPAN_LIST_MAX_SPANS ? 0 : SPAN_LIST_E_INVALID;

        if (r) {
                snprintf(traces->problem->text, sizeof(traces->problem->text), "more than %d spans",
                         SPAN_LIST_MAX_SPANS);
                return r;
        }
        r = array_reserve(&traces->spans, &traces->spans_room, traces->n + 1u, 1024);
        if (!r)
                r = array_reserve(&traces->ids, &traces->ids_room, traces->n + 1u, 1024);
        if (!r)
                r = hashmap_put(&traces->numbers, id, (void *)(uintptr_t)(traces->n + 1u));
        if (r)
                return error_fold(r);
        traces->ids[traces->n] = id;
        traces->spans[traces->n++] = *span;
        return 0;
}

/* An exporter that tries again sends a span twice. */
static bool is_same(const Exported *a, const Exported *b) {
        return a->parent == b->parent && a->process == b->process && a->operation == b->operation &&
                a->is_entry == b->is_entry;
}

/* Names of all spans are numbered, though those of entry spans are shown alone: these are known later. */
static int take_span(void *userdata, const OtlpSpan *span) {
        Traces *traces = userdata;
        uintptr_t old = (uintptr_t)hashmap_get(&traces->numbers, span->id);
        Exported exported = { .parent = span->parent, .process = span->process, .is_entry = span->is_entry };
        int r = number_name(traces, span, &exported.operation);

        if (r)
                return r;
        if (!old)
                return add_exported(traces, span->id, &exported);
        if (!is_same(&traces->spans[old - 1], &exported))
                traces->spans[old - 1].is_twice = true;
        return 0;
}

/*
 * The span that the request began with in this process: a server's, or one without a parent, or with one of
 * another process. A parent that is not in the file may be of either kind. Return: NULL = it is not known.
 */
static const Exported *entry_of(const Traces *traces, const Exported *span) {
        for (int i = 0; i < MAX_STEPS && !span->is_twice; i++) {
                const Exported *parent;
                uintptr_t number;

                if (span->is_entry || !span->parent)
                        return span;
                number = (uintptr_t)hashmap_get(&traces->numbers, span->parent);
                if (!number)
                        return NULL;
                parent = &traces->spans[number - 1];
                if (parent->process != span->process)
                        return span;
                span = parent;
        }
        return NULL;
}

static int list_spans(Traces *traces) {
        int r = 0;

        for (uint32_t i = 0; i < traces->n && !r; i++) {
                const Exported *entry = entry_of(traces, &traces->spans[i]);

                if (entry && entry->operation != NO_NAME)
                        r = hashmap_put(&traces->list->spans, traces->ids[i],
                                        (void *)(uintptr_t)(entry->operation + 1u));
        }
        return error_fold(r);
}

static int parse_traces(SpanList *list, const char *data, size_t size, SpanListProblem *problem) {
        Traces traces = { .list = list, .problem = problem };
        int r = otlp_traces_read(data, size, take_span, &traces, &problem->line, problem->text,
                                 sizeof(problem->text));

        if (!r)
                r = list_spans(&traces);
        hashmap_deinit(&traces.numbers);
        free(traces.spans);
        free(traces.ids);
        return r;
}

int span_list_new(SpanList **listp, const char *data, size_t size, SpanListProblem *problem) {
        _cleanup_(span_list_freep) SpanList *list = calloc(1, sizeof(*list));
        Lines lines = { .at = data, .end = data + size, .problem = problem };
        int r;

        if (!list)
                return error_origin(-ENOMEM);
        intern_init(&list->operations, SPAN_LIST_MAX_OPERATIONS);
        *problem = (SpanListProblem){ 0 };
        r = otlp_traces_are(data, size) ? parse_traces(list, data, size, problem) : parse(list, &lines);
        if (r)
                return r;
        *listp = take(list);
        return 0;
}

SpanList *span_list_free(SpanList *list) {
        if (!list)
                return NULL;
        intern_deinit(&list->operations);
        hashmap_deinit(&list->spans);
        free(list);
        return NULL;
}

int span_list_find(const SpanList *list, const uint8_t span_id[static 8], uint32_t *operationp) {
        uint64_t id = 0;
        void *value;

        for (int i = 0; i < 8; i++)
                id = id << 8 | span_id[i];
        value = hashmap_get(&list->spans, id);
        if (!value)
                return 1;
        *operationp = (uint32_t)((uintptr_t)value - 1);
        return 0;
}

uint32_t span_list_n_operations(const SpanList *list) {
        return list->operations.n_items;
}

const char *span_list_operation(const SpanList *list, uint32_t operation) {
        return intern_get(&list->operations, operation)->data;
}

uint64_t span_list_n_spans(const SpanList *list) {
        return list->spans.n_entries;
}
