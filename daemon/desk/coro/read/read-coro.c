/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Traces of coroutines (JSON lines, CSV, SQLite) → a profile of the time that they were suspended, by the
 * address that they were suspended at. A stretch counts when its resume follows its suspend directly: with
 * events lost in between, how long it took is not known. Times of a trace count from the start of its
 * machine, so samples have none.
 *
 * Where the trace says which file lay there, the place is that: build id and address in the file, of a
 * coroutine's frame those of the function that goes on. Names come to it as to any other native frame.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/coro/read/trace-source.h"
#include "desk/coro/trace/trace-code.h"

enum { MAX_COROUTINES = 1 << 22 };

typedef struct Coroutine {
        uint64_t since_ns, address;     /* time and address of the suspend; 0 = not suspended */
        const StationCode *code;        /* NULL = the trace does not say */
        uint32_t attributes;            /* set + 1; 0 = not made yet */
} Coroutine;

typedef struct Reading {
        Convert *convert;
        Hashmap coroutines;
        Hashmap codes;                  /* StationCode by the key of its coroutine */
        Arena arena;                    /* memory of the codes */
        TraceCode *code;
        uint32_t profile, resource;
        uint64_t first_ns, last_ns, n_stretches, n_torn;
} Reading;

static int find_coroutine(Reading *reading, const CoroEvent *event, Coroutine **coroutinep) {
        uint64_t key = trace_key(event->pid, event->station, event->birth_ns, event->probe_id);
        Coroutine *coroutine = hashmap_get(&reading->coroutines, key);
        int r;

        *coroutinep = coroutine;
        if (coroutine || reading->coroutines.n_entries >= MAX_COROUTINES)
                return 0;
        coroutine = calloc(1, sizeof(*coroutine));
        if (!coroutine)
                return error_origin(-ENOMEM);
        coroutine->code = hashmap_get(&reading->codes, key);
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
                r = window_attribute_int(window, "coroutine.birth_ns", (int64_t)event->birth_ns,
                                         &attributes[n++]);
        if (!r)
                r = window_attribute_string(window, "coroutine.state", "suspended", 9, &attributes[n++]);
        return r ? r : window_attribute_set(window, attributes, n, setp);
}

/*
 * Makes a native frame from the mapping in the trace. A mapping without a build id names no file. Return: 0 =
 * *wordp, 1 = not known, -errno.
 */
static int make_native(Window *window, const TracePlace *place, FrameWord *wordp) {
        const TraceMapping *mapping = place->mapping;
        const char *const texts[] = { mapping->path, mapping->build_id_gnu, mapping->build_id_go,
                                      mapping->build_id_htlhash };
        uint32_t strings[ARRAY_SIZE(texts)], index;
        WindowModule module;
        int r = 0;

        if (mapping->offset == TRACE_NO_OFFSET || (!*texts[1] && !*texts[2] && !*texts[3]))
                return 1;
        for (size_t i = 0; !r && i < ARRAY_SIZE(texts); i++)
                r = window_string(window, texts[i], strlen(texts[i]), &strings[i]);
        if (r)
                return r;
        module = (WindowModule){ .path = strings[0],
                                 .build_id_gnu = strings[1],
                                 .build_id_go = strings[2],
                                 .build_id_htlhash = strings[3],
                                 .start = mapping->address,
                                 .limit = mapping->address + (mapping->end - mapping->start),
                                 .offset = mapping->offset };
        r = window_module(window, &module, &index);
        return r ? r : window_native_frame(window, FRAME_MARK_NATIVE, index, place->address, wordp);
}

/* Makes a frame of an address that the writer named and no file knows: memory more often than code. */
static int make_unknown(Window *window, uint64_t address, FrameWord *wordp) {
        WindowFunction function = { 0 };
        WindowFrame frame = { .address = address };
        char name[19];
        int r;

        snprintf(name, sizeof(name), "0x%016" PRIx64, address);
        r = window_string(window, name, 18, &function.name);
        if (!r)
                r = window_function(window, &function, &frame.function);
        if (!r)
                r = window_string(window, "unknown", 7, &frame.type);
        return r ? r : window_frame(window, &frame, wordp);
}

