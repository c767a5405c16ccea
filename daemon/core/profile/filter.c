/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Judges resources, links and sets of attributes once each and keeps a verdict a row; words are patterns of
 * fnmatch(3).
 */

#include "core/profile/filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/profile/operation.h"
#include "core/profile/span-reach.h"

enum { VERDICT_YES = 1, VERDICT_NO };

static const char *const process_keys[] = { "process.executable.name", "service.name", "process.pid", NULL };
static const char *const service_keys[] = { "service.name", NULL };
static const char *const host_keys[] = { "host.name", NULL };
static const char *const thread_keys[] = { "thread.id", "thread.name", NULL };
static const char *const coroutine_keys[] = { "coroutine.id", "coroutine.probe_id", "coroutine.station",
                                              "coroutine.name", NULL };

static bool by_process(const FilterOptions *options) {
        return options->n_pids || options->comms.n_items || options->processes.n_items;
}

bool filter_has_times(const FilterOptions *options) {
        return options->start_ns || options->end_ns != UINT64_MAX;
}

bool filter_is_needed(const FilterOptions *options) {
        return by_process(options) || options->services.n_items || options->hosts.n_items ||
                options->threads.n_items || options->spans.n_items ||
                options->traces.n_items || options->operations.n_items ||
                options->coroutines.n_items || options->types.n_items || options->slower_ns ||
                filter_has_times(options);
}

void filter_deinit(WindowFilter *filter) {
        free(filter->resources);
        free(filter->sets);
        free(filter->links);
        free(filter->slow);
        *filter = (WindowFilter){ 0 };
}

bool filter_words_match(const FilterWords *words, const char *text) {
        for (size_t i = 0; i < words->n_items; i++)
                if (!fnmatch(words->items[i], text, 0))
                        return true;
        return false;
}

static const char *attribute_text(const Window *window, const WindowAttribute *attribute, char *to,
                                  size_t size) {
        if (attribute->kind == ATTRIBUTE_STRING)
                return window_get_string(window, attribute->string, NULL);
        snprintf(to, size, "%" PRId64, attribute->integer);
        return to;
}

static bool is_key(const char *key, const char *const *keys) {
        for (; *keys; keys++)
                if (!strcmp(key, *keys))
                        return true;
        return false;
}

static bool value_matches(const WindowFilter *filter, const WindowAttribute *attribute,
                          const FilterWords *words) {
        char number[24];

        return filter_words_match(words, attribute_text(filter->window, attribute, number, sizeof(number)));
}

/* Whether one of the attributes has one of the keys and a value that matches one of the words. */
static bool attributes_match(const WindowFilter *filter, const uint32_t *attributes, size_t n,
                             const char *const *keys, const FilterWords *words) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(filter->window, attributes[i]);

                if (is_key(window_get_string(filter->window, attribute->key, NULL), keys) &&
                    value_matches(filter, attribute, words))
                        return true;
        }
        return false;
}

/* Any of the keys counts: people ask for a route as well as for the name of the span. */
static bool operation_matches(const WindowFilter *filter, const uint32_t *attributes, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(filter->window, attributes[i]);
                size_t size;
                const char *key = window_get_string(filter->window, attribute->key, &size);

                if (operation_key_place(key, size) < OPERATION_N_KEYS &&
                    value_matches(filter, attribute, &filter->options->operations))
                        return true;
        }
        return false;
}

static bool has_pid(const WindowFilter *filter, const uint32_t *attributes, size_t n) {
        const FilterOptions *options = filter->options;

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(filter->window, attributes[i]);

                if (attribute->kind != ATTRIBUTE_INT ||
                    strcmp(window_get_string(filter->window, attribute->key, NULL), "process.pid"))
                        continue;
                for (size_t k = 0; k < options->n_pids; k++)
                        if (attribute->integer == (int64_t)options->pids[k])
                                return true;
        }
        return false;
}

static bool judge_resource(const WindowFilter *filter, uint32_t resource) {
        const FilterOptions *options = filter->options;
        size_t n;
        const uint32_t *attributes = window_get_resource(filter->window, resource, &n);

        if (by_process(options) && !has_pid(filter, attributes, n) &&
            !attributes_match(filter, attributes, n, process_keys, &options->comms) &&
            !attributes_match(filter, attributes, n, process_keys, &options->processes))
                return false;
        if (options->hosts.n_items && !attributes_match(filter, attributes, n, host_keys, &options->hosts))
                return false;
        return !options->services.n_items ||
                attributes_match(filter, attributes, n, service_keys, &options->services);
}

bool filter_wants_resource(WindowFilter *filter, uint32_t resource) {
        uint8_t *verdict = &filter->resources[resource];

        if (!*verdict)
                *verdict = judge_resource(filter, resource) ? VERDICT_YES : VERDICT_NO;
        return *verdict == VERDICT_YES;
}

bool filter_wants_profile(const WindowFilter *filter, const WindowProfile *profile) {
        const FilterWords *types = &filter->options->types;

        return !types->n_items ||
                filter_words_match(types, window_get_string(filter->window, profile->names.type, NULL));
}

/* Leading zeros do not count: users leave them out, and so do programs that print numbers. */
static bool is_id(const FilterWords *words, const uint8_t *id, size_t size) {
        char hex[33], *digits = hex;

        text_to_hex(hex, id, size);
        digits += strspn(digits, "0");
        for (size_t i = 0; i < words->n_items; i++) {
                const char *word = words->items[i];

                if (!strcasecmp(word + strspn(word, "0"), digits))
                        return true;
        }
        return false;
}

