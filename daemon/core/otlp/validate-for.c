/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pyroscope (grafana/pyroscope, 2.2): pkg/ingester/otlp/convert.go makes pprof of each profile, and names it
 * by type and period; pkg/validation holds the limits, here with their defaults. A profile that it refuses
 * makes the whole request one with status 400 or 500.
 *
 * Parca (parca-dev/parca at 3b5647c): pkg/normalizer/otel.go makes a row of each event.
 */

#include "core/otlp/validate-for.h"

#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"

enum {
        PYROSCOPE_SAMPLES = 16000,
        PYROSCOPE_BYTES = 4 << 20,
        PYROSCOPE_DEPTH = 1000,
        PYROSCOPE_LABELS = 30,
        FEW_SERIES = 2,
        MAX_SHOWN = 3,                  /* findings of one kind in one profile */
};

#define PYROSCOPE_AGE_NS (3600 * NS_PER_SEC)
#define PYROSCOPE_AHEAD_NS (600 * NS_PER_SEC)

static const char *string_at(const Check *check, int32_t index) {
        const CheckRows *strings = &check->tables[CHECK_STRINGS];

        return index > 0 && (size_t)index < strings->n ? strings->rows[index] : "";
}

static const char *type_name(const Check *check, const OtlpValueType *type) {
        return type ? string_at(check, type->type_strindex) : "";
}

static const char *unit_name(const Check *check, const OtlpValueType *type) {
        return type ? string_at(check, type->unit_strindex) : "";
}

static const OtlpAttribute *attribute_at(const Check *check, int32_t index) {
        const CheckRows *rows = &check->tables[CHECK_ATTRIBUTES];

        return index > 0 && (size_t)index < rows->n ? rows->rows[index] : NULL;
}

static size_t depth_of(const Check *check, const OtlpSample *sample) {
        const CheckRows *rows = &check->tables[CHECK_STACKS];

        if (sample->stack_index <= 0 || (size_t)sample->stack_index >= rows->n)
                return 0;
        return ((const OtlpStack *)rows->rows[sample->stack_index])->n_location_indices;
}

/* ---- Pyroscope ---- */

static void check_names(Check *check, const Place *here, const OtlpProfile *profile) {
        const char *type = type_name(check, profile->sample_type),
                   *unit = unit_name(check, profile->sample_type);
        bool off_cpu = !strcmp(type, "off_cpu") && !strcmp(unit, "nanoseconds");

        if (strchr(type, '-'))
                check_error(check, here, "sample_type", VALIDATE_BACKEND,
                            "a hyphen in %.60s: refused (sample type contains -)", type);
        if (!profile->period && !off_cpu)
                check_error(check, here, "period", VALIDATE_BACKEND,
                            "is 0: the profile gets no name and is refused; only off_cpu/nanoseconds may be so");
        else if (profile->period && !*type_name(check, profile->period_type))
                check_error(check, here, "period_type", VALIDATE_BACKEND,
                            "has no name, and so the profile has none: refused");
}

static void check_values(Check *check, const Place *here, const OtlpProfile *profile) {
        size_t n = 0;

        for (size_t i = 0; i < profile->n_samples && profile->period; i++)
                if (profile->samples[i]->n_values > 1 && n++ < MAX_SHOWN)
                        check_error(check, &(Place){ here, "samples", (ssize_t)i }, "values", VALIDATE_BACKEND,
                                    "%zu of them: the whole request is refused (sample values length mismatch)",
                                    profile->samples[i]->n_values);
}

/* Size as pprof, where each sample has its stack whole; locations by numbers of 3 bytes at most. */
static void check_limits(Check *check, const Place *here, const OtlpProfile *profile) {
        size_t bytes = 0, n_deep = 0;

        for (size_t i = 0; i < profile->n_samples; i++) {
                size_t depth = depth_of(check, profile->samples[i]);

                bytes += 3 * MIN(depth, (size_t)PYROSCOPE_DEPTH) + 24;
                n_deep += depth > PYROSCOPE_DEPTH;
        }
        if (profile->n_samples > PYROSCOPE_SAMPLES)
                check_error(check, here, "samples", VALIDATE_BACKEND, "%zu; more than %d are refused",
                            profile->n_samples, PYROSCOPE_SAMPLES);
        if (bytes > PYROSCOPE_BYTES)
                check_error(check, here, "samples", VALIDATE_BACKEND,
                            "some %zu bytes as pprof; more than %d are refused", bytes, PYROSCOPE_BYTES);
        if (n_deep)
                check_warning(check, here, "samples", VALIDATE_BACKEND,
                              "%zu stacks are cut at %d frames", n_deep, PYROSCOPE_DEPTH);
}

