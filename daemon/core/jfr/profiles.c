/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Profiles of a recording: one for each way of measuring that wrote events.
 *
 * While samples are read each profile has names of its own. What else there is, is known at the end: then the
 * first of those that measure the same gets the names that this measure has everywhere, and others keep
 * theirs, so that no total counts the same twice.
 *
 *     jdk.ExecutionSample alone               samples/count
 *     jdk.CPUTimeSample beside it             samples/count and execution_samples/count
 */

#include "core/jfr/profiles.h"

#include "core/base/util/macro.h"

/*
 * Intervals where the recording has none, or 0: of async-profiler and Datadog's, and of the JDK's
 * default.jfc.
 */
enum { DEFAULT_CPU_NS = 10000000, DEFAULT_WALL_NS = 50000000, DEFAULT_JDK_NS = 20000000 };

/* The seed's words for the attribute `profile.type`, and OTLP's for the profile. */
static const struct {
        const char *type_attribute, *type, *unit, *period_type, *period_unit;
        bool timed;
} measures[JFR_N_MEASURES] = {
        [JFR_CPU] = { "cpu", "samples", "count", "cpu", "nanoseconds", true },
        [JFR_WALL] = { "wall", "wall", "count", "wall", "nanoseconds", true },
        [JFR_ALLOC] = { "alloc-samples", "alloc_space", "bytes", "space", "bytes" },
        [JFR_LOCK] = { "lock-contention", "lock_contention", "nanoseconds", "lock_contention",
                       "nanoseconds" },
        [JFR_NATIVE_ALLOC] = { "native-alloc", "native_alloc_space", "bytes", "space", "bytes" },
        [JFR_LIVE] = { "live-objects", "inuse_space", "bytes", "space", "bytes" },
        [JFR_WAIT] = { "off-cpu", "off_cpu", "nanoseconds", "off_cpu", "nanoseconds" },
        [JFR_LIVE_COUNT] = { "live-objects", "inuse_objects", "count", "objects", "count" },
        [JFR_EXCEPTION] = { "exceptions", "exceptions", "count", "exceptions", "count" },
};

static const struct {
        JfrMeasure measure;
        const char *type;               /* where it is not the first */
        uint64_t period_ns;             /* where the recording has none */
} groups[JFR_N_GROUPS] = {
        [JFR_DATADOG_CPU] = { JFR_CPU, "datadog_samples", DEFAULT_CPU_NS },
        [JFR_CPU_TIME] = { JFR_CPU, "cpu_time_samples", DEFAULT_JDK_NS },
        [JFR_EXECUTION] = { JFR_CPU, "execution_samples", DEFAULT_JDK_NS },
        [JFR_ASYNC_WALL] = { JFR_WALL, "wall_clock_samples", DEFAULT_WALL_NS },
        [JFR_DATADOG_WALL] = { JFR_WALL, "datadog_wall_samples", DEFAULT_WALL_NS },
        [JFR_NATIVE_METHOD] = { JFR_WALL, "native_method_samples", DEFAULT_JDK_NS },
        [JFR_TLAB] = { JFR_ALLOC, "tlab_space" },
        [JFR_DATADOG_ALLOC] = { JFR_ALLOC, "datadog_alloc_space" },
        [JFR_ALLOC_SAMPLE] = { JFR_ALLOC, "sampled_alloc_space" },
        [JFR_LOCKS] = { JFR_LOCK, "lock_contention" },
        [JFR_MALLOC] = { JFR_NATIVE_ALLOC, "native_alloc_space" },
        [JFR_ASYNC_LIVE] = { JFR_LIVE, "live_object_space" },
        [JFR_DATADOG_LIVE] = { JFR_LIVE, "datadog_live_space" },
        [JFR_WAITS] = { JFR_WAIT, "jfr_off_cpu" },
        [JFR_OLD_OBJECTS] = { JFR_LIVE_COUNT, "old_objects" },
        [JFR_THROWN] = { JFR_EXCEPTION, "thrown_exceptions" },
};

typedef struct Names {
        const char *type, *unit, *period_type, *period_unit;
} Names;

bool jfr_group_is_timed(JfrGroup group) {
        return measures[groups[group].measure].timed;
}

static bool is_of_time(JfrMeasure measure) {
        return measure == JFR_CPU || measure == JFR_WALL || measure == JFR_WAIT;
}

bool jfr_group_is_of_time(JfrGroup group) {
        return is_of_time(groups[group].measure);
}