static bool judge_ids(const WindowFilter *filter, const WindowLink *link) {
        const FilterOptions *options = filter->options;

        return (!options->spans.n_items || is_id(&options->spans, link->span_id, sizeof(link->span_id))) &&
               (!options->traces.n_items || is_id(&options->traces, link->trace_id, sizeof(link->trace_id)));
}

/* A trace without a span is no link, but an attribute (reshape.c). */
static bool has_trace(const WindowFilter *filter, const WindowSample *sample) {
        const FilterOptions *options = filter->options;
        const FilterWords *words = &options->traces;
        size_t n;
        const uint32_t *set = window_get_attribute_set(filter->window, sample->attributes, &n);

        for (size_t i = 0; i < n && !sample->link && !options->spans.n_items; i++) {
                const WindowAttribute *row = window_get_attribute(filter->window, set[i]);
                const char *id = window_get_string(filter->window, row->string, NULL);

                if (row->kind != ATTRIBUTE_STRING ||
                    strcmp(window_get_string(filter->window, row->key, NULL), "trace_id"))
                        continue;
                for (size_t k = 0; k < words->n_items; k++)
                        if (!strcasecmp(words->items[k] + strspn(words->items[k], "0"), id + strspn(id, "0")))
                                return true;
        }
        return false;
}

static bool wants_link(WindowFilter *filter, uint32_t link) {
        uint8_t *verdict = &filter->links[link];

        if (!filter->options->spans.n_items && !filter->options->traces.n_items)
                return true;
        if (!*verdict)
                *verdict = link && judge_ids(filter, window_get_link(filter->window, link)) ? VERDICT_YES
                                                                                            : VERDICT_NO;
        return *verdict == VERDICT_YES;
}

static uint64_t number_of(const WindowFilter *filter, const uint32_t *attributes, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(filter->window, attributes[i]);

                if (attribute->kind == ATTRIBUTE_INT &&
                    !strcmp(window_get_string(filter->window, attribute->key, NULL), key))
                        return (uint64_t)attribute->integer;
        }
        return UINT64_MAX;
}

/*
 * A coroutine's id is an attribute if that was asked for; else it is made of the attributes that are there.
 */
static bool is_coroutine(const WindowFilter *filter, const uint32_t *attributes, size_t n) {
        const FilterWords *words = &filter->options->coroutines;
        uint64_t station = number_of(filter, attributes, n, "coroutine.station");
        uint64_t birth_ns = number_of(filter, attributes, n, "coroutine.birth_ns");
        char id[48];

        if (attributes_match(filter, attributes, n, coroutine_keys, words))
                return true;
        snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu64, station, birth_ns);
        return station != UINT64_MAX && birth_ns != UINT64_MAX && filter_words_match(words, id);
}

static bool judge_set(const WindowFilter *filter, uint32_t set) {
        const FilterOptions *options = filter->options;
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(filter->window, set, &n);

        return (!options->threads.n_items ||
                attributes_match(filter, attributes, n, thread_keys, &options->threads)) &&
                (!options->coroutines.n_items || is_coroutine(filter, attributes, n));
}

static bool wants_set(WindowFilter *filter, uint32_t set) {
        uint8_t *verdict = &filter->sets[set];

        if (!filter->options->threads.n_items && !filter->options->coroutines.n_items)
                return true;
        if (!*verdict)
                *verdict = judge_set(filter, set) ? VERDICT_YES : VERDICT_NO;
        return *verdict == VERDICT_YES;
}

static bool wants_operation(const WindowFilter *filter, const WindowSample *sample) {
        const FilterOptions *options = filter->options;
        const char *name = NULL;
        size_t n;
        const uint32_t *attributes;

        if (!options->operations.n_items)
                return true;
        attributes = window_get_attribute_set(filter->window, sample->attributes, &n);
        if (operation_matches(filter, attributes, n))
                return true;
        if (sample->link && options->operation)
                name = options->operation(window_get_link(filter->window, sample->link), options->userdata);
        return name && filter_words_match(&options->operations, name);
}

static bool is_of_operation(void *userdata, const WindowProfile *profile, const WindowSample *sample) {
        return wants_operation(userdata, sample);
}

int filter_init(WindowFilter *filter, const FilterOptions *options, const Window *window) {
        *filter = (WindowFilter){ .options = options, .window = window };
        filter->resources = calloc(window_n_resources(window) + 1u, 1);
        filter->sets = calloc(window_n_attribute_sets(window) + 1u, 1);
        filter->links = calloc(window_n_links(window) + 1u, 1);
        if (!filter->resources || !filter->sets || !filter->links)
                return error_origin(-ENOMEM);
        if (!options->slower_ns)
                return 0;
        return span_reach_slow_traces(window, options->slower_ns, is_of_operation, filter, &filter->slow);
}

bool filter_wants_sample(WindowFilter *filter, const WindowSample *sample) {
        return (wants_link(filter, sample->link) || has_trace(filter, sample)) &&
                wants_set(filter, sample->attributes) &&
                (filter->slow ? filter->slow[sample->link] : wants_operation(filter, sample));
}

bool filter_wants_time(const WindowFilter *filter, uint64_t time_ns) {
        uint64_t realtime_ns = time_ns + (uint64_t)window_realtime_offset_ns(filter->window);

        return realtime_ns >= filter->options->start_ns && realtime_ns < filter->options->end_ns;
}
