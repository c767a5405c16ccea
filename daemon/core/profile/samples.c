/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Profiles and events of a window.
 *
 * An event is appended to a log: the index of its sample, its time, and its value unless it is 1. Nothing
 * is moved while the window fills. Closing sorts the log by sample (a counting sort, so that times keep
 * their order of arrival) and the samples by profile:
 *
 *     log     sample  0 1 0 2 0 1            sums   n_times    3 2 1
 *             time    a b c d e f      →            first_time 0 3 5
 *                                            times  a c e b f d
 */
#include "core/base/util/array.h"
#include "core/profile/window-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/util/error.h"

/* The table of profile types (docs: OTLP profiles, sample types). */
static const struct {
        const char *type, *unit, *period_type, *period_unit;
} type_names[PROFILE_N_TYPES] = {
        [PROFILE_CPU] = { "samples", "count", "cpu", "nanoseconds" },
        [PROFILE_OFF_CPU] = { "off_cpu", "nanoseconds", "off_cpu", "nanoseconds" },
        [PROFILE_WALL] = { "wall", "nanoseconds", "wall", "nanoseconds" },
        [PROFILE_LOCK] = { "lock_contention", "nanoseconds", "lock_contention", "nanoseconds" },
        [PROFILE_ALLOC_SPACE] = { "alloc_space", "bytes", "space", "bytes" },
        [PROFILE_ALLOC_OBJECTS] = { "alloc_objects", "count", "space", "bytes" },
        [PROFILE_INUSE_SPACE] = { "inuse_space", "bytes", "space", "bytes" },
        [PROFILE_INUSE_OBJECTS] = { "inuse_objects", "count", "objects", "count" },
        [PROFILE_WAKER] = { "off_cpu_waker", "nanoseconds", "off_cpu_waker", "nanoseconds" },
        [PROFILE_GOROUTINES] = { "goroutines", "count", "wall", "nanoseconds" },
        [PROFILE_PAGE_FAULTS] = { "page_faults", "count", "page_faults", "count" },
        [PROFILE_CRASHES] = { "crashes", "count", "crashes", "count" },
        [PROFILE_FINE] = { "spanprof.fine", "count", "cpu", "nanoseconds" },
        [PROFILE_BOOST] = { "samples", "count", "cpu", "nanoseconds" },
        [PROFILE_SUSPENDED] = { "suspended", "nanoseconds", "suspended", "nanoseconds" },
};

static int intern_names(Window *window, ProfileType type, WindowProfileNames *namesp) {
        WindowProfileNames names;
        const struct {
                const char *text;
                uint32_t *indexp;
        } strings[] = {
                { type_names[type].type, &names.type },
                { type_names[type].unit, &names.unit },
                { type_names[type].period_type, &names.period_type },
                { type_names[type].period_unit, &names.period_unit },
        };

        for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
                int r = window_string(window, strings[i].text, strlen(strings[i].text), strings[i].indexp);

                if (r)
                        return r;
        }
        *namesp = names;
        return 0;
}

/* Known type of @names, PROFILE_OTHER = none. */
static ProfileType known_type(const Window *window, const WindowProfileNames *names) {
        for (int i = 0; i < PROFILE_N_TYPES; i++)
                if (!strcmp(window_get_string(window, names->type, NULL), type_names[i].type) &&
                    !strcmp(window_get_string(window, names->unit, NULL), type_names[i].unit) &&
                    !strcmp(window_get_string(window, names->period_type, NULL), type_names[i].period_type) &&
                    !strcmp(window_get_string(window, names->period_unit, NULL), type_names[i].period_unit))
                        return (ProfileType)i;
        return PROFILE_OTHER;
}

/*
 * Ids of a window's profiles differ in a few bits of bytes 8 to 11, so that they pack well. A request that
 * has only a part of a profile changes the last four. Those of two windows differ in 16 random bytes.
 */
static void make_id(Window *window, uint32_t index, uint8_t *id) {
        if (!window->has_first_id) {
                if (getrandom(window->first_id, sizeof(window->first_id), 0) != sizeof(window->first_id))
                        memcpy(window->first_id, (uint64_t[]){ window->serial, UINT64_MAX },
                               sizeof(window->first_id));
                window->has_first_id = true;
        }
        memcpy(id, window->first_id, sizeof(window->first_id));
        for (int i = 0; i < 4; i++)
                id[11 - i] ^= (uint8_t)(index >> (8 * i));
}

