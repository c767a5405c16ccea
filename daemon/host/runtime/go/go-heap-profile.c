/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A stack of Go's heap profile has an address for each function, also for those that were inlined. An inlined
 * call has a place of its own in the code around it, which does nothing; its address stands for the caller.
 *
 *     addresses   0x40     0x3c     0x10     0x93          behind the call, or its place
 *     functions   inl  in  mid  in  main.f   main.main     the innermost one at each
 *
 * So each address is one function. A stack that was cut has no addresses for callers of its last function;
 * those that it was inlined into are known all the same. Functions of the runtime at the inner end (mallocgc,
 * makeslice …) are left out, unless there are no others: Go's own profile does so.
 *
 * A sample of objects of S bytes at a rate of R bytes was drawn with a likelihood of 1 - exp(-S/R), and
 * stands for 1 / that. Go cuts both numbers to integers, so they are cut here, too: sums must be equal.
 */
#include "host/runtime/go/go-heap-profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

void go_heap_profile_deinit(GoHeapProfile *profile) {
        free(profile->samples);
        free(profile->stacks);
        free(profile->places);
        free(profile->frames);
        free(profile->text);
        *profile = (GoHeapProfile){ 0 };
}

/* ---- making ---- */

typedef struct Builder {
        GoHeapProfile *profile;
        const GoLines *lines;
        uint64_t bias;
        Hashmap places;                 /* word → number of its place, + 1 */
        Intern texts;
        uint32_t *offsets;              /* by number of a text */
        uint32_t offsets_room, places_room, frames_room, text_room;
} Builder;

/* Return: 0, GO_HEAP_E_MANY, -ENOMEM. */
static int add_text(Builder *builder, const char *text, size_t n, uint32_t *offsetp) {
        GoHeapProfile *profile = builder->profile;
        uint32_t index;
        int r = intern_add(&builder->texts, text, n, &index);

        if (r == INTERN_E_FOUND) {
                *offsetp = builder->offsets[index];
                return 0;
        }
        if (r == INTERN_E_FULL || n + 1 > GO_HEAP_MAX_TEXT - profile->n.n_text)
                return GO_HEAP_E_MANY;
        r = r ? r : array_reserve(&builder->offsets, &builder->offsets_room, index + 1u, 256);
        r = r ? r : array_reserve(&profile->text, &builder->text_room, profile->n.n_text + n + 1, 4096);
        if (r)
                return error_fold(r);
        memcpy(profile->text + profile->n.n_text, text, n);
        profile->text[profile->n.n_text + n] = '\0';
        builder->offsets[index] = *offsetp = profile->n.n_text;
        profile->n.n_text += (uint32_t)n + 1;
        return 0;
}

static int add_frame(Builder *builder, const GoLine *line) {
        GoHeapProfile *profile = builder->profile;
        GoHeapFrame frame = { .line = line->line, .first_line = line->start_line };
        int r = add_text(builder, line->name ? line->name : "", line->n_name, &frame.name);

        if (!r)
                r = add_text(builder, line->file ? line->file : "", line->n_file, &frame.file);
        if (!r && profile->n.n_frames >= GO_HEAP_MAX_FRAMES)
                r = GO_HEAP_E_MANY;
        if (!r)
                r = array_reserve(&profile->frames, &builder->frames_room, profile->n.n_frames + 1u, 256);
        if (r)
                return r < 0 ? error_fold(r) : r;
        profile->frames[profile->n.n_frames++] = frame;
        return 0;
}

static bool begins_with(const GoLine *line, const char *start) {
        return line->n_name >= strlen(start) && !memcmp(line->name, start, strlen(start));
}

/* Go asks for the function at the return address itself, the innermost one. */
static bool is_runtime(const GoLines *lines, uint64_t address) {
        GoLine all[GO_HEAP_MAX_INLINED];
        size_t n = go_lines_find(lines, address, all, GO_HEAP_MAX_INLINED);

        return n && (begins_with(&all[0], "runtime.") || begins_with(&all[0], "internal/runtime/"));
}

static int make_place(Builder *builder, uint64_t word, GoHeapPlace *place) {
        GoLine lines[GO_HEAP_MAX_INLINED];
        uint64_t address = word - 1 - builder->bias;
        size_t n = go_lines_find(builder->lines, address, lines, GO_HEAP_MAX_INLINED);
        int r = 0;

        *place = (GoHeapPlace){ .address = n ? address : word - 1,
                                .frame = builder->profile->n.n_frames,
                                .n_frames = (uint32_t)n,
                                .is_runtime = is_runtime(builder->lines, word - builder->bias) };
        for (size_t i = 0; i < n && !r; i++)
                r = add_frame(builder, &lines[i]);
        return r < 0 ? error_fold(r) : r;
}

