/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Brings a sample into the window, for example
 *
 *     tgid 812, tid 815, 3 user frames, slot {trace …, span 7f3a…}
 *
 * becomes: the profile of (process generation, cpu); a stack index (frames);
 * an attribute set {thread.id 815, thread.name "worker-2"}; a link {trace, span};
 * and one event of value 1 at its time under that identity.
 */

#include "host/sampling/aggregate/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/attributes.h"
#include "host/sampling/aggregate/entry-names.h"
#include "host/sampling/aggregate/span-names.h"
#include "host/sampling/aggregate/wait-spread.h"
#include "host/sampling/aggregate/window-shares.h"
#include "host/sampling/context/goroutine-labels.h"
#include "host/sampling/sample/sample-loss.h"

/* Threads whose last publication is remembered; by tid, the latest stays. */
enum { SEEN_THREADS = 4096 };

enum { AGGREGATOR_MAX_NAME = 128 };     /* bytes of a span's name, as publishers have them */

typedef struct SeenThread {
        uint64_t generation;
        uint32_t tid;
        bool had_span;
} SeenThread;

struct Aggregator {
        Frames *frames;
        Window *window;
        Attributes attributes;
        EntryNames entry_names;
        WaitSpread waits;
        WindowShares shares, fine_shares;       /* … of ticks for the flight recorder alone */
        LiveSet *live;                  /* NULL = allocations are not kept */
        uint64_t draw;                  /* for allocation_objects() */
        SeenThread seen[SEEN_THREADS];
};

void aggregator_set_filter(Aggregator *aggregator, const AttributeFilter *filter) {
        aggregator->attributes.filter = *filter;
}

void aggregator_set_live(Aggregator *aggregator, LiveSet *live) {
        aggregator->live = live;
}

void aggregator_set_note(Aggregator *aggregator, const AttributesNote *note) {
        aggregator->attributes.note = *note;
}

/*
 * A thread record that is not valid is one without a span, or one that is being written. A thread that had
 * one at its last sample is most likely on the way to the next.
 */
static enum abi_context judge_context(Aggregator *aggregator, const Process *process,
                                      const struct abi_sample *header) {
        SeenThread *seen = &aggregator->seen[header->tid % SEEN_THREADS];
        bool had_span = seen->tid == header->tid && seen->generation == process->generation && seen->had_span;

        if (header->form != ABI_FORM_THREAD && header->form != ABI_FORM_NODE &&
            header->form != ABI_FORM_ELASTIC)
                return header->context;
        *seen = (SeenThread){ process->generation, header->tid, header->context == ABI_CONTEXT_PRESENT };
        if (header->context != ABI_CONTEXT_INVALID)
                return header->context;
        return had_span ? ABI_CONTEXT_BUSY : ABI_CONTEXT_NONE;
}

int aggregator_new(Aggregator **aggregatorp, Frames *frames, uint64_t start_ns) {
        _cleanup_(aggregator_freep) Aggregator *aggregator = calloc(1, sizeof(*aggregator));
        int r;

        if (!aggregator)
                return error_origin(-ENOMEM);
        aggregator->frames = frames;
        attributes_init(&aggregator->attributes);
        entry_names_init(&aggregator->entry_names);
        wait_spread_init(&aggregator->waits);
        aggregator->fine_shares.of_half = true;
        r = window_new(&aggregator->window, start_ns, clock_realtime_offset_ns(), NULL);
        if (r)
                return error_fold(r);
        *aggregatorp = take(aggregator);
        return 0;
}

Aggregator *aggregator_free(Aggregator *aggregator) {
        if (!aggregator)
                return NULL;
        window_free(aggregator->window);
        attributes_deinit(&aggregator->attributes);
        entry_names_deinit(&aggregator->entry_names);
        wait_spread_deinit(&aggregator->waits);
        window_shares_deinit(&aggregator->shares);
        window_shares_deinit(&aggregator->fine_shares);
        free(aggregator);
        return NULL;
}

