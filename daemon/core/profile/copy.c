/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over all samples of a window, asks the filter for each and the namer for each frame, and copies
 * what passes into a new window.
 */

#include "core/profile/copy.h"

#include <string.h>

#include "core/base/util/error.h"
#include "core/profile/remap.h"

static int add_name(Remap *remap, const CopyName *name, WindowFrame *frame) {
        WindowFunction function = { .start_line = name->start_line };
        int r = window_string(remap->into, name->name, strlen(name->name), &function.name);

        if (!r && name->system_name)
                r = window_string(remap->into, name->system_name, strlen(name->system_name),
                                  &function.system_name);
        if (!r && name->file)
                r = window_string(remap->into, name->file, strlen(name->file), &function.filename);
        frame->line = name->line;
        return r ? r : window_function(remap->into, &function, &frame->function);
}

/* Turns one frame into several where functions were inlined. */
static int put_named(Remap *remap, FrameWord word, const WindowFrame *frame) {
        const CopyOptions *options = remap->userdata;
        WindowFrame named = *frame;
        CopyName names[COPY_MAX_INLINED];
        size_t n = frame->module ? options->namer(options->userdata, word, names) : 0;
        int r = 0;

        if (!n)
                return remap_frame(remap, frame);
        for (size_t i = 0; i < n && !r; i++) {
                named.is_inlined = i + 1 < n || frame->is_inlined;
                r = add_name(remap, &names[i], &named);
                r = r ? r : remap_frame(remap, &named);
        }
        return r;
}

/* Keyed by number in the old window: equal resources that are apart there stay apart. */
static int make_resource(Remap *remap, uint32_t resource, uint32_t *indexp) {
        uint32_t remapped[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_resource(remap->from, resource, &n);
        int r = window_resource(remap->into, resource, indexp);

        r = r ? r : remap_attributes(remap, attributes, n, remapped);
        return r ? r : window_resource_attributes(remap->into, *indexp, remapped, n);
}

typedef struct Copy {
        Remap remap;
        Window *to;
        const Window *from;
        CopyCounts *counts;
        WindowFilter filter;
} Copy;

static void copy_deinit(Copy *copy) {
        remap_deinit(&copy->remap);
        filter_deinit(&copy->filter);
        window_free(copy->to);
}

static int copy_init(Copy *copy, const CopyOptions *options) {
        static const FilterOptions everything = { .end_ns = UINT64_MAX };
        const Window *from = copy->from;
        int r = window_new(&copy->to, window_start_ns(from), window_realtime_offset_ns(from),
                           options->limits);

        r = r ? r : remap_init(&copy->remap, copy->to, from);
        if (r)
                return r;
        copy->remap.expand = options->namer ? put_named : NULL;
        copy->remap.userdata = options;
        return filter_init(&copy->filter, options->filter ? options->filter : &everything, from);
}

/* ---- samples ---- */

static int64_t value_at(const WindowSample *sample, uint32_t i) {
        return sample->values ? sample->values[i] : 1;
}

static int copy_times(Copy *copy, const WindowSample *old, uint32_t profile, uint32_t sample) {
        for (uint32_t i = 0; i < old->n_times; i++) {
                int r;

                if (!filter_wants_time(&copy->filter, old->times_ns[i])) {
                        copy->counts->n_filtered++;
                        continue;
                }
                r = window_sample_event(copy->to, profile, sample, value_at(old, i), old->times_ns[i], true);
                if (r)
                        return r;
                copy->counts->n_kept++;
        }
        return 0;
}

/*
 * Events without times count whole. If a filter asks for a time, they cannot be judged: they are left out and
 * counted.
 */
static int copy_rest(Copy *copy, const WindowSample *old, uint32_t profile, uint32_t sample) {
        uint32_t n = old->n_events - old->n_times;
        int64_t rest = old->value;
        int r = 0;

        if (filter_has_times(copy->filter.options)) {
                copy->counts->n_untimed += n;
                return 0;
        }
        for (uint32_t i = 0; i < old->n_times; i++)
                rest -= value_at(old, i);
        for (uint32_t i = 0; i < n && !r; i++)
                r = window_sample_event(copy->to, profile, sample, i ? 0 : rest, 0, false);
        copy->counts->n_kept += n;
        return r;
}

static bool has_event(const Copy *copy, const WindowSample *sample) {
        if (!filter_has_times(copy->filter.options))
                return true;
        for (uint32_t i = 0; i < sample->n_times; i++)
                if (filter_wants_time(&copy->filter, sample->times_ns[i]))
                        return true;
        return false;
}

static int copy_sample(Copy *copy, const WindowSample *old, uint32_t profile) {
        uint32_t stack, attributes, link, sample;
        int r;

        if (!filter_wants_sample(&copy->filter, old)) {
                copy->counts->n_filtered += old->n_events;
                return 0;
        }
        if (!has_event(copy, old)) {
                copy->counts->n_filtered += old->n_times;
                copy->counts->n_untimed += old->n_events - old->n_times;
                return 0;
        }
        r = remap_stack(&copy->remap, old->stack, &stack);
        r = r ? r : remap_set(&copy->remap, old->attributes, &attributes);
        r = r ? r : remap_link(&copy->remap, old->link, &link);
        r = r ? r : window_sample_number(copy->to, profile, stack, attributes, link, &sample);
        r = r ? r : copy_times(copy, old, profile, sample);
        return !r && old->n_events > old->n_times ? copy_rest(copy, old, profile, sample) : r;
}

static int open_profile(Copy *copy, const WindowProfile *old, uint32_t *profilep) {
        WindowProfileNames names;
        uint32_t resource;
        int r = remap_row(&copy->remap, REMAP_RESOURCES, old->resource, make_resource, &resource);

        r = r ? r : remap_profile_names(&copy->remap, &old->names, &names);
        r = r ? r : window_profile_named(copy->to, resource, &names, old->period, profilep);
        if (r)
                return r;
        window_set_profile_id(copy->to, *profilep, old->id);
        if (old->payload_format)
                window_set_profile_payload(copy->to, *profilep, old->payload_format, old->payload,
                                           old->payload_size);
        return 0;
}

static int copy_profile(Copy *copy, uint32_t index) {
        const WindowProfile *old = window_get_profile(copy->from, index);
        uint32_t profile = 0;
        int r;

        if (!filter_wants_resource(&copy->filter, old->resource) ||
            !filter_wants_profile(&copy->filter, old)) {
                copy->counts->n_filtered += old->n_events;
                return 0;
        }
        r = open_profile(copy, old, &profile);
        for (uint32_t i = 0; i < old->n_samples && !r; i++) {
                WindowSample sample;

                window_get_sample(copy->from, index, i, &sample);
                r = copy_sample(copy, &sample, profile);
        }
        return r;
}

static int copy_all(Copy *copy) {
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(copy->from) && !r; i++)
                r = copy_profile(copy, i);
        for (uint32_t i = 1; i < window_n_resources(copy->from) && !r; i++)
                copy->counts->n_resources_filtered += !filter_wants_resource(&copy->filter, i);
        return r ? r : window_close(copy->to, window_end_ns(copy->from));
}

int window_copy(Window **windowp, const Window *from, const CopyOptions *options, CopyCounts *counts) {
        Copy copy = { .from = from, .counts = counts };
        int r = copy_init(&copy, options);

        *counts = (CopyCounts){ 0 };
        r = r ? r : copy_all(&copy);
        if (!r)
                *windowp = take(copy.to);
        copy_deinit(&copy);
        return r < 0 ? error_fold(r) : r;
}