static int make_stack(Reading *reading, const Coroutine *coroutine, uint32_t *stackp) {
        Window *window = reading->convert->window;
        TracePlace place = coroutine->code
                ? trace_code_find(reading->code, coroutine->code, coroutine->address)
                : (TracePlace){ 0 };
        FrameWord word;
        int r = place.mapping ? make_native(window, &place, &word) : 1;

        if (r == 1)
                r = make_unknown(window, coroutine->address, &word);
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
                r = make_stack(reading, coroutine, &stack);
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

/* Stations and mappings stand behind the events and are read first: they say what addresses are. */

static int take_station(void *userdata, const TraceStationEnd *end) {
        Reading *reading = userdata;
        StationCode *code;
        uint64_t keys[2];
        int r = 0;

        if (!end->code.process)
                return 0;
        code = arena_copy(&reading->arena, &end->code, sizeof(end->code));
        if (!code)
                return error_origin(-ENOMEM);
        /* events from before its birth was known are of the same one */
        keys[0] = trace_key((uint32_t)end->pid, (uint32_t)end->station, end->birth_ns, end->probe_id);
        keys[1] = trace_key((uint32_t)end->pid, (uint32_t)end->station, 0, end->probe_id);
        for (size_t i = 0; !r && i < ARRAY_SIZE(keys); i++)
                r = hashmap_put(&reading->codes, keys[i], code);
        return r;
}

static int take_mapping(void *userdata, const TraceMapping *mapping) {
        Reading *reading = userdata;

        return trace_code_mapping(reading->code, mapping);
}

static int begin(Reading *reading) {
        Window *window = reading->convert->window;
        int r = window_resource(window, UINT64_MAX - reading->convert->n_inputs++, &reading->resource);

        if (!r)
                r = window_profile(window, reading->resource, PROFILE_OFF_CPU, &reading->profile);
        return r ? r : trace_code_new(&reading->code);
}

static void end(Reading *reading, uint64_t n_malformed) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&reading->coroutines, &at)))
                free(entry->value);
        if (reading->convert->diagnostics)
                text_printf(reading->convert->diagnostics,
                            "%u coroutines: %" PRIu64 " suspended stretches, %" PRIu64
                            " not known for losses, %" PRIu64 " lines left out\n",
                            reading->coroutines.n_entries, reading->n_stretches, reading->n_torn,
                            n_malformed);
        hashmap_deinit(&reading->coroutines);
        hashmap_deinit(&reading->codes);
        arena_deinit(&reading->arena);
        trace_code_free(reading->code);
}

static int read_coro(Convert *convert, const Source *source, Text *problem) {
        Reading reading = { .convert = convert };
        const TraceTakers rows = { .station = take_station, .mapping = take_mapping, .userdata = &reading },
                          events = { .event = take_event, .userdata = &reading };
        TraceReadCounts of_rows = { 0 }, counts = { 0 };
        _cleanup_(text_deinit) Text ignored = { 0 };    /* the second reading says it */
        int r = begin(&reading), behind = r ? 0 : trace_source_read(source, &rows, &of_rows, &ignored);

        if (!r)
                r = MIN(behind, 0);
        if (!r)
                r = trace_source_read(source, &events, &counts, problem);
        if (reading.last_ns)
                convert_cover(convert, reading.first_ns, reading.last_ns + 1);
        end(&reading, counts.n_malformed);
        memcpy(counts.n_malformed_rows, of_rows.n_malformed_rows, sizeof(counts.n_malformed_rows));
        if (r == WINDOW_E_FULL)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        else if (!r && behind)
                text_printf(problem, "what it says behind its events cannot be read to the end");
        if (!r && (trace_read_tell(&counts, problem) || behind))
                r = CONVERT_E_INPUT;
        return r > 0 ? CONVERT_E_INPUT : r;
}

const ConvertReader convert_read_coro = { .name = "coroutine trace",
                                          .recognize = trace_source_recognize,
                                          .read = read_coro };