static ProfileType profile_type(uint8_t kind) {
        switch (kind) {
        case ABI_KIND_OFF_CPU:
                return PROFILE_OFF_CPU;
        case ABI_KIND_LOCK:
                return PROFILE_LOCK;
        case ABI_KIND_ALLOC:
                return PROFILE_ALLOC_SPACE;
        case ABI_KIND_FAULT:
                return PROFILE_PAGE_FAULTS;
        case ABI_KIND_CRASH:
                return PROFILE_CRASHES;
        case ABI_KIND_FINE:
                return PROFILE_FINE;
        case ABI_KIND_BOOST:
                return PROFILE_BOOST;
        default:
                return PROFILE_CPU;
        }
}

/* The profile of the process in this window. */
static int find_profile(Attributes *attributes, Window *window, const Program *program, uint8_t kind,
                        uint32_t *profilep) {
        uint32_t resource;
        int r = attributes_of_process(attributes, window, program, &resource);

        return r ? r : window_profile(window, resource, profile_type(kind), profilep);
}

static void put_be64(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

/* A link needs both ids (OTLP readers refuse zero ids); a context with one of them zero has none. */
static int find_link(Window *window, const struct abi_sample *header, uint32_t *linkp) {
        const struct abi_span *span = &header->span;
        WindowLink link;

        *linkp = 0;
        if (header->context != ABI_CONTEXT_PRESENT || !span->span || !(span->trace_high | span->trace_low))
                return 0;
        put_be64(link.trace_id, span->trace_high);
        put_be64(link.trace_id + 8, span->trace_low);
        put_be64(link.span_id, span->span);
        return window_link(window, &link, linkp);
}

static void count_outcomes(enum abi_context context, enum abi_stack_end stack_end) {
        static const enum counter ends[ABI_STACK_END_N] = {
                [ABI_STACK_COMPLETE] = COUNTER_STACKS_COMPLETE,
                [ABI_STACK_NO_USER] = COUNTER_STACKS_NO_USER,
                [ABI_STACK_NO_MAPPING] = COUNTER_STACKS_NO_MAPPING,
                [ABI_STACK_NO_ROWS] = COUNTER_STACKS_NO_ROWS,
                [ABI_STACK_FAULT] = COUNTER_STACKS_FAULT,
                [ABI_STACK_BAD_CFA] = COUNTER_STACKS_BAD_CFA,
                [ABI_STACK_UNSUPPORTED] = COUNTER_STACKS_UNSUPPORTED,
                [ABI_STACK_DEPTH] = COUNTER_STACKS_DEPTH,
                [ABI_STACK_FP_END] = COUNTER_STACKS_FP_END,
                [ABI_STACK_STALE] = COUNTER_STACKS_STALE,
                [ABI_STACK_INTERNAL] = COUNTER_STACKS_INTERNAL,
                [ABI_STACK_PENDING] = COUNTER_STACKS_PENDING,
                [ABI_STACK_LONG] = COUNTER_STACKS_LONG,
                [ABI_STACK_MALFORMED] = COUNTER_STACKS_MALFORMED,
                [ABI_STACK_RUNTIME] = COUNTER_STACKS_RUNTIME,
                [ABI_STACK_UNPROVED] = COUNTER_STACKS_UNPROVED,
        };
        static const enum counter contexts[ABI_CONTEXT_N] = {
                [ABI_CONTEXT_UNPUBLISHED] = COUNTER_CONTEXT_UNPUBLISHED,
                [ABI_CONTEXT_PRESENT] = COUNTER_CONTEXT_PRESENT,
                [ABI_CONTEXT_NONE] = COUNTER_CONTEXT_NONE,
                [ABI_CONTEXT_BUSY] = COUNTER_CONTEXT_BUSY,
                [ABI_CONTEXT_AMBIGUOUS] = COUNTER_CONTEXT_AMBIGUOUS,
                [ABI_CONTEXT_STALE] = COUNTER_CONTEXT_STALE,
                [ABI_CONTEXT_UNREADABLE] = COUNTER_CONTEXT_UNREADABLE,
                [ABI_CONTEXT_INVALID] = COUNTER_CONTEXT_BUSY,
        };

        stat_add(ends[stack_end], 1);
        stat_add(contexts[context], 1);
}

/* Where an event belongs: indexes of the window. */
typedef struct Place {
        uint32_t profile, stack, attributes, link;
        bool is_late;                   /* there is none yet: AGGREGATOR_E_LATER */
} Place;

static int find_place(Aggregator *aggregator, const Program *program, const Sample *sample,
                      enum abi_stack_end *endp, Place *placep) {
        const struct abi_sample *header = sample->header;
        const StackInput input = { .process = program->process, .time_ns = header->time_ns,
                                   .kernel = sample->kernel, .n_kernel = header->n_kernel,
                                   .user = sample->user, .n_user = header->n_user,
                                   .may_wait = sample->may_wait };
        Window *window = aggregator->window;
        int r = frames_stack(aggregator->frames, window, &input, endp, &placep->stack);

        placep->is_late = !r && frames_are_late(aggregator->frames);
        if (placep->is_late)
                return 0;
        if (!r)
                r = find_profile(&aggregator->attributes, window, program, header->kind, &placep->profile);
        if (!r)
                r = attributes_of_sample(&aggregator->attributes, window, program, sample, *endp,
                                         &placep->attributes);
        if (!r)
                r = find_link(window, header, &placep->link);
        return r;
}

/*
 * How many allocations of its size it stands for. A part of one is one in so many cases: rounding would be a
 * bias.
 */
static int64_t allocation_objects(Aggregator *aggregator, const Sample *sample) {
        uint64_t size = MAX(sample->allocation->size, (uint64_t)1), weight = sample->header->value;
        double rest = (double)(weight % size) / (double)size;

        aggregator->draw = aggregator->draw * 6364136223846793005 + 1442695040888963407;
        return (int64_t)(weight / size + ((double)(aggregator->draw >> 11) * 0x1p-53 < rest));
}

/* Bytes, and objects beside them. @at: NULL = the window is full, and it may be alive all the same. */
static int add_allocation(Aggregator *aggregator, const Program *program, const Sample *sample,
                          const Place *at) {
        const int64_t n = allocation_objects(aggregator, sample);
        Window *window = aggregator->window;
        uint32_t objects;
        int r = aggregator->live ? live_set_know(aggregator->live, program->process, sample, n) : 0;

        if (r || !at)
                return r ? error_fold(r) : WINDOW_E_FULL;
        r = window_sample(window, at->profile, at->stack, at->attributes, at->link,
                              (int64_t)sample->header->value, sample->header->time_ns);

        if (r || !n)
                return r;
        r = window_profile(window, window_get_profile(window, at->profile)->resource, PROFILE_ALLOC_OBJECTS,
                           &objects);
        return r ? r : window_sample(window, objects, at->stack, at->attributes, at->link, n,
                                     sample->header->time_ns);
}

static int add_tick(Aggregator *aggregator, const Program *program, const Sample *sample,
                    enum abi_stack_end *endp, bool *is_latep) {
        const struct abi_sample *header = sample->header;
        Place at;
        int r = find_place(aggregator, program, sample, endp, &at);

        *is_latep = !r && at.is_late;
        if (r < 0 || *is_latep)
                return r;
        if (sample->allocation)
                return add_allocation(aggregator, program, sample, r ? NULL : &at);
        if (r)
                return r;
        /* the value of a crash is an address, that of a tick may be what its thread has allocated */
        r = window_sample(aggregator->window, at.profile, at.stack, at.attributes, at.link,
                          header->kind == ABI_KIND_FAULT ? (int64_t)header->value : 1,
                          header->time_ns);
        if (!r && header->kind != ABI_KIND_FINE && frames_nameless(aggregator->frames) < COUNTER_N)
                stat_add(frames_nameless(aggregator->frames), 1);
        return r;
}

static int begin_rows(Aggregator *aggregator, WindowShares *shares, const Program *program) {
        int r = window_shares_begin(shares, aggregator->window, wait_spread_fill(&aggregator->waits),
                                    program->process);

        aggregator->waits.is_closed = shares->refused >> WINDOW_SHARES_KINDS & 1;
        return error_fold(r);
}

static void end_rows(Aggregator *aggregator, WindowShares *shares) {
        window_shares_end(shares, aggregator->window, wait_spread_fill(&aggregator->waits));
}

static int add(Aggregator *aggregator, const Program *program, const Sample *sample,
               enum abi_stack_end *endp, bool *is_latep) {
        bool is_fine = sample->header->kind == ABI_KIND_FINE;
        WindowShares *shares = is_fine ? &aggregator->fine_shares : &aggregator->shares;
        int r = begin_rows(aggregator, shares, program);

        if (r)
                return error_fold(r);
        r = add_tick(aggregator, program, sample, endp, is_latep);
        end_rows(aggregator, shares);
        return r;
}

/* A wait in its place, or the sum of some that were not walked. */
static int add_at(Aggregator *aggregator, const Place *at, const Sample *sample, uint64_t value_ns,
                  const WaitTimes *times) {
        const WaitKind kind = { .profile = at->profile, .link = at->link, .tid = sample->header->tid,
                                .state = (uint8_t)sample->wait.state, .is_long = times->is_long,
                                .file = (uint16_t)sample->wait.file, .reason = sample->wait.kind,
                                .waker = sample->wait.waker };
        Window *window = aggregator->window;
        uint32_t number;
        int r;

        if (!times->weight) {
                r = wait_spread_add(&aggregator->waits, &kind, at->attributes, value_ns, times->end_ns);
                if (r <= 0)
                        return error_fold(r);
        }
        r = window_sample_number(window, at->profile, at->stack, at->attributes, at->link, &number);
        if (!r)
                r = window_sample_event(window, at->profile, number, (int64_t)value_ns, times->end_ns, true);
        if (r || times->weight <= WAIT_WEIGHT_ONE)
                return r;
        return wait_spread_walked(&aggregator->waits, &kind, number,
                                  (double)value_ns * (times->weight - WAIT_WEIGHT_ONE) / WAIT_WEIGHT_ONE);
}

static int add_part(Aggregator *aggregator, const Program *program, const Sample *sample, uint64_t value_ns,
                    const WaitTimes *times) {
        enum abi_stack_end end = sample->header->stack_end;
        Place at;
        int r = find_place(aggregator, program, sample, &end, &at);

        return r ? r : add_at(aggregator, &at, sample, value_ns, times);
}

/* The same time under the stack of who ended it. Process, span and attributes are the sleeper's. */
static int add_to_waker(Aggregator *aggregator, const Program *program, const Sample *sample,
                        uint64_t value_ns, const WaitTimes *times) {
        const WakerStack *waker = times->waker_stack;
        enum abi_stack_end end = waker ? waker->end : ABI_STACK_NO_USER;
        Window *window = aggregator->window;
        uint32_t resource;
        Place at = { 0 };
        int r = 0;

        if (waker)
                r = frames_stack(aggregator->frames, window,
                                 &(StackInput){ .process = waker->program->process,
                                                .time_ns = waker->time_ns,
                                                .user = waker->words,
                                                .n_user = waker->n },
                                 &end, &at.stack);
        if (!r)
                r = attributes_of_process(&aggregator->attributes, window, program, &resource);
        if (!r)
                r = window_profile(window, resource, PROFILE_WAKER, &at.profile);
        if (!r)
                r = attributes_of_sample(&aggregator->attributes, window, program, sample, end,
                                         &at.attributes);
        if (!r)
                r = find_link(window, sample->header, &at.link);
        return r ? r : add_at(aggregator, &at, sample, value_ns, times);
}

/* A sample with the name of its span as a label: room for it. */
typedef struct NamedSample {
        Sample sample;
        uint8_t label[GO_HEADER_SIZE + 2 + 2 * 255];
        struct abi_sample header;
} NamedSample;

static void put_label(NamedSample *named, const char *key, const char *value) {
        const size_t n_key = strlen(key), n_value = strlen(value);
        uint8_t *to = named->label + GO_HEADER_SIZE;

        memset(named->label, 0, GO_HEADER_SIZE);
        to[0] = (uint8_t)n_key;
        to[1] = (uint8_t)n_value;
        memcpy(to + 2, key, n_key);
        memcpy(to + 2 + n_key, value, n_value);
        named->header.attributes_size = (uint16_t)(GO_HEADER_SIZE + 2 + n_key + n_value);
        named->header.form = ABI_FORM_LABELS;
}

int aggregator_span_name(Aggregator *aggregator, const Program *program, const Sample *sample,
                         const char **namep) {
        const uint64_t generation = program->process->generation;
        const struct abi_sample *header = sample->header;
        struct python_span_facts facts;
        const char *name = NULL;
        int r = 0;

        *namep = NULL;
        if (header->form != ABI_FORM_PYTHON || header->context != ABI_CONTEXT_PRESENT)
                return 0;
        if (header->attributes_size != sizeof(facts)) {         /* a wait whose record was not kept */
                *namep = entry_names_find(&aggregator->entry_names, generation, &header->span);
        } else {
                memcpy(&facts, sample->attributes, sizeof(facts));
                if (facts.name_size && facts.name_size <= sizeof(facts.name))
                        name = frames_span_name(aggregator->frames, program->process, facts.name,
                                                facts.name_size);
                r = entry_names_meet(&aggregator->entry_names, generation, &header->span, facts.place,
                                     facts.parent, name, namep);
        }
        if (*namep && strlen(*namep) > AGGREGATOR_MAX_NAME)
                *namep = NULL;
        return error_fold(r);
}

/*
 * Puts the name of the span beside it, as a label. @named is room for it. *@samplep: the sample that is
 * meant. Return: 0, -ENOMEM.
 */
static int resolve_span(Aggregator *aggregator, const Program *program, NamedSample *named,
                        const Sample **samplep) {
        const Sample *sample = *samplep;
        const char *name;
        int r;

        if (sample->header->form != ABI_FORM_PYTHON)
                return 0;
        r = aggregator_span_name(aggregator, program, sample, &name);
        if (r)
                return r;
        named->sample = *sample;
        named->header = *sample->header;
        named->header.attributes_size = 0;
        named->sample.header = &named->header;
        named->sample.attributes = named->label;
        *samplep = &named->sample;
        if (name)
                put_label(named, "span.name", name);
        return 0;
}

static int add_parts(Aggregator *aggregator, const Program *program, Sample *sample, const char *reason,
                     const WaitTimes *times) {
        const struct {
                WaitState state;
                uint64_t ns;
        } parts[] = { { WAIT_STATE_BLOCKED, times->blocked_ns },
                      { WAIT_STATE_RUNNABLE, times->runnable_ns } };
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(parts) && !r; i++) {
                if (!parts[i].ns)
                        continue;
                sample->wait = (SampleWait){ .reason = times->idle ?: reason, .kind = reason,
                                             .state = parts[i].state, .file = times->file };
                if (parts[i].state == WAIT_STATE_BLOCKED) {
                        sample->wait.waker = *times->waker;
                        sample->wait.lock = times->lock ? *times->lock : (SampleLock){ 0 };
                }
                r = add_part(aggregator, program, sample, parts[i].ns, times);
                if (!r && sample->wait.waker.kind == WAKER_THREAD)
                        r = add_to_waker(aggregator, program, sample, parts[i].ns, times);
        }
        return r;
}