static int add_profile(Window *window, uint32_t resource, ProfileType type, const WindowProfileNames *names,
                       uint32_t *indexp) {
        ProfileKey key = { .resource = resource, .names = *names, .is_boost = type == PROFILE_BOOST };
        uint32_t n = window->tables.profile_keys.n_items, index;
        WindowProfile *profile;
        int r;

        r = array_reserve_zero(&window->profiles, &window->profiles_size, n + 1u, 16);
        if (!r)
                r = window_add_row(window, &window->tables.profile_keys, &key, sizeof(key), &index);
        if (r)
                return r;
        *indexp = index;
        if (index < n)
                return 0;
        profile = &window->profiles[index];
        *profile = (WindowProfile){ .resource = resource, .type = type, .names = *names };
        if (type < PROFILE_OTHER)
                profile->period = window->periods[type];
        make_id(window, index, profile->id);
        return 0;
}

int window_profile(Window *window, uint32_t resource, ProfileType type, uint32_t *indexp) {
        uint32_t *known = &window->resources[resource].profiles[type];
        WindowProfileNames names;
        uint32_t index;
        int r;

        if (!*known) {
                r = intern_names(window, type, &names);
                if (!r)
                        r = add_profile(window, resource, type, &names, &index);
                if (r)
                        return r;
                *known = index + 1;
        }
        *indexp = *known - 1;
        return 0;
}

/* Ratio of the longer one to the other. */
static double period_ratio(int64_t a, int64_t b) {
        return (double)MAX(a, b) / (double)MIN(a, b);
}

/*
 * Boosted ticks and others, or those of two frequencies, are two profiles, as each has one period. There is
 * no third: what comes then goes to the one that is more like it.
 */
static int find_alike(Window *window, const WindowProfileNames *names, int64_t period, uint32_t *indexp) {
        const WindowProfile first = window->profiles[*indexp];
        uint32_t n = window->tables.profile_keys.n_items, second;
        int r;

        if (first.type != PROFILE_CPU || period <= 0 || first.period <= 0 ||
            period_ratio(first.period, period) <= WINDOW_PERIODS_ALIKE)
                return 0;
        r = add_profile(window, first.resource, PROFILE_BOOST, names, &second);
        if (r)
                return r;
        if (second == n)
                window->profiles[n].period = period;
        if (second == n || period_ratio(window->profiles[second].period, period) <
                           period_ratio(first.period, period))
                *indexp = second;
        return 0;
}

int window_profile_named(Window *window, uint32_t resource, const WindowProfileNames *names, int64_t period,
                         uint32_t *indexp) {
        uint32_t n = window->tables.profile_keys.n_items;
        int r = add_profile(window, resource, known_type(window, names), names, indexp);

        if (r || *indexp < n)
                return r ? r : find_alike(window, names, period, indexp);
        window->profiles[n].period = period;
        return 0;
}

void window_set_period(Window *window, ProfileType type, int64_t period) {
        if (type >= PROFILE_N_TYPES)
                return;
        window->periods[type] = period;
        for (uint32_t i = 0; i < window->tables.profile_keys.n_items; i++)
                if (window->profiles[i].type == type)
                        window->profiles[i].period = period;
}

void window_rename_profile(Window *window, uint32_t profile, const WindowProfileNames *names) {
        window->profiles[profile].names = *names;
        window->profiles[profile].type = known_type(window, names);
}

void window_set_profile_period(Window *window, uint32_t profile, int64_t period) {
        window->profiles[profile].period = period;
}

void window_mix_profile_period(Window *window, uint32_t profile, double before, int64_t period) {
        WindowProfile *row = &window->profiles[profile];
        double added = row->total - before, mean;

        if (period <= 0 || added <= 0 || row->period == period || (row->period <= 0 && before > 0))
                return;
        mean = before > 0
                ? (double)row->period + (double)(period - row->period) * added / row->total
                : (double)period;
        row->period = mean < (double)INT64_MAX ? (int64_t)(mean + 0.5) : INT64_MAX;
}

void window_set_profile_payload(Window *window, uint32_t profile, const char *format, const void *data,
                                size_t size) {
        window->profiles[profile].payload_format = format;
        window->profiles[profile].payload = data;
        window->profiles[profile].payload_size = size;
}

void window_set_profile_id(Window *window, uint32_t profile, const uint8_t id[static 16]) {
        memcpy(window->profiles[profile].id, id, 16);
}

void window_renew_profile_id(Window *window, uint32_t profile) {
        make_id(window, profile, window->profiles[profile].id);
}

const WindowProfile *window_get_profile(const Window *window, uint32_t index) {
        return &window->profiles[index];
}

uint64_t window_n_events(const Window *window) {
        return window->n_events;
}

