/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each sample of the heap becomes one of each type in which its value is not 0, with the same stack:
 *
 *     alloc_objects/count, alloc_space/bytes      since the program began
 *     inuse_objects/count, inuse_space/bytes      of these, what was not freed
 *
 * The period of all four is the mean distance of two samples in bytes, as Go has it.
 */
#include "desk/live/heap-window.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/aggregate/attributes.h"

enum { N_TYPES = 4 };

static const struct {
        const char *type, *unit;
} types[N_TYPES] = {
        { "alloc_objects", "count" },
        { "alloc_space", "bytes" },
        { "inuse_objects", "count" },
        { "inuse_space", "bytes" },
};

typedef struct Filling {
        Window *window;
        const GoHeapAnswer *answer;
        uint32_t profiles[N_TYPES];
        uint32_t module, type;          /* module and type of all frames */
        GoHeapLine lines[GO_HEAP_MAX_LINES];
        FrameWord words[GO_HEAP_MAX_LINES];
} Filling;

static int add_string(Window *window, const char *text, uint32_t *indexp) {
        return window_string(window, text, strlen(text), indexp);
}

static int add_resource(Window *window, const Process *process, uint32_t *resourcep) {
        Publication publication = { 0 };
        const Program program = { .process = (Process *)process, .publication = &publication };
        Attributes attributes;
        int r;

        attributes_init(&attributes);
        r = attributes_of_process(&attributes, window, &program, resourcep);
        attributes_deinit(&attributes);
        return r;
}

static int add_profiles(Filling *filling, uint32_t resource) {
        WindowProfileNames names;
        int r = add_string(filling->window, "space", &names.period_type);

        if (!r)
                r = add_string(filling->window, "bytes", &names.period_unit);
        for (size_t i = 0; i < N_TYPES && !r; i++) {
                r = add_string(filling->window, types[i].type, &names.type);
                if (!r)
                        r = add_string(filling->window, types[i].unit, &names.unit);
                if (!r)
                        r = window_profile_named(filling->window, resource, &names,
                                                 filling->answer->said.rate, &filling->profiles[i]);
        }
        return r;
}

static int add_module(Filling *filling, const Mapping *mapping) {
        const Object *object = mapping->object;
        WindowModule row = { 0 };
        uint32_t segment;
        uint64_t address;
        int r;

        if (object_address(object, mapping->offset, &address, &segment))
                return 0;
        row.start = object->segments[segment].address;
        row.limit = row.start + object->segments[segment].memory_size;
        row.offset = object->segments[segment].offset;
        r = add_string(filling->window, mapping->path, &row.path);
        if (!r)
                r = add_string(filling->window, object->build_id_gnu, &row.build_id_gnu);
        if (!r)
                r = add_string(filling->window, object->build_id_go, &row.build_id_go);
        if (!r)
                r = add_string(filling->window, object->htlhash, &row.build_id_htlhash);
        return r ? r : window_module(filling->window, &row, &filling->module);
}

static int add_frame(Filling *filling, const GoHeapLine *line, FrameWord *wordp) {
        Window *window = filling->window;
        WindowFrame frame = { .module = filling->module, .address = line->address, .line = line->line,
                              .type = filling->type, .is_inlined = line->is_inlined };
        WindowFunction function = { .start_line = line->first_line };
        int r;

        if (!line->name)
                return window_native_frame(window, FRAME_MARK_UNKNOWN, 0, line->address, wordp);
        r = add_string(window, line->name, &function.name);
        function.system_name = function.name;
        if (!r)
                r = add_string(window, line->file, &function.filename);
        if (!r)
                r = window_function(window, &function, &frame.function);
        return r ? r : window_frame(window, &frame, wordp);
}

static int add_stack(Filling *filling, const GoHeapSample *sample, uint32_t *stackp) {
        size_t n = go_heap_profile_stack(&filling->answer->profile, sample, filling->lines);

        for (size_t i = 0; i < n; i++) {
                int r = add_frame(filling, &filling->lines[i], &filling->words[i]);

                if (r)
                        return r;
        }
        return window_stack(filling->window, filling->words, n, stackp);
}

static int add_sample(Filling *filling, const GoHeapSample *sample) {
        const GoHeapValues values = go_heap_values(sample, filling->answer->said.rate);
        const int64_t all[N_TYPES] = { values.alloc_objects, values.alloc_bytes, values.inuse_objects,
                                       values.inuse_bytes };
        uint32_t stack;
        int r = add_stack(filling, sample, &stack);

        for (size_t i = 0; i < N_TYPES && !r; i++)
                if (all[i])
                        r = window_sample_untimed(filling->window, filling->profiles[i], stack, 0, 0, all[i]);
        return r;
}

int heap_window_fill(Window *window, const Process *process, const Mapping *mapping,
                     const GoHeapAnswer *answer, uint32_t *n_lostp) {
        static Filling filling;
        const GoHeapProfile *profile = &answer->profile;
        uint32_t resource;
        int r;

        filling = (Filling){ .window = window, .answer = answer };
        *n_lostp = 0;
        r = add_resource(window, process, &resource);
        if (!r)
                r = add_profiles(&filling, resource);
        if (!r)
                r = add_module(&filling, mapping);
        if (!r)
                r = add_string(window, "native", &filling.type);
        for (uint32_t i = 0; i < profile->n.n_samples && !r; i++) {
                r = add_sample(&filling, &profile->samples[i]);
                *n_lostp += r == WINDOW_E_FULL;
                r = MIN(r, 0);
        }
        return r < 0 ? error_fold(r) : r;
}
