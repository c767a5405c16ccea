/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Spans go over the ends of windows, so a table of them is handed from window to window:
 *
 *     spans before ──┐
 *                    ├─▶ silent for a second ─▶ over by now: judged, then counted for its operation
 *     this window ───┘   others              ─▶ spans before the next window
 *
 * No span is judged while it has samples, so that what it did at its end is kept, too. The trace may go on:
 * when a span of a kept trace is over in a later window, what came since is asked for.
 *
 * What is usual: of each operation a histogram of lengths, in steps of an eighth of a power of two, halved
 * when it is large, so that it follows. The 99th percentile is the end of its step, which is too long by an
 * eighth at most: who is above it is so surely. Spans without a sample are in no histogram, as they are in no
 * profile.
 */

#include "host/service/recorder/recorder-rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/minute-limit.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/profile/operation.h"
#include "core/profile/span-reach.h"

#define SILENT_NS NS_PER_SEC
#define FIRST_STEP_NS (UINT64_C(1) << 20)

enum {
        STEPS = 8,                      /* steps of a power of two */
        BUCKETS = 1 + 16 * STEPS,       /* 1 ms to 69 s; what is longer is in the last */
        COUNTED = 1 << 16,              /* spans of an operation; then all its counts are halved */
        RECENT = 64,                    /* traces that were kept last */
        OPERATION_BYTES = 256,
        SERVICE_BYTES = 128,
};

typedef struct RuleSpan {
        WindowLink link;
        uint64_t first_ns, last_ns;     /* MONOTONIC */
        uint32_t operation;             /* number of the operation + 1; 0 = not known */
} RuleSpan;

typedef struct RuleUsual {
        uint32_t n, buckets[BUCKETS];
} RuleUsual;

/* Spans by their ids. */
typedef struct RuleTable {
        Intern ids;
        RuleSpan *spans;
} RuleTable;

/* A trace that was kept. */
typedef struct RuleTrace {
        uint8_t id[16];
        uint64_t until_ns;              /* MONOTONIC: end of the last window that was asked for */
        uint64_t from;                  /* number of the first request that was not */
        bool is_asked;                  /* in this window: `from` is the next one's first */
        const char *rule;
} RuleTrace;

struct RecorderRules {
        RuleTable tables[2];            /* spans before, and those that go on: changed each window */
        int before;
        Intern operations;
        RuleUsual *usual;
        bool is_full;                   /* an operation had no room */
        MinuteLimit renewals;
        RuleTrace recent[RECENT];
        uint32_t n_recent;
        MinuteLimit minute;
};

static int table_init(RuleTable *table) {
        intern_init(&table->ids, RECORDER_RULES_MAX_SPANS);
        table->spans = calloc(RECORDER_RULES_MAX_SPANS, sizeof(*table->spans));
        return table->spans ? 0 : error_origin(-ENOMEM);
}

int recorder_rules_new(RecorderRules **rulesp) {
        _cleanup_(recorder_rules_freep) RecorderRules *rules = calloc(1, sizeof(*rules));
        int r = rules ? table_init(&rules->tables[0]) : error_origin(-ENOMEM);

        if (!r)
                r = table_init(&rules->tables[1]);
        if (r)
                return r;
        intern_init(&rules->operations, RECORDER_RULES_MAX_OPERATIONS);
        rules->usual = calloc(RECORDER_RULES_MAX_OPERATIONS, sizeof(*rules->usual));
        if (!rules->usual)
                return error_origin(-ENOMEM);
        *rulesp = take(rules);
        return 0;
}

RecorderRules *recorder_rules_free(RecorderRules *rules) {
        if (!rules)
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(rules->tables); i++) {
                intern_deinit(&rules->tables[i].ids);
                free(rules->tables[i].spans);
        }
        intern_deinit(&rules->operations);
        free(rules->usual);
        free(rules);
        return NULL;
}

/* ---- what is usual ---- */

static uint32_t bucket_of(uint64_t ns) {
        uint32_t power, step;

        if (ns < FIRST_STEP_NS)
                return 0;
        power = 63u - (uint32_t)__builtin_clzll(ns);
        step = (uint32_t)((ns >> (power - 3)) & (STEPS - 1));
        return MIN((power - 20) * STEPS + step + 1, BUCKETS - 1u);
}

/* The end of bucket 0 is the first step's begin. */
static uint64_t end_of(uint32_t bucket) {
        uint32_t power = 20 + bucket / STEPS;

        return (UINT64_C(1) << power) + ((uint64_t)(bucket % STEPS) << (power - 3));
}

static void add_usual(RuleUsual *usual, uint64_t ns) {
        usual->buckets[bucket_of(ns)]++;
        if (++usual->n < COUNTED)
                return;
        usual->n = 0;
        for (uint32_t i = 0; i < BUCKETS; i++)
                usual->n += usual->buckets[i] /= 2;
}