static int add_wait(Aggregator *aggregator, const Program *program, Sample *sample, const char *reason,
                    const WaitTimes *times) {
        int r = begin_rows(aggregator, &aggregator->shares, program);

        if (r)
                return error_fold(r);
        r = add_parts(aggregator, program, sample, reason, times);
        end_rows(aggregator, &aggregator->shares);
        return r;
}

int aggregator_add_wait(Aggregator *aggregator, const Program *program, Sample *sample, const char *reason,
                        const WaitTimes *times) {
        const Sample *known = sample;
        NamedSample named;
        int r = resolve_span(aggregator, program, &named, &known);

        return r ? r : add_wait(aggregator, program, known == sample ? sample : &named.sample, reason, times);
}

/*
 * Finds the span in the labels of a goroutine; other labels stay as attributes. @known, @header and @context
 * are room for it. Return: the sample that is meant.
 */
static const Sample *resolve_labels(const Aggregator *aggregator, const Sample *sample, Sample *known,
                                    struct abi_sample *header, GoroutineContext *context) {
        if (sample->header->form != ABI_FORM_GO && sample->header->form != ABI_FORM_LABELS)
                return sample;
        if (!goroutine_context_read(sample->attributes, sample->header->attributes_size,
                                    aggregator->attributes.filter.coroutine_ids, context))
                stat_add(COUNTER_CONTEXT_ATTRIBUTES_MALFORMED, 1);
        *header = *sample->header;
        /* Without a span among the labels it is that of OBI's map, if there is one (context.bpf.h). */
        if (context->span.span || header->context != ABI_CONTEXT_PRESENT)
                header->span = context->span;
        if (context->span.span)
                header->context = ABI_CONTEXT_PRESENT;
        header->attributes_size = (uint16_t)context->attributes_size;
        *known = *sample;
        known->header = header;
        known->attributes = context->attributes;
        known->local_root = context->local_root;
        return known;
}

