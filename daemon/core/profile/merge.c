/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies each profile and its samples into the open window. Times move by the difference of the two
 * clocks' offsets.
 */

#include "core/profile/merge.h"

#include "core/profile/remap.h"

typedef struct Merge {
        Remap remap;
        Window *into;
        const Window *from;
        int64_t shift_ns;               /* added to times of the source window */
} Merge;

/* Row 0 is row 0. */
static int make_resource(Remap *remap, uint32_t resource, uint32_t *indexp) {
        uint32_t remapped[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_resource(remap->from, resource, &n);
        int r;

        *indexp = 0;
        if (!resource)
                return 0;
        r = remap_attributes(remap, attributes, n, remapped);
        return r ? r : remap_resource(remap, remapped, n, indexp);
}

static int merge_profile(Merge *merge, const WindowProfile *profile, uint32_t *indexp) {
        WindowProfileNames names;
        uint32_t resource;
        int r;

        r = remap_row(&merge->remap, REMAP_RESOURCES, profile->resource, make_resource, &resource);
        if (!r && profile->type < PROFILE_N_TYPES) {
                r = window_profile(merge->into, resource, profile->type, indexp);
                if (!r && !window_get_profile(merge->into, *indexp)->period)
                        window_set_profile_period(merge->into, *indexp, profile->period);
                return r;
        }
        r = r ? r : remap_profile_names(&merge->remap, &profile->names, &names);
        return r ? r : window_profile_named(merge->into, resource, &names, profile->period, indexp);
}

static int merge_events(Merge *merge, const WindowSample *sample, uint32_t profile, uint32_t number,
                        uint64_t *n_donep) {
        int r = 0;

        for (uint32_t i = 0; i < sample->n_times && !r; i++) {
                r = window_sample_event(merge->into, profile, number, sample->values ? sample->values[i] : 1,
                                        sample->times_ns[i] + (uint64_t)merge->shift_ns, true);
                *n_donep += !r;
        }
        return r;
}

/* A sum without times is one event; of a sample with both, the rest of the sum. */
static int merge_untimed(Merge *merge, const WindowSample *sample, uint32_t profile, uint32_t stack,
                         uint32_t set, uint32_t link, uint64_t *n_donep) {
        int64_t rest = sample->value;
        int r;

        if (sample->n_events == sample->n_times)
                return 0;
        for (uint32_t i = 0; i < sample->n_times; i++)
                rest -= sample->values ? sample->values[i] : 1;
        r = window_sample_untimed(merge->into, profile, stack, set, link, rest);
        *n_donep += r ? 0 : sample->n_events - sample->n_times;
        return r;
}

static int merge_sample(Merge *merge, const WindowSample *sample, uint32_t profile, uint64_t *n_donep) {
        uint32_t stack, set, link, number;
        int r;

        r = remap_stack(&merge->remap, sample->stack, &stack);
        r = r ? r : remap_set(&merge->remap, sample->attributes, &set);
        r = r ? r : remap_link(&merge->remap, sample->link, &link);
        if (!r && sample->n_times)
                r = window_sample_number(merge->into, profile, stack, set, link, &number);
        if (!r && sample->n_times)
                r = merge_events(merge, sample, profile, number, n_donep);
        return r ? r : merge_untimed(merge, sample, profile, stack, set, link, n_donep);
}

/* A sample without room is counted; the next one may still find its rows there. */
static int merge_samples(Merge *merge, uint32_t from, uint32_t profile, uint64_t *n_lostp) {
        const WindowProfile *row = window_get_profile(merge->from, from);
        const double before = window_get_profile(merge->into, profile)->total;

        for (uint32_t i = 0; i < row->n_samples; i++) {
                uint64_t n_done = 0;
                WindowSample sample;
                int r;

                window_get_sample(merge->from, from, i, &sample);
                r = merge_sample(merge, &sample, profile, &n_done);
                if (r < 0)
                        return r;
                *n_lostp += sample.n_events - n_done;
        }
        window_mix_profile_period(merge->into, profile, before, row->period);
        return 0;
}

static int merge_all(Merge *merge, uint64_t *n_lostp) {
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(merge->from) && r >= 0; i++) {
                const WindowProfile *row = window_get_profile(merge->from, i);
                uint32_t profile;

                r = merge_profile(merge, row, &profile);
                if (r > 0)
                        *n_lostp += row->n_events;
                else if (!r)
                        r = merge_samples(merge, i, profile, n_lostp);
        }
        return MIN(r, 0);
}

int window_merge(Window *into, const Window *from, uint64_t *n_lostp) {
        Merge merge = {
                .into = into, .from = from,
                .shift_ns = window_realtime_offset_ns(from) - window_realtime_offset_ns(into),
        };
        int r = remap_init(&merge.remap, into, from);

        if (!r)
                r = merge_all(&merge, n_lostp);
        remap_deinit(&merge.remap);
        return r;
}