bool jfr_type_is_without_time(const char *type) {
        for (unsigned i = 0; i < JFR_N_MEASURES; i++)
                if (!strcmp(type, measures[i].type))
                        return !is_of_time((JfrMeasure)i);
        for (unsigned i = 0; i < JFR_N_GROUPS; i++)
                if (!strcmp(type, groups[i].type))
                        return !is_of_time(groups[i].measure);
        return false;
}

/* Of profiles by their names, as these are what the window has; what async-profiler was told is the last. */
unsigned jfr_profile_rank(const Window *window, const WindowProfile *profile) {
        const char *type = window_get_string(window, profile->names.type, NULL);

        if (!strcmp(type, "cpu"))
                return JFR_CPU;
        for (unsigned i = 0; i < JFR_N_MEASURES; i++)
                if (!strcmp(type, measures[i].type))
                        return i;
        for (unsigned i = 0; i < JFR_N_GROUPS; i++)
                if (!strcmp(type, groups[i].type))
                        return groups[i].measure;
        return JFR_N_MEASURES;
}

/* async-profiler takes jdk.ExecutionSample at whatever it was told: cache-misses, calls of a method. */
static bool is_cpu_event(const Text *event) {
        static const char *const names[] = { "cpu", "itimer", "ctimer", "cpu-clock", "task-clock" };

        for (size_t i = 0; event->size && i < ARRAY_SIZE(names); i++)
                if (!strcmp(event->data, names[i]))
                        return true;
        return !event->size;
}

static bool is_wall_event(const Text *event) {
        return event->size && !strcmp(event->data, "wall");
}

/* Whether the group counts neither time of a CPU nor of the clock, but what async-profiler was told. */
static bool is_event_group(const JfrReader *reader, JfrGroup group) {
        return group == JFR_EXECUTION && !is_cpu_event(&reader->current.event) &&
                !is_wall_event(&reader->current.event);
}

static Names group_names(const JfrReader *reader, JfrGroup group, bool first) {
        JfrMeasure measure = groups[group].measure;

        if (is_event_group(reader, group))
                return (Names){ reader->current.event.data, "count", reader->current.event.data, "count" };
        return (Names){ first ? measures[measure].type : groups[group].type, measures[measure].unit,
                        measures[measure].period_type, measures[measure].period_unit };
}

static int intern_names(JfrReader *reader, Names names, WindowProfileNames *indexes) {
        const char *const texts[] = { names.type, names.unit, names.period_type, names.period_unit };
        uint32_t *const strings[] = { &indexes->type, &indexes->unit, &indexes->period_type,
                                      &indexes->period_unit };
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts) && !r; i++)
                r = window_string(reader->window, texts[i], strlen(texts[i]), strings[i]);
        return r;
}

static int make_profile(JfrReader *reader, JfrGroup group, uint32_t *profilep) {
        const char *word = is_event_group(reader, group) ? reader->current.event.data
                                                         : measures[groups[group].measure].type_attribute;
        WindowProfileNames names;
        int r = intern_names(reader, group_names(reader, group, false), &names);

        if (!r)
                r = window_profile_named(reader->window, reader->resource, &names, 0, profilep);
        if (!r)
                r = window_attribute_string(reader->window, "profile.type", word, strlen(word),
                                            &reader->type_attributes[group]);
        return r;
}

/* Notes the events that a profile has already, of another recording or of earlier chunks. */
static void note_past(JfrReader *reader, JfrGroup group) {
        const WindowProfile *profile = window_get_profile(reader->window, reader->profiles[group] - 1);

        reader->periods.n[group] = profile->n_events;
        reader->periods.sums[group] = (double)profile->period * (double)profile->n_events;
}

int jfr_profile_find(JfrReader *reader, JfrGroup group, uint32_t *profilep) {
        int r;

        if (!reader->profiles[group]) {
                r = make_profile(reader, group, profilep);
                if (r)
                        return r;
                reader->profiles[group] = *profilep + 1;
                note_past(reader, group);
                if (!reader->result->n_profiles++)
                        reader->result->profile = *profilep;
        }
        *profilep = reader->profiles[group] - 1;
        return 0;
}

/*
 * Before 4.0, and when told so (`nobatch`), async-profiler writes samples of the wall clock as
 * jdk.ExecutionSample. Only these have a state; those of the CPU's time have STATE_DEFAULT.
 */
