/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request is made in two passes over the same samples. The first gives every row its
 * index in the request's dictionary and adds up sizes; the second writes into one buffer of exactly
 * that size. No tree of messages is built: beside the request there are only indexes, and of
 * each message one at a time.
 *
 * Samples stand in one line: profiles by resource (by type first, if each request is to have one), samples by
 * stack and attributes, events of a sample in order. So neighbours differ in little more than their link,
 * whose number is one higher each time: that packs better than the order of arrival. A request is a piece
 * [start, stop) of that line:
 *
 *     resource 1                    resource 2
 *     profile a      profile b      profile c
 *     s0 s1 s2 s3    s0 s1          s0 s1 s2 …
 *     └───────── request 1 ───┘     └─ request 2 …
 *
 * The first pass runs until the size is over the limit. Then it goes back to the last border between
 * resources behind start, or else to the sample that did not fit, and runs again up to there: the
 * dictionary must not hold rows that only the rest needs.
 */
#include "core/otlp/encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/dictionary.h"
#include "core/otlp/messages.h"
#include "core/otlp/parts.h"
#include "core/otlp/wire.h"

enum {
        DEFAULT_MAX_BYTES = 4 << 20,
        LENGTHS = 6,                    /* tag and length of a message that is still growing, at most */
};

typedef struct Position {
        uint32_t profile, sample, event;
} Position;

typedef struct ProfileState {
        const WindowProfile *profile;
        uint32_t index;                 /* in the window */
        uint32_t *order;                /* order in which its samples go out */
        uint32_t type;                  /* with `by_type`: first profile of the window with its names, + 1 */
        Shape shape;
        uint32_t n_parts;               /* requests that have a part of it */
        size_t sample_bytes;            /* in this request */
        uint32_t n_samples;             /* in this request */
        /* size of these samples as pprof, about, where each has its stack whole */
        size_t pprof_bytes;
} ProfileState;

typedef struct Encoder {
        const Window *window;
        const OtlpOptions *options;
        size_t max_bytes;
        OtlpScope scope;
        Dictionary dictionary;
        ProfileState *profiles;         /* with samples, by resource */
        uint32_t n_profiles;
        uint64_t *times_ns;             /* scratch: REALTIME of one sample */
        size_t times_size;

        /* Results of the first pass. */
        size_t size;                    /* bytes beside the dictionary, with room for lengths */
        uint64_t n_events;

        /* Scratch: one message at a time. */
        ResourcePart resource;
        ProfilePart profile;
        SamplePart sample;

        struct {
                uint8_t resource_profiles, dictionary, resource, scope_profiles, scope, profiles, samples;
        } tags;
} Encoder;

static int by_resource(const void *a, const void *b) {
        const ProfileState *x = a, *y = b;

        if (x->type != y->type)
                return x->type < y->type ? -1 : 1;
        if (x->profile->resource != y->profile->resource)
                return x->profile->resource < y->profile->resource ? -1 : 1;
        return x->index < y->index ? -1 : 1;
}

/* Number of the first profile with the names of @index. Types are few, and so is what is before it. */
static uint32_t find_type(const Window *window, uint32_t index) {
        const WindowProfileNames *names = &window_get_profile(window, index)->names;
        uint32_t i = 0;

        while (memcmp(&window_get_profile(window, i)->names, names, sizeof(*names)))
                i++;
        return i + 1;
}

static Shape choose_shape(const Encoder *encoder, uint32_t index) {
        Shape shape = shape_choose(encoder->window, index, encoder->options->timestamps);

        return encoder->options->one_value && shape == SHAPE_TIMES_VALUES ? SHAPE_VALUE : shape;
}

typedef struct Ordered {
        uint32_t attributes, stack, index;
} Ordered;

static int by_likeness(const void *a, const void *b) {
        const Ordered *x = a, *y = b;

        if (x->stack != y->stack)
                return x->stack < y->stack ? -1 : 1;
        if (x->attributes != y->attributes)
                return x->attributes < y->attributes ? -1 : 1;
        return x->index < y->index ? -1 : 1;
}