uint64_t window_n_events_of(const Window *window, ProfileType type) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < window->tables.profile_keys.n_items; i++)
                n += window->profiles[i].type == type ? window->profiles[i].n_events : 0;
        return n;
}

static EventChunk *add_chunk(Window *window) {
        EventChunk *chunk;

        chunk = arena_alloc(&window->events.arena, sizeof(*chunk));
        if (!chunk)
                return NULL;
        chunk->next = NULL;
        chunk->n = 0;
        chunk->values = NULL;
        if (window->events.last)
                window->events.last->next = chunk;
        else
                window->events.first = chunk;
        window->events.last = chunk;
        return chunk;
}

/* Values are kept only in chunks that need them: on the CPU all are 1. */
static int add_values(Window *window, EventChunk *chunk) {
        chunk->values = arena_alloc(&window->events.arena, EVENTS_PER_CHUNK * sizeof(*chunk->values));
        if (!chunk->values)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < EVENTS_PER_CHUNK; i++)
                chunk->values[i] = 1;
        window->events.has_values = 1;
        return 0;
}

/* Makes sure that the next event has a place. */
static int reserve_event(Window *window, int64_t value) {
        EventChunk *chunk = window->events.last;

        if (window->events.n_times >= MIN(window->limits.max_times, (uint64_t)UINT32_MAX) ||
            window->refused >> WINDOW_TIMES & 1)
                return WINDOW_E_FULL;
        if (!chunk || chunk->n == EVENTS_PER_CHUNK) {
                if (window->full)
                        return WINDOW_E_FULL;
                chunk = add_chunk(window);
                if (!chunk)
                        return error_origin(-ENOMEM);
                window->full = window_memory(window) > window->limits.max_bytes;
        }
        if (value != 1 && !chunk->values)
                return add_values(window, chunk);
        return 0;
}

static void log_event(Window *window, uint32_t sample, uint64_t time_ns, int64_t value) {
        EventChunk *chunk = window->events.last;

        chunk->samples[chunk->n] = sample;
        chunk->times_ns[chunk->n] = time_ns;
        if (chunk->values)
                chunk->values[chunk->n] = value;
        chunk->n++;
        window->events.n_times++;
        window->sums[sample].n_times++;
}

/* Sums saturate: a wrong sum of one stack is better than a lost window. */
static int64_t add_saturated(int64_t a, int64_t b) {
        int64_t sum;

        if (!__builtin_add_overflow(a, b, &sum))
                return sum;
        return a < 0 ? INT64_MIN : INT64_MAX;
}

static int find_sample(Window *window, const WindowSampleKey *key, uint32_t *indexp) {
        uint32_t n = window->tables.samples.n_items, index;
        int r;

        r = array_reserve_zero(&window->sums, &window->sums_size, n + 1u, 16);
        if (!r)
                r = window_add_row(window, &window->tables.samples, key, sizeof(*key), &index);
        if (r)
                return r;
        window->profiles[key->profile].n_samples += index == n;
        *indexp = index;
        return 0;
}

static inline void add_values_of(Window *window, uint32_t profile, uint32_t sample, int64_t value,
                                 uint32_t n) {
        SampleSum *sum = &window->sums[sample];

        window->profiles[profile].n_events += n;
        window->profiles[profile].total += (double)value;
        window->n_events += n;
        sum->n_events += n;
        sum->value = add_saturated(sum->value, value);
}

static void add_value(Window *window, uint32_t profile, uint32_t sample, int64_t value) {
        add_values_of(window, profile, sample, value, 1);
}

static int add_sample(Window *window, const WindowSampleKey *key, int64_t value, uint32_t *indexp) {
        int r = find_sample(window, key, indexp);

        if (!r)
                add_value(window, key->profile, *indexp, value);
        return r;
}

static void note_time(WindowProfile *profile, uint64_t time_ns) {
        if (!profile->first_ns || time_ns < profile->first_ns)
                profile->first_ns = time_ns;
        profile->last_ns = MAX(profile->last_ns, time_ns);
}

int window_sample_number(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes, uint32_t link,
                         uint32_t *samplep) {
        WindowSampleKey key = { .profile = profile, .stack = stack, .attributes = attributes, .link = link };

        return find_sample(window, &key, samplep);
}

int window_sample_event(Window *window, uint32_t profile, uint32_t sample, int64_t value, uint64_t time_ns,
                        bool timed) {
        int r = timed ? reserve_event(window, value) : 0;

        if (r)
                return r;
        add_value(window, profile, sample, value);
        if (timed)
                log_event(window, sample, time_ns, value);
        note_time(&window->profiles[profile], time_ns);
        return 0;
}