/* UINT64_MAX = too few spans are known, or it is longer than can be told. */
static uint64_t usual_ns(const RuleUsual *usual) {
        uint64_t n = 0;

        if (usual->n < RECORDER_RULES_LEAST)
                return UINT64_MAX;
        for (uint32_t i = 0; i + 1 < BUCKETS; i++) {
                n += usual->buckets[i];
                if (100 * n >= 99 * (uint64_t)usual->n)
                        return end_of(i);
        }
        return UINT64_MAX;
}

/* ---- judging ---- */

typedef struct Judging {
        RecorderRules *rules;
        const RecorderLimits *limits;
        uint64_t now_ns;
        RecorderAsk *asks;
        size_t n_asks;
} Judging;

static const char *rule_of(const Judging *judging, const RuleSpan *span) {
        uint64_t ns = span->last_ns - span->first_ns, usual;

        if (judging->limits->slower_ns && ns > judging->limits->slower_ns)
                return "slower-than";
        if (!judging->limits->above_usual || !span->operation)
                return NULL;
        usual = usual_ns(&judging->rules->usual[span->operation - 1]);
        return usual < UINT64_MAX / judging->limits->above_usual && ns > usual * judging->limits->above_usual
                ? "above-usual"
                : NULL;
}

/* A trace has several long spans: those around another one. Return: NULL = none was long lately. */
static RuleTrace *find_trace(RecorderRules *rules, const uint8_t trace_id[static 16]) {
        for (uint32_t i = 0; i < MIN(rules->n_recent, (uint32_t)RECENT); i++)
                if (!memcmp(rules->recent[i].id, trace_id, 16))
                        return &rules->recent[i];
        return NULL;
}

static RuleTrace *add_trace(RecorderRules *rules, const uint8_t trace_id[static 16], const char *rule) {
        RuleTrace *trace = &rules->recent[rules->n_recent++ % RECENT];

        *trace = (RuleTrace){ .rule = rule };
        memcpy(trace->id, trace_id, 16);
        return trace;
}

/* Traces that were asked for in the window before have all of it. */
static void begin_window(RecorderRules *rules, uint64_t number) {
        for (uint32_t i = 0; i < MIN(rules->n_recent, (uint32_t)RECENT); i++) {
                RuleTrace *trace = &rules->recent[i];

                trace->from = trace->is_asked ? number : trace->from;
                trace->is_asked = false;
        }
}

static bool is_in_rate(Judging *judging) {
        bool is = minute_limit(&judging->rules->minute, RECORDER_RULES_MINUTE, judging->now_ns);

        stat_add(is ? COUNTER_RECORDER_RULES : COUNTER_RECORDER_RULES_OVER_RATE, 1);
        return is;
}

static void say(const RuleSpan *span, const RuleTrace *kept) {
        char trace[2 * 16 + 1], id[2 * 8 + 1];

        text_to_hex(trace, span->link.trace_id, 16);
        text_to_hex(id, span->link.span_id, 8);
        log_info("keeps %s %s: its span %s lasted %.0f ms or longer (%s)",
                 kept->from ? "the rest of trace" : "trace", trace, id,
                 (double)(span->last_ns - span->first_ns) / NS_PER_MS, kept->rule);
}

static void judge(Judging *judging, const RuleSpan *span) {
        const char *rule = rule_of(judging, span);
        RuleTrace *trace = find_trace(judging->rules, span->link.trace_id);

        if (span->operation)
                add_usual(&judging->rules->usual[span->operation - 1], span->last_ns - span->first_ns);
        if (trace ? span->last_ns <= trace->until_ns : !rule)
                return;
        trace = trace ?: add_trace(judging->rules, span->link.trace_id, rule);
        trace->until_ns = judging->now_ns;
        trace->is_asked = is_in_rate(judging);
        if (trace->is_asked) {
                RecorderAsk ask = { .query = { .end_ns = UINT64_MAX, .has_trace = true },
                                    .from = trace->from };

                memcpy(ask.query.trace_id, trace->id, 16);
                strcpy(ask.reason, trace->rule);
                judging->asks[judging->n_asks++] = ask;
                say(span, trace);
        }
}

/* ---- spans ---- */

/* The span in @table; NULL = there is no room for it. */
static int span_of(RuleTable *table, const WindowLink *link, RuleSpan **spanp) {
        uint32_t index;
        int r = intern_add(&table->ids, link, sizeof(*link), &index);

        *spanp = NULL;
        if (r == INTERN_E_FULL) {
                stat_add(COUNTER_RECORDER_SPANS_OVER_CAP, 1);
                return 0;
        }
        if (r < 0)
                return error_fold(r);
        *spanp = &table->spans[index];
        if (!r)
                **spanp = (RuleSpan){ .link = *link, .first_ns = UINT64_MAX };
        return 0;
}

/* Names of the first sample of a span that has an operation. */
typedef struct RuleName {
        uint32_t attribute, resource;   /* 0 = it has no operation; the process */
} RuleName;

