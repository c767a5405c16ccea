/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over the samples twice, in the order in which they were first met:
 *
 *     1. { resource, span } → the last set of attributes with a name          GET, then GET /cart/:id
 *     2. a sample of that span whose set has another name, or none, gets a set with that name in its place
 *
 * Samples carry the ids of their span as a link, whose number stands for it here.
 */

#include "host/sampling/aggregate/span-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/profile/operation.h"

enum { MAX_SPANS = 1 << 20 };           /* a window has fewer samples */

/* A span of one process. */
typedef struct SpanKey {
        uint32_t resource, link;
} SpanKey;

typedef struct Names {
        Window *window;
        bool *named;                    /* by set; for those that were there at first */
        Intern spans;                   /* SpanKey → number */
        uint32_t *sets;                 /* by number: the last set with a name */
        uint32_t room;
        uint32_t set[WINDOW_MAX_SET];   /* being made */
} Names;

/* Return: whether any set has a name. Few windows of services without a publisher do. */
static bool find_named(Names *names, uint32_t n_sets) {
        uint32_t attribute;
        bool any = false;

        for (uint32_t i = 0; i < n_sets; i++) {
                names->named[i] = operation_of_set(names->window, i, &attribute);
                any |= names->named[i];
        }
        return any;
}

static SpanKey span_of(const Names *names, const WindowSampleKey *sample) {
        return (SpanKey){ window_get_profile(names->window, sample->profile)->resource, sample->link };
}

static int learn(void *userdata, WindowSampleKey *sample) {
        Names *names = userdata;
        SpanKey key = span_of(names, sample);
        uint32_t number;
        int r;

        if (!sample->link || !names->named[sample->attributes])
                return 0;
        r = intern_add(&names->spans, &key, sizeof(key), &number);
        if (r == INTERN_E_FULL)
                return 0;
        if (r >= 0)
                r = array_reserve(&names->sets, &names->room, number + 1u, 256);
        if (r)
                return error_fold(r);
        names->sets[number] = sample->attributes;
        return 0;
}

/* Attributes of @set that are the name of a span, or all others. */
static size_t take_attributes(Names *names, uint32_t set, bool is_name, size_t n) {
        const Window *window = names->window;
        size_t n_set, size;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n_set);

        for (size_t i = 0; i < n_set && n < WINDOW_MAX_SET; i++) {
                const char *key = window_get_string(window, window_get_attribute(window, attributes[i])->key,
                                                    &size);

                if ((operation_key_place(key, size) < OPERATION_N_KEYS) == is_name)
                        names->set[n++] = attributes[i];
        }
        return n;
}

/* The name is first: of a set with too many attributes it is not the one that goes. */
static int rename_sample(void *userdata, WindowSampleKey *sample) {
        Names *names = userdata;
        SpanKey key = span_of(names, sample);
        uint32_t number;
        size_t n;

        if (!sample->link || intern_find(&names->spans, &key, sizeof(key), &number) ||
            names->sets[number] == sample->attributes)
                return 0;
        n = take_attributes(names, names->sets[number], true, 0);
        n = take_attributes(names, sample->attributes, false, n);
        return window_attribute_set(names->window, names->set, n, &sample->attributes);
}

int span_names_settle(Window *window) {
        uint32_t n_sets = window_n_attribute_sets(window);
        Names names = { .window = window, .named = calloc(n_sets + 1u, sizeof(*names.named)) };
        int r = names.named ? 0 : error_origin(-ENOMEM);

        intern_init(&names.spans, MAX_SPANS);
        if (!r && find_named(&names, n_sets))
                r = window_change_keys(window, learn, &names);
        if (!r && names.spans.n_items)
                r = window_change_keys(window, rename_sample, &names);
        intern_deinit(&names.spans);
        free(names.named);
        free(names.sets);
        return r;
}
