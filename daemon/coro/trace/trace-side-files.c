/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Side files may be left from another trace of that name, or a trace was copied next to them. So they are
 * believed only if they fit: the coroutines of the trace's first 4,096 events are collected, and at least
 * half of them must have a row, of a time not before their last event there:
 *
 *      t.jsonl         station 0, birth 8569294269531, events until …333681915   ┐ 2 of 3 have a row that
 *                      station 1, birth 8569294272115, events until …333290114   │ ends no earlier: the
 *                      station 2, birth 8569294272988, events until …335000000   ┘ files are of this trace
 *      t.stations.csv  0,0,…,8569294269531,…,last_ts …333681915
 *                      0,1,…,8569294272115,…,last_ts …333290114
 *
 * Half is enough, since a killed engine or a full disk may cut either file. If the files do not fit, they are
 * left out with a warning. The tables of a database are inside it, and need no check.
 */

#include "coro/trace/trace-side-files.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/util/error.h"
#include "base/util/log.h"
#include "coro/trace/side-file.h"
#include "coro/trace/trace-db.h"

#define FOUND 1

/* The time as a value of the map: neither NULL nor FOUND. */
static void *time_value(uint64_t time_ns) {
        return (void *)(uintptr_t)(MIN(time_ns, UINT64_MAX - 2) + 2);
}

static uint64_t event_key(const CoroEvent *event) {
        return trace_key(event->pid, event->station, event->birth_ns, event->probe_id);
}

int trace_sample_add(TraceSample *sample, const CoroEvent *event) {
        void *known = hashmap_get(&sample->last_ns, event_key(event)), *value = time_value(event->time_ns);

        sample->n_events++;
        return (uintptr_t)known >= (uintptr_t)value ? 0
                                                    : hashmap_put(&sample->last_ns, event_key(event), value);
}

void trace_sample_deinit(TraceSample *sample) {
        hashmap_deinit(&sample->last_ns);
        *sample = (TraceSample){ 0 };
}

static void find(TraceSample *sample, uint64_t key, uint64_t last_ns) {
        void *known = hashmap_get(&sample->last_ns, key);

        if (!known || known == (void *)FOUND || (uintptr_t)known > (uintptr_t)time_value(last_ns))
                return;
        if (!hashmap_put(&sample->last_ns, key, (void *)FOUND))
                sample->n_found++;
}

static bool fits(const TraceSample *sample) {
        return 2 * (uint64_t)sample->n_found >= sample->last_ns.n_entries;
}

/* First events may be from before the birth was known. Return: 1 = the rows so far are enough. */
static int fit_station(void *userdata, const TraceStationEnd *end) {
        TraceSample *sample = userdata;

        find(sample, trace_key((uint32_t)end->pid, (uint32_t)end->station, end->birth_ns, end->probe_id),
             end->last_ns);
        if (end->birth_ns)
                find(sample, trace_key((uint32_t)end->pid, (uint32_t)end->station, 0, end->probe_id),
                     end->last_ns);
        return fits(sample);
}

/* Reading rows */

typedef struct Reading {
        const TraceRowFuncs *to;
        uint64_t n_malformed;
        uint64_t n;                     /* mappings handed on */
        TraceMappingTexts texts;
} Reading;

static int take_station(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        TraceStationEnd end;

        if (!trace_station_parse(line, size, &end))
                return reading->to->station(reading->to->userdata, &end);
        reading->n_malformed++;
        return 0;
}

static int take_mapping(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        TraceMapping mapping;

        if (trace_mapping_parse(line, size, &reading->texts, &mapping) || reading->n == TRACE_MAX_MAPPINGS) {
                reading->n_malformed++;
                return 0;
        }
        reading->n++;
        return reading->to->mapping(reading->to->userdata, &mapping);
}

/* Return: 0, SIDE_FILE_E_NONE, what @to->station returned, -ENOMEM. */
static int read_stations(const char *path, TraceForm form, const TraceRowFuncs *to, uint64_t *n_malformedp) {
        Reading reading = { .to = to };
        int r = form == TRACE_SQLITE ? trace_db_read_stations(path, take_station, &reading)
                                     : side_file_read(path, SIDE_FILE_STATIONS, take_station, &reading);

        *n_malformedp = reading.n_malformed;
        return r;
}

