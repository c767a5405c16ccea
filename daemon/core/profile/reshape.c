/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes
 *
 * Backends that index make a series of each distinct set of attributes: of the resource and of the sample
 * together. A lean window leaves of both what matches `keep`, so processes of one service become one
 * resource, and samples that differed in their thread alone become one sample:
 *
 *     shop, pid 7   {thread 71, stack a} 3      lean      shop   {stack a} 5
 *                   {thread 72, stack a} 1      ────▶            {stack b} 1
 *     shop, pid 8   {thread 81, stack a} 1
 *                   {thread 81, stack b} 1
 *
 * Links
 *
 * A Link of OTLP has a span id of 8 bytes that are not zero, so a trace alone cannot be one: a made-up span
 * would be a wrong one. The trace is an attribute then, `trace_id`, which is a string. Readers that know that
 * name (Pyroscope keeps it out of its series) find the samples of a trace, and all others see an attribute.
 *
 * Readers of a Collector's output
 *
 * A Collector writes keys and strings of resources as indexes, which some readers do not follow. So `repeat`
 * puts a resource's attributes on its samples, and `numbers` keeps those away that such a reader refuses.
 */

#include "core/profile/reshape.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/profile/remap.h"

typedef struct Reshape {
        Remap remap;                    /* first: makers get it back from there */
        const ReshapeOptions *options;
        Window *into;
        const Window *from;
        ReshapeLost lost;
        /* attributes that each sample of the resource at hand gets, as indices of the new window */
        uint32_t repeated[WINDOW_MAX_SET];
        size_t n_repeated;
} Reshape;

bool reshape_is_needed(const ReshapeOptions *options) {
        return options->lean || options->repeat.n_items || options->links != RESHAPE_LINKS_SPAN ||
                options->numbers != RESHAPE_NUMBERS_KEPT || options->plain_types || options->unnamed ||
                options->nameless || options->untimed || options->paths != REMAP_PATHS_FULL;
}

static const char *key_of(const Window *window, uint32_t attribute) {
        return window_get_string(window, window_get_attribute(window, attribute)->key, NULL);
}

static bool matches(const FilterWords *globs, const char *key) {
        for (size_t i = 0; i < globs->n_items; i++)
                if (!fnmatch(globs->items[i], key, 0))
                        return true;
        return false;
}

static bool wants(const Reshape *reshape, uint32_t attribute) {
        return !reshape->options->lean ||
                matches(&reshape->options->always, key_of(reshape->from, attribute)) ||
                matches(&reshape->options->keep, key_of(reshape->from, attribute));
}

/* ---- resources ---- */

static int remap_text(Reshape *reshape, uint32_t row, uint32_t *indexp) {
        const WindowAttribute *attribute = window_get_attribute(reshape->from, row);
        char text[32];
        double number;

        memcpy(&number, &attribute->integer, sizeof(number));
        if (attribute->kind == ATTRIBUTE_DOUBLE)
                snprintf(text, sizeof(text), "%.17g", number);
        else if (attribute->kind == ATTRIBUTE_BOOL)
                snprintf(text, sizeof(text), "%s", attribute->integer ? "true" : "false");
        else
                snprintf(text, sizeof(text), "%" PRId64, attribute->integer);
        return window_attribute_string(reshape->into, key_of(reshape->from, row), text, strlen(text), indexp);
}

/* Copies the wanted attributes of a resource. *np: how many. */
static int remap_wanted(Reshape *reshape, const uint32_t *attributes, size_t n, uint32_t *remapped,
                        size_t *np) {
        ReshapeNumbers numbers = reshape->options->numbers;
        int r = 0;

        *np = 0;
        for (size_t i = 0; i < n && !r; i++) {
                bool is_number = window_get_attribute(reshape->from, attributes[i])->kind != ATTRIBUTE_STRING;

                if (!wants(reshape, attributes[i]) || (is_number && numbers == RESHAPE_NUMBERS_OFF))
                        continue;
                if (is_number && numbers == RESHAPE_NUMBERS_TEXT)
                        r = remap_text(reshape, attributes[i], &remapped[*np]);
                else
                        r = remap_attributes(&reshape->remap, &attributes[i], 1, &remapped[*np]);
                ++*np;
        }
        return r;
}

