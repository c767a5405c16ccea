/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A window in use has tables with room to grow, hashes and an arena. What is kept is what would be sent of
 * it, packed: some 10 bytes a sample, and exactly as many bytes as are counted.
 *
 *     Window ─▶ ticks of both kinds become one ─▶ OTLP requests ─▶ gzip ─▶ the newest RecorderWindow
 *                                                              the oldest goes while they are too many bytes
 *
 * Beside the requests stands an index of the window's traces: their ids, folded to 64 bits and sorted. Who
 * asks for one trace gets the windows that have it, and by chance, once in 2^64, one that has not.
 */

#include "host/service/recorder/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/gzip.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/otlp/payload.h"

typedef struct RecorderWindow {
        uint64_t start_ns, end_ns;      /* REALTIME */
        RecorderRequest *requests;
        uint32_t n_requests, requests_room;
        uint64_t *traces;               /* sorted, each once */
        uint32_t n_traces;
        size_t bytes;                   /* bytes of all this */
        bool is_cut;                    /* something of it found no room */
} RecorderWindow;

struct Recorder {
        RecorderWindow **windows;       /* the oldest first */
        uint32_t n_windows, room;
        uint64_t next_number;
        size_t bytes, max_bytes;
        uint64_t max_age_ns;
        RemapPaths paths;
};

static void window_drop(RecorderWindow *window) {
        for (uint32_t i = 0; i < window->n_requests; i++)
                free(window->requests[i].data);
        free(window->requests);
        free(window->traces);
        free(window);
}

static void window_dropp(RecorderWindow **windowp) {
        if (*windowp)
                window_drop(*windowp);
}

static void drop_oldest(Recorder *recorder, enum counter why) {
        RecorderWindow *oldest = recorder->windows[0];

        recorder->bytes -= oldest->bytes;
        recorder->n_windows--;
        memmove(recorder->windows, recorder->windows + 1, recorder->n_windows * sizeof(*recorder->windows));
        window_drop(oldest);
        stat_add(why, 1);
}

int recorder_new(Recorder **recorderp) {
        Recorder *recorder = calloc(1, sizeof(*recorder));

        if (!recorder)
                return error_origin(-ENOMEM);
        recorder->max_bytes = RECORDER_MAX_BYTES;
        recorder->max_age_ns = UINT64_MAX;
        *recorderp = recorder;
        return 0;
}

Recorder *recorder_free(Recorder *recorder) {
        if (!recorder)
                return NULL;
        while (recorder->n_windows)
                drop_oldest(recorder, COUNTER_RECORDER_DROPPED);
        free(recorder->windows);
        free(recorder);
        return NULL;
}

size_t recorder_room(uint64_t spare_bytes, uint64_t max_memory_bytes) {
        uint64_t most = MIN(spare_bytes, max_memory_bytes ?: UINT64_MAX);

        return (size_t)MIN((uint64_t)RECORDER_MAX_BYTES, most / 4);
}

void recorder_expire(Recorder *recorder, uint64_t now_ns) {
        while (recorder->n_windows && recorder->windows[0]->end_ns < now_ns &&
               now_ns - recorder->windows[0]->end_ns > recorder->max_age_ns)
                drop_oldest(recorder, COUNTER_RECORDER_AGED);
}

void recorder_set_paths(Recorder *recorder, RemapPaths paths) {
        recorder->paths = paths;
}

void recorder_set_limits(Recorder *recorder, uint64_t max_age_ns, size_t max_bytes, uint64_t now_ns) {
        recorder->max_age_ns = max_age_ns;
        recorder->max_bytes = max_bytes;
        recorder_expire(recorder, now_ns);
        while (recorder->n_windows && recorder->bytes > max_bytes)
                drop_oldest(recorder, COUNTER_RECORDER_OVER_CAP);
}

/* ---- the index of traces ---- */

static uint64_t fold_trace(const uint8_t id[static 16]) {
        uint64_t halves[2];

        memcpy(halves, id, sizeof(halves));
        return halves[0] ^ halves[1];
}

