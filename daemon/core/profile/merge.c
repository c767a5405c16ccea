/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Carries each profile and its samples into the open window. Times move by the difference of the two
 * clocks' offsets.
 */

#include "core/profile/merge.h"

#include "core/profile/carry.h"

typedef struct Merge {
        Carry carry;
        Window *into;
        const Window *from;
        int64_t shift_ns;               /* added to times of the source window */
} Merge;

/* Row 0 is row 0. */
static int make_resource(Carry *carry, uint32_t resource, uint32_t *indexp) {
        uint32_t carried[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_resource(carry->from, resource, &n);
        int r;

        *indexp = 0;
        if (!resource)
                return 0;
        r = carry_attributes(carry, attributes, n, carried);
        return r ? r : carry_resource(carry, carried, n, indexp);
}

static int merge_profile(Merge *merge, const WindowProfile *profile, uint32_t *indexp) {
        WindowProfileNames names;
        uint32_t resource;
        int r;

        r = carry_row(&merge->carry, CARRY_RESOURCES, profile->resource, make_resource, &resource);
        if (!r && profile->type < PROFILE_N_TYPES) {
                r = window_profile(merge->into, resource, profile->type, indexp);
                if (!r && !window_get_profile(merge->into, *indexp)->period)
                        window_set_profile_period(merge->into, *indexp, profile->period);
                return r;
        }
        r = r ? r : carry_profile_names(&merge->carry, &profile->names, &names);
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

        r = carry_stack(&merge->carry, sample->stack, &stack);
        r = r ? r : carry_set(&merge->carry, sample->attributes, &set);
        r = r ? r : carry_link(&merge->carry, sample->link, &link);
        if (!r && sample->n_times)
                r = window_sample_number(merge->into, profile, stack, set, link, &number);
        if (!r && sample->n_times)
                r = merge_events(merge, sample, profile, number, n_donep);
        return r ? r : merge_untimed(merge, sample, profile, stack, set, link, n_donep);
}

/* A sample without room is counted; the next one may still find its rows there. */
static int merge_samples(Merge *merge, uint32_t from, uint32_t profile, uint64_t *n_lostp) {
        const WindowProfile *row = window_get_profile(merge->from, from);

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
        int r = carry_init(&merge.carry, into, from);

        if (!r)
                r = merge_all(&merge, n_lostp);
        carry_deinit(&merge.carry);
        return r;
}