/* Resources that are alike by now are one. Row 0 is row 0. */
static int make_resource(Remap *remap, uint32_t resource, uint32_t *indexp) {
        uint32_t remapped[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_resource(remap->from, resource, &n);
        int r;

        *indexp = 0;
        if (!resource)
                return 0;
        r = remap_wanted((Reshape *)remap, attributes, n, remapped, &n);
        return r ? r : remap_resource(remap, remapped, n, indexp);
}

static int find_repeated(Reshape *reshape, uint32_t resource) {
        size_t n;
        const uint32_t *attributes = window_get_resource(reshape->from, resource, &n);
        int r = 0;

        reshape->n_repeated = 0;
        for (size_t i = 0; i < n && !r && resource; i++) {
                uint32_t *to = &reshape->repeated[reshape->n_repeated];

                if (!matches(&reshape->options->repeat, key_of(reshape->from, attributes[i])))
                        continue;
                reshape->n_repeated++;
                r = window_get_attribute(reshape->from, attributes[i])->kind == ATTRIBUTE_STRING
                        ? remap_attributes(&reshape->remap, &attributes[i], 1, to)
                        : remap_text(reshape, attributes[i], to);
        }
        return r;
}

/* ---- samples ---- */

static int add_trace(Reshape *reshape, uint32_t link, uint32_t *set, size_t *np) {
        const WindowLink *row = window_get_link(reshape->from, link);
        char hex[2 * sizeof(row->trace_id) + 1];

        text_to_hex(hex, row->trace_id, sizeof(row->trace_id));
        return window_attribute_string(reshape->into, "trace_id", hex, strlen(hex), &set[(*np)++]);
}

/* The attributes of one sample, with those that come from its resource and its link. */
static int make_set(Reshape *reshape, const WindowSample *sample, uint32_t *setp) {
        uint32_t set[2 * WINDOW_MAX_SET + 1];
        size_t n, n_set = 0;
        const uint32_t *attributes = window_get_attribute_set(reshape->from, sample->attributes, &n);
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                if (wants(reshape, attributes[i]))
                        r = remap_attributes(&reshape->remap, &attributes[i], 1, &set[n_set++]);
        memcpy(set + n_set, reshape->repeated, reshape->n_repeated * sizeof(*set));
        n_set += reshape->n_repeated;
        if (!r && sample->link && reshape->options->links == RESHAPE_LINKS_TRACE)
                r = add_trace(reshape, sample->link, set, &n_set);
        return r ? r : window_attribute_set(reshape->into, set, n_set, setp);
}

static int add_times(Reshape *reshape, const WindowSample *old, uint32_t profile, uint32_t sample,
                     uint64_t *n_donep) {
        int r = 0;

        for (uint32_t i = 0; i < old->n_times && !r; i++) {
                r = window_sample_event(reshape->into, profile, sample, old->values ? old->values[i] : 1,
                                        old->times_ns[i], true);
                *n_donep += !r;
        }
        return r;
}

/* A sample with and without times: of the latter, what is left of the sum. */
static int add_events(Reshape *reshape, const WindowSample *old, uint32_t profile, uint32_t sample,
                      uint64_t *n_donep) {
        int64_t rest = old->value;
        int r;

        if (reshape->options->untimed || !old->n_times) {
                window_sample_sum(reshape->into, profile, sample, old->value, old->n_events);
                *n_donep = old->n_events;
                return 0;
        }
        r = add_times(reshape, old, profile, sample, n_donep);
        if (r || old->n_events == old->n_times)
                return r;
        for (uint32_t i = 0; i < old->n_times; i++)
                rest -= old->values ? old->values[i] : 1;
        window_sample_sum(reshape->into, profile, sample, rest, old->n_events - old->n_times);
        *n_donep = old->n_events;
        return 0;
}

static int add_sample(Reshape *reshape, const WindowSample *old, uint32_t profile, uint64_t *n_donep) {
        uint32_t stack, set, link = 0, sample;
        int r = remap_stack(&reshape->remap, old->stack, &stack);

        r = r ? r : make_set(reshape, old, &set);
        if (!r && reshape->options->links == RESHAPE_LINKS_SPAN)
                r = remap_link(&reshape->remap, old->link, &link);
        r = r ? r : window_sample_number(reshape->into, profile, stack, set, link, &sample);
        return r ? r : add_events(reshape, old, profile, sample, n_donep);
}

static void count_lost(Reshape *reshape, const WindowProfile *profile, uint64_t n) {
        reshape->lost.n_events += n;
        reshape->lost.n_cpu += profile_is_cpu(profile->type) ? n : 0;
}

/* ---- profiles ---- */

/* `wall-samples` counts what `wall` names; any other hyphen becomes a `_`. */
static int plain_name(Reshape *reshape, uint32_t *namep) {
        static const char tail[] = "-samples";
        char name[256];
        size_t size;
        const char *text = window_get_string(reshape->into, *namep, &size);

        if (!memchr(text, '-', size) || size >= sizeof(name))
                return 0;
        memcpy(name, text, size);
        if (size >= sizeof(tail) && !memcmp(text + size - strlen(tail), tail, strlen(tail)))
                size -= strlen(tail);
        for (size_t i = 0; i < size; i++)
                name[i] = name[i] == '-' ? '_' : name[i];
        return window_string(reshape->into, name, size, namep);
}

/* A type without a name of its own for the period takes that of its values. */
static int plain_names(Reshape *reshape, WindowProfileNames *names) {
        int r = plain_name(reshape, &names->type);

        r = r ? r : plain_name(reshape, &names->period_type);
        if (!names->period_type) {
                names->period_type = names->type;
                names->period_unit = names->unit;
        }
        return r;
}

static int open_profile(Reshape *reshape, const WindowProfile *old, uint32_t *profilep) {
        bool plain = reshape->options->plain_types;
        uint32_t resource, n_before = window_n_profiles(reshape->into);
        int64_t period = old->period;
        WindowProfileNames names;
        int r = remap_row(&reshape->remap, REMAP_RESOURCES, old->resource, make_resource, &resource);

        r = r ? r : find_repeated(reshape, old->resource);
        r = r ? r : remap_profile_names(&reshape->remap, &old->names, &names);
        if (!r && plain)
                r = plain_names(reshape, &names);
        if (plain && !profile_is_cpu(old->type) && old->type != PROFILE_OFF_CPU)
                period = MAX(period, (int64_t)1);
        if (r)
                return r;
        r = old->type == PROFILE_BOOST
                ? window_profile(reshape->into, resource, old->type, profilep)
                : window_profile_named(reshape->into, resource, &names, period, profilep);
        if (r)
                return r;
        if (!window_get_profile(reshape->into, *profilep)->period)
                window_set_profile_period(reshape->into, *profilep, period);
        if (old->last_ns)
                window_profile_covers(reshape->into, *profilep, old->first_ns, old->last_ns);
        if (window_n_profiles(reshape->into) == n_before)
                return 0;
        window_set_profile_id(reshape->into, *profilep, old->id);
        if (old->payload_format)
                window_set_profile_payload(reshape->into, *profilep, old->payload_format, old->payload,
                                           old->payload_size);
        return 0;
}

static int add_profile(Reshape *reshape, uint32_t index) {
        const WindowProfile *old = window_get_profile(reshape->from, index);
        uint32_t profile = 0;
        int r;

        if (!old->n_samples || (reshape->options->no_fine && old->type == PROFILE_FINE))
                return 0;
        r = open_profile(reshape, old, &profile);
        if (r > 0)
                count_lost(reshape, old, old->n_events);
        for (uint32_t i = 0; i < old->n_samples && !r; i++) {
                uint64_t n_done = 0;
                WindowSample sample;
                int error;

                window_get_sample(reshape->from, index, i, &sample);
                error = add_sample(reshape, &sample, profile, &n_done);
                if (error < 0)
                        return error;
                count_lost(reshape, old, sample.n_events - n_done);
        }
        return MIN(r, 0);
}

/*
 * Strips names from frames of files alone, as a rule: no backend names the kernel, interpreters and code made
 * at run time. Functions that were inlined go: the function that they are in stands for the address.
 */
static int put_unnamed(Remap *remap, FrameWord word, const WindowFrame *frame) {
        WindowFrame bare = *frame;
        const char *type = window_get_string(remap->into, frame->type, NULL);
        bool is_stripped = ((const Reshape *)remap)->options->nameless
                ? frame->module || frame->address || *type
                : frame->module && !strcmp(type, "native");

        if (!is_stripped)
                return remap_frame(remap, frame);
        bare.function = 0;
        bare.line = 0;
        return frame->is_inlined ? 0 : remap_frame(remap, &bare);
}

static int reshape_all(Reshape *reshape) {
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(reshape->from) && !r; i++)
                r = add_profile(reshape, i);
        return r ? r : window_close(reshape->into, window_end_ns(reshape->from));
}

int window_reshape(Window **windowp, const Window *from, const ReshapeOptions *options, ReshapeLost *lostp) {
        _cleanup_(window_freep) Window *into = NULL;
        Reshape reshape = { .options = options, .from = from };
        int r = window_new(&into, window_start_ns(from), window_realtime_offset_ns(from),
                           options->limits);

        if (r)
                return error_fold(r);
        reshape.into = into;
        r = remap_init(&reshape.remap, into, from);
        reshape.remap.expand = options->unnamed || options->nameless ? put_unnamed : NULL;
        reshape.remap.paths = options->paths;
        r = r ? r : reshape_all(&reshape);
        remap_deinit(&reshape.remap);
        if (r)
                return error_fold(r);
        *lostp = reshape.lost;
        *windowp = take(into);
        return 0;
}