/* Reads mappings, the same way; rows beyond TRACE_MAX_MAPPINGS count as malformed. */
static int read_mappings(const char *path, TraceForm form, const TraceRowFuncs *to, uint64_t *n_malformedp) {
        Reading reading = { .to = to };
        int r = form == TRACE_SQLITE ? trace_db_read_mappings(path, take_mapping, &reading)
                                     : side_file_read(path, SIDE_FILE_MAPPINGS, take_mapping, &reading);

        *n_malformedp = reading.n_malformed;
        return r;
}

/* One sentence names both files, whichever is there. */
static int warn_of_another(const char *path) {
        _cleanup_(freep) char *stations = NULL, *mappings = NULL;
        int r = side_file_name(path, SIDE_FILE_STATIONS, &stations)
                ?: side_file_name(path, SIDE_FILE_MAPPINGS, &mappings);

        if (r)
                return r;
        log_warning("%s: what stands beside it (%s, %s) is of another trace, and is left out", path, stations,
                    mappings);
        return 0;
}

/* Return: 0 = the files fit, or there are none; 1 = they do not, which was said; -errno. */
static int check(const char *path, TraceForm form, TraceSample *sample) {
        uint64_t n_malformed = 0;
        int r;

        if (form == TRACE_SQLITE || fits(sample))
                return 0;
        r = read_stations(path, form, &(TraceRowFuncs){ fit_station, NULL, sample }, &n_malformed);
        if (r == SIDE_FILE_E_NONE && !side_file_exists(path, SIDE_FILE_MAPPINGS))
                return 0;
        if (r < 0 || fits(sample))
                return MIN(r, 0);
        return warn_of_another(path) ?: 1;
}

static bool is_input(const char *name, char *const *inputs, size_t n_inputs) {
        struct stat st, input;

        for (size_t i = 0; !stat(name, &st) && i < n_inputs; i++)
                if (!stat(inputs[i], &input) && st.st_dev == input.st_dev && st.st_ino == input.st_ino)
                        return true;
        return false;
}

int trace_side_files_find_owner(const char *path, TraceSample *sample, char *const *inputs, size_t n_inputs,
                                char **ownerp) {
        bool stations = side_file_exists(path, SIDE_FILE_STATIONS);
        uint64_t n_malformed;
        unsigned i = 0;
        int r;

        *ownerp = NULL;
        if (!stations && !side_file_exists(path, SIDE_FILE_MAPPINGS))
                return 0;
        r = read_stations(path, TRACE_JSONL, &(TraceRowFuncs){ fit_station, NULL, sample }, &n_malformed);
        if (r < 0 || (stations && sample->last_ns.n_entries && fits(sample)))
                return MIN(r, 0);
        do {
                free(take(*ownerp));
                r = side_file_sharer(path, &i, ownerp);
        } while (!r && *ownerp && is_input(*ownerp, inputs, n_inputs));
        return r;
}

void trace_side_files_warn_shared(const char *path, uint64_t n) {
        if (n)
                log_warning(
                        "%s: %" PRIu64
                        " of its coroutines %s in an earlier trace, too: if they are others, nothing tells them apart",
                        path, n, n == 1 ? "was" : "were");
}

static void tell(Text *problem, uint64_t n, const char *what) {
        if (n)
                text_printf(problem, "%s%" PRIu64 " of its %s are malformed and were left out",
                            problem->size ? "; " : "", n, what);
}

int trace_side_files_read(const char *path, TraceForm form, TraceSample *sample, const TraceRowFuncs *to,
                          Text *problem) {
        uint64_t n_stations = 0, n_mappings = 0;
        size_t before = problem->size;
        int r = check(path, form, sample), stations, mappings;

        if (r)
                return MIN(r, 0);
        stations = read_stations(path, form, to, &n_stations);
        mappings = stations < 0 ? 0 : read_mappings(path, form, to, &n_mappings);
        if (stations < 0 || mappings < 0)
                return MIN(stations, mappings);
        tell(problem, n_stations, "stations");
        tell(problem, n_mappings, "mappings");
        if (stations > SIDE_FILE_E_NONE || mappings > SIDE_FILE_E_NONE)
                text_printf(problem, "%swhat it says beside its events cannot be read to the end",
                            problem->size ? "; " : "");
        return problem->size > before ? TRACE_SIDE_FILES_E_PROBLEM : 0;
}
