/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A frame without a file is an address, and says not of which process. So the samples are gone through: whose
 * is the stack that the frame is in, and from when to when.
 *
 *     frame 0x7f31c000   in stacks of 4711, 3.2 s to 8.9 s    4711's files had one name for it: it is named
 *     frame 0x7f55e000   in stacks of 4711 and of 4712        each may have other code there: it is not
 */
#include "host/naming/late-names.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

enum { MAX_FRAMES = 1 << 20 };          /* frames that lie in no file; the rest stays as it is */

typedef struct LateFrame {
        FrameWord word;
        uint32_t resource;
        bool is_shared;                 /* by several processes */
        uint64_t first_ns, last_ns;
} LateFrame;

typedef struct Late {
        Window *window;
        Hashmap places;                 /* word → index + 1 */
        LateFrame *frames;
        size_t n, room;
} Late;

/* Frames of merged windows stand in the table, with their type as a text. */
static bool is_without_file(const Window *window, FrameWord word) {
        FrameMark mark = (FrameMark)(word >> 61);
        WindowFrame frame;

        if (mark != FRAME_MARK_UNKNOWN && mark != FRAME_MARK_TABLE)
                return false;
        frame = window_expand_frame(window, word);
        return !frame.function && !frame.module && frame.address &&
                !strcmp(window_get_string(window, frame.type, NULL), "unknown");
}

static int find_frame(Late *late, FrameWord word, LateFrame **framep) {
        uintptr_t place = (uintptr_t)hashmap_get(&late->places, word);
        int r;

        *framep = NULL;
        if (place) {
                *framep = &late->frames[place - 1];
                return 0;
        }
        if (late->n == MAX_FRAMES)
                return 0;
        r = array_reserve(&late->frames, &late->room, late->n + 1, 256);
        if (r)
                return r;
        r = hashmap_put(&late->places, word, (void *)(uintptr_t)(late->n + 1));
        if (r)
                return error_fold(r);
        *framep = &late->frames[late->n++];
        **framep = (LateFrame){ .word = word, .resource = UINT32_MAX, .first_ns = UINT64_MAX };
        return 0;
}

static void widen(LateFrame *frame, uint32_t resource, uint64_t first_ns, uint64_t last_ns) {
        frame->is_shared |= frame->resource != UINT32_MAX && frame->resource != resource;
        frame->resource = resource;
        frame->first_ns = MIN(frame->first_ns, first_ns);
        frame->last_ns = MAX(frame->last_ns, last_ns);
}

static int add_sample(Late *late, const WindowProfile *profile, const WindowSample *sample) {
        uint64_t first_ns = UINT64_MAX, last_ns = 0;
        size_t n;
        const FrameWord *words = window_get_stack(late->window, sample->stack, &n);

        for (uint32_t i = 0; i < sample->n_times; i++) {
                first_ns = MIN(first_ns, sample->times_ns[i]);
                last_ns = MAX(last_ns, sample->times_ns[i]);
        }
        if (sample->n_times < sample->n_events || !sample->n_times) {
                first_ns = profile->first_ns;
                last_ns = profile->last_ns;
        }
        for (size_t i = 0; i < n; i++) {
                LateFrame *frame;
                int r;

                if (!is_without_file(late->window, words[i]))
                        continue;
                r = find_frame(late, words[i], &frame);
                if (r)
                        return r;
                if (frame)
                        widen(frame, profile->resource, first_ns, last_ns);
        }
        return 0;
}

static int add_samples(Late *late) {
        for (uint32_t i = 0; i < window_n_profiles(late->window); i++) {
                const WindowProfile *profile = window_get_profile(late->window, i);

                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;
                        int r;

                        window_get_sample(late->window, i, j, &sample);
                        r = add_sample(late, profile, &sample);
                        if (r)
                                return r;
                }
        }
        return 0;
}

static int name_frame(Late *late, CodeNames *names, const LateFrame *frame, uint32_t *n_namedp) {
        uint64_t address = window_expand_frame(late->window, frame->word).address;
        int64_t pid = 0;
        WindowFunction function = { 0 };
        const char *name;
        uint32_t index;
        size_t size;
        int r;

        if (!frame->is_shared)
                window_get_resource_integer(late->window, frame->resource, "process.pid", &pid);
        if (!(pid_t)pid || code_names_find_late(names, (pid_t)pid, address, frame->first_ns, frame->last_ns,
                                                &name, &size))
                return 0;
        r = window_string(late->window, name, size, &function.name);
        if (!r)
                r = window_function(late->window, &function, &index);
        if (!r)
                r = window_name_frame(late->window, frame->word, index);
        *n_namedp += !r;
        return r == WINDOW_E_FULL ? 0 : r;
}

int late_names_apply(CodeNames *names, Window *window, uint32_t *n_namedp) {
        Late late = { .window = window };
        int r = add_samples(&late);

        *n_namedp = 0;
        for (size_t i = 0; i < late.n && !r; i++)
                r = name_frame(&late, names, &late.frames[i], n_namedp);
        hashmap_deinit(&late.places);
        free(late.frames);
        return error_fold(r);
}
