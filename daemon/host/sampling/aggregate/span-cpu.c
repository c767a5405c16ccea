/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps rows by service and operation, and time by span until the window closes: the operation of a span may
 * be known late, and change. A row that was given too much has a debt, which later times pay.
 *
 * All processes share the tables. Once one of these is three quarters full, a control group that has more of
 * it than is left adds no more there. Services and rows stay, so each is held against the group that brought
 * it. Spans and ticks go with their window: they are counted by program, and by group once they are so many.
 *
 * Threads with a count stay while there is room. Once their table is half full, it begins again with each
 * window, and those of the window before are moved as they are met. A count may be too high for one tick
 * (hotspot_bytes.bpf.h): a lower one behind it adds nothing until it is reached again, so the sum is right.
 */

#include "host/sampling/aggregate/span-cpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/profile/operation.h"
#include "host/sampling/aggregate/service-name.h"
#include "host/sampling/context/goroutine-labels.h"

enum {
        MAX_ROWS = SPAN_CPU_MAX_ROWS + SPAN_CPU_MAX_SERVICES,   /* with the rows that stand for others */
        MAX_PROGRAMS = 1 << 14,         /* programs known by number; others are looked up each time */
        FEW = 16,                       /* a program with less is not read: that takes 50 µs */
        MAX_TEXT = 255,                 /* bytes of a service or an operation; the rest is cut */
        NO_ROW = UINT32_MAX,
        MAX_FALL = 64 << 20,            /* bytes: more than a TLAB has */
};

typedef enum Table {
        SERVICES,
        ROWS,
        N_LASTING,                      /* the others end with their window */
        SPANS = N_LASTING,
        TICKS,
        THREADS,
        N_TABLES,
} Table;

static const struct {
        uint32_t max;
        const char *text;               /* for people */
} tables[N_TABLES] = {
        [SERVICES] = { SPAN_CPU_MAX_SERVICES - 1, "services by CPU time of their spans" },
        [ROWS] = { SPAN_CPU_MAX_ROWS, "operations by CPU time of their spans" },
        [SPANS] = { SPAN_CPU_MAX_SPANS, "spans by CPU time" },
        [TICKS] = { SPAN_CPU_MAX_TICKS, "ticks that split the time of spans" },
        [THREADS] = { SPAN_CPU_MAX_THREADS, "threads by what they have allocated" },
};

/* A program in this window. */
typedef struct Known {
        uint32_t service;
        uint32_t pid;
        uint64_t start_time_ns;
        ShareOwner owner;               /* group 0 = not read yet */
        uint32_t n[N_TABLES];           /* items of tables that were not crowded yet */
} Known;

typedef struct Row {
        uint32_t service;
        uint64_t ns;
        uint64_t debt_ns;               /* held back from the next time */
        SpanCpuExemplar exemplar, next; /* the shown one; the largest of this window */
} Row;

typedef struct Service {
        uint64_t outside_ns, debt_ns, split_ns;
        uint64_t n_ticks;               /* ticks of this window, in split runs */
} Service;

typedef struct SpanKey {
        uint64_t generation;
        struct abi_span span;
} SpanKey;

typedef struct Span {
        uint32_t service;
        uint32_t row;                   /* NO_ROW: the operation is not known yet */
        uint64_t held_ns;               /* time of this window: its row may change until that ends */
        bool is_moved;                  /* the newer table has it */
} Span;

typedef struct Spans {
        Intern keys;                    /* SpanKey → number */
        Span *of;                       /* by number; SPAN_CPU_MAX_SPANS */
} Spans;

typedef struct Tick {
        uint64_t generation;
        struct abi_span span;           /* zero = none */
        uint32_t service, n;
} Tick;

typedef struct ThreadKey {
        uint64_t generation, tid;
} ThreadKey;

/* A thread at its last tick that had a count. */
typedef struct Thread {
        uint64_t count;
        struct abi_span span;           /* zero = none */
        bool is_carrier;
} Thread;