/*
 * Finds the name of the task that runs, and its id where ids are wanted. @known is room for it. Return: the
 * sample that is meant.
 */
static const Sample *resolve_task(const Aggregator *aggregator, const Program *program, const Sample *sample,
                                  Sample *known) {
        if (!sample->task)
                return sample;
        *known = *sample;
        known->task_name = frames_task_name(aggregator->frames, program->process, sample->task,
                                             sample->header->task_size);
        if (aggregator->attributes.filter.coroutine_ids)
                known->task_id = frames_task_id(aggregator->frames, program->process, sample->task,
                                                sample->header->task_size);
        return known;
}

/* A span of an SDK's memory with a name has it as a label. */
static bool is_unnamed(const struct abi_sample *header) {
        return header->form == ABI_FORM_PYTHON && header->context == ABI_CONTEXT_PRESENT;
}

int aggregator_add(Aggregator *aggregator, const Program *program, const Sample *raw) {
        GoroutineContext labels;
        struct abi_sample header;
        NamedSample named;
        Sample known, running;
        const Sample *sample = resolve_labels(aggregator, resolve_task(aggregator, program, raw, &running),
                                              &known, &header, &labels);
        enum abi_context context = judge_context(aggregator, program->process, sample->header);
        enum abi_stack_end end = sample->header->stack_end;
        bool is_late = false;
        int r = resolve_span(aggregator, program, &named, &sample);

        if (!r && is_unnamed(sample->header) && sample->header->kind != ABI_KIND_FINE)
                stat_add(COUNTER_PYTHON_SPANS_UNNAMED, 1);
        if (!r)
                r = add(aggregator, program, sample, &end, &is_late);
        if (r == WINDOW_E_FULL) {
                sample_lose(sample->header, SAMPLE_LOSS_WINDOW_FULL);
                return 0;
        }
        if (r)
                return error_fold(r);
        if (is_late)
                return AGGREGATOR_E_LATER;
        if (sample->task && sample->header->task_size == BEAM_TASK_SIZE &&
            sample->header->kind != ABI_KIND_FINE)
                stat_add(sample->task_name ? COUNTER_BEAM_TASKS_TOLD : COUNTER_BEAM_TASKS_LATE, 1);
        if (!sample->fault && !sample->allocation && !sample->header->signal &&
            sample->header->kind != ABI_KIND_FINE)
                count_outcomes(context, end);
        return 0;
}

