/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The events of a chunk, in batches.
 *
 * In a recording the same few combinations of stack, thread, span and so on come again and again. So of an event only what it
 * measures is read; the rest becomes a hash, which is looked up in a table where a newcomer replaces the older
 * of two. Only what is not found is read field by field and turned into rows of the window (sample.c).
 *
 *     buffer     event event event …         read:     state, hash, time, value       the hash's place is asked for
 *                                  ×64       resolve:  hash → sample                  it has come by now
 *                                            add:      sums and times of the window
 */
#include <inttypes.h>
#include <math.h>

#include "jfr/read-private.h"
#include "util/macro.h"

enum {
        MAX_NEW = 16,
        START_NUMBER = 0,               /* of JFR_SLOT_START, with which they begin */
};

static uint64_t to_ns(const JfrReader *reader, const JfrField *field, uint64_t value) {
        static const uint64_t factors[] = {
                [JFR_NANOSECONDS] = 1, [JFR_MICROSECONDS] = 1000, [JFR_MILLISECONDS] = 1000000, [JFR_SECONDS] = 1000000000,
        };

        if (field->unit == JFR_TICKS || field->unit == JFR_UNIT_NONE)
                return jfr_clock_duration_ns(&reader->clock, value);
        return value * factors[field->unit];
}

/* Rounded as by llround(), which is a call. */
static int64_t to_value(double value) {
        int64_t whole;

        if (!(value < 9.2e18))
                return value > 0 ? INT64_MAX : 0;
        whole = value > 0 ? (int64_t)value : 0;
        return whole + (value - (double)whole >= 0.5);
}

static double weight_of(const JfrPlan *plan, uint64_t number) {
        double weight;

        if (!plan->weight_is_real)
                return (double)number;
        memcpy(&weight, &number, sizeof(weight));
        return isfinite(weight) ? weight : 1;
}

static int64_t to_saturated(uint64_t value) {
        return (int64_t)MIN(value, (uint64_t)INT64_MAX);
}

static int64_t rare_value_of(const JfrReader *reader, const JfrPlan *plan, const uint64_t *numbers) {
        switch (plan->form) {
        case JFR_FORM_ONE:
                return 1;
        case JFR_FORM_DURATION:
                return to_saturated(to_ns(reader, plan->fields[JFR_SLOT_DURATION], numbers[plan->value]));
        case JFR_FORM_REAL:
                return to_value(weight_of(plan, numbers[plan->value]));
        case JFR_FORM_PRODUCT:
                return to_value((double)numbers[plan->value] * weight_of(plan, numbers[plan->other]));
        default:
                return 0;
        }
}

static inline int64_t value_of(const JfrReader *reader, const JfrPlan *plan, const uint64_t *numbers) {
        if (plan->form == JFR_FORM_NUMBER || (plan->form == JFR_FORM_EITHER && numbers[plan->value]))
                return to_saturated(numbers[plan->value]);
        return plan->form == JFR_FORM_EITHER ? to_saturated(numbers[plan->other]) : rare_value_of(reader, plan, numbers);
}

static inline uint64_t time_of(const JfrReader *reader, const JfrPlan *plan, const uint64_t *numbers) {
        const JfrField *field = plan->fields[JFR_SLOT_START];

        if (!field)
                return reader->chunk->start_ns;
        if (field->unit == JFR_MILLISECONDS)
                return numbers[START_NUMBER] * 1000000;         /* since 1970 */
        return jfr_clock_time_ns(&reader->clock, numbers[START_NUMBER]);
}

/* So many times take more memory than all else: from here on there are sums only. */
static void drop_times(JfrReader *reader) {
        window_drop_times(reader->window);
        reader->timed = false;
        reader->result->times_dropped = true;
}

/* One that is not in the table: new, or pushed out. */
typedef struct NewSample {
        uint32_t number;                /* of the batch */
        uint64_t slots[JFR_N_SLOTS + 1];
} NewSample;

/*
 * Finds the samples of some new ones. Their stacks lie anywhere in a large pool, each in a place that is told by
 * another: so all are asked for at once, not each when its turn comes. *np: the first that failed.
 */