typedef struct Threads {
        Intern keys;                    /* ThreadKey → number */
        Thread *of;                     /* by number; SPAN_CPU_MAX_THREADS, NULL = none had a count yet */
} Threads;

struct SpanCpu {
        const char *key;                /* key of operations; NULL = all of operation.h, "" = none */
        Intern programs;                /* generation and context → number, of this window */
        Known *known;                   /* programs by number; MAX_PROGRAMS, and all others as one */
        Known *adding;                  /* the program that is being added; NULL = a window closes */
        Shares shares[N_TABLES];
        bool is_crowded[N_TABLES];      /* tables that end with their window */
        Intern names;                   /* names of services → number */
        Service services[SPAN_CPU_MAX_SERVICES];
        Intern operations;              /* service and operation → number of the row */
        Row *rows;                      /* MAX_ROWS */
        Spans spans[2];                 /* spans of this window, and of the one before */
        uint64_t context_serial;        /* the next two are of this process context */
        uint8_t ranks[256];             /* by index of a key: the highest names the operation; 0 = none */
        bool has_keys;
        Tick *ticks;                    /* SPAN_CPU_MAX_TICKS */
        uint32_t n_ticks;
        Threads threads[2];             /* met since the table began, and before */
};

int span_cpu_new(SpanCpu **cpup, const char *key) {
        _cleanup_(span_cpu_freep) SpanCpu *cpu = calloc(1, sizeof(*cpu));

        if (!cpu)
                return error_origin(-ENOMEM);
        cpu->key = key;
        intern_init(&cpu->programs, MAX_PROGRAMS);
        intern_init(&cpu->names, SPAN_CPU_MAX_SERVICES);
        intern_init(&cpu->operations, MAX_ROWS);
        cpu->known = calloc(MAX_PROGRAMS + 1, sizeof(*cpu->known));
        cpu->rows = calloc(MAX_ROWS, sizeof(*cpu->rows));
        cpu->ticks = calloc(SPAN_CPU_MAX_TICKS, sizeof(*cpu->ticks));
        if (!cpu->known || !cpu->rows || !cpu->ticks)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < ARRAY_SIZE(cpu->spans); i++) {
                intern_init(&cpu->spans[i].keys, SPAN_CPU_MAX_SPANS);
                cpu->spans[i].of = calloc(SPAN_CPU_MAX_SPANS, sizeof(*cpu->spans[i].of));
                if (!cpu->spans[i].of)
                        return error_origin(-ENOMEM);
        }
        for (size_t i = 0; i < ARRAY_SIZE(cpu->threads); i++)
                intern_init(&cpu->threads[i].keys, SPAN_CPU_MAX_THREADS);
        *cpup = take(cpu);
        return 0;
}

SpanCpu *span_cpu_free(SpanCpu *cpu) {
        if (!cpu)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(cpu->spans); i++) {
                intern_deinit(&cpu->spans[i].keys);
                free(cpu->spans[i].of);
        }
        for (size_t i = 0; i < ARRAY_SIZE(cpu->threads); i++) {
                intern_deinit(&cpu->threads[i].keys);
                free(cpu->threads[i].of);
        }
        intern_deinit(&cpu->programs);
        intern_deinit(&cpu->names);
        intern_deinit(&cpu->operations);
        for (size_t i = 0; i < ARRAY_SIZE(cpu->shares); i++)
                shares_deinit(&cpu->shares[i]);
        free(cpu->known);
        free(cpu->rows);
        free(cpu->ticks);
        free(cpu);
        return NULL;
}

/* ---- shares ---- */

/* *sharep is that of the program's process, which holds @n more. Return: 0, -ENOMEM. */
static int hold(SpanCpu *cpu, Known *known, Table table, uint32_t n, Share **sharep) {
        if (!known->owner.group)
                known->owner = identity_owner_of((pid_t)known->pid, known->start_time_ns);
        return error_fold(shares_hold(&cpu->shares[table], &known->owner, n, sharep));
}