static int order_samples(const Encoder *encoder, ProfileState *state) {
        uint32_t n = state->profile->n_samples;
        _cleanup_(freep) Ordered *samples = calloc(n, sizeof(*samples));

        state->order = calloc(n, sizeof(*state->order));
        if (!samples || !state->order)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++) {
                WindowSample sample;

                window_get_sample(encoder->window, state->index, i, &sample);
                samples[i] = (Ordered){ sample.attributes, sample.stack, i };
        }
        qsort(samples, n, sizeof(*samples), by_likeness);
        for (uint32_t i = 0; i < n; i++)
                state->order[i] = samples[i].index;
        return 0;
}

static int init_profiles(Encoder *encoder) {
        uint32_t n = window_n_profiles(encoder->window);

        encoder->profiles = calloc(MAX(n, 1u), sizeof(*encoder->profiles));
        if (!encoder->profiles)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++) {
                ProfileState *state = &encoder->profiles[encoder->n_profiles];
                int r;

                state->profile = window_get_profile(encoder->window, i);
                state->index = i;
                if (!state->profile->n_samples ||
                    (encoder->options->no_fine && state->profile->type == PROFILE_FINE))
                        continue;
                state->type = encoder->options->by_type ? find_type(encoder->window, i) : 0;
                state->shape = choose_shape(encoder, i);
                encoder->n_profiles++;
                r = order_samples(encoder, state);
                if (r)
                        return error_fold(r);
        }
        qsort(encoder->profiles, encoder->n_profiles, sizeof(*encoder->profiles), by_resource);
        return 0;
}

static void init_tags(Encoder *encoder) {
        encoder->tags.resource_profiles = wire_tag(OTLP_REQUEST_DESCRIPTOR, "resource_profiles");
        encoder->tags.dictionary = wire_tag(OTLP_REQUEST_DESCRIPTOR, "dictionary");
        encoder->tags.resource = wire_tag(OTLP_RESOURCE_PROFILES_DESCRIPTOR, "resource");
        encoder->tags.scope_profiles = wire_tag(OTLP_RESOURCE_PROFILES_DESCRIPTOR, "scope_profiles");
        encoder->tags.scope = wire_tag(OTLP_SCOPE_PROFILES_DESCRIPTOR, "scope");
        encoder->tags.profiles = wire_tag(OTLP_SCOPE_PROFILES_DESCRIPTOR, "profiles");
        encoder->tags.samples = wire_tag(OTLP_PROFILE_DESCRIPTOR, "samples");
}

static Encoder *encoder_free(Encoder *encoder) {
        if (!encoder)
                return NULL;
        dictionary_deinit(&encoder->dictionary);
        for (uint32_t i = 0; i < encoder->n_profiles; i++)
                free(encoder->profiles[i].order);
        free(encoder->profiles);
        free(encoder->times_ns);
        free(encoder);
        return NULL;
}
DEFINE_CLEANUP(Encoder, encoder_free)

static int encoder_new(Encoder **encoderp, const Window *window, const OtlpOptions *options) {
        _cleanup_(encoder_freep) Encoder *encoder = calloc(1, sizeof(*encoder));
        int r;

        if (!encoder)
                return error_origin(-ENOMEM);
        encoder->window = window;
        encoder->max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES;
        encoder->options = options;
        encoder->scope = (OtlpScope)OTLP_SCOPE_INIT;
        encoder->scope.name = (char *)"spanprof";
        encoder->scope.version = (char *)(options->scope_version ? options->scope_version : "");
        init_tags(encoder);
        r = init_profiles(encoder);
        if (!r)
                r = dictionary_init(&encoder->dictionary, window);
        if (r)
                return error_fold(r);
        *encoderp = take(encoder);
        return 0;
}

static bool same_position(Position a, Position b) {
        return a.profile == b.profile && a.sample == b.sample && a.event == b.event;
}

/* Fills encoder->sample with what stands at @at. Return: the position behind it. */
static Position fill_sample(Encoder *encoder, Position at) {
        const ProfileState *state = &encoder->profiles[at.profile];
        /* a time, and a value's longest varint */
        size_t max_events = encoder->max_bytes / 2 / (8 + 10);
        WindowSample sample;

        window_get_sample(encoder->window, state->index, state->order[at.sample], &sample);
        sample_part_fill(&encoder->sample, &encoder->dictionary, &sample, state->shape, at.event,
                         (uint32_t)MIN(MAX(max_events, (size_t)1), (size_t)UINT32_MAX));
        if (!encoder->sample.last)
                at.event = encoder->sample.end;
        else if (at.sample + 1 < state->profile->n_samples)
                at = (Position){ .profile = at.profile, .sample = at.sample + 1 };
        else
                at = (Position){ .profile = at.profile + 1 };
        return at;
}

