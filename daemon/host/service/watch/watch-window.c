/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A window's samples by sketch and plain name of the function that had the CPU, the largest first. A block of
 * a sketch has several windows, or, where builds are to be compared after seconds, a window several blocks.
 *
 * Names of a new program come a window late. What has names of less than a quarter counts for nothing then:
 * its functions would seem to have had no share.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/symbol/function/plain-name.h"
#include "host/service/watch/watch-private.h"

enum {
        MAX_NAMES = 1 << 16,            /* functions of a window */
        MAX_LEAVES = 2 * MAX_NAMES,     /* the same by sketch */
};

#define OTHERS "[others]"

/* A function's samples of a part of a window. */
typedef struct Leaf {
        uint64_t serial;                /* number of its sketch */
        uint32_t name;                  /* MAX_NAMES = others */
        uint32_t n;
} Leaf;

typedef struct Counting {
        const Window *window;
        Intern names;                   /* plain names, each with its NUL */
        uint32_t *plain;                /* by string: number of its plain name + 1 */
        Intern keys;                    /* serial and name */
        Leaf *leaves;
        uint64_t from_ns, to_ns;        /* part of the window that is counted; */
        bool is_whole;                  /* … all of it */
} Counting;

static int counting_init(Counting *counting, const Window *window) {
        *counting = (Counting){ .window = window };
        intern_init(&counting->names, MAX_NAMES);
        intern_init(&counting->keys, MAX_LEAVES);
        counting->plain = calloc(window_n_strings(window), sizeof(*counting->plain));
        counting->leaves = calloc(MAX_LEAVES, sizeof(*counting->leaves));
        return counting->plain && counting->leaves ? 0 : error_origin(-ENOMEM);
}

static void counting_deinit(Counting *counting) {
        intern_deinit(&counting->names);
        intern_deinit(&counting->keys);
        free(counting->plain);
        free(counting->leaves);
}

/* A frame without a function stands for its file. */
static int make_name(Counting *counting, const WindowFrame *frame, uint32_t string, uint32_t *namep) {
        _cleanup_(text_deinit) Text text = { 0 };
        const char *name = window_get_string(counting->window, string, NULL), *slash = strrchr(name, '/');
        int r;

        if (frame->function)
                plain_name_append(&text, name);
        else
                text_printf(&text, "[%s]", slash ? slash + 1 : *name ? name : "unknown");
        if (text.failed)
                return error_origin(-ENOMEM);
        if (!text.size)
                text_printf(&text, "[unknown]");
        r = intern_add(&counting->names, text.data, text.size + 1, namep);
        stat_add(COUNTER_WATCH_FUNCTIONS_OVER_CAP, r == INTERN_E_FULL);
        if (r == INTERN_E_FULL)
                *namep = MAX_NAMES;
        return MIN(r, 0);
}

static int find_name(Counting *counting, uint32_t stack, uint32_t *namep) {
        size_t n;
        const FrameWord *words = window_get_stack(counting->window, stack, &n);
        WindowFrame frame = n ? window_expand_frame(counting->window, words[0]) : (WindowFrame){ 0 };
        uint32_t string = frame.function ? window_get_function(counting->window, frame.function)->name
                                         : window_get_module(counting->window, frame.module)->path;
        int r = 0;

        if (frame.function && counting->plain[string]) {
                *namep = counting->plain[string] - 1;
                return 0;
        }
        r = make_name(counting, &frame, string, namep);
        if (!r && frame.function)
                counting->plain[string] = *namep + 1;
        return r;
}

static uint32_t count_events(const Counting *counting, const WindowSample *sample) {
        uint32_t n = 0;

        if (counting->is_whole)
                return sample->n_events;
        for (uint32_t i = 0; i < sample->n_times; i++)
                n += sample->times_ns[i] >= counting->from_ns && sample->times_ns[i] < counting->to_ns;
        return n;
}

static int count_sample(Counting *counting, uint64_t serial, const WindowSample *sample) {
        uint32_t n = count_events(counting, sample), index = MAX_LEAVES;
        uint64_t key[2] = { serial, 0 };
        uint32_t name;
        int r = n ? find_name(counting, sample->stack, &name) : 1;

        if (r)
                return MIN(r, 0);
        key[1] = name;
        r = intern_add(&counting->keys, key, sizeof(key), &index);
        if (r < 0)
                return error_fold(r);
        if (r == INTERN_E_FULL) {
                stat_add(COUNTER_WATCH_FUNCTIONS_OVER_CAP, 1);
                stat_add(COUNTER_WATCH_SAMPLES_UNKNOWN, n);
                return 0;
        }
        if (!r)
                counting->leaves[index] = (Leaf){ .serial = serial, .name = name };
        counting->leaves[index].n += n;
        return 0;
}

static int count_profile(Counting *counting, uint64_t serial, uint32_t profile) {
        uint32_t n = window_get_profile(counting->window, profile)->n_samples;
        WindowSample sample;
        int r = 0;

        for (uint32_t i = 0; i < n && !r; i++) {
                window_get_sample(counting->window, profile, i, &sample);
                r = count_sample(counting, serial, &sample);
        }
        return r;
}