/* The place of what no event has brought, in the profile of @type. Return: 0, WINDOW_E_FULL, -ENOMEM. */
static int find_place_in(Aggregator *aggregator, const Program *program, const Sample *sample,
                         ProfileType type, Place *placep) {
        enum abi_stack_end end = sample->header->stack_end;
        const StackInput input = { .process = program->process, .time_ns = sample->header->time_ns,
                                   .user = sample->user, .n_user = sample->header->n_user };
        Window *window = aggregator->window;
        uint32_t resource;
        int r = frames_stack(aggregator->frames, window, &input, &end, &placep->stack);

        if (!r)
                r = attributes_of_process(&aggregator->attributes, window, program, &resource);
        if (!r)
                r = window_profile(window, resource, type, &placep->profile);
        if (!r)
                r = attributes_of_sample(&aggregator->attributes, window, program, sample, end,
                                         &placep->attributes);
        return r ? r : find_link(window, sample->header, &placep->link);
}

static int add_goroutines(Aggregator *aggregator, const Program *program, const Sample *raw, int64_t n) {
        GoroutineContext labels;
        struct abi_sample header;
        Sample known;
        const Sample *sample = resolve_labels(aggregator, raw, &known, &header, &labels);
        Place at = { 0 };
        int r = find_place_in(aggregator, program, sample, PROFILE_GOROUTINES, &at);

        return r ? r : window_sample(aggregator->window, at.profile, at.stack, at.attributes, at.link, n,
                                     sample->header->time_ns);
}