static bool new_type(const Encoder *encoder, uint32_t profile) {
        return profile && encoder->profiles[profile].type != encoder->profiles[profile - 1].type;
}

static bool new_resource(const Encoder *encoder, uint32_t profile) {
        return profile == 0 || new_type(encoder, profile) ||
                encoder->profiles[profile].profile->resource !=
                encoder->profiles[profile - 1].profile->resource;
}

/*
 * A Pyroscope takes a profile with the series and the time of another one for its double, and drops it when
 * it compacts its blocks: of a profile that was split, all parts but one. So each part begins some
 * nanoseconds before the window, and no two at one time. What is sent again is the same, and dropped rightly.
 */
static void begin_alone(const Encoder *encoder, const ProfileState *state, OtlpProfile *profile) {
        uint64_t at = (uint64_t)(state - encoder->profiles);
        uint64_t shift_ns = at + (uint64_t)state->n_parts * encoder->n_profiles;

        if (!encoder->options->by_type || profile->time_unix_nano <= shift_ns)
                return;
        profile->time_unix_nano -= shift_ns;
        profile->duration_nano += shift_ns;
}

static void fill_profile(Encoder *encoder, const ProfileState *state) {
        ProfilePart *part = &encoder->profile;

        profile_part_fill(part, &encoder->dictionary, state->profile, state->n_parts);
        if (!part->tail.time_unix_nano)
                part->tail.time_unix_nano = encoder->options->untimed_ns;
        begin_alone(encoder, state, &part->tail);
}

/* Adds the sizes of what stands around the samples of a profile that begins in this request. */
static void begin_profile(Encoder *encoder, uint32_t profile, bool first) {
        ProfileState *state = &encoder->profiles[profile];

        if (first || new_resource(encoder, profile)) {
                resource_part_fill(&encoder->resource, encoder->window, state->profile->resource);
                encoder->size += 2 * LENGTHS + wire_message_size(&encoder->resource.message.base) +
                                 wire_message_size(&encoder->scope.base);
        }
        fill_profile(encoder, state);
        encoder->size += LENGTHS + protobuf_c_message_get_packed_size(&encoder->profile.head.base) +
                         protobuf_c_message_get_packed_size(&encoder->profile.tail.base);
        state->sample_bytes = state->pprof_bytes = 0;
        state->n_samples = 0;
}

/*
 * A sample of pprof has its locations by number, 3 bytes each with room for large tables, and labels. The
 * tables are those of this request, or fewer.
 */
static size_t pprof_size(const Encoder *encoder, Position at) {
        const ProfileState *state = &encoder->profiles[at.profile];
        WindowSample sample;
        size_t n;

        window_get_sample(encoder->window, state->index, state->order[at.sample], &sample);
        window_get_stack(encoder->window, sample.stack, &n);
        return 3 * n + 24 + 8 * encoder->sample.message.n_attribute_indices;
}

/* Whether the sample that was filled last is over a limit of one profile. The first one never is. */
static bool is_profile_full(const Encoder *encoder, Position at, size_t pprof_bytes) {
        const ProfileState *state = &encoder->profiles[at.profile];
        const OtlpOptions *options = encoder->options;

        if (!state->n_samples)
                return false;
        return (options->max_samples && state->n_samples >= options->max_samples) ||
                (options->max_pprof_bytes && state->pprof_bytes + pprof_bytes + encoder->dictionary.size >
                                                     options->max_pprof_bytes);
}

/* Counts the events of the sample that was filled last. */
static uint64_t counted_events(const Encoder *encoder, uint32_t profile) {
        return encoder->options->count_cpu && !profile_is_cpu(encoder->profiles[profile].profile->type)
                ? 0
                : encoder->sample.n_events;
}

