/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Traces of coroutines (JSON lines, CSV, SQLite) → a profile of the time that they were suspended, by the address that they were
 * suspended at. A stretch counts when its resume follows its suspend directly: with events lost in between, how long it
 * took is not known. Times of a trace count from the start of its machine, so samples have none.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/convert.h"
#include "convert/trace-source.h"
#include "util/error.h"
#include "util/hashmap.h"
#include "util/intern.h"

enum { MAX_COROUTINES = 1 << 22 };

typedef struct Coroutine {
        uint64_t since_ns, address;     /* of the suspend; 0 = is not suspended */
        uint32_t attributes;            /* set + 1; 0 = not made yet */
} Coroutine;

typedef struct Reading {
        Convert *convert;
        Hashmap coroutines;
        uint32_t profile, resource;
        uint64_t first_ns, last_ns, n_stretches, n_torn;
} Reading;

/* (process, station, birth) where the trace has them, else the probe id. */
static uint64_t key_of(const CoroEvent *event) {
        uint64_t key[] = { (uint64_t)event->pid << 32 | event->station, event->birth_ns, event->birth_ns ? 0 : event->probe_id };

        return hash_bytes(key, sizeof(key));
}

static int find_coroutine(Reading *reading, const CoroEvent *event, Coroutine **coroutinep) {
        uint64_t key = key_of(event);
        Coroutine *coroutine = hashmap_get(&reading->coroutines, key);
        int r;

        *coroutinep = coroutine;
        if (coroutine || reading->coroutines.n_entries >= MAX_COROUTINES)
                return 0;
        coroutine = calloc(1, sizeof(*coroutine));
        if (!coroutine)
                return error_origin(-ENOMEM);
        r = hashmap_put(&reading->coroutines, key, coroutine);
        if (r)
                free(coroutine);
        else
                *coroutinep = coroutine;
        return r;
}

static int make_attributes(Window *window, const CoroEvent *event, uint32_t *setp) {
        uint32_t attributes[4];
        char probe[19];
        size_t n = 0;
        int r;

        snprintf(probe, sizeof(probe), "0x%016" PRIx64, event->probe_id);
        r = window_attribute_string(window, "coroutine.probe_id", probe, 18, &attributes[n++]);
        if (!r && event->birth_ns)
                r = window_attribute_int(window, "coroutine.station", event->station, &attributes[n++]);
        if (!r && event->birth_ns)
                r = window_attribute_int(window, "coroutine.birth_ns", (int64_t)event->birth_ns, &attributes[n++]);
        if (!r)
                r = window_attribute_string(window, "coroutine.state", "suspended", 9, &attributes[n++]);
        return r ? r : window_attribute_set(window, attributes, n, setp);
}

/* One frame: what the writer named, which is a frame of memory more often than one of code. */
static int make_stack(Window *window, uint64_t address, uint32_t *stackp) {
        WindowFunction function = { 0 };
        WindowFrame frame = { .address = address };
        FrameWord word;
        char name[19];
        int r;

        snprintf(name, sizeof(name), "0x%016" PRIx64, address);
        r = window_string(window, name, 18, &function.name);
        if (!r)
                r = window_function(window, &function, &frame.function);
        if (!r)
                r = window_string(window, "unknown", 7, &frame.type);
        if (!r)
                r = window_frame(window, &frame, &word);
        return r ? r : window_stack(window, &word, 1, stackp);
}

static int add_stretch(Reading *reading, Coroutine *coroutine, const CoroEvent *event) {
        Window *window = reading->convert->window;
        uint32_t stack;
        int r = 0;

        if (!coroutine->attributes) {
                r = make_attributes(window, event, &coroutine->attributes);
                coroutine->attributes += !r;
        }
        if (!r)
                r = make_stack(window, coroutine->address, &stack);
        if (!r)
                r = window_sample_untimed(window, reading->profile, stack, coroutine->attributes - 1, 0,
                                          (int64_t)(event->time_ns - coroutine->since_ns));
        reading->n_stretches += !r;
        return r;
}

static int add_event(Reading *reading, const CoroEvent *event) {
        Coroutine *coroutine;
        int r = find_coroutine(reading, event, &coroutine);

        if (r || !coroutine)
                return r;
        reading->first_ns = reading->first_ns ? MIN(reading->first_ns, event->time_ns) : event->time_ns;
        reading->last_ns = MAX(reading->last_ns, event->time_ns);
        if (event->active && coroutine->since_ns && event->n_lost)
                reading->n_torn++;
        else if (event->active && coroutine->since_ns && event->time_ns >= coroutine->since_ns)
                r = add_stretch(reading, coroutine, event);
        coroutine->since_ns = event->active ? 0 : event->time_ns;
        coroutine->address = event->address;
        return r;
}

static int take_event(void *userdata, const CoroEvent *event) {
        return add_event(userdata, event);
}

static int begin(Reading *reading) {
        Window *window = reading->convert->window;
        int r = window_resource(window, UINT64_MAX - reading->convert->n_inputs++, &reading->resource);

        return r ? r : window_profile(window, reading->resource, PROFILE_OFF_CPU, &reading->profile);
}

static void end(Reading *reading, uint64_t n_malformed) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&reading->coroutines, &at)))
                free(entry->value);
        if (reading->convert->diagnostics)
                text_printf(reading->convert->diagnostics, "%u coroutines: %" PRIu64 " suspended stretches, %" PRIu64
                            " not known for losses, %" PRIu64 " lines left out\n", reading->coroutines.n_entries, reading->n_stretches,
                            reading->n_torn, n_malformed);
        hashmap_deinit(&reading->coroutines);
}

static int read_coro(Convert *convert, const Source *source, Text *problem) {
        Reading reading = { .convert = convert };
        TraceReadCounts counts = { 0 };
        int r = begin(&reading);

        if (!r)
                r = trace_source_read(source, take_event, &reading, &counts, problem);
        if (reading.last_ns)
                convert_cover(convert, reading.first_ns, reading.last_ns + 1);
        end(&reading, counts.n_malformed);
        if (r == WINDOW_E_FULL)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        else if (!r && counts.n_malformed)
                text_printf(problem, "%" PRIu64 " lines are no events and were left out", counts.n_malformed);
        return r < 0 ? r : r || counts.n_malformed ? CONVERT_E_INPUT : 0;
}

const ConvertReader convert_read_coro = { .name = "coroutine trace", .recognize = trace_source_recognize, .read = read_coro };