/* Holds what was added while there was room for all. Return: 0, -ENOMEM. */
static int crowd(SpanCpu *cpu, Table table) {
        Share *share;
        int r = 0;

        if (cpu->is_crowded[table])
                return 0;
        cpu->is_crowded[table] = true;
        for (uint32_t i = 0; i < MAX_PROGRAMS + 1 && !r; i++)
                if (cpu->known[i].n[table] >= FEW)
                        r = hold(cpu, &cpu->known[i], table, cpu->known[i].n[table], &share);
        return r;
}

/* Whether the program that is being added may have one more in a table with @n items. Return: 0, -ENOMEM. */
static int may_add(SpanCpu *cpu, Table table, uint32_t n, bool *mayp) {
        const uint32_t max = tables[table].max;
        bool has_room = n < max / 4 * 3;
        Known *known = cpu->adding;
        Share *share;
        int r;

        *mayp = n < max;
        if (!known || n >= max)
                return 0;
        if (has_room && table >= N_LASTING) {
                known->n[table]++;
                return 0;
        }
        r = has_room || table < N_LASTING ? 0 : crowd(cpu, table);
        if (!r)
                r = hold(cpu, known, table, 1, &share);
        if (r || has_room || share_held_by_group(share) <= max - n)
                return r;
        *mayp = false;
        share_release(&cpu->shares[table], share, 1);
        shares_tell(&cpu->shares[table], tables[table].text, &known->owner, clock_monotonic_ns());
        return 0;
}

static void end_shares(SpanCpu *cpu) {
        for (Table table = N_LASTING; table < N_TABLES; table++) {
                shares_reset(&cpu->shares[table]);
                cpu->is_crowded[table] = false;
        }
        memset(cpu->known, 0, cpu->programs.n_items * sizeof(*cpu->known));
        cpu->known[MAX_PROGRAMS] = (Known){ 0 };
}

/* ---- services and rows ---- */

/* As UTF-8 with its NUL, which the tables keep. Return: bytes. */
static size_t text_of(char to[3 * MAX_TEXT + 1], const char *text, size_t size) {
        return text_repair_utf8(to, text, MIN(size, (size_t)MAX_TEXT)) + 1;
}

/* The last number is that of all further services. */
static int add_service(SpanCpu *cpu, const char *name, size_t size, uint32_t *servicep) {
        char text[3 * MAX_TEXT + 1];
        size_t text_size = text_of(text, name, size);
        bool may;
        int r;

        if (!intern_find(&cpu->names, text, text_size, servicep))
                return 0;
        r = may_add(cpu, SERVICES, cpu->names.n_items, &may);
        if (r)
                return r;
        if (!may) {
                stat_add(COUNTER_SPAN_CPU_SERVICES_OVER_CAP, 1);
                memcpy(text, SPAN_CPU_OVERFLOW, sizeof(SPAN_CPU_OVERFLOW));
                text_size = sizeof(SPAN_CPU_OVERFLOW);
        }
        r = intern_add(&cpu->names, text, text_size, servicep);
        return MIN(r, 0);
}

/* The program is being added from now on. */
static int service_of(SpanCpu *cpu, const Program *program, uint32_t *servicep) {
        const ProcessContext *context = program->publication->context;
        uint64_t key[2] = { program->process->generation, context ? context->serial : 0 };
        char unknown[SERVICE_NAME_MAX];
        const char *name;
        uint32_t number;
        size_t size;
        int r = intern_add(&cpu->programs, key, sizeof(key), &number);

        if (r < 0)
                return error_fold(r);
        if (r == INTERN_E_FULL)
                number = MAX_PROGRAMS;
        cpu->adding = &cpu->known[number];
        if (!r)
                *cpu->adding = (Known){ .pid = program->process->pid,
                                        .start_time_ns = program->process->start_time_ns };
        if (r != INTERN_E_FOUND) {
                name = service_name_of(context, program->process, unknown, &size);
                r = add_service(cpu, name, size, &cpu->adding->service);
        }
        *servicep = cpu->adding->service;
        return MIN(r, 0);
}