int aggregator_add_goroutines(Aggregator *aggregator, const Program *program, const Sample *raw, int64_t n) {
        int r = begin_rows(aggregator, &aggregator->shares, program);

        if (r)
                return error_fold(r);
        r = add_goroutines(aggregator, program, raw, n);
        end_rows(aggregator, &aggregator->shares);
        return r;
}

/* At least so old. */
static const char *age_of(uint64_t age_ns) {
        static const struct {
                uint64_t seconds;
                const char *name;
        } ages[] = { { 86400, "1d" }, { 3600, "1h" }, { 600, "10m" }, { 60, "1m" }, { 10, "10s" } };

        for (size_t i = 0; i < ARRAY_SIZE(ages); i++)
                if (age_ns >= ages[i].seconds * NS_PER_SEC)
                        return ages[i].name;
        return "0s";
}

static int add_live(Aggregator *aggregator, const Program *program, const LiveAllocation *allocation,
                    uint64_t now_ns) {
        const uint64_t time_ns = allocation->sample.header->time_ns;
        Window *window = aggregator->window;
        Sample sample = allocation->sample;
        uint32_t objects;
        Place at = { 0 };
        int r;

        sample.age = age_of(now_ns - MIN(now_ns, time_ns));
        r = find_place_in(aggregator, program, &sample, PROFILE_INUSE_SPACE, &at);
        if (!r)
                r = window_sample_untimed(window, at.profile, at.stack, at.attributes, at.link,
                                          allocation->bytes);
        if (r || !allocation->objects)
                return r;
        r = window_profile(window, window_get_profile(window, at.profile)->resource, PROFILE_INUSE_OBJECTS,
                           &objects);
        return r ? r : window_sample_untimed(window, objects, at.stack, at.attributes, at.link,
                                             allocation->objects);
}