static void begin_request(Encoder *encoder) {
        dictionary_reset(&encoder->dictionary);
        encoder->size = 0;
        encoder->n_events = 0;
}

/*
 * The first pass: from @start until @stop, or until the sample that does not fit.
 * *stopp: where it ended; *borderp: where the last resource began that it touched.
 * Return: true if it ended before @stop, since the next one would be over the limit.
 */
static bool collect(Encoder *encoder, Position start, Position stop, Position *stopp, Position *borderp) {
        Position at = start;

        begin_request(encoder);
        *borderp = start;
        while (!same_position(at, stop)) {
                bool first = same_position(at, start);
                ProfileState *state = &encoder->profiles[at.profile];
                size_t bytes, pprof_bytes;
                Position next;

                if (!first && !at.sample && !at.event && new_type(encoder, at.profile))
                        break;
                if (!at.sample && !at.event && new_resource(encoder, at.profile))
                        *borderp = at;
                if (first || (!at.sample && !at.event))
                        begin_profile(encoder, at.profile, first);
                next = fill_sample(encoder, at);
                bytes = wire_message_size(&encoder->sample.message.base);
                pprof_bytes = encoder->options->max_pprof_bytes ? pprof_size(encoder, at) : 0;
                if (is_profile_full(encoder, at, pprof_bytes)) {
                        *stopp = *borderp = at;
                        return true;
                }
                if (encoder->size + bytes + encoder->dictionary.size + LENGTHS > encoder->max_bytes) {
                        *stopp = at;
                        return true;
                }
                encoder->size += bytes;
                state->sample_bytes += bytes;
                state->n_samples++;
                state->pprof_bytes += pprof_bytes;
                encoder->n_events += counted_events(encoder, at.profile);
                at = next;
                if (!encoder->sample.last)      /* the same sample twice in one profile would be a double */
                        break;
        }
        *stopp = at;
        return false;
}

/* First profile that has nothing before @stop. */
static uint32_t end_profile(Position stop) {
        return stop.profile + (stop.sample || stop.event ? 1 : 0);
}

static size_t profile_size(Encoder *encoder, uint32_t profile) {
        ProfileState *state = &encoder->profiles[profile];

        fill_profile(encoder, state);
        return protobuf_c_message_get_packed_size(&encoder->profile.head.base) + state->sample_bytes +
               protobuf_c_message_get_packed_size(&encoder->profile.tail.base);
}

static size_t scope_size(Encoder *encoder, uint32_t from, uint32_t to) {
        size_t size = wire_message_size(&encoder->scope.base);

        for (uint32_t i = from; i < to; i++)
                size += wire_field_size(profile_size(encoder, i));
        return size;
}

/* The end of the run of profiles with one resource. */
static uint32_t end_resource(const Encoder *encoder, uint32_t from, uint32_t end) {
        uint32_t to = from + 1;

        while (to < end && !new_resource(encoder, to))
                to++;
        return to;
}

static size_t resource_size(Encoder *encoder, uint32_t from, uint32_t to) {
        resource_part_fill(&encoder->resource, encoder->window, encoder->profiles[from].profile->resource);
        return wire_message_size(&encoder->resource.message.base) +
                wire_field_size(scope_size(encoder, from, to));
}

/* Turns the times of the sample into REALTIME. */
static int convert_times(Encoder *encoder) {
        uint64_t offset_ns = (uint64_t)window_realtime_offset_ns(encoder->window);
        OtlpSample *message = &encoder->sample.message;
        size_t n = message->n_timestamps_unix_nano;

        int r = array_reserve(&encoder->times_ns, &encoder->times_size, n, n);

        if (r)
                return r;
        for (size_t i = 0; i < n; i++)
                encoder->times_ns[i] = message->timestamps_unix_nano[i] + offset_ns;
        message->timestamps_unix_nano = encoder->times_ns;
        return 0;
}

/* Writes the samples of one profile from @at on, moves it behind them. */
static int write_samples(Encoder *encoder, Position *at, Position stop, uint8_t **top) {
        uint32_t profile = at->profile;

        while (at->profile == profile && !same_position(*at, stop)) {
                Position next = fill_sample(encoder, *at);
                int r = convert_times(encoder);

                if (r)
                        return error_fold(r);
                *top = wire_put_message(*top, encoder->tags.samples, &encoder->sample.message.base);
                *at = next;
        }
        return 0;
}