/* The row of an operation; of what stands for others, where there are too many. */
static int add_row(SpanCpu *cpu, uint32_t service, const char *operation, size_t size, uint32_t *rowp) {
        struct {
                uint32_t service;
                char text[3 * MAX_TEXT + 1];
        } key = { .service = service };
        size_t key_size = offsetof(__typeof__(key), text) + text_of(key.text, operation, size);
        bool may;
        int r;

        if (!intern_find(&cpu->operations, &key, key_size, rowp))
                return 0;
        r = may_add(cpu, ROWS, cpu->operations.n_items, &may);
        if (r)
                return r;
        if (!may) {
                stat_add(COUNTER_SPAN_CPU_ROWS_OVER_CAP, 1);
                memcpy(key.text, SPAN_CPU_OVERFLOW, sizeof(SPAN_CPU_OVERFLOW));
                key_size = offsetof(__typeof__(key), text) + sizeof(SPAN_CPU_OVERFLOW);
        }
        r = intern_add(&cpu->operations, &key, key_size, rowp);
        if (!r)
                cpu->rows[*rowp].service = service;
        return r == INTERN_E_FOUND ? 0 : error_fold(r);
}

/* Return: what is left of @ns once @debtp is paid. */
static uint64_t pay(uint64_t *debtp, uint64_t ns) {
        uint64_t paid_ns = MIN(*debtp, ns);

        *debtp -= paid_ns;
        return ns - paid_ns;
}

static void add_to_row(SpanCpu *cpu, uint32_t number, const struct abi_span *span, uint64_t ns) {
        Row *row = &cpu->rows[number];

        ns = pay(&row->debt_ns, ns);
        row->ns += ns;
        if (ns > row->next.ns)
                row->next = (SpanCpuExemplar){ *span, ns, clock_read_ns(CLOCK_REALTIME) };
}

static int add_unknown(SpanCpu *cpu, uint32_t service, const struct abi_span *span, uint64_t ns) {
        uint32_t row;
        int r = add_row(cpu, service, "", 0, &row);

        if (!r)
                add_to_row(cpu, row, span, ns);
        return r;
}

/* ---- spans ---- */

/* A span of the window before is known here too. Its time has waited long enough for an operation. */
static int move_span(SpanCpu *cpu, const SpanKey *key, Span *to) {
        Spans *before = &cpu->spans[1];
        uint64_t held_ns;
        uint32_t old;

        if (intern_find(&before->keys, key, sizeof(*key), &old))
                return 0;
        *to = before->of[old];
        before->of[old].is_moved = true;
        held_ns = to->held_ns;
        to->held_ns = 0;
        return held_ns ? add_unknown(cpu, to->service, &key->span, held_ns) : 0;
}

/* *spanp: NULL = there are too many. */
static int find_span(SpanCpu *cpu, uint32_t service, const SpanKey *key, Span **spanp) {
        Spans *now = &cpu->spans[0];
        uint32_t number;
        bool may;
        int r;

        *spanp = NULL;
        if (!intern_find(&now->keys, key, sizeof(*key), &number)) {
                *spanp = &now->of[number];
                return 0;
        }
        r = may_add(cpu, SPANS, now->keys.n_items, &may);
        if (!r && !may)
                stat_add(COUNTER_SPAN_CPU_SPANS_OVER_CAP, 1);
        if (r || !may)
                return r;
        r = intern_add(&now->keys, key, sizeof(*key), &number);
        if (r)
                return error_fold(r);
        *spanp = &now->of[number];
        **spanp = (Span){ .service = service, .row = NO_ROW };
        return move_span(cpu, key, *spanp);
}

static bool has_operations(const SpanCpu *cpu) {
        return !cpu->key || *cpu->key;
}