int aggregator_add_live(Aggregator *aggregator, const Program *program, const LiveAllocation *allocation,
                        uint64_t now_ns) {
        int r = begin_rows(aggregator, &aggregator->shares, program);

        if (r)
                return r;
        r = add_live(aggregator, program, allocation, now_ns);
        end_rows(aggregator, &aggregator->shares);
        return r;
}

static int add_suspended(Aggregator *aggregator, const Program *program, const SampleCoroutine *coroutine,
                         uint64_t address, uint64_t value_ns, uint64_t time_ns) {
        Window *window = aggregator->window;
        uint32_t profile, resource, stack, attributes;
        int r;

        r = frames_place(aggregator->frames, window, program->process, time_ns, address, &stack);
        if (!r)
                r = attributes_of_process(&aggregator->attributes, window, program, &resource);
        if (!r)
                r = window_profile(window, resource, PROFILE_SUSPENDED, &profile);
        if (!r)
                r = attributes_of_suspended(&aggregator->attributes, window, coroutine, &attributes);
        if (!r)
                r = window_sample(window, profile, stack, attributes, 0,
                                  (int64_t)MIN(value_ns, (uint64_t)INT64_MAX), time_ns);
        return r;
}

int aggregator_add_suspended(Aggregator *aggregator, const Program *program,
                             const SampleCoroutine *coroutine, uint64_t address, uint64_t value_ns,
                             uint64_t time_ns) {
        int r = begin_rows(aggregator, &aggregator->shares, program);

        if (r)
                return error_fold(r);
        r = add_suspended(aggregator, program, coroutine, address, value_ns, time_ns);
        end_rows(aggregator, &aggregator->shares);
        return r;
}