static void check_age(Check *check, const Place *here, const OtlpProfile *profile) {
        uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);

        if (profile->time_unix_nano + PYROSCOPE_AGE_NS < now_ns)
                check_error(check, here, "time_unix_nano", VALIDATE_BACKEND,
                            "more than an hour ago: refused (outside of ingestion window); send it within the hour, or "
                            "raise reject_older_than of the receiver's limits");
        else if (profile->time_unix_nano > now_ns + PYROSCOPE_AHEAD_NS)
                check_error(check, here, "time_unix_nano", VALIDATE_BACKEND,
                            "more than 10 minutes ahead: refused (outside of ingestion window); set the sender's "
                            "clock");
}

/* Attributes that make a series: all but the ids of spans, and the service's name. */
static size_t series_key(Check *check, const OtlpSample *sample, int32_t *key) {
        static const char *const none[] = { "trace_id", "span_id", "service.name" };
        size_t n = 0;

        for (size_t i = 0; i < sample->n_attribute_indices; i++) {
                const OtlpAttribute *row = attribute_at(check, sample->attribute_indices[i]);
                bool counts = row;

                for (size_t k = 0; k < ARRAY_SIZE(none) && counts; k++)
                        counts = strcmp(string_at(check, row->key_strindex), none[k]) != 0;
                if (counts)
                        key[n++] = sample->attribute_indices[i];
        }
        qsort(key, n, sizeof(*key), check_by_index);
        return n;
}

static void check_series(Check *check, const Place *here, const OtlpProfile *profile) {
        size_t n_series = 0, n_most = 0;

        check_forget(&check->identities);
        for (size_t i = 0; i < profile->n_samples && !check->failed; i++) {
                size_t n = profile->samples[i]->n_attribute_indices;
                int32_t *key = (int32_t *)(void *)check_reserve(check, (n + 1) * sizeof(*key));

                if (!key)
                        return;
                n = series_key(check, profile->samples[i], key);
                n_most = MAX(n_most, n);
                n_series += check_seen(check, &check->identities, key, n * sizeof(*key)) < 0;
        }
        if (n_most > PYROSCOPE_LABELS)
                check_error(check, here, "samples", VALIDATE_BACKEND,
                            "%zu attributes on a sample; a series with more than %d labels is refused", n_most,
                            PYROSCOPE_LABELS);
        if (n_series > FEW_SERIES)
                check_warning(check, here, "samples", VALIDATE_BACKEND,
                              "%zu series, one for each set of attributes (lean ones: attributes = lean)",
                              n_series);
}

static void check_pyroscope(Check *check, const Place *here, const OtlpProfile *profile) {
        check_names(check, here, profile);
        check_values(check, here, profile);
        check_limits(check, here, profile);
        check_age(check, here, profile);
        check_series(check, here, profile);
}

/* ---- Parca ---- */

static void check_parca(Check *check, const Place *here, const OtlpProfile *profile) {
        size_t n_times = 0, n_links = 0;

        for (size_t i = 0; i < profile->n_samples; i++) {
                n_times += profile->samples[i]->n_timestamps_unix_nano;
                n_links += profile->samples[i]->link_index > 0;
        }
        if (n_times)
                check_warning(check, here, "samples", VALIDATE_BACKEND,
                              "%zu timestamps make a row each (timestamps = off: one for a sample)", n_times);
        if (n_links)
                check_warning(check, here, "samples", VALIDATE_BACKEND,
                              "%zu links to spans are left out", n_links);
}

/* ---- all of them ---- */

void check_resource_for(Check *check, const Place *here, const OtlpResource *resource) {
        for (size_t i = 0; check->backend != VALIDATE_FOR_OTLP && i < resource->n_attributes; i++) {
                const OtlpKeyValue *pair = resource->attributes[i];
                Place item = { here, "resource.attributes", (ssize_t)i };

                if (!pair->value || pair->value->value_case == OTLP_ANY_STRING)
                        continue;
                check_warning(check, &item, NULL, VALIDATE_BACKEND,
                              check->backend == VALIDATE_FOR_PYROSCOPE
                                      ? "%.100s is no string: refused behind a Collector"
                                      : "%.100s is no string, and so no label",
                              pair->key);
        }
}

void check_profile_for(Check *check, const Place *here, const OtlpProfile *profile) {
        if (check->backend == VALIDATE_FOR_PYROSCOPE)
                check_pyroscope(check, here, profile);
        else if (check->backend == VALIDATE_FOR_PARCA)
                check_parca(check, here, profile);
}

void check_request_for(Check *check) {
        if (check->backend == VALIDATE_FOR_PARCA && check->tables[CHECK_FUNCTIONS].n > 1)
                check_warning(check, NULL, "dictionary.function_table", VALIDATE_BACKEND,
                              "names come out wrong: this reader takes the row before the one that is meant");
}