static int add_to_span(SpanCpu *cpu, uint32_t service, const SpanKey *key, uint64_t ns) {
        Span *span = NULL;
        int r = has_operations(cpu) ? find_span(cpu, service, key, &span) : 0;

        if (r)
                return r;
        if (!span)
                return add_unknown(cpu, service, &key->span, ns);
        span->held_ns += ns;
        return 0;
}

static int take_from_span(SpanCpu *cpu, uint32_t service, const SpanKey *key, uint64_t ns) {
        uint64_t held_ns;
        Span *span = NULL;
        uint32_t row;
        int r = has_operations(cpu) ? find_span(cpu, service, key, &span) : 0;

        if (r)
                return r;
        if (span) {
                held_ns = MIN(span->held_ns, ns);
                span->held_ns -= held_ns;
                ns -= held_ns;
        }
        row = span ? span->row : NO_ROW;
        if (row == NO_ROW)
                r = add_row(cpu, service, "", 0, &row);
        if (!r)
                cpu->rows[row].debt_ns += ns;
        return r;
}

/* ---- operations ---- */

static uint8_t rank_of(const SpanCpu *cpu, const char *key, size_t size) {
        if (!size)
                return 0;
        if (cpu->key)
                return strlen(cpu->key) == size && !memcmp(cpu->key, key, size);
        return (uint8_t)(OPERATION_N_KEYS - operation_key_place(key, size));
}

/* Return: whether threads of @context may write an operation. Its keys are looked at once. */
static bool has_keys(SpanCpu *cpu, const ProcessContext *context) {
        if (context->serial == cpu->context_serial)
                return cpu->has_keys;
        cpu->context_serial = context->serial;
        cpu->has_keys = false;
        memset(cpu->ranks, 0, sizeof(cpu->ranks));
        for (size_t i = 0; i < MIN(context->n_keys, sizeof(cpu->ranks)); i++) {
                cpu->ranks[i] = rank_of(cpu, (const char *)context->keys[i].data, context->keys[i].size);
                cpu->has_keys |= cpu->ranks[i];
        }
        return cpu->has_keys;
}

/*
 * The attribute of the best key. The last one with a key counts, as elsewhere (context-attributes.c). An
 * empty one says nothing.
 */
static const uint8_t *find_attribute(const SpanCpu *cpu, const Sample *sample) {
        const uint8_t *at = sample->attributes, *end = at + sample->header->attributes_size, *found = NULL;
        uint8_t best = 1;

        for (; end - at >= 2 && end - at - 2 >= at[1]; at += 2 + at[1])
                if (cpu->ranks[at[0]] >= best && at[1]) {
                        best = cpu->ranks[at[0]];
                        found = at;
                }
        return found;
}

/* The operation of the span @key is the @size bytes at @name. */
static int name_span(SpanCpu *cpu, const Program *program, const SpanKey *key, const uint8_t *name,
                     size_t size) {
        uint32_t service;
        Span *span;
        int r = service_of(cpu, program, &service);

        if (!r)
                r = find_span(cpu, service, key, &span);
        return r || !span ? r : add_row(cpu, service, (const char *)name, size, &span->row);
}

static int learn_by_labels(SpanCpu *cpu, const Program *program, const GoroutineContext *labels) {
        const SpanKey key = { program->process->generation, labels->span };
        GoroutineLabel label, found = { 0 };
        size_t at = GO_HEADER_SIZE;
        uint8_t best = 0;

        while (goroutine_labels_next(labels->attributes, labels->attributes_size, &at, &label)) {
                uint8_t rank = rank_of(cpu, (const char *)label.key, label.key_size);

                if (rank > best && label.value_size) {
                        best = rank;
                        found = label;
                }
        }
        return best ? name_span(cpu, program, &key, found.value, found.value_size) : 0;
}

static int learn(SpanCpu *cpu, const Program *program, const Sample *sample) {
        const struct abi_sample *header = sample->header;
        const ProcessContext *context = program->publication->context;
        const SpanKey key = { program->process->generation, header->span };
        const uint8_t *attribute;

        if (!context || !header->attributes_size || header->context != ABI_CONTEXT_PRESENT ||
            (header->form != ABI_FORM_THREAD && header->form != ABI_FORM_NODE) || !has_keys(cpu, context))
                return 0;
        attribute = find_attribute(cpu, sample);
        return attribute ? name_span(cpu, program, &key, attribute + 2, attribute[1]) : 0;
}