int window_sample_events(Window *window, const WindowEvent *events, size_t n, bool timed, size_t *n_donep) {
        for (*n_donep = 0; *n_donep < n; ++*n_donep) {
                const WindowEvent *event = &events[*n_donep];

                if (timed && event->timed) {
                        int r = reserve_event(window, event->value);

                        if (r)
                                return r;
                        log_event(window, event->sample, event->time_ns, event->value);
                }
                add_value(window, event->profile, event->sample, event->value);
                note_time(&window->profiles[event->profile], event->time_ns);
        }
        return 0;
}

void window_sample_sum(Window *window, uint32_t profile, uint32_t sample, int64_t value, uint32_t n) {
        add_values_of(window, profile, sample, value, n);
}

void window_profile_covers(Window *window, uint32_t profile, uint64_t first_ns, uint64_t last_ns) {
        note_time(&window->profiles[profile], first_ns);
        note_time(&window->profiles[profile], last_ns);
}

void window_drop_times(Window *window) {
        for (uint32_t i = 0; i < window->tables.samples.n_items; i++)
                window->sums[i].n_times = 0;
        arena_deinit(&window->events.arena);
        window->events.first = window->events.last = NULL;
        window->events.n_times = 0;
        window->events.has_values = 0;
}

int window_sample(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes, uint32_t link,
                  int64_t value, uint64_t time_ns) {
        WindowSampleKey key = { .profile = profile, .stack = stack, .attributes = attributes, .link = link };
        uint32_t index;
        int r;

        r = reserve_event(window, value);
        if (!r)
                r = add_sample(window, &key, value, &index);
        if (r)
                return r;
        log_event(window, index, time_ns, value);
        note_time(&window->profiles[profile], time_ns);
        return 0;
}

int window_sample_untimed(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes,
                          uint32_t link, int64_t value) {
        WindowSampleKey key = { .profile = profile, .stack = stack, .attributes = attributes, .link = link };
        uint32_t index;

        return add_sample(window, &key, value, &index);
}

/* ---- other keys ---- */

/* All events of one sample become another's. It stays itself as an empty row, which sorting leaves out. */
static void move_events(Window *window, uint32_t from, uint32_t from_profile, uint32_t to,
                        uint32_t to_profile) {
        WindowProfile *before = &window->profiles[from_profile], *after = &window->profiles[to_profile];
        SampleSum *old = &window->sums[from], *sum = &window->sums[to];

        sum->value = add_saturated(sum->value, old->value);
        sum->n_times += old->n_times;
        sum->n_events += old->n_events;
        before->n_samples--;
        before->n_events -= old->n_events;
        before->total -= (double)old->value;
        after->n_events += old->n_events;
        after->total += (double)old->value;
        after->n_samples += sum->is_moved;      /* it was empty, and is not any more */
        sum->is_moved = false;
        if (before->first_ns) {
                note_time(after, before->first_ns);
                note_time(after, before->last_ns);
        }
        *old = (SampleSum){ .is_moved = true };
}

/* @moved: number of each sample that has an event → where its events are now. */
static void follow_moves(Window *window, const uint32_t *moved) {
        for (EventChunk *chunk = window->events.first; chunk; chunk = chunk->next)
                for (uint32_t i = 0; i < chunk->n; i++)
                        chunk->samples[i] = moved[chunk->samples[i]];
}

int window_change_keys(Window *window, WindowChangeKey change, void *userdata) {
        uint32_t n = window->tables.samples.n_items, n_moved = 0;
        _cleanup_(freep) uint32_t *moved = calloc(MAX(n, 1u), sizeof(*moved));
        int r = moved ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < n && moved; i++) {
                WindowSampleKey key;
                uint32_t profile;

                moved[i] = i;
                memcpy(&key, intern_get(&window->tables.samples, i)->data, sizeof(key));
                profile = key.profile;
                if (r || window->sums[i].is_moved)
                        continue;
                r = change(userdata, &key);
                if (!r)
                        r = find_sample(window, &key, &moved[i]);
                if (moved[i] == i)
                        continue;
                move_events(window, i, profile, moved[i], key.profile);
                n_moved++;
        }
        if (n_moved)
                follow_moves(window, moved);
        return r;
}

/* ---- closing ---- */

/* Sets each sample's place in the sorted times; n_times is counted again while they are filled in. */
static void place_times(Window *window) {
        uint32_t at = 0;

        for (uint32_t i = 0; i < window->tables.samples.n_items; i++) {
                window->sums[i].first_time = at;
                at += window->sums[i].n_times;
                window->sums[i].n_times = 0;
        }
}