static int find_place(Builder *builder, uint64_t word, uint32_t *indexp) {
        GoHeapProfile *profile = builder->profile;
        uintptr_t known = (uintptr_t)hashmap_get(&builder->places, word);
        int r;

        if (!known) {
                if (profile->n.n_places >= GO_HEAP_MAX_PLACES)
                        return GO_HEAP_E_MANY;
                r = array_reserve(&profile->places, &builder->places_room, profile->n.n_places + 1u, 256);
                if (!r)
                        r = make_place(builder, word, &profile->places[profile->n.n_places]);
                if (r)
                        return r < 0 ? error_fold(r) : r;
                known = ++profile->n.n_places;
                r = hashmap_put(&builder->places, word, (void *)known);
                if (r)
                        return error_fold(r);
        }
        *indexp = (uint32_t)known - 1;
        return 0;
}

/* Buckets that count nothing are left out. */
static int add_samples(Builder *builder, const GoHeap *heap) {
        GoHeapProfile *profile = builder->profile;

        for (uint32_t i = 0; i < heap->n_buckets; i++) {
                const GoHeapBucket *bucket = &heap->buckets[i];
                GoHeapSample sample = { .bucket = bucket->address, .size = bucket->size,
                                        .allocs = bucket->allocs, .frees = bucket->frees,
                                        .stack = profile->n.n_stacks, .n_stack = bucket->n_stack };

                if (!bucket->allocs)
                        continue;
                for (uint32_t k = 0; k < bucket->n_stack; k++) {
                        int r = find_place(builder, heap->words[bucket->stack + k],
                                           &profile->stacks[profile->n.n_stacks++]);

                        if (r)
                                return r < 0 ? error_fold(r) : r;
                }
                profile->samples[profile->n.n_samples++] = sample;
        }
        return 0;
}

int go_heap_profile_make(GoHeapProfile *profile, const GoHeap *heap, const GoLines *lines, uint64_t bias) {
        GoHeapProfile new = { 0 };
        Builder builder = { .profile = &new, .lines = lines, .bias = bias };
        uint32_t empty;
        int r;

        intern_init(&builder.texts, GO_HEAP_MAX_PLACES);
        new.samples = calloc(heap->n_buckets + 1u, sizeof(*new.samples));
        new.stacks = calloc(heap->n_words + 1u, sizeof(*new.stacks));
        r = new.samples && new.stacks ? add_text(&builder, "", 0, &empty) : error_origin(-ENOMEM);
        if (!r)
                r = add_samples(&builder, heap);
        hashmap_deinit(&builder.places);
        intern_deinit(&builder.texts);
        free(builder.offsets);
        if (r) {
                go_heap_profile_deinit(&new);
                return r < 0 ? error_fold(r) : r;
        }
        *profile = new;
        return 0;
}

/* ---- checking ---- */

bool go_heap_sizes_check(const GoHeapSizes *sizes) {
        return sizes->n_samples <= GO_HEAP_MAX_BUCKETS && sizes->n_stacks <= GO_HEAP_MAX_WORDS &&
                sizes->n_places <= GO_HEAP_MAX_PLACES && sizes->n_frames <= GO_HEAP_MAX_FRAMES &&
                sizes->n_text && sizes->n_text <= GO_HEAP_MAX_TEXT;
}

static bool is_inside(uint32_t at, uint32_t n, uint32_t all) {
        return at <= all && n <= all - at;
}

/*
 * @stack: where its stack lies, behind those of the samples before it. If many had one place, few bytes would
 * be stacks without end for who reads them.
 */
static bool check_sample(const GoHeapProfile *profile, const GoHeapSample *sample, uint32_t stack) {
        uint64_t bytes;

        return sample->size && sample->allocs && sample->frees <= sample->allocs &&
                sample->stack == stack && sample->n_stack <= GO_HEAP_MAX_DEPTH &&
                is_inside(sample->stack, sample->n_stack, profile->n.n_stacks) &&
                !__builtin_mul_overflow(sample->allocs, sample->size, &bytes) && bytes <= GO_HEAP_MAX_BYTES;
}

bool go_heap_profile_check(const GoHeapProfile *profile) {
        const GoHeapSizes *n = &profile->n;
        bool is_sound = go_heap_sizes_check(n) && !profile->text[0] && !profile->text[n->n_text - 1];
        uint32_t stack = 0;

        for (uint32_t i = 0; i < n->n_samples && is_sound; i++) {
                is_sound = check_sample(profile, &profile->samples[i], stack);
                stack += profile->samples[i].n_stack;
        }
        for (uint32_t i = 0; i < n->n_stacks && is_sound; i++)
                is_sound = profile->stacks[i] < n->n_places;
        for (uint32_t i = 0; i < n->n_places && is_sound; i++)
                is_sound = profile->places[i].n_frames <= GO_HEAP_MAX_INLINED &&
                        is_inside(profile->places[i].frame, profile->places[i].n_frames, n->n_frames);
        for (uint32_t i = 0; i < n->n_frames && is_sound; i++)
                is_sound = profile->frames[i].name < n->n_text && profile->frames[i].file < n->n_text;
        return is_sound;
}