static int by_number(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

/* A trace has a link for each of its spans. */
static int index_traces(RecorderWindow *to, const Window *window) {
        uint32_t n = window_n_links(window) - 1, n_kept = 0;
        uint64_t *fitted;

        if (!n)
                return 0;
        to->traces = calloc(n, sizeof(*to->traces));
        if (!to->traces)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                to->traces[i] = fold_trace(window_get_link(window, i + 1)->trace_id);
        qsort(to->traces, n, sizeof(*to->traces), by_number);
        for (uint32_t i = 0; i < n; i++)
                if (!n_kept || to->traces[i] != to->traces[n_kept - 1])
                        to->traces[n_kept++] = to->traces[i];
        fitted = realloc(to->traces, n_kept * sizeof(*to->traces));
        if (fitted)
                to->traces = fitted;
        to->n_traces = n_kept;
        to->bytes += n_kept * sizeof(*to->traces);
        return 0;
}

/* ---- adding ---- */

/* The window that is being added: of the ring once it is whole. */
typedef struct Adding {
        Recorder *recorder;
        RecorderWindow *window;
} Adding;

/* Old windows go for it, but no window is so large that few others have room. Return: whether it has room. */
static bool make_room(const Adding *adding, size_t size) {
        Recorder *recorder = adding->recorder;
        size_t needed = adding->window->bytes + size;

        if (needed > recorder->max_bytes / RECORDER_LEAST_WINDOWS)
                return false;
        while (recorder->n_windows && recorder->bytes + needed > recorder->max_bytes)
                drop_oldest(recorder, COUNTER_RECORDER_OVER_CAP);
        return true;
}

static int keep_request(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                        void *userdata) {
        Adding *adding = userdata;
        RecorderWindow *window = adding->window;
        _cleanup_(freep) uint8_t *packed = NULL;
        size_t n;
        int r = gzip_compress(data, size, &packed, &n);

        if (r)
                return error_fold(r);
        if (!make_room(adding, n + sizeof(*window->requests))) {
                window->is_cut = true;
                return 0;
        }
        r = array_reserve(&window->requests, &window->requests_room, window->n_requests + 1u, 1);
        if (r)
                return r;
        window->requests[window->n_requests++] =
                (RecorderRequest){ adding->recorder->next_number++, take(packed), n };
        window->bytes += n + sizeof(*window->requests);
        return 0;
}

/* Ticks of both kinds go out as one profile, which a reader makes of profiles with the same names. */
static int join_ticks(Window *window, int64_t tick_ns) {
        static const char *const texts[] = { "samples", "count", "cpu", "nanoseconds" };
        uint32_t strings[ARRAY_SIZE(texts)];
        WindowProfileNames names;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts) && !r; i++)
                r = window_string(window, texts[i], strlen(texts[i]), &strings[i]);
        if (r)
                return r;
        names = (WindowProfileNames){ strings[0], strings[1], strings[2], strings[3] };
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                if (window_get_profile(window, i)->type == PROFILE_FINE)
                        window_rename_profile(window, i, &names);
        window_set_period(window, PROFILE_CPU, tick_ns);
        window_set_period(window, PROFILE_BOOST, tick_ns);
        return 0;
}

static int encode(Adding *adding, Window *window, int64_t tick_ns) {
        const OtlpPayload payload = { .reshape.paths = adding->recorder->paths,
                                      .encoding = { .max_bytes = RECORDER_REQUEST_BYTES,
                                                    .scope_version = SPANPROF_VERSION,
                                                    .timestamps = true } };
        uint64_t n_lost = 0;
        int r = join_ticks(window, tick_ns);

        if (r > 0) {                    /* no room for four strings: nothing more than these would fail */
                adding->window->is_cut = true;
                return 0;
        }
        if (!r)
                r = index_traces(adding->window, window);
        if (!r)
                r = otlp_payload_encode(&payload, window, keep_request, adding, &n_lost);
        adding->window->is_cut |= n_lost > 0;
        return error_fold(r);
}

static int append(Recorder *recorder, RecorderWindow **windowp) {
        int r = array_reserve(&recorder->windows, &recorder->room, recorder->n_windows + 1u, 16);

        if (r)
                return r;
        recorder->bytes += (*windowp)->bytes;
        stat_add(COUNTER_RECORDER_KEPT, 1);
        recorder->windows[recorder->n_windows++] = take(*windowp);
        return 0;
}

int recorder_add(Recorder *recorder, Window *window, int64_t tick_ns, uint64_t now_ns) {
        _cleanup_(window_dropp) RecorderWindow *added = calloc(1, sizeof(*added));
        const uint64_t offset_ns = (uint64_t)window_realtime_offset_ns(window);
        int r;

        if (!added)
                return error_origin(-ENOMEM);
        recorder_expire(recorder, now_ns);
        *added = (RecorderWindow){ .start_ns = window_start_ns(window) + offset_ns,
                                   .end_ns = window_end_ns(window) + offset_ns,
                                   .bytes = sizeof(*added) };
        stat_add(COUNTER_FINE_RECORDED, window_n_events_of(window, PROFILE_FINE));
        r = encode(&(Adding){ recorder, added }, window, tick_ns);
        stat_add(COUNTER_RECORDER_CUT, added->is_cut);
        if (r || !added->n_requests)
                return error_fold(r);
        return make_room(&(Adding){ recorder, added }, 0) ? append(recorder, &added) : 0;
}

/* ---- asking ---- */

RecorderState recorder_state(const Recorder *recorder) {
        return (RecorderState){ .start_ns = recorder->n_windows ? recorder->windows[0]->start_ns : 0,
                                .n_windows = recorder->n_windows,
                                .bytes = recorder->bytes,
                                .max_bytes = recorder->max_bytes,
                                .max_age_ns = recorder->max_age_ns };
}

static bool is_meant(const RecorderWindow *window, const RecorderQuery *query) {
        uint64_t trace;

        if (window->end_ns <= query->start_ns || window->start_ns >= query->end_ns)
                return false;
        if (!query->has_trace)
                return true;
        trace = fold_trace(query->trace_id);
        return window->n_traces &&
                bsearch(&trace, window->traces, window->n_traces, sizeof(trace), by_number);
}

int recorder_each(const Recorder *recorder, const RecorderQuery *query, RecorderVisit visit, void *userdata) {
        int r = 0;

        for (uint32_t i = 0; i < recorder->n_windows && !r; i++) {
                const RecorderWindow *window = recorder->windows[i];

                for (uint32_t j = 0; is_meant(window, query) && j < window->n_requests && !r; j++)
                        r = visit(userdata, &window->requests[j], window->start_ns, window->end_ns);
        }
        return r;
}

uint64_t recorder_next_number(const Recorder *recorder) {
        return recorder->next_number;
}

const RecorderRequest *recorder_find(const Recorder *recorder, uint64_t number) {
        for (uint32_t i = 0; i < recorder->n_windows; i++)
                for (uint32_t j = 0; j < recorder->windows[i]->n_requests; j++)
                        if (recorder->windows[i]->requests[j].number == number)
                                return &recorder->windows[i]->requests[j];
        return NULL;
}
