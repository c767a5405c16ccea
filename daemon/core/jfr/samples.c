/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Blocks of events become samples of the window, in batches. Only an event whose combination is new is read
 * field by field and turned into rows of the window. The place of the combination keeps the number of that
 * sample.
 */

#include "core/jfr/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/jfr/blocks.h"
#include "core/jfr/profiles.h"
#include "core/jfr/recording.h"

/* The sample of an event whose combination is new. */

enum {
        MAX_SET = JFR_MAX_ATTRIBUTES + 16,
};

static int add_string(Window *window, const char *text, uint32_t *stringp) {
        return window_string(window, text, strlen(text), stringp);
}

static void put_big_endian(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

/*
 * Datadog's events have a span and the root span of the process, and no trace: the trace's id is then the
 * root's, with zeros above, and an attribute says so, the same one as of threads that publish such ids.
 * *rootp: 0 = it is a trace's.
 */
static int make_link(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *linkp,
                     uint64_t *rootp) {
        bool has_trace = plan->fields[JFR_SLOT_TRACE] && slots[JFR_SLOT_TRACE];
        uint64_t root = plan->fields[JFR_SLOT_ROOT] ? slots[JFR_SLOT_ROOT] : 0;
        WindowLink link = { 0 };

        *linkp = 0;
        *rootp = 0;
        if (!plan->fields[JFR_SLOT_SPAN] || !slots[JFR_SLOT_SPAN] || (!has_trace && !root))
                return 0;
        if (has_trace && plan->fields[JFR_SLOT_TRACE_HIGH])
                put_big_endian(link.trace_id, slots[JFR_SLOT_TRACE_HIGH]);
        put_big_endian(link.trace_id + 8, has_trace ? slots[JFR_SLOT_TRACE] : root);
        put_big_endian(link.span_id, slots[JFR_SLOT_SPAN]);
        *rootp = has_trace ? 0 : root;
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

/* Adds the event's own attributes, whose names the profiler was started with. */
static int add_context(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        for (uint32_t i = 0; i < plan->n_attributes; i++) {
                const JfrField *field = plan->fields[JFR_SLOT_ATTRIBUTES + i];
                uint32_t string;
                int r;

                r = jfr_names_text(&reader->names, field->class, slots[JFR_SLOT_ATTRIBUTES + i], &string);
                if (!r)
                        r = add_named(reader, set, plan->attribute_names[i], string);
                if (r)
                        return r;
        }
        return 0;
}

static int add_thread(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, Set *set) {
        const JfrField *thread_field = plan->fields[JFR_SLOT_THREAD],
                       *state_field = plan->fields[JFR_SLOT_STATE];
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

        return r ? r
                 : add_named(reader, set,
                             plan->type->group == JFR_THROWN ? "exception.type" : "jvm.object.class", name);
}

static int add_constant(JfrReader *reader, Set *set, const char *key, const char *value) {
        return window_attribute_string(reader->window, key, value, strlen(value),
                                       &set->attributes[set->n++]);
}

/* As waits that were measured from outside have them (docs/OFFCPU.md). */
static int add_wait(JfrReader *reader, const JfrEventType *type, Set *set) {
        int r = type->wait ? add_constant(reader, set, "wait.state", "blocked") : 0;

        if (!r && type->wait)
                r = add_constant(reader, set, "wait.reason", type->wait);
        return r || !type->file ? r : add_constant(reader, set, "wait.file.kind", type->file);
}

static int find_stack(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, uint32_t *stackp,
                      bool *truncatedp, bool *missingp) {
        const JfrField *field = plan->fields[JFR_SLOT_STACK];

        *stackp = 0;
        *truncatedp = *missingp = false;
        return field ? jfr_names_stack(&reader->names, field->class, slots[JFR_SLOT_STACK], stackp,
                                       truncatedp, missingp)
                     : 0;
}

static int add_event_name(JfrReader *reader, JfrClassState *state, Set *set) {
        const char *name = state->plan->type->name;
        int r = 0;

        if (!state->event_attribute)
                r = window_attribute_string(reader->window, "jfr.event", name, strlen(name),
                                            &state->event_attribute);
        set->attributes[set->n++] = state->event_attribute;
        return r;
}

static int add_root(JfrReader *reader, uint64_t root, Set *set) {
        char text[17];

        snprintf(text, sizeof(text), "%016" PRIx64, root);
        return window_attribute_string(reader->window, "datadog.local_root_span_id", text, 16,
                                       &set->attributes[set->n++]);
}

static int make_set(JfrReader *reader, JfrClassState *state, JfrGroup group, const uint64_t *slots,
                    bool truncated, uint64_t root, uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        Set set = { .attributes = { reader->type_attributes[group] }, .n = 1 };
        int r = add_event_name(reader, state, &set);

        if (!r && truncated)
                r = window_attribute_string(reader->window, "profile.stack.truncated", "depth", 5,
                                            &set.attributes[set.n++]);
        if (!r && root)
                r = add_root(reader, root, &set);
        if (!r)
                r = add_thread(reader, plan, slots, &set);
        if (!r)
                r = add_class(reader, plan, slots, &set);
        if (!r)
                r = add_context(reader, plan, slots, &set);
        if (!r)
                r = add_wait(reader, plan->type, &set);
        return r ? r : window_attribute_set(reader->window, set.attributes, set.n, attributesp);
}

static int find_set(JfrReader *reader, JfrClassState *state, JfrGroup group, const uint64_t *slots,
                    bool truncated, uint64_t root, uint32_t *attributesp) {
        const JfrPlan *plan = state->plan;
        JfrHash hash = plan->hash + truncated + (JfrHash)root * plan->keys[JFR_SLOT_ROOT];
        const JfrKnown *known;
        JfrLookup lookup;
        int r;

        for (int slot = JFR_SLOT_THREAD; slot < JFR_SLOT_START; slot++)
                if (plan->fields[slot])
                        hash += (JfrHash)slots[slot] * plan->keys[slot];
        lookup = jfr_look_up(hash, reader->current.sets, JFR_SET_CACHE_BITS);
        known = jfr_find_known(&lookup);
        if (known) {
                *attributesp = known->index;
                return 0;
        }
        r = make_set(reader, state, group, slots, truncated, root, attributesp);
        if (!r)
                jfr_remember(&lookup, *attributesp);
        return r;
}

static int find_sample(JfrReader *reader, JfrClassState *state, const uint64_t *slots, uint32_t *profilep,
                       uint32_t *samplep, bool *stacklessp) {
        const JfrPlan *plan = state->plan;
        uint32_t stack, link, attributes;
        uint64_t root;
        bool truncated;
        JfrGroup group;
        int r;

        r = jfr_profile_group(reader, plan, slots, &group);
        if (!r)
                r = jfr_profile_find(reader, group, profilep);
        if (!r)
                r = find_stack(reader, plan, slots, &stack, &truncated, stacklessp);
        if (!r)
                r = make_link(reader, plan, slots, &link, &root);
        if (!r)
                r = find_set(reader, state, group, slots, truncated, root, &attributes);
        return r ? r : window_sample_number(reader->window, *profilep, stack, attributes, link, samplep);
}

/* Batches of events. */

enum { MAX_BATCH = 64, MAX_NEW = 16 };

typedef struct Batch {
        const JfrBlock *block;
        const JfrSeen *seen;            /* in it */
        uint32_t n;
        JfrPlace new[MAX_BATCH];        /* places of new combinations */
        WindowEvent events[MAX_BATCH];
        uint32_t classes[MAX_BATCH];    /* beside the events */
} Batch;

/* A sample that is not in the table: new, or pushed out. */
typedef struct NewSample {
        uint32_t number;                /* number in the batch */
        uint64_t slots[JFR_N_SLOTS + 1];
} NewSample;

static JfrGroup group_of(const JfrReader *reader, const JfrPlace *place) {
        return reader->current.states[place->class].plan->type->group;
}

static const JfrClass *stack_class(const JfrReader *reader, const Batch *batch, const NewSample *new) {
        const JfrField *field = reader->current.states[batch->seen[new->number].class]
                                        .plan->fields[JFR_SLOT_STACK];

        return field ? field->class : NULL;
}

/*
 * Finds the samples of some new ones. Their stacks lie anywhere in a large pool, each in a place that is told
 * by another: so all are asked for at once, not each when its turn comes.
 */
static int find_new(JfrReader *reader, Batch *batch, const NewSample *new, uint32_t n_new) {
        for (uint32_t i = 0; i < n_new; i++)
                jfr_constant_prefetch(&reader->current.pools, stack_class(reader, batch, &new[i]),
                                      new[i].slots[JFR_SLOT_STACK]);
        for (uint32_t i = 0; i < n_new; i++)
                jfr_value_prefetch(&reader->current.pools, stack_class(reader, batch, &new[i]),
                                   new[i].slots[JFR_SLOT_STACK]);
        for (uint32_t i = 0; i < n_new; i++) {
                JfrPlace *place = &batch->new[new[i].number];
                uint32_t profile, sample;
                int r = find_sample(reader, &reader->current.states[place->class], new[i].slots, &profile,
                                    &sample, &place->stackless);

                if (r)
                        return r;
                place->sample = (sample + 1) |
                        (profile + 1 == reader->profiles[group_of(reader, place)] ? 0 : JFR_PLACE_WALL);
        }
        return 0;
}

static int read_slots(JfrReader *reader, const Batch *batch, uint32_t number, NewSample *new) {
        const JfrSeen *seen = &batch->seen[number];
        const uint8_t *data = batch->block->buffer + seen->at;
        JfrCursor cursor = { data, data + seen->size, reader->current.chunk->compressed, false };

        new->number = number;
        return jfr_plan_read(reader->current.states[seen->class].plan, &cursor, new->slots);
}

/* Finds the samples of new combinations. A sample that cannot be found ends the search. */
static int find_samples(JfrReader *reader, Batch *batch) {
        NewSample new[MAX_NEW];
        uint32_t n_new = 0;
        int r = 0, q;

        for (uint32_t i = 0; i < batch->n && !r; i++) {
                if (batch->seen[i].kind != JFR_SEEN_NEW)
                        continue;
                r = read_slots(reader, batch, i, &new[n_new]);
                n_new += !r;
                if (n_new == MAX_NEW) {
                        r = find_new(reader, batch, new, n_new);
                        n_new = 0;
                }
        }
        q = find_new(reader, batch, new, n_new);
        return r ? r : q;
}

/* So many times take more memory than all else: from here on there are sums only. */
static void drop_times(JfrReader *reader) {
        window_drop_times(reader->window);
        reader->timed = false;
        reader->result->times_dropped = true;
}

/* Whether the place has a sample. Events without one are counted as missing only. */
static bool has_sample(JfrReader *reader, const JfrPlace *place, uint32_t n) {
        if (!place->sample)
                reader->current.states[place->class].n_left_out += n;
        return place->sample;
}

static uint32_t profile_of(const JfrReader *reader, const JfrPlace *place) {
        return reader->profiles[place->sample & JFR_PLACE_WALL ? JFR_ASYNC_WALL : group_of(reader, place)] -
                1;
}

static uint32_t sample_of(const JfrPlace *place) {
        return (place->sample & ~JFR_PLACE_WALL) - 1;
}

/* Collects the events to be added, and updates each place. *np: number of events. */
static uint32_t take_events(JfrReader *reader, Batch *batch, uint32_t *np) {
        uint32_t n_timed = 0;

        *np = 0;
        for (uint32_t i = 0; i < batch->n; i++) {
                const JfrSeen *seen = &batch->seen[i];
                JfrPlace *place = &reader->places[seen->place];

                if (seen->kind == JFR_SEEN_NEW) {
                        place[1] = place[0];
                        place[0] = batch->new[i];
                }
                if (!has_sample(reader, place, seen->n))
                        continue;
                reader->counts.n_stacks_missing += place->stackless ? seen->n : 0;
                if (seen->kind == JFR_SEEN_SUM) {
                        window_sample_sum(reader->window, profile_of(reader, place), sample_of(place),
                                          seen->value, seen->n);
                        continue;
                }
                batch->classes[*np] = place->class;
                batch->events[(*np)++] = (WindowEvent){ .profile = profile_of(reader, place),
                                                        .sample = sample_of(place),
                                                        .value = seen->value,
                                                        .time_ns = seen->time_ns,
                                                        .timed = reader->current.states[place->class].timed };
                n_timed += reader->current.states[place->class].timed;
        }
        return n_timed;
}

/* @full: of what is new nothing is made any more. Return: 0, JFR_E_FULL, -ENOMEM. */
static int count_batch(JfrReader *reader, Batch *batch, bool full) {
        uint32_t n, n_timed;
        size_t n_done;
        int r, q;

        for (uint32_t i = 0; i < batch->n; i++)
                batch->new[i] = (JfrPlace){ .class = (uint16_t)batch->seen[i].class };
        r = full ? 0 : find_samples(reader, batch);
        if (r < 0)
                return r;
        n_timed = take_events(reader, batch, &n);
        if (reader->timed && reader->options->max_times &&
            reader->result->n_timed + n_timed > reader->options->max_times)
                drop_times(reader);
        q = window_sample_events(reader->window, batch->events, n, reader->timed, &n_done);
        for (size_t i = n_done; i < n; i++)
                reader->current.states[batch->classes[i]].n_left_out++;
        if (reader->timed)
                reader->result->n_timed += n_timed;
        return jfr_full(q ? q : r);
}

static int tell_about(JfrReader *reader, const JfrBlock *block, const JfrSeen *seen) {
        const JfrEvent event = { .data = block->buffer + seen->at, .data_size = seen->size };

        return jfr_recording_event(reader, &reader->current.states[seen->class],
                                   reader->current.metadata.classes[seen->class], &event);
}

static uint32_t begin_batch(const JfrReader *reader, const JfrSeen *seen, uint32_t n) {
        uint32_t i;

        for (i = 0; i < n && i < MAX_BATCH && seen[i].kind != JFR_SEEN_ABOUT; i++)
                __builtin_prefetch(&reader->places[seen[i].place]);
        return i;
}

/* Return: 0, JFR_E_FULL, -ENOMEM. */
static int count_block(JfrReader *reader, const JfrBlock *block, bool full) {
        Batch batch;
        int r = 0, q;

        batch.block = block;
        for (uint32_t i = 0; i < block->n && r >= 0; i += MAX(batch.n, 1u)) {
                batch.seen = block->seen + i;
                batch.n = begin_batch(reader, batch.seen, block->n - i);
                q = batch.n ? count_batch(reader, &batch, full || r) : tell_about(reader, block, batch.seen);
                r = q ? q : r;
        }
        return r;
}

/* Times of what was only added up. */
static void cover_sums(JfrReader *reader) {
        for (uint32_t i = 0; i < reader->current.metadata.n_classes; i++) {
                const JfrClassCount *count = &reader->current.class_counts[i];
                const JfrPlan *plan = reader->current.states[i].plan;
                const JfrGroup groups[] = { plan ? plan->type->group : JFR_N_GROUPS, JFR_ASYNC_WALL };

                /* the second only where that type of events may be both */
                for (size_t j = 0; plan && count->first_ns && j < (groups[0] == JFR_EXECUTION ? 2 : 1); j++)
                        if (reader->profiles[groups[j]])
                                window_profile_covers(reader->window, reader->profiles[groups[j]] - 1,
                                                      count->first_ns, count->last_ns);
        }
}

/* Return: 0, JFR_E_FULL, -ENOMEM. */
int jfr_samples_read(JfrReader *reader) {
        const JfrOptions *options = reader->options;
        _cleanup_(jfr_blocks_freep) JfrBlocks *blocks = NULL;
        const JfrBlock *block;
        uint64_t next = 0;
        int r = jfr_blocks_new(&blocks, reader), q;

        while (r >= 0 && (block = jfr_blocks_next(blocks))) {
                q = count_block(reader, block, r);
                r = q ? q : r;
                if (options->progress && block->next != next)
                        options->progress(reader->current.chunk->offset + block->next, options->userdata);
                next = block->next;
        }
        if (r < 0)
                return r;
        cover_sums(reader);
        return r;
}