static int write_profile(Encoder *encoder, Position *at, Position stop, uint8_t **top) {
        uint32_t profile = at->profile;
        int r;

        *top = wire_put_header(*top, encoder->tags.profiles, profile_size(encoder, profile));
        *top += protobuf_c_message_pack(&encoder->profile.head.base, *top);
        r = write_samples(encoder, at, stop, top);
        if (r)
                return error_fold(r);
        *top += protobuf_c_message_pack(&encoder->profile.tail.base, *top);
        encoder->profiles[profile].n_parts++;
        return 0;
}

static int write_resource(Encoder *encoder, Position *at, Position stop, uint8_t **top) {
        uint32_t from = at->profile, to = end_resource(encoder, from, end_profile(stop));
        int r;

        *top = wire_put_header(*top, encoder->tags.resource_profiles, resource_size(encoder, from, to));
        *top = wire_put_message(*top, encoder->tags.resource, &encoder->resource.message.base);
        *top = wire_put_header(*top, encoder->tags.scope_profiles, scope_size(encoder, from, to));
        *top = wire_put_message(*top, encoder->tags.scope, &encoder->scope.base);
        for (uint32_t i = from; i < to; i++) {
                r = write_profile(encoder, at, stop, top);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

static size_t request_size(Encoder *encoder, Position start, Position stop) {
        size_t size = wire_field_size(encoder->dictionary.size);
        uint32_t end = end_profile(stop);

        for (uint32_t from = start.profile, to; from < end; from = to) {
                to = end_resource(encoder, from, end);
                size += wire_field_size(resource_size(encoder, from, to));
        }
        return size;
}

/* The second pass: everything that it asks the dictionary for is there. */
static int write_request(Encoder *encoder, Position start, Position stop, OtlpSink sink, void *userdata) {
        size_t size = request_size(encoder, start, stop);
        _cleanup_(freep) uint8_t *data = malloc(size);
        uint8_t *to = data;
        Position at = start;
        int r;

        if (!data)
                return error_origin(-ENOMEM);
        while (!same_position(at, stop)) {
                r = write_resource(encoder, &at, stop, &to);
                if (r)
                        return error_fold(r);
        }
        to = wire_put_header(to, encoder->tags.dictionary, encoder->dictionary.size);
        to = dictionary_write(&encoder->dictionary, to);
        if (to != data + size)
                abort();        /* the passes disagree: memory was overwritten */
        return sink(data, size, encoder->n_events, end_profile(stop) - start.profile, userdata);
}

/* Sends what is from *@atp on until one request is full, and moves it there. */
static int encode_next(Encoder *encoder, Position *atp, Position end, OtlpSink sink, void *userdata,
                       uint64_t *n_lostp) {
        Position start = *atp, stop, border;
        int r;

        if (collect(encoder, start, end, &stop, &border)) {
                if (same_position(stop, start)) {
                        *atp = fill_sample(encoder, start);
                        *n_lostp += counted_events(encoder, start.profile);
                        return encoder->dictionary.failed ? error_origin(-ENOMEM) : 0;
                }
                collect(encoder, start, same_position(border, start) ? stop : border, &stop, &border);
        }
        if (encoder->dictionary.failed)
                return error_origin(-ENOMEM);
        r = dictionary_arrange(&encoder->dictionary);
        if (r)
                return error_fold(r);
        *atp = stop;
        return write_request(encoder, start, stop, sink, userdata);
}

int otlp_encode(const Window *window, const OtlpOptions *options, OtlpSink sink, void *userdata,
                uint64_t *n_lostp) {
        _cleanup_(encoder_freep) Encoder *encoder = NULL;
        Position at = { 0 }, end = { 0 };
        uint64_t n_lost = 0;
        int r;

        r = encoder_new(&encoder, window, options);
        if (r)
                return error_fold(r);
        end.profile = encoder->n_profiles;
        while (!same_position(at, end)) {
                r = encode_next(encoder, &at, end, sink, userdata, &n_lost);
                if (r)
                        return r;
        }
        *n_lostp = n_lost;
        return 0;
}