int jfr_profile_group(JfrReader *reader, const JfrPlan *plan, const uint64_t *slots, JfrGroup *groupp) {
        const JfrField *field = plan->fields[JFR_SLOT_STATE];
        uint32_t state = 0;
        const char *name;
        int r;

        *groupp = plan->type->group;
        reader->current.has_execution |= *groupp == JFR_EXECUTION;
        if (!reader->current.by_async || *groupp != JFR_EXECUTION)
                return 0;
        if (is_wall_event(&reader->current.event))
                *groupp = JFR_ASYNC_WALL;
        if (!field || *groupp == JFR_ASYNC_WALL)
                return 0;
        r = jfr_names_text(&reader->names, field->class, slots[JFR_SLOT_STATE], &state);
        if (r)
                return r;
        name = window_get_string(reader->window, state, NULL);
        if (!strcmp(name, "STATE_RUNNABLE") || !strcmp(name, "STATE_SLEEPING"))
                *groupp = JFR_ASYNC_WALL;
        return 0;
}

/* Periods */

/* `10 ms`, `20000000` (ns), `512 kB`; 0 = none of these. */
static uint64_t parse_period(const char *text) {
        static const struct {
                const char *unit;
                uint64_t factor;
        } units[] = { { "", 1 },           { " ns", 1 },           { " us", 1000 },        { " ms", 1000000 },
                      { " s", 1000000000 }, { "ns", 1 },            { "us", 1000 },         { "ms", 1000000 },
                      { "s", 1000000000 } };
        size_t n = strspn(text, "0123456789");
        char digits[24];
        uint64_t value;

        if (!n || n >= sizeof(digits))
                return 0;
        memcpy(digits, text, n);
        digits[n] = 0;
        if (text_u64(digits, INT64_MAX / 1000000000, &value))
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (!strcmp(text + n, units[i].unit))
                        return value * units[i].factor;
        return 0;
}

static void set_interval(JfrReader *reader, uint64_t ns, const char *value) {
        if (!strcmp(value, "0"))
                ns = is_wall_event(&reader->current.event)     ? DEFAULT_WALL_NS
                        : is_cpu_event(&reader->current.event) ? DEFAULT_CPU_NS
                                                               : 0;
        reader->periods.said[is_wall_event(&reader->current.event) ? JFR_ASYNC_WALL : JFR_EXECUTION] = ns;
        reader->periods.interval_said = true;
}

/* The JDK writes `period`, also for events that are switched off; the other names are profilers'. */
static void set_period(JfrReader *reader, JfrGroup group, const char *name, uint64_t period,
                       const char *value) {
        if (group == JFR_EXECUTION && !strcmp(name, "interval"))
                set_interval(reader, period, value);
        else if (group != JFR_EXECUTION || !reader->periods.interval_said)
                reader->periods.said[group] = period;
}

/*
 * Recordings that were taken at different events may stand behind each other in one file. What it was is said
 * before all samples.
 */
static int set_event(JfrReader *reader, const char *value) {
        int r = 0;

        if ((reader->current.event.size && !strcmp(reader->current.event.data, value)) ||
            reader->current.has_execution)
                return 0;
        if (reader->profiles[JFR_EXECUTION])
                r = jfr_profiles_finish(reader);
        reader->profiles[JFR_EXECUTION] = 0;
        reader->periods.said[JFR_EXECUTION] = 0;
        reader->periods.interval_said = false;
        reader->current.event.size = 0;
        text_append(&reader->current.event, value, strlen(value));
        return r;
}

int jfr_profile_setting(JfrReader *reader, const JfrPlan *plan, const char *name, const char *value) {
        uint64_t period = parse_period(value);

        if (!plan && !strcmp(name, "version"))
                reader->current.by_async = true;
        else if (!plan && !strcmp(name, "event"))
                return set_event(reader, value);
        else if (!strcmp(name, "wall"))
                reader->periods.said[JFR_ASYNC_WALL] = reader->periods.said[JFR_DATADOG_WALL] =
                        strcmp(value, "0") ? period : DEFAULT_WALL_NS;
        else if (!strcmp(name, "alloc"))
                reader->periods.said[JFR_TLAB] = reader->periods.said[JFR_DATADOG_ALLOC] = period;
        else if (plan && (!strcmp(name, "period") || !strcmp(name, "interval")))
                set_period(reader, plan->type->group, name, period, value);
        else if (!strcmp(name, "interval"))
                reader->periods.said[JFR_EXECUTION] = reader->periods.said[JFR_DATADOG_CPU] = period;
        return 0;
}

/* The mean of periods that events of this chunk give; 0 = they give none. */
static double mean_of_own(const JfrReader *reader) {
        double sum = 0, n = 0;

        for (uint32_t i = 0; reader->current.class_counts && i < reader->current.metadata.n_classes; i++) {
                sum += reader->current.class_counts[i].periods_ns;
                n += (double)reader->current.class_counts[i].n_periods;
        }
        return n > 0 ? sum / n : 0;
}