int span_cpu_add_name(SpanCpu *cpu, const Program *program, const struct abi_span *span, const char *name) {
        static const char attribute[] = "span.name";
        const SpanKey key = { program->process->generation, *span };

        if (!*name || !rank_of(cpu, attribute, sizeof(attribute) - 1))
                return 0;
        return name_span(cpu, program, &key, (const uint8_t *)name, strlen(name));
}

/* ---- runs ---- */

static bool is_none(const struct abi_span *span) {
        return !(span->trace_high | span->trace_low | span->span);
}

static int add_time(SpanCpu *cpu, uint32_t service, const SpanKey *key, uint64_t ns) {
        Service *outside = &cpu->services[service];

        if (!ns)
                return 0;
        if (!is_none(&key->span))
                return add_to_span(cpu, service, key, ns);
        outside->outside_ns += pay(&outside->debt_ns, ns);
        return 0;
}

static int take_time(SpanCpu *cpu, uint32_t service, const SpanKey *key, uint64_t ns) {
        if (!ns)
                return 0;
        if (!is_none(&key->span))
                return take_from_span(cpu, service, key, ns);
        cpu->services[service].debt_ns += ns;
        return 0;
}

/* A tick more or less of many changes the shares little, so those over the cap are left out. */
static int add_split_ticks(SpanCpu *cpu, uint32_t service, const SpanKey *key, uint32_t n) {
        bool may = false;
        int r = n ? may_add(cpu, TICKS, cpu->n_ticks, &may) : 0;

        if (!r && !may)
                stat_add(COUNTER_SPAN_CPU_TICKS_OVER_CAP, n);
        if (r || !may)
                return r;
        cpu->ticks[cpu->n_ticks++] = (Tick){ key->generation, key->span, service, n };
        cpu->services[service].n_ticks += n;
        return 0;
}

/* The span of @header, none if it has none, and the service of its program. */
static int find_owner(SpanCpu *cpu, const Program *program, const struct abi_sample *header, SpanKey *keyp,
                      uint32_t *servicep) {
        *keyp = (SpanKey){ .generation = program->process->generation };
        if (header->context == ABI_CONTEXT_PRESENT)
                keyp->span = header->span;
        return service_of(cpu, program, servicep);
}

int span_cpu_add(SpanCpu *cpu, const Program *program, const struct abi_sample *header,
                 const SpanCpuRuns *runs, uint64_t tick_ns) {
        uint32_t service;
        SpanKey key;
        int r = find_owner(cpu, program, header, &key, &service);

        if (r)
                return r;
        stat_add(is_none(&key.span) ? COUNTER_THREAD_CPU_OUTSIDE_NS : COUNTER_THREAD_CPU_SPAN_NS,
                 runs->whole_ns);
        stat_add(COUNTER_THREAD_CPU_SPLIT_NS, runs->split_ns);
        stat_add(COUNTER_SPAN_CPU_MOVED_TICKS, runs->n_inside);
        cpu->services[service].split_ns += runs->split_ns;
        r = add_split_ticks(cpu, service, &key, runs->n_split);
        if (!r)
                r = take_time(cpu, service, &key, runs->n_moved * tick_ns);
        if (!r)
                r = add_time(cpu, service, &key, runs->whole_ns);
        return r ? r : add_time(cpu, service, &key, runs->n_inside * tick_ns);
}