static int find_new(JfrReader *reader, const NewSample *new, uint32_t n_new, uint32_t *np) {
        for (uint32_t i = 0; i < n_new; i++) {
                const JfrPlan *plan = reader->pending[new[i].number].state->plan;

                if (plan->fields[JFR_SLOT_STACK])
                        jfr_constant_prefetch(&reader->pools, plan->fields[JFR_SLOT_STACK]->class, new[i].slots[JFR_SLOT_STACK]);
        }
        for (uint32_t i = 0; i < n_new; i++) {
                const JfrPlan *plan = reader->pending[new[i].number].state->plan;

                if (plan->fields[JFR_SLOT_STACK])
                        jfr_value_prefetch(&reader->pools, plan->fields[JFR_SLOT_STACK]->class, new[i].slots[JFR_SLOT_STACK]);
        }
        for (uint32_t i = 0; i < n_new; i++) {
                const JfrPending *pending = &reader->pending[new[i].number];
                const JfrLookup lookup = jfr_look_up(pending->hash, reader->samples, JFR_SAMPLE_CACHE_BITS);
                WindowEvent *event = &reader->pending_events[new[i].number];
                int r = jfr_sample_find(reader, pending->state, new[i].slots, &event->profile, &event->sample);

                if (r) {
                        *np = new[i].number;
                        return r;
                }
                jfr_remember(&lookup, event->sample);
        }
        return 0;
}

static int read_slots(JfrReader *reader, uint32_t number, NewSample *new) {
        const JfrPending *pending = &reader->pending[number];
        JfrCursor cursor = { pending->data, pending->end, reader->chunk->compressed, false };

        new->number = number;
        return jfr_plan_read(pending->state->plan, &cursor, new->slots, jfr_sample_text, reader);
}

/* *np: how many of the batch have a sample, from the first on. */
static int find_samples(JfrReader *reader, uint32_t *np) {
        NewSample new[MAX_NEW];
        uint32_t n_new = 0;
        int r = 0;

        *np = reader->n_pending;
        for (uint32_t i = 0; i < reader->n_pending && !r; i++) {
                const JfrPending *pending = &reader->pending[i];
                const JfrLookup lookup = jfr_look_up(pending->hash, reader->samples, JFR_SAMPLE_CACHE_BITS);
                const JfrKnown *known = jfr_find_known(&lookup);
                WindowEvent *event = &reader->pending_events[i];

                if (known) {
                        event->profile = reader->profiles[pending->state->plan->type->measure] - 1;
                        event->sample = known->index;
                        reader->n_cached++;
                        continue;
                }
                r = read_slots(reader, i, &new[n_new]);
                if (r)
                        *np = i;
                else
                        n_new++;
                if (r || n_new == MAX_NEW) {
                        int q = find_new(reader, new, n_new, np);

                        r = q ? q : r;
                        n_new = 0;
                }
        }
        return r ? r : find_new(reader, new, n_new, np);
}

/* Counts what was only read: before its bytes go. Return: 0, JFR_E_FULL, -ENOMEM. */
static int finish_batch(JfrReader *reader) {
        JfrResult *result = reader->result;
        uint32_t n;
        size_t n_done;
        int r = find_samples(reader, &n), q;

        if (reader->timed && reader->options->max_times && result->n_timed + reader->n_pending_timed > reader->options->max_times)
                drop_times(reader);
        q = window_sample_events(reader->window, reader->pending_events, n, reader->timed, &n_done);
        for (size_t i = n_done; i < reader->n_pending; i++)
                reader->pending[i].state->counts.n_left_out++;
        if (reader->timed)
                result->n_timed += reader->n_pending_timed;
        reader->n_pending = reader->n_pending_timed = 0;
        return jfr_full(q ? q : r);
}

static void note_short(JfrReader *reader, JfrClassState *state, uint64_t offset) {
        state->counts.n_failed++;
        jfr_mistake(reader, "byte %" PRIu64 ": the %s there is shorter than its fields", reader->chunk->offset + offset,
                    state->plan->type->name);
}

