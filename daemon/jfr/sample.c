/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From an event to its sample.
 *
 * The slots up to JFR_SLOT_START tell samples apart; in a recording the same few combinations come again and again. So a
 * combination is first looked up by the numbers that stand in the event, in a table where a newcomer
 * replaces the older of two. Only a new one is turned into rows of the window: stack, attributes, link.
 * Attributes are looked up on their own before that: there are far fewer sets of them than samples.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "jfr/read-private.h"
#include "util/error.h"
#include "util/macro.h"

enum {
        MAX_SET = JFR_MAX_ATTRIBUTES + 16,
};

/* The seed's words for the attribute `profile.type`, and OTLP's for the profile. */
static const struct {
        const char *type_attribute;
        ProfileType profile;
        const char *type, *unit, *period_type, *period_unit;
        bool timed;
} measures[JFR_N_MEASURES] = {
        [JFR_CPU] = { "cpu", PROFILE_CPU, .timed = true },
        [JFR_WALL] = { "wall", PROFILE_OTHER, "wall-samples", "count", "wall", "nanoseconds", true },
        [JFR_ALLOC] = { "alloc-samples", PROFILE_ALLOC_SPACE },
        [JFR_LOCK] = { "lock-contention", PROFILE_LOCK },
        [JFR_NATIVE_ALLOC] = { "native-alloc", PROFILE_OTHER, "native_alloc_space", "bytes", "space", "bytes" },
        [JFR_LIVE] = { "live-objects", PROFILE_OTHER, "inuse_space", "bytes", "space", "bytes" },
};

static int add_string(Window *window, const char *text, uint32_t *stringp) {
        return window_string(window, text, strlen(text), stringp);
}

static int make_profile(JfrReader *reader, JfrMeasure measure, uint32_t *profilep) {
        WindowProfileNames names;
        int r;

        if (measures[measure].profile != PROFILE_OTHER)
                return window_profile(reader->window, reader->resource, measures[measure].profile, profilep);
        r = add_string(reader->window, measures[measure].type, &names.type);
        if (!r)
                r = add_string(reader->window, measures[measure].unit, &names.unit);
        if (!r)
                r = add_string(reader->window, measures[measure].period_type, &names.period_type);
        if (!r)
                r = add_string(reader->window, measures[measure].period_unit, &names.period_unit);
        return r ? r : window_profile_named(reader->window, reader->resource, &names, 0, profilep);
}

static int find_profile(JfrReader *reader, JfrMeasure measure, uint32_t *profilep) {
        const char *word = measures[measure].type_attribute;
        int r;

        if (!reader->profiles[measure]) {
                r = make_profile(reader, measure, profilep);
                if (!r)
                        r = window_attribute_string(reader->window, "profile.type", word, strlen(word),
                                                    &reader->type_attributes[measure]);
                if (r)
                        return r;
                reader->profiles[measure] = *profilep + 1;
                if (!reader->result->n_profiles++)
                        reader->result->profile = *profilep;
        }
        *profilep = reader->profiles[measure] - 1;
        return 0;
}