static int by_size(const void *a, const void *b) {
        const Leaf *x = a, *y = b;

        if (x->serial != y->serial)
                return x->serial < y->serial ? -1 : 1;
        return (x->n < y->n) - (x->n > y->n);
}

static const char *name_of(const Counting *counting, const Leaf *leaf) {
        return leaf->name < MAX_NAMES ? intern_get(&counting->names, leaf->name)->data : OTHERS;
}

/* Leaves of one sketch: @n; *allp: their samples. */
static bool has_names(const Counting *counting, const Leaf *leaves, uint32_t n, uint64_t *allp) {
        uint64_t n_named = 0;

        *allp = 0;
        for (uint32_t i = 0; i < n; i++) {
                *allp += leaves[i].n;
                n_named += *name_of(counting, &leaves[i]) != '[' ? leaves[i].n : 0;
        }
        return 4 * n_named >= *allp;
}

static void feed_sketch(Watch *watch, const Counting *counting, const Leaf *leaves, uint32_t n, uint64_t ns) {
        Sketch *sketch = watch_sketch(watch, leaves->serial);
        uint32_t n_without = 0;
        uint64_t n_samples;

        if (!has_names(counting, leaves, n, &n_samples) || !sketch) {
                stat_add(COUNTER_WATCH_SAMPLES_UNKNOWN, n_samples);
                return;
        }
        for (uint32_t i = 0; i < n; i++) {
                const char *name = name_of(counting, &leaves[i]);

                n_without += !sketch_add(sketch, sketch_hash(name), name, leaves[i].n);
        }
        sketch_pass(sketch, ns, watch->time_ns / SKETCH_ENOUGH_BLOCKS);
        stat_add(COUNTER_WATCH_FUNCTIONS_OVER_CAP, n_without);
}

static void feed(Watch *watch, Counting *counting, uint64_t ns) {
        uint32_t n = counting->keys.n_items, begin = 0;

        qsort(counting->leaves, n, sizeof(*counting->leaves), by_size);
        for (uint32_t i = 1; i <= n; i++) {
                if (i < n && counting->leaves[i].serial == counting->leaves[begin].serial)
                        continue;
                feed_sketch(watch, counting, &counting->leaves[begin], i - begin, ns);
                begin = i;
        }
        intern_reset(&counting->keys);
}

/* ---- comparing ---- */

static void say(const WatchService *service) {
        const SketchVerdict *verdict = &service->verdict;
        const SketchSlower *first = &verdict->slower[0];
        char more[48] = "";

        if (!verdict->n_slower) {
                log_info("build %s of %s (user %u, %s) takes no more in any of %u functions than build %s",
                         verdict->after, service->service, service->user, service->place, verdict->n_compared,
                         verdict->before);
                return;
        }
        if (verdict->n_slower > 1)
                snprintf(more, sizeof(more), ", and %u functions more", verdict->n_slower - 1);
        log_warning("build %s of %s (user %u, %s) is slower than build %s: %s takes %.1f %% of the CPU time, not "
                    "%.1f %% (%+.1f to %+.1f points)%s: see `spanprof watch`",
                    verdict->after, service->service, service->user, service->place, verdict->before,
                    first->name, first->after / 1e4, first->before / 1e4, first->low / 1e4, first->high / 1e4,
                    more);
}

static void judge(WatchService *service) {
        if (service->is_compared || !service->before || !sketch_is_enough(service->now) ||
            !sketch_is_enough(service->before))
                return;
        sketch_compare(service->before, service->now, &service->verdict);
        service->is_compared = true;
        stat_add(COUNTER_WATCH_BUILDS_COMPARED, 1);
        stat_add(COUNTER_WATCH_BUILDS_SLOWER, service->verdict.n_slower > 0);
        say(service);
}

static int count_parts(Watch *watch, Counting *counting, const uint64_t *serials) {
        const Window *window = counting->window;
        uint64_t start_ns = window_start_ns(window), length_ns = window_end_ns(window) - start_ns;
        uint64_t block_ns = MAX(watch->time_ns / SKETCH_ENOUGH_BLOCKS, 1u);
        uint64_t n_parts = MIN(MAX(length_ns / block_ns, 1u), (uint64_t)SKETCH_BLOCKS);
        int r = 0;

        for (uint64_t part = 0; part < n_parts && !r; part++) {
                counting->is_whole = n_parts == 1;
                counting->from_ns = start_ns + part * length_ns / n_parts;
                counting->to_ns = start_ns + (part + 1) * length_ns / n_parts;
                for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++)
                        r = serials[i] ? count_profile(counting, serials[i], i) : 0;
                if (!r)
                        feed(watch, counting, length_ns / n_parts);
        }
        return r;
}

int watch_window(Watch *watch, const Window *window, const uint64_t *serials) {
        Counting counting;
        int r = counting_init(&counting, window);

        if (!r)
                r = count_parts(watch, &counting, serials);
        counting_deinit(&counting);
        for (uint32_t i = 0; i < watch->n_services && !r; i++)
                judge(&watch->services[i]);
        return r;
}