/* ---- reading ---- */

static const GoHeapFrame *frame_of(const GoHeapProfile *profile, const GoHeapPlace *place, uint32_t i) {
        return &profile->frames[place->frame + i];
}

/* Whether @caller is a place that stands for a function that the code at @place was inlined into. */
static bool is_around(const GoHeapProfile *profile, const GoHeapPlace *place, const GoHeapPlace *caller) {
        uint32_t n = place->n_frames, n_caller = caller->n_frames;

        return n_caller && n_caller < n &&
                frame_of(profile, caller, 0)->name == frame_of(profile, place, n - n_caller)->name &&
                frame_of(profile, caller, n_caller - 1)->name == frame_of(profile, place, n - 1)->name;
}

static size_t put_frame(const GoHeapProfile *profile, const GoHeapFrame *frame, uint64_t address,
                        bool is_inlined, GoHeapLine *line) {
        const char *name = profile->text + frame->name;

        if (!strcmp(name, "runtime.goexit"))
                return 0;
        *line = (GoHeapLine){ .name = name,
                              .file = profile->text + frame->file,
                              .line = frame->line,
                              .first_line = frame->first_line,
                              .address = address,
                              .is_inlined = is_inlined };
        return 1;
}

/* Number of functions at the inner end that are the runtime's; 0 where there are no others. */
static uint32_t count_runtime(const GoHeapProfile *profile, const uint32_t *stack, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (!profile->places[stack[i]].is_runtime)
                        return i;
        return 0;
}

size_t go_heap_profile_stack(const GoHeapProfile *profile, const GoHeapSample *sample,
                             GoHeapLine lines[static GO_HEAP_MAX_LINES]) {
        const uint32_t *stack = profile->stacks + sample->stack;
        uint32_t first = count_runtime(profile, stack, sample->n_stack);
        const GoHeapPlace *inner = NULL;        /* place that the next one is around */
        uint64_t address = 0;
        size_t n = 0;

        for (uint32_t i = first; i < sample->n_stack; i++) {
                const GoHeapPlace *place = &profile->places[stack[i]];
                bool is_last = i + 1 == sample->n_stack;

                if (!inner)
                        address = place->address;
                if (!place->n_frames) {
                        lines[n++] = (GoHeapLine){ .address = address };
                        continue;
                }
                inner = !is_last && is_around(profile, place, &profile->places[stack[i + 1]]) ? place : NULL;
                n += put_frame(profile, frame_of(profile, place, 0), address,
                               inner || (is_last && place->n_frames > 1), &lines[n]);
                for (uint32_t k = 1; is_last && k < place->n_frames; k++)
                        n += put_frame(profile, frame_of(profile, place, k), address, k + 1 < place->n_frames,
                                       &lines[n]);
        }
        return n;
}

/* ---- values ---- */

static void scale(uint64_t objects, uint64_t size, int64_t rate, int64_t *objectsp, int64_t *bytesp) {
        uint64_t bytes = objects * size;
        double factor;

        *objectsp = (int64_t)objects;
        *bytesp = (int64_t)bytes;
        if (!objects || rate <= 1)
                return;
        factor = 1 / (1 - exp(-((double)bytes / (double)objects) / (double)rate));
        *objectsp = (int64_t)MIN((double)objects * factor, 9e18);
        *bytesp = (int64_t)MIN((double)bytes * factor, 9e18);
}

GoHeapValues go_heap_values(const GoHeapSample *sample, int64_t rate) {
        GoHeapValues values;

        scale(sample->allocs, sample->size, rate, &values.alloc_objects, &values.alloc_bytes);
        scale(sample->allocs - sample->frees, sample->size, rate, &values.inuse_objects, &values.inuse_bytes);
        return values;
}

static void add(int64_t *to, int64_t value) {
        if (__builtin_add_overflow(*to, value, to))
                *to = INT64_MAX;
}

void go_heap_values_add(GoHeapValues *to, const GoHeapValues *values) {
        add(&to->alloc_objects, values->alloc_objects);
        add(&to->alloc_bytes, values->alloc_bytes);
        add(&to->inuse_objects, values->inuse_objects);
        add(&to->inuse_bytes, values->inuse_bytes);
}
