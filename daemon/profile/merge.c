/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/hashmap.h"
#include "util/intern.h"

/* Index + 1 in the other window of each row that something has referred to; 0 = not yet. */
typedef struct Merge {
        Window *into;
        const Window *from;
        uint32_t *stacks, *sets, *links, *resources;
        Hashmap frames;                 /* word → index in `words`, + 1 */
        FrameWord *words;
        size_t n_words, words_room;
        FrameWord *stack;               /* that is being made */
        size_t stack_room;
        int64_t shift_ns;               /* from times of the one to times of the other */
} Merge;

static void merge_deinit(Merge *merge) {
        free(merge->stacks);
        free(merge->sets);
        free(merge->links);
        free(merge->resources);
        free(merge->words);
        free(merge->stack);
        hashmap_deinit(&merge->frames);
        *merge = (Merge){ 0 };
}

static int merge_init(Merge *merge, Window *into, const Window *from) {
        *merge = (Merge){
                .into = into, .from = from,
                .stacks = calloc(window_n_stacks(from), sizeof(uint32_t)),
                .sets = calloc(window_n_attribute_sets(from), sizeof(uint32_t)),
                .links = calloc(window_n_links(from), sizeof(uint32_t)),
                .resources = calloc(window_n_resources(from), sizeof(uint32_t)),
                .shift_ns = window_realtime_offset_ns(from) - window_realtime_offset_ns(into),
        };
        return merge->stacks && merge->sets && merge->links && merge->resources ? 0 : error_origin(-ENOMEM);
}

static int copy_string(const Window *from, uint32_t string, Window *into, uint32_t *indexp) {
        const char *text;
        size_t size;

        *indexp = 0;
        if (!string)
                return 0;
        text = window_get_string(from, string, &size);
        return window_string(into, text, size, indexp);
}

/* ---- frames ---- */

static int copy_module(const Window *from, uint32_t index, Window *into, uint32_t *indexp) {
        const WindowModule *row = window_get_module(from, index);
        WindowModule copy = { .start = row->start, .limit = row->limit, .offset = row->offset };
        int r;

        *indexp = 0;
        if (!index)
                return 0;
        r = copy_string(from, row->path, into, &copy.path);
        if (!r)
                r = copy_string(from, row->build_id_gnu, into, &copy.build_id_gnu);
        if (!r)
                r = copy_string(from, row->build_id_go, into, &copy.build_id_go);
        if (!r)
                r = copy_string(from, row->build_id_htlhash, into, &copy.build_id_htlhash);
        return r ? r : window_module(into, &copy, indexp);
}

static int copy_function(const Window *from, uint32_t index, Window *into, uint32_t *indexp) {
        const WindowFunction *row = window_get_function(from, index);
        WindowFunction copy = { .start_line = row->start_line };
        int r;

        *indexp = 0;
        if (!index)
                return 0;
        r = copy_string(from, row->name, into, &copy.name);
        if (!r)
                r = copy_string(from, row->system_name, into, &copy.system_name);
        if (!r)
                r = copy_string(from, row->filename, into, &copy.filename);
        return r ? r : window_function(into, &copy, indexp);
}

static int copy_attribute(const Window *from, uint32_t index, Window *into, uint32_t *indexp) {
        const WindowAttribute *row = window_get_attribute(from, index);
        WindowAttribute copy = { .kind = row->kind, .integer = row->integer };
        int r;

        *indexp = 0;
        if (!index)
                return 0;
        r = copy_string(from, row->key, into, &copy.key);
        if (!r)
                r = copy_string(from, row->unit, into, &copy.unit);
        if (!r)
                r = copy_string(from, row->string, into, &copy.string);
        return r ? r : window_attribute(into, &copy, indexp);
}

static int make_room(FrameWord **wordsp, size_t *roomp, size_t n) {
        size_t room = MAX(2 * *roomp, n + 64);
        FrameWord *bigger;

        if (n <= *roomp)
                return 0;
        bigger = reallocarray(*wordsp, room, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        *wordsp = bigger;
        *roomp = room;
        return 0;
}

static int copy_frame(const Window *from, FrameWord word, Window *into, FrameWord *wordp) {
        WindowFrame row = window_expand_frame(from, word), copy = { .address = row.address, .line = row.line };
        int r;

        r = copy_module(from, row.module, into, &copy.module);
        if (!r)
                r = copy_function(from, row.function, into, &copy.function);
        if (!r)
                r = copy_string(from, row.type, into, &copy.type);
        if (!r)
                r = copy_attribute(from, row.attribute, into, &copy.attribute);
        return r ? r : window_frame(into, &copy, wordp);
}

static int find_frame(Merge *merge, FrameWord word, FrameWord *wordp) {
        void *known = hashmap_get(&merge->frames, word);
        int r;

        if (known) {
                *wordp = merge->words[(uintptr_t)known - 1];
                return 0;
        }
        r = make_room(&merge->words, &merge->words_room, merge->n_words + 1);
        if (!r)
                r = copy_frame(merge->from, word, merge->into, wordp);
        if (r)
                return r;
        merge->words[merge->n_words++] = *wordp;
        return error_fold(hashmap_put(&merge->frames, word, (void *)(uintptr_t)merge->n_words));
}

static int merge_stack(Merge *merge, uint32_t stack, uint32_t *indexp) {
        size_t n;
        const FrameWord *words = window_get_stack(merge->from, stack, &n);
        int r = make_room(&merge->stack, &merge->stack_room, n);

        for (size_t i = 0; i < n && !r; i++)
                r = find_frame(merge, words[i], &merge->stack[i]);
        return r ? r : window_stack(merge->into, merge->stack, n, indexp);
}

/* ---- what stands beside the stack ---- */

static int merge_attributes(Merge *merge, const uint32_t *attributes, size_t n, uint32_t copies[static WINDOW_MAX_SET]) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = copy_attribute(merge->from, attributes[i], merge->into, &copies[i]);
        return r;
}