int span_cpu_add_sample(SpanCpu *cpu, const Program *program, const Sample *sample, uint64_t tick_ns) {
        struct abi_sample header = *sample->header;
        GoroutineContext labels;
        uint32_t service;
        SpanKey key;
        int r;

        if (header.form == ABI_FORM_GO || header.form == ABI_FORM_LABELS) {
                goroutine_context_read(sample->attributes, header.attributes_size, false, &labels);
                header.span = labels.span;
                header.context = labels.span.span ? ABI_CONTEXT_PRESENT : ABI_CONTEXT_NONE;
                r = labels.span.span ? learn_by_labels(cpu, program, &labels) : 0;
        } else
                r = learn(cpu, program, sample);
        if (!r && tick_ns)
                r = find_owner(cpu, program, &header, &key, &service);
        return r || !tick_ns ? r : add_time(cpu, service, &key, tick_ns);
}

/* ---- counts of threads ---- */

/* *threadp: NULL = there are too many. *is_newp: it has no count yet. */
static int find_thread(SpanCpu *cpu, const ThreadKey *key, Thread **threadp, bool *is_newp) {
        Threads *now = &cpu->threads[0], *before = &cpu->threads[1];
        uint32_t number, old;
        bool may;
        int r;

        *threadp = NULL;
        *is_newp = false;
        if (!now->of)
                now->of = calloc(SPAN_CPU_MAX_THREADS, sizeof(*now->of));
        if (!now->of)
                return error_origin(-ENOMEM);
        if (!intern_find(&now->keys, key, sizeof(*key), &number)) {
                *threadp = &now->of[number];
                return 0;
        }
        r = may_add(cpu, THREADS, now->keys.n_items, &may);
        if (!r && !may)
                stat_add(COUNTER_SPAN_CPU_THREADS_OVER_CAP, 1);
        if (r || !may)
                return r;
        r = intern_add(&now->keys, key, sizeof(*key), &number);
        if (r)
                return error_fold(r);
        *threadp = &now->of[number];
        *is_newp = intern_find(&before->keys, key, sizeof(*key), &old);
        if (!*is_newp)
                **threadp = before->of[old];
        return 0;
}

/* A thread that has allocated @bytes since its last tick meets a tick in the span of @key. */
static int share_bytes(SpanCpu *cpu, uint32_t service, const Thread *thread, const SpanKey *key,
                       uint64_t bytes) {
        const SpanKey before = { key->generation, thread->span };
        int r;

        if (!memcmp(&thread->span, &key->span, sizeof(key->span)) && !thread->is_carrier)
                return add_time(cpu, service, key, bytes);
        cpu->services[service].split_ns += bytes;
        r = add_time(cpu, service, &before, bytes / 2);
        return r ? r : add_time(cpu, service, key, bytes - bytes / 2);
}

bool span_cpu_has_count(const struct abi_sample *header) {
        bool is_tick = header->kind == ABI_KIND_CPU || header->kind >= ABI_KIND_FINE;

        return is_tick && !(header->value & ABI_VALUE_TICK) && abi_context_is_told(header->context);
}

int span_cpu_add_count(SpanCpu *cpu, const Program *program, const Sample *sample) {
        const struct abi_sample *header = sample->header;
        const ThreadKey which = { program->process->generation, header->tid };
        uint64_t count = header->value >> ABI_VALUE_BYTES_SHIFT;
        bool is_carrier = header->value & ABI_VALUE_IS_CARRIER, is_new;
        uint32_t service;
        Thread *thread;
        SpanKey key;
        int r = find_owner(cpu, program, header, &key, &service);
        if (!r)
                r = find_thread(cpu, &which, &thread, &is_new);
        if (r || !thread)
                return r;
        /* another thread has the id now: the count of one does not fall so far */
        if (!is_new && count < thread->count && thread->count - count > MAX_FALL) {
                stat_add(COUNTER_SPAN_BYTES_FALLS, 1);
                is_new = true;
        }
        if (is_new)
                *thread = (Thread){ .count = count };
        thread->is_carrier |= is_carrier;
        if (count > thread->count)
                r = share_bytes(cpu, service, thread, &key, count - thread->count);
        *thread = (Thread){ MAX(count, thread->count), key.span, is_carrier };
        return r;
}