/* Receivers refuse or misread a period of 0: then it is the default of its profiler. */
static uint64_t usual_period(const JfrReader *reader, JfrGroup group) {
        if (is_event_group(reader, group))
                return 0;
        return group == JFR_EXECUTION && reader->current.by_async ? (uint64_t)DEFAULT_CPU_NS
                                                          : groups[group].period_ns;
}

/*
 * The period of a group in this chunk. Values in bytes are scaled to all that was allocated: without a
 * setting an event stands for itself.
 */
static double period_now(JfrReader *reader, JfrGroup group) {
        JfrMeasure measure = groups[group].measure;

        if (measure == JFR_LOCK || measure == JFR_WAIT)
                return 0;
        if (group == JFR_CPU_TIME && mean_of_own(reader) > 0)
                return mean_of_own(reader);
        if (!measures[measure].timed)
                return (double)MAX(reader->periods.said[group], 1u);
        if (reader->periods.said[group])
                return (double)reader->periods.said[group];
        reader->periods.assumed |= usual_period(reader, group) > 0;
        return (double)usual_period(reader, group);
}

/* Adds the chunk's periods up. A profile gets their mean, so that number times period is the measured sum. */
void jfr_profiles_end_chunk(JfrReader *reader) {
        for (JfrGroup i = 0; i < JFR_N_GROUPS; i++) {
                uint64_t n;

                if (!reader->profiles[i])
                        continue;
                n = window_get_profile(reader->window, reader->profiles[i] - 1)->n_events -
                        reader->periods.n[i];
                if (n)
                        reader->periods.sums[i] += period_now(reader, i) * (double)n;
                reader->periods.n[i] += n;
        }
}

static int64_t period_of(const JfrReader *reader, JfrGroup group) {
        return reader->periods.n[group]
                ? (int64_t)(reader->periods.sums[group] / (double)reader->periods.n[group] + 0.5)
                : 0;
}

/* Names */

/* The profile of the resource with these names: index + 1, 0 = none. */
static uint32_t find_named(const JfrReader *reader, const WindowProfileNames *names) {
        for (uint32_t i = 0; i < window_n_profiles(reader->window); i++) {
                const WindowProfile *profile = window_get_profile(reader->window, i);

                if (profile->resource == reader->resource && !memcmp(&profile->names, names, sizeof(*names)))
                        return i + 1;
        }
        return 0;
}

static int rename_group(JfrReader *reader, JfrGroup group, bool first) {
        WindowProfileNames names;
        int r = intern_names(reader, group_names(reader, group, first), &names);

        if (!r)
                window_rename_profile(reader->window, reader->profiles[group] - 1, &names);
        return r;
}

/* Notes a type that is there twice, for people. */
static void note_twice(JfrReader *reader, JfrGroup group) {
        JfrResult *result = reader->result;

        for (uint32_t i = 0; i < result->n_twice; i++)
                if (result->twice[i].other == groups[group].type)
                        return;
        if (result->n_twice == JFR_MAX_TWICE)
                return;
        result->twice[result->n_twice].type = measures[groups[group].measure].type;
        result->twice[result->n_twice++].other = groups[group].type;
}

/* A profile of another recording of the same process may have the usual names already: then it keeps them. */
static int name_measure(JfrReader *reader, JfrMeasure measure) {
        WindowProfileNames usual;
        JfrGroup first = JFR_N_GROUPS;
        uint32_t holder;
        int r = 0;

        for (JfrGroup i = 0; i < JFR_N_GROUPS && !r; i++) {
                if (!reader->profiles[i] || groups[i].measure != measure || is_event_group(reader, i))
                        continue;
                if (first == JFR_N_GROUPS)
                        first = i;
                else
                        note_twice(reader, i);
                r = rename_group(reader, i, false);
        }
        if (r || first == JFR_N_GROUPS)
                return r;
        r = intern_names(reader, group_names(reader, first, true), &usual);
        if (r)
                return r;
        holder = find_named(reader, &usual);
        if (!holder || holder == reader->profiles[first])
                return rename_group(reader, first, true);
        note_twice(reader, first);
        return 0;
}

int jfr_profiles_finish(JfrReader *reader) {
        int r = 0;

        for (int i = 0; i < JFR_N_MEASURES && !r; i++)
                r = name_measure(reader, (JfrMeasure)i);
        for (JfrGroup i = 0; i < JFR_N_GROUPS; i++)
                if (reader->profiles[i])
                        window_set_profile_period(reader->window, reader->profiles[i] - 1,
                                                  period_of(reader, i));
        return r;
}