static int merge_set(Merge *merge, uint32_t set, uint32_t *indexp) {
        uint32_t copies[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(merge->from, set, &n);
        int r = merge_attributes(merge, attributes, n, copies);

        return r ? r : window_attribute_set(merge->into, copies, n, indexp);
}

static int merge_link(Merge *merge, uint32_t link, uint32_t *indexp) {
        return window_link(merge->into, window_get_link(merge->from, link), indexp);
}

/* Known by what describes it, as 64 bits of a seeded hash. */
static int merge_resource(Merge *merge, uint32_t resource, uint32_t *indexp) {
        uint32_t copies[WINDOW_MAX_SET], n_before = window_n_resources(merge->into);
        size_t n;
        const uint32_t *attributes = window_get_resource(merge->from, resource, &n);
        int r = merge_attributes(merge, attributes, n, copies);

        if (!r)
                r = window_resource(merge->into, hash_bytes(copies, n * sizeof(*copies)), indexp);
        if (r || window_n_resources(merge->into) == n_before)
                return r;
        return window_resource_attributes(merge->into, *indexp, copies, n);
}

/* The row's index in the other window; carried over with the first reference. Row 0 is row 0. */
static int refer(Merge *merge, uint32_t *known, uint32_t row, int (*make)(Merge *, uint32_t, uint32_t *), uint32_t *indexp) {
        int r;

        *indexp = 0;
        if (!row)
                return 0;
        if (!known[row]) {
                r = make(merge, row, indexp);
                if (r)
                        return r;
                known[row] = *indexp + 1;
        }
        *indexp = known[row] - 1;
        return 0;
}

/* ---- samples ---- */

static int merge_profile(Merge *merge, const WindowProfile *profile, uint32_t *indexp) {
        WindowProfileNames names;
        uint32_t resource;
        int r;

        r = refer(merge, merge->resources, profile->resource, merge_resource, &resource);
        if (!r && profile->type < PROFILE_N_TYPES) {
                r = window_profile(merge->into, resource, profile->type, indexp);
                if (!r && !window_get_profile(merge->into, *indexp)->period)
                        window_set_profile_period(merge->into, *indexp, profile->period);
                return r;
        }
        if (!r)
                r = copy_string(merge->from, profile->names.type, merge->into, &names.type);
        if (!r)
                r = copy_string(merge->from, profile->names.unit, merge->into, &names.unit);
        if (!r)
                r = copy_string(merge->from, profile->names.period_type, merge->into, &names.period_type);
        if (!r)
                r = copy_string(merge->from, profile->names.period_unit, merge->into, &names.period_unit);
        return r ? r : window_profile_named(merge->into, resource, &names, profile->period, indexp);
}

static int merge_events(Merge *merge, const WindowSample *sample, uint32_t profile, uint32_t number, uint64_t *n_donep) {
        int r = 0;

        for (uint32_t i = 0; i < sample->n_times && !r; i++) {
                r = window_sample_event(merge->into, profile, number, sample->values ? sample->values[i] : 1,
                                        sample->times_ns[i] + (uint64_t)merge->shift_ns, true);
                *n_donep += !r;
        }
        return r;
}

/* What was summed up without times is one event; of a sample with both, the rest of the sum. */
static int merge_untimed(Merge *merge, const WindowSample *sample, uint32_t profile, uint32_t stack, uint32_t set,
                         uint32_t link, uint64_t *n_donep) {
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

        r = refer(merge, merge->stacks, sample->stack, merge_stack, &stack);
        if (!r)
                r = refer(merge, merge->sets, sample->attributes, merge_set, &set);
        if (!r)
                r = refer(merge, merge->links, sample->link, merge_link, &link);
        if (!r && sample->n_times)
                r = window_sample_number(merge->into, profile, stack, set, link, &number);
        if (!r && sample->n_times)
                r = merge_events(merge, sample, profile, number, n_donep);
        return r ? r : merge_untimed(merge, sample, profile, stack, set, link, n_donep);
}

/* What finds no room is counted, and the next sample may still find its rows there. */
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
        Merge merge;
        int r = merge_init(&merge, into, from);

        if (!r)
                r = merge_all(&merge, n_lostp);
        merge_deinit(&merge);
        return r;
}