static int sort_times(Window *window) {
        window->sorted.times_ns = malloc(MAX(window->events.n_times, 1u) * sizeof(*window->sorted.times_ns));
        if (window->events.has_values)
                window->sorted.values = malloc(MAX(window->events.n_times, 1u) *
                                               sizeof(*window->sorted.values));
        if (!window->sorted.times_ns || (window->events.has_values && !window->sorted.values))
                return error_origin(-ENOMEM);
        place_times(window);
        for (EventChunk *chunk = window->events.first; chunk; chunk = chunk->next) {
                for (uint32_t i = 0; i < chunk->n; i++) {
                        SampleSum *sum = &window->sums[chunk->samples[i]];
                        uint32_t at = sum->first_time + sum->n_times++;

                        window->sorted.times_ns[at] = chunk->times_ns[i];
                        if (window->sorted.values)
                                window->sorted.values[at] = chunk->values ? chunk->values[i] : 1;
                }
        }
        return 0;
}

static int sort_samples(Window *window) {
        uint32_t n_profiles = window->tables.profile_keys.n_items, at = 0;

        window->sorted.order = calloc(MAX(window->tables.samples.n_items, 1u), sizeof(*window->sorted.order));
        window->sorted.profile_first = calloc(n_profiles + 1, sizeof(*window->sorted.profile_first));
        if (!window->sorted.order || !window->sorted.profile_first)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n_profiles; i++) {
                window->sorted.profile_first[i] = at;
                at += window->profiles[i].n_samples;
                window->profiles[i].n_samples = 0;
        }
        for (uint32_t i = 0; i < window->tables.samples.n_items; i++) {
                const WindowSampleKey *key = intern_get(&window->tables.samples, i)->data;

                if (window->sums[i].is_moved)
                        continue;
                window->sorted.order[window->sorted.profile_first[key->profile] +
                              window->profiles[key->profile].n_samples++] = i;
        }
        return 0;
}

static void forget_samples(Window *window) {
        for (uint32_t i = 0; i < window->tables.profile_keys.n_items; i++)
                window->profiles[i].n_samples = 0;
}

int window_close(Window *window, uint64_t end_ns) {
        int r;

        if (window->closed)
                return 0;
        window->closed = 1;
        window->end_ns = MAX(end_ns, window->start_ns + 1);
        for (uint32_t i = 0; i < window->tables.profile_keys.n_items; i++)
                window->end_ns = MAX(window->end_ns, window->profiles[i].last_ns + 1);
        r = sort_times(window);
        if (!r)
                r = sort_samples(window);
        arena_deinit(&window->events.arena);
        window->events.first = window->events.last = NULL;
        if (r) {
                forget_samples(window);
                return error_fold(r);
        }
        return 0;
}

/* Samples stay where they are: a profile knows its first one. */
int window_order_profiles(Window *window, WindowRank rank) {
        uint32_t n = window->tables.profile_keys.n_items, n_placed = 0;
        _cleanup_(freep) WindowProfile *profiles = calloc(MAX(n, 1u), sizeof(*profiles));
        _cleanup_(freep) uint32_t *first = calloc(n + 1, sizeof(*first)),
                                  *ranks = calloc(MAX(n, 1u), sizeof(*ranks));

        if (!profiles || !first || !ranks)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                ranks[i] = rank(window, &window->profiles[i]);
        for (uint32_t next, now = 0; n_placed < n; now = next) {
                next = UINT32_MAX;
                for (uint32_t i = 0; i < n; i++) {
                        if (ranks[i] == now) {
                                profiles[n_placed] = window->profiles[i];
                                first[n_placed++] = window->sorted.profile_first[i];
                        } else if (ranks[i] > now) {
                                next = MIN(next, ranks[i]);
                        }
                }
        }
        if (n) {
                memcpy(window->profiles, profiles, n * sizeof(*profiles));
                memcpy(window->sorted.profile_first, first, n * sizeof(*first));
        }
        return 0;
}

void window_get_sample(const Window *window, uint32_t profile, uint32_t index, WindowSample *samplep) {
        uint32_t row = window->sorted.order[window->sorted.profile_first[profile] + index];
        const WindowSampleKey *key = intern_get(&window->tables.samples, row)->data;
        const SampleSum *sum = &window->sums[row];

        *samplep = (WindowSample){ .stack = key->stack,
                                   .attributes = key->attributes,
                                   .link = key->link,
                                   .n_times = sum->n_times,
                                   .n_events = sum->n_events,
                                   .value = sum->value,
                                   .times_ns = window->sorted.times_ns + sum->first_time,
                                   .values = window->sorted.values ? window->sorted.values + sum->first_time
                                                                   : NULL };
}