/* Beyond the cap an operation is not known. Two services may give one name to different work. */
static int name_span(RecorderRules *rules, RuleSpan *span, const Window *window, RuleName named) {
        const WindowAttribute *row = window_get_attribute(window, named.attribute);
        char key[SERVICE_BYTES + 1 + OPERATION_BYTES];
        size_t size, n = (size_t)snprintf(key, SERVICE_BYTES + 1, "%s",
                                          window_get_resource_text(window, named.resource, "service.name"));
        const char *name = window_get_string(window, row->string, &size);
        uint32_t index;
        int r;

        n = MIN(n, (size_t)SERVICE_BYTES) + 1;
        size = MIN(size, (size_t)OPERATION_BYTES);
        memcpy(key + n, name, size);
        r = intern_add(&rules->operations, key, n + size, &index);
        if (r < 0)
                return error_fold(r);
        rules->is_full |= r == INTERN_E_FULL;
        stat_add(COUNTER_RECORDER_OPERATIONS_OVER_CAP, r == INTERN_E_FULL);
        if (r != INTERN_E_FULL)
                span->operation = index + 1;
        return 0;
}

/* Operations that are rare make room: a service with ids in its spans' names has no others. */
static int renew_operations(RecorderRules *rules, RuleTable *before) {
        uint32_t numbers[RECORDER_RULES_MAX_OPERATIONS + 1] = { 0 };
        Intern often;
        int r = 0;

        intern_init(&often, RECORDER_RULES_MAX_OPERATIONS);
        for (uint32_t i = 0; i < rules->operations.n_items && r >= 0; i++) {
                const InternItem *item = intern_get(&rules->operations, i);
                uint32_t index;

                if (rules->usual[i].n < RECORDER_RULES_LEAST)
                        continue;
                r = intern_add(&often, item->data, item->size, &index);
                if (r < 0)
                        break;
                rules->usual[index] = rules->usual[i];
                numbers[i + 1] = index + 1;
        }
        memset(rules->usual + often.n_items, 0,
               (RECORDER_RULES_MAX_OPERATIONS - often.n_items) * sizeof(*rules->usual));
        intern_deinit(&rules->operations);
        rules->operations = often;
        rules->is_full = false;
        for (uint32_t i = 0; i < before->ids.n_items; i++)
                before->spans[i].operation = numbers[before->spans[i].operation];
        return r < 0 ? error_fold(r) : 0;
}

/* Reaches are asked for all spans, whatever they are named. */
typedef struct Naming {
        const Window *window;
        RuleName *names;                /* names of each link */
} Naming;

static bool note_operation(void *userdata, const WindowProfile *profile, const WindowSample *sample) {
        const Naming *naming = userdata;
        uint32_t attribute;

        if (!operation_of_set(naming->window, sample->attributes, &attribute))
                return false;
        naming->names[sample->link] = (RuleName){ attribute, profile->resource };
        return true;
}

static int add_link(RecorderRules *rules, RuleTable *before, const Window *window, uint32_t link,
                    const SpanReach *reach, RuleName named) {
        RuleSpan *span;
        int r;

        if (reach->first_ns > reach->last_ns)
                return 0;
        r = span_of(before, window_get_link(window, link), &span);
        if (r || !span)
                return r;
        span->first_ns = MIN(span->first_ns, reach->first_ns);
        span->last_ns = MAX(span->last_ns, reach->last_ns);
        return named.attribute && !span->operation ? name_span(rules, span, window, named) : 0;
}

static int add_links(RecorderRules *rules, RuleTable *before, const Window *window) {
        const uint32_t n = window_n_links(window);
        _cleanup_(freep) SpanReach *reaches = NULL;
        _cleanup_(freep) RuleName *names = calloc(n + 1u, sizeof(*names));
        int r = names ? span_reaches(window, note_operation, &(Naming){ window, names }, &reaches)
                      : error_origin(-ENOMEM);

        for (uint32_t i = 1; i < n && !r; i++)
                r = add_link(rules, before, window, i, &reaches[i], names[i]);
        return r;
}

int recorder_rules_window(RecorderRules *rules, const RecorderLimits *limits, const Window *window,
                          uint64_t number, RecorderAsk asks[static RECORDER_RULES_MINUTE], size_t *n_asksp) {
        RuleTable *before = &rules->tables[rules->before], *next = &rules->tables[!rules->before];
        Judging judging = { rules, limits, window_end_ns(window), asks, 0 };
        bool is_due = rules->is_full && minute_limit(&rules->renewals, 1, judging.now_ns);
        int r = is_due ? renew_operations(rules, before) : 0;

        if (!r)
                r = add_links(rules, before, window);
        begin_window(rules, number);
        intern_reset(&next->ids);
        for (uint32_t i = 0; i < before->ids.n_items && !r; i++) {
                const RuleSpan *span = &before->spans[i];
                RuleSpan *later;

                if (span->last_ns + SILENT_NS < judging.now_ns) {
                        judge(&judging, span);
                        continue;
                }
                r = span_of(next, &span->link, &later);
                if (!r && later)
                        *later = *span;
        }
        rules->before = !rules->before;
        *n_asksp = judging.n_asks;
        return r;
}