static int follow_resource(void *userdata, WindowSampleKey *key) {
        Aggregator *aggregator = userdata;
        const WindowProfile *profile = window_get_profile(aggregator->window, key->profile);
        uint32_t last = attributes_last_resource(&aggregator->attributes, profile->resource);

        if (last == profile->resource)
                return 0;
        return window_profile(aggregator->window, last, profile->type, &key->profile);
}

/* What was known late of processes and spans goes to their earlier samples. */
static int settle(Aggregator *aggregator) {
        Window *window = aggregator->window;
        int r = aggregator->attributes.has_later
                ? window_change_keys(window, follow_resource, aggregator)
                : 0;

        return r < 0 ? error_fold(r) : MAX(span_names_settle(window), r);
}

int aggregator_rotate(Aggregator *aggregator, uint64_t end_ns, int64_t period_ns, int64_t tick_ns,
                      Window **windowp) {
        Window *next, *window = aggregator->window;
        int r;

        r = window_new(&next, end_ns, clock_realtime_offset_ns(), NULL);
        if (r)
                return error_fold(r);
        window_shares_reset(&aggregator->shares);
        window_shares_reset(&aggregator->fine_shares);
        window_set_period(window, PROFILE_CPU, period_ns);
        window_set_period(window, PROFILE_BOOST, tick_ns);
        window_set_period(window, PROFILE_CRASHES, 1);
        window_set_period(window, PROFILE_ALLOC_SPACE, 1);      /* values are bytes, and objects */
        window_set_period(window, PROFILE_ALLOC_OBJECTS, 1);
        window_set_period(window, PROFILE_INUSE_SPACE, 1);
        window_set_period(window, PROFILE_INUSE_OBJECTS, 1);
        window_set_period(window, PROFILE_GOROUTINES, AGGREGATOR_GOROUTINES_PERIOD_NS);
        window_set_period(window, PROFILE_PAGE_FAULTS, 1);      /* a value is faults, not samples of them */
        if (wait_spread_finish(&aggregator->waits, window))
                stat_add(COUNTER_WAITS_WINDOW_FULL, 1);
        if (settle(aggregator))
                stat_add(COUNTER_LATE_NAMES_WINDOW_FULL, 1);
        /* no memory to sort them: the window has no samples any more */
        if (window_close(window, end_ns))
                stat_add(COUNTER_LOST_ENCODE, window_n_events_of(window, PROFILE_CPU) +
                                              window_n_events_of(window, PROFILE_BOOST));
        aggregator->window = next;
        *windowp = window;
        return 0;
}