/* Once they are many, those that are met no more are forgotten. */
static void forget_threads(SpanCpu *cpu) {
        Threads old = cpu->threads[1];

        if (cpu->threads[0].keys.n_items < SPAN_CPU_MAX_THREADS / 2)
                return;
        intern_reset(&old.keys);
        cpu->threads[1] = cpu->threads[0];
        cpu->threads[0] = old;
}

/* ---- windows ---- */

/* A span's last name in a window has all of its time in it. */
static void give_out(SpanCpu *cpu) {
        Spans *now = &cpu->spans[0];

        for (uint32_t i = 0; i < now->keys.n_items; i++) {
                Span *span = &now->of[i];
                SpanKey key;

                if (span->row == NO_ROW || !span->held_ns)
                        continue;
                memcpy(&key, intern_get(&now->keys, i)->data, sizeof(key));
                add_to_row(cpu, span->row, &key.span, span->held_ns);
                span->held_ns = 0;
        }
}

/* Ticks fall evenly on the time of all split runs. So each stands for the same share of it. */
static int share_out(SpanCpu *cpu) {
        int r = 0;

        for (uint32_t i = 0; i < cpu->n_ticks && !r; i++) {
                const Tick *tick = &cpu->ticks[i];
                Service *service = &cpu->services[tick->service];
                SpanKey key = { tick->generation, tick->span };
                uint64_t ns = (uint64_t)((unsigned __int128)service->split_ns * tick->n / service->n_ticks);

                service->split_ns -= ns;
                service->n_ticks -= tick->n;
                r = add_time(cpu, tick->service, &key, ns);
        }
        cpu->n_ticks = 0;
        return r;
}

/* Forgets spans that were not met for a window. */
static int forget_spans(SpanCpu *cpu) {
        Spans old = cpu->spans[1];
        int r = 0;

        for (uint32_t i = 0; i < old.keys.n_items && !r; i++) {
                const Span *span = &old.of[i];
                SpanKey key;

                memcpy(&key, intern_get(&old.keys, i)->data, sizeof(key));
                if (!span->is_moved && span->held_ns)
                        r = add_unknown(cpu, span->service, &key.span, span->held_ns);
        }
        intern_reset(&old.keys);
        cpu->spans[1] = cpu->spans[0];
        cpu->spans[0] = old;
        return r;
}

int span_cpu_rotate(SpanCpu *cpu) {
        int r;

        cpu->adding = NULL;
        r = share_out(cpu);
        give_out(cpu);
        if (!r)
                r = forget_spans(cpu);
        forget_threads(cpu);
        end_shares(cpu);
        intern_reset(&cpu->programs);
        for (uint32_t i = 0; i < cpu->operations.n_items; i++) {
                Row *row = &cpu->rows[i];

                if (row->next.ns)
                        row->exemplar = row->next;
                row->next = (SpanCpuExemplar){ 0 };
        }
        return r;
}

void span_cpu_each_row(const SpanCpu *cpu, void (*visit)(void *userdata, const SpanCpuRow *row),
                       void *userdata) {
        for (uint32_t i = 0; i < cpu->operations.n_items; i++) {
                const char *key = intern_get(&cpu->operations, i)->data;
                const Row *row = &cpu->rows[i];
                const SpanCpuRow shown = { .service = intern_get(&cpu->names, row->service)->data,
                                           .operation = key + sizeof(row->service),
                                           .ns = row->ns,
                                           .exemplar = &row->exemplar };

                visit(userdata, &shown);
        }
}

void span_cpu_each_service(const SpanCpu *cpu, void (*visit)(void *userdata, const SpanCpuService *service),
                           void *userdata) {
        for (uint32_t i = 0; i < cpu->names.n_items; i++) {
                const Service *service = &cpu->services[i];
                const SpanCpuService shown = { .name = intern_get(&cpu->names, i)->data,
                                               .outside_ns = service->outside_ns,
                                               .split_ns = service->split_ns };

                visit(userdata, &shown);
        }
}