static void put_big_endian(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

/*
 * Datadog's events have a span and the root span of the process, and no trace: the trace's id is then the root's, with
 * zeros above, and an attribute says so.
 */
static int make_link(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *linkp, bool *by_rootp) {
        bool has_trace = plan->fields[JFR_SLOT_TRACE] && slots[JFR_SLOT_TRACE];
        uint64_t root = plan->fields[JFR_SLOT_ROOT] ? slots[JFR_SLOT_ROOT] : 0;
        WindowLink link = { 0 };

        *linkp = 0;
        *by_rootp = false;
        if (!plan->fields[JFR_SLOT_SPAN] || !slots[JFR_SLOT_SPAN] || (!has_trace && !root))
                return 0;
        if (has_trace && plan->fields[JFR_SLOT_TRACE_HIGH])
                put_big_endian(link.trace_id, slots[JFR_SLOT_TRACE_HIGH]);
        put_big_endian(link.trace_id + 8, has_trace ? slots[JFR_SLOT_TRACE] : root);
        put_big_endian(link.span_id, slots[JFR_SLOT_SPAN]);
        *by_rootp = !has_trace;
        return window_link(reader->window, &link, linkp);
}

typedef struct Set {
        uint32_t attributes[MAX_SET];
        size_t n;
} Set;

static int add_named(JfrReader *reader, Set *set, const char *key, uint32_t string) {
        WindowAttribute attribute = { .kind = ATTRIBUTE_STRING, .string = string };
        int r;

        if (!string)
                return 0;
        r = add_string(reader->window, key, &attribute.key);
        return r ? r : window_attribute(reader->window, &attribute, &set->attributes[set->n++]);
}

/* What the event's own texts say: names that the profiler was started with. */
static int add_context(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        for (uint32_t i = 0; i < plan->n_attributes; i++) {
                const JfrField *field = plan->fields[JFR_SLOT_ATTRIBUTES + i];
                uint32_t string = (uint32_t)slots[JFR_SLOT_ATTRIBUTES + i];
                int r = 0;

                if (field->pool)
                        r = jfr_names_text(&reader->names, field->class, slots[JFR_SLOT_ATTRIBUTES + i], &string);
                if (!r)
                        r = add_named(reader, set, plan->attribute_names[i], string);
                if (r)
                        return r;
        }
        return 0;
}

static int add_thread(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        const JfrField *thread_field = plan->fields[JFR_SLOT_THREAD], *state_field = plan->fields[JFR_SLOT_STATE];
        JfrThread thread = { 0 };
        uint32_t state = 0;
        int r = 0;

        if (thread_field)
                r = jfr_names_thread(&reader->names, thread_field->class, slots[JFR_SLOT_THREAD], &thread);
        if (!r && state_field)
                r = jfr_names_text(&reader->names, state_field->class, slots[JFR_SLOT_STATE], &state);
        set->attributes[set->n++] = thread.id;
        set->attributes[set->n++] = thread.name;
        return r ? r : add_named(reader, set, "thread.state", state);
}

static int add_class(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        const JfrField *field = plan->fields[JFR_SLOT_CLASS];
        uint32_t name = 0;
        int r = field ? jfr_names_class(&reader->names, field->class, slots[JFR_SLOT_CLASS], &name) : 0;

        return r ? r : add_named(reader, set, "jvm.object.class", name);
}

static int find_stack(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *stackp, bool *truncatedp) {
        const JfrField *field = plan->fields[JFR_SLOT_STACK];

        *stackp = 0;
        *truncatedp = false;
        return field ? jfr_names_stack(&reader->names, field->class, slots[JFR_SLOT_STACK], stackp, truncatedp) : 0;
}

static int add_event_name(JfrReader *reader, JfrClassState *state, Set *set) {
        const char *name = state->plan->type->name;
        int r = 0;

        if (!state->event_attribute)
                r = window_attribute_string(reader->window, "jfr.event", name, strlen(name), &state->event_attribute);
        set->attributes[set->n++] = state->event_attribute;
        return r;
}

static int make_set(JfrReader *reader, JfrClassState *state, const uint64_t *slots, bool truncated, bool by_root,
                    uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        Set set = { .attributes = { reader->type_attributes[plan->type->measure] }, .n = 1 };
        int r = add_event_name(reader, state, &set);

        if (!r && truncated)
                r = window_attribute_string(reader->window, "profile.stack.truncated", "depth", 5, &set.attributes[set.n++]);
        if (!r && by_root)
                r = window_attribute_string(reader->window, "trace.id.source", "local_root_span", 15, &set.attributes[set.n++]);
        if (!r)
                r = add_thread(reader, plan, slots, &set);
        if (!r)
                r = add_class(reader, plan, slots, &set);
        if (!r)
                r = add_context(reader, plan, slots, &set);
        return r ? r : window_attribute_set(reader->window, set.attributes, set.n, attributesp);
}

/* Where a hash is looked up: one of two neighbours knows it, or none. */
typedef struct Lookup {
        JfrKnown wanted;                /* the hash as tables keep it, 95 bits of it */
        JfrKnown *pair;
} Lookup;

static inline Lookup look_up(JfrHash hash, JfrKnown *table, unsigned bits) {
        uint64_t low = (uint64_t)hash, high = (uint64_t)(hash >> 64);

        return (Lookup){ .wanted = { .hash = low, .more = (uint32_t)(high ^ high >> 32) | 1 },
                         .pair = table + ((low ^ low >> 32) * 0x9E3779B97F4A7C15 >> (64 - bits) & ~1ULL) };
}

/* Which of the two may know it is no branch: no CPU could foresee it. Return: the one that does, or NULL. */
static inline const JfrKnown *find_known(const Lookup *lookup) {
        const JfrKnown *known = lookup->pair + (lookup->pair->hash != lookup->wanted.hash);

        return known->hash == lookup->wanted.hash && known->more == lookup->wanted.more ? known : NULL;
}

/* In the first of the two; what was there takes the place of the other. */
static inline void remember(const Lookup *lookup, uint32_t index) {
        lookup->pair[1] = lookup->pair[0];
        lookup->pair[0] = lookup->wanted;
        lookup->pair->index = index;
}

static int find_set(JfrReader *reader, JfrClassState *state, const uint64_t *slots, bool truncated, bool by_root,
                    uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        JfrHash hash = plan->hash + ((uint64_t)truncated << 1 | by_root);
        const JfrKnown *known;
        Lookup lookup;
        int r;

        for (int slot = JFR_SLOT_THREAD; slot < JFR_SLOT_START; slot++)
                if (plan->fields[slot])
                        hash += (JfrHash)slots[slot] * plan->keys[slot];
        lookup = look_up(hash, reader->sets, JFR_SET_CACHE_BITS);
        known = find_known(&lookup);
        if (known) {
                *attributesp = known->index;
                return 0;
        }
        r = make_set(reader, state, slots, truncated, by_root, attributesp);
        if (!r)
                remember(&lookup, *attributesp);
        return r;
}

/* A combination that is new, or was pushed out. */
static int find_sample(JfrReader *reader, JfrClassState *state, const uint64_t *slots, uint32_t *profilep, uint32_t *samplep) {
        const JfrPlan *plan = state->plan;
        uint32_t stack, link, attributes;
        bool truncated, by_root;
        int r;

        r = find_profile(reader, plan->type->measure, profilep);
        if (!r)
                r = find_stack(reader, plan, slots, &stack, &truncated);
        if (!r)
                r = make_link(reader, plan, slots, &link, &by_root);
        if (!r)
                r = find_set(reader, state, slots, truncated, by_root, &attributes);
        return r ? r : window_sample_number(reader->window, *profilep, stack, attributes, link, samplep);
}

static int known_sample(JfrReader *reader, const JfrPending *pending, uint32_t *profilep, uint32_t *samplep) {
        const Lookup lookup = look_up(pending->hash, reader->samples, JFR_SAMPLE_CACHE_BITS);
        const JfrKnown *known = find_known(&lookup);
        int r;

        if (known) {
                reader->n_cached++;
                *profilep = reader->profiles[pending->state->plan->type->measure] - 1;
                *samplep = known->index;
                return 0;
        }
        r = find_sample(reader, pending->state, pending->slots, profilep, samplep);
        if (!r)
                remember(&lookup, *samplep);
        return r;
}

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

static double weight_of(const JfrPlan *plan, const uint64_t *slots) {
        double weight;

        if (!plan->fields[JFR_SLOT_WEIGHT])
                return 1;
        if (!plan->weight_is_real)
                return (double)slots[JFR_SLOT_WEIGHT];
        memcpy(&weight, &slots[JFR_SLOT_WEIGHT], sizeof(weight));
        return isfinite(weight) ? weight : 1;
}

static int64_t value_of(const JfrReader *reader, const JfrPlan *plan, const uint64_t *slots) {
        uint64_t size = plan->fields[JFR_SLOT_SIZE] ? slots[JFR_SLOT_SIZE] : 0;

        switch (plan->type->value) {
        case JFR_VALUE_DURATION:
                if (!plan->fields[JFR_SLOT_DURATION])
                        return 0;
                return (int64_t)MIN(to_ns(reader, plan->fields[JFR_SLOT_DURATION], slots[JFR_SLOT_DURATION]), (uint64_t)INT64_MAX);
        case JFR_VALUE_TLAB:
                if (plan->fields[JFR_SLOT_TLAB] && slots[JFR_SLOT_TLAB])
                        size = slots[JFR_SLOT_TLAB];
                return (int64_t)MIN(size, (uint64_t)INT64_MAX);
        case JFR_VALUE_SIZE:
                if (!plan->fields[JFR_SLOT_WEIGHT])
                        return (int64_t)MIN(size, (uint64_t)INT64_MAX);
                return to_value((double)size * weight_of(plan, slots));
        default:
                if (!plan->fields[JFR_SLOT_WEIGHT])
                        return 1;
                if (!plan->weight_is_real)
                        return (int64_t)MIN(slots[JFR_SLOT_WEIGHT], (uint64_t)INT64_MAX);
                return to_value(weight_of(plan, slots));
        }
}

static int take_text(const JfrString *string, uint64_t *valuep, void *userdata) {
        JfrReader *reader = userdata;
        uint32_t index = 0;
        int r = string->encoding > JFR_STRING_EMPTY ? jfr_names_string(&reader->names, string, &index) : 0;

        *valuep = index;
        return r;
}

static uint64_t time_of(const JfrReader *reader, const JfrPlan *plan, const uint64_t *slots) {
        const JfrField *field = plan->fields[JFR_SLOT_START];

        if (!field)
                return reader->chunk->start_ns;
        if (field->unit == JFR_MILLISECONDS)
                return slots[JFR_SLOT_START] * 1000000;         /* since 1970, as is @Timestamp's rule */
        return jfr_clock_time_ns(&reader->clock, slots[JFR_SLOT_START]);
}

/* So many times take more memory than all else: from here on there are sums only. */
static void drop_times(JfrReader *reader) {
        window_drop_times(reader->window);
        reader->timed = false;
        reader->result->times_dropped = true;
}

static int add_event(JfrReader *reader, const JfrPlan *plan, uint32_t profile, uint32_t sample, const uint64_t *slots,
                     uint64_t time_ns) {
        bool timed = reader->timed && measures[plan->type->measure].timed;

        if (timed && reader->options->max_times && reader->result->n_timed >= reader->options->max_times) {
                drop_times(reader);
                timed = false;
        }
        reader->result->n_timed += timed;
        reader->result->first_ns = reader->result->last_ns ? MIN(reader->result->first_ns, time_ns) : time_ns;
        reader->result->last_ns = MAX(reader->result->last_ns, time_ns);
        return window_sample_event(reader->window, profile, sample, value_of(reader, plan, slots), time_ns, timed);
}

/* Return: 0, JFR_E_FULL, -ENOMEM. */
static int finish_sample(JfrReader *reader, const JfrPending *pending) {
        uint32_t profile, sample;
        int r = known_sample(reader, pending, &profile, &sample);

        if (!r)
                r = add_event(reader, pending->state->plan, profile, sample, pending->slots, pending->time_ns);
        if (r)
                return jfr_full(r);
        reader->types[pending->state->count].n_converted++;
        return 0;
}

int jfr_sample_finish(JfrReader *reader) {
        int r = 0;

        while (reader->n_finished < reader->n_pending && !r)
                r = finish_sample(reader, &reader->pending[reader->n_finished++ % JFR_MAX_PENDING]);
        return r;
}

int jfr_sample_add(JfrReader *reader, JfrClassState *state, const JfrEvent *event) {
        JfrPending *pending = &reader->pending[reader->n_pending % JFR_MAX_PENDING];
        JfrTypeCount *count = &reader->types[state->count];
        JfrCursor cursor = { event->data, event->data + event->data_size, reader->chunk->compressed, false };
        int r = 0;

        if (reader->n_pending - reader->n_finished == JFR_MAX_PENDING) {
                reader->n_finished++;
                r = finish_sample(reader, pending);
                if (r)
                        return r;
        }
        r = event->data ? jfr_plan_read(state->plan, &cursor, pending->slots, &pending->hash, take_text, reader)
                        : JFR_PLAN_E_MALFORMED;
        if (r == JFR_PLAN_E_MALFORMED) {
                count->n_failed++;
                jfr_mistake(reader, "byte %llu: the %s there is shorter than its fields",
                            (unsigned long long)(reader->chunk->offset + event->offset), state->plan->type->name);
                return 0;
        }
        if (r)
                return jfr_full(r);
        pending->state = state;
        pending->time_ns = time_of(reader, state->plan, pending->slots);
        if (pending->time_ns < reader->start_ns || pending->time_ns >= reader->end_ns) {
                count->n_out_of_time++;
                return 0;
        }
        __builtin_prefetch(look_up(pending->hash, reader->samples, JFR_SAMPLE_CACHE_BITS).pair);
        reader->n_pending++;
        return 0;
}