/* Notes one event of a class that has a plan. Its bytes must stay where they are until the batch is finished. */
static inline __attribute__((always_inline)) int add_sample(JfrReader *reader, JfrClassState *state, const uint8_t *data,
                                                            const uint8_t *end, uint64_t offset) {
        uint32_t n = reader->n_pending;
        JfrPending *pending = &reader->pending[n];
        WindowEvent *event = &reader->pending_events[n];
        const JfrPlan *plan = state->plan;
        uint64_t numbers[JFR_N_NUMBERS + 1], time_ns;

        if (!data || !jfr_plan_hash(plan, data, end, numbers, &pending->hash)) {
                note_short(reader, state, offset);
                return 0;
        }
        time_ns = time_of(reader, plan, numbers);
        if (time_ns < reader->start_ns || time_ns >= reader->end_ns) {
                state->counts.n_out_of_time++;
                return 0;
        }
        pending->state = state;
        pending->data = data;
        pending->end = end;
        event->time_ns = time_ns;
        event->value = value_of(reader, plan, numbers);
        event->timed = state->timed;
        reader->n_pending_timed += state->timed;
        __builtin_prefetch(jfr_look_up(pending->hash, reader->samples, JFR_SAMPLE_CACHE_BITS).pair);
        reader->n_pending = n + 1;
        return n + 1 == JFR_MAX_PENDING ? finish_batch(reader) : 0;
}

/* Of any class. */
static int add_event(JfrReader *reader, const JfrEvent *event) {
        const JfrClass *class = jfr_class(&reader->metadata, event->type);
        JfrClassState *state;

        if (!class)
                return 0;
        state = &reader->states[class->number];
        state->counts.n_read++;
        if (state->plan)
                return add_sample(reader, state, event->data, event->data + event->data_size, event->offset);
        return state->about ? jfr_about_event(reader, state, class, event) : 0;
}

/* Events that are in the buffer as a whole, as nearly all are: jfr_scan_next() for many. */
static int read_buffer(JfrReader *reader, JfrScan *scan) {
        const uint8_t *at = scan->buffer + scan->at, *end = scan->buffer + scan->size;
        int r = 0;

        while (!r && (size_t)(end - at) >= JFR_EVENT_HEADER_MAX) {
                const uint8_t *begin = at;
                uint64_t size = (uint32_t)jfr_quick_compressed(&at), type = jfr_quick_compressed(&at);
                uint64_t offset = scan->next - (uint64_t)(end - begin);
                const JfrClass *class;
                JfrClassState *state;

                if (size < (uint64_t)(at - begin) || size > (uint64_t)(end - begin)) {
                        at = begin;
                        break;
                }
                class = jfr_class(&reader->metadata, type);
                state = class ? &reader->states[class->number] : NULL;
                if (state && state->plan) {
                        state->counts.n_read++;
                        r = add_sample(reader, state, at, begin + size, offset);
                } else if (state) {
                        JfrEvent event = { .offset = offset, .size = size, .type = type, .data = at,
                                           .data_size = (size_t)(begin + size - at), .header_size = (uint32_t)(at - begin) };

                        r = add_event(reader, &event);
                }
                at = begin + size;
        }
        scan->at = (size_t)(at - scan->buffer);
        return r;
}

/* What is in the buffer; then one event that is not, before which the buffer may be filled anew. *qp: why it ends. */
static int read_some(JfrReader *reader, JfrScan *scan, int *qp) {
        JfrEvent event = { 0 };
        int r;

        if (scan->chunk->compressed)
                *qp = read_buffer(reader, scan);
        if (!*qp)
                *qp = finish_batch(reader);
        if (*qp)
                return 0;
        r = jfr_scan_next_slowly(scan, &event);
        if (!r)
                *qp = add_event(reader, &event);
        if (r == JFR_SCAN_E_MALFORMED && !reader->chunk->cut)
                jfr_mistake(reader, "byte %" PRIu64 ": no event can begin there; the rest of its chunk is left out",
                            reader->chunk->offset + event.offset);
        return r;
}

/* Return: 0, JFR_E_FULL, -ENOMEM. */
int jfr_events_read(JfrReader *reader) {
        uint64_t next;
        JfrScan scan;
        int r = jfr_scan_init(&scan, reader->input, reader->chunk), q = 0;

        while (!r && !q) {
                next = scan.next;
                r = read_some(reader, &scan, &q);
                if (reader->options->progress && scan.next != next)
                        reader->options->progress(reader->chunk->offset + scan.next, reader->options->userdata);
        }
        if (!q)
                q = finish_batch(reader);
        jfr_scan_deinit(&scan);
        return q ? q : MIN(r, 0);
}
