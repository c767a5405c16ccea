/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each sample of the heap becomes one of each type in which its value is not 0, with the same stack:
 *
 *     alloc_objects/count, alloc_space/bytes      since the program began, or since the look before
 *     inuse_objects/count, inuse_space/bytes      what was not freed, whenever it was allocated
 *
 * The period of all four is the mean distance of two samples in bytes, as Go has it. What was allocated since
 * the look before is the difference of what both looks say, so the sum over all looks is what the last says.
 */
#include "host/heap/heap-window.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/aggregate/attributes.h"

enum { N_ALLOC_TYPES = 2, N_TYPES = 4 };

#define REASON "profile.heap.reason"

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
        const HeapLook *look;
        uint32_t profiles[N_TYPES];
        uint32_t module, type;          /* module and type of all frames */
        uint32_t attributes;            /* set of all samples */
        GoHeapLine lines[GO_HEAP_MAX_LINES];
        FrameWord words[GO_HEAP_MAX_LINES];
} Filling;

static int add_string(Window *window, const char *text, uint32_t *indexp) {
        return window_string(window, text, strlen(text), indexp);
}

static int add_resource(Window *window, const HeapLook *look, uint32_t *resourcep) {
        Attributes attributes;
        int r;

        attributes_init(&attributes);
        if (look->filter)
                attributes.filter = *look->filter;
        r = attributes_of_process(&attributes, window, look->program, resourcep);
        attributes_deinit(&attributes);
        return r;
}

/* Types of allocations are the first ones. */
static size_t first_type(const HeapLook *look) {
        return look->since ? 0 : N_ALLOC_TYPES;
}

static int add_profiles(Filling *filling, uint32_t resource) {
        const HeapLook *look = filling->look;
        WindowProfileNames names;
        int r = add_string(filling->window, "space", &names.period_type);

        if (!r)
                r = add_string(filling->window, "bytes", &names.period_unit);
        for (size_t i = first_type(look); i < N_TYPES && !r; i++) {
                r = add_string(filling->window, types[i].type, &names.type);
                if (!r)
                        r = add_string(filling->window, types[i].unit, &names.unit);
                if (!r)
                        r = window_profile_named(filling->window, resource, &names,
                                                 look->answer->said.rate, &filling->profiles[i]);
                if (!r && i < N_ALLOC_TYPES && look->time_ns)
                        window_profile_covers(filling->window, filling->profiles[i], look->since_ns,
                                              look->time_ns);
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
        size_t n = go_heap_profile_stack(&filling->look->answer->profile, sample, filling->lines);

        for (size_t i = 0; i < n; i++) {
                int r = add_frame(filling, &filling->lines[i], &filling->words[i]);

                if (r)
                        return r;
        }
        return window_stack(filling->window, filling->words, n, stackp);
}

static int add_reason(Filling *filling) {
        const HeapLook *look = filling->look;
        uint32_t attribute;
        int r;

        if (!look->reason || (look->filter && !attribute_filter_allows(look->filter, REASON)))
                return 0;
        r = window_attribute_string(filling->window, REASON, look->reason, strlen(look->reason), &attribute);
        return r ? r : window_attribute_set(filling->window, &attribute, 1, &filling->attributes);
}

/* Values of the types, in their order. */
static void find_values(const HeapLook *look, const GoHeapSample *sample, int64_t values[static N_TYPES]) {
        const int64_t rate = look->answer->said.rate;
        const GoHeapValues now = go_heap_values(sample, rate);
        GoHeapSample before = *sample;
        GoHeapValues then;

        before.allocs = look->since ? heap_since_allocs(look->since, sample) : 0;
        before.frees = 0;
        then = go_heap_values(&before, rate);
        values[0] = now.alloc_objects - then.alloc_objects;
        values[1] = now.alloc_bytes - then.alloc_bytes;
        values[2] = now.inuse_objects;
        values[3] = now.inuse_bytes;
}

static int add_sample(Filling *filling, const GoHeapSample *sample) {
        size_t first = first_type(filling->look);
        int64_t values[N_TYPES];
        bool has_some = false;
        uint32_t stack;
        int r;

        find_values(filling->look, sample, values);
        for (size_t i = first; i < N_TYPES; i++)
                has_some |= values[i];
        if (!has_some)
                return 0;
        r = add_stack(filling, sample, &stack);
        for (size_t i = first; i < N_TYPES && !r; i++)
                if (values[i])
                        r = window_sample_untimed(filling->window, filling->profiles[i], stack,
                                                  filling->attributes, 0, values[i]);
        return r;
}

int heap_window_fill(Window *window, const HeapLook *look, uint32_t *n_lostp) {
        static Filling filling;
        const GoHeapProfile *profile = &look->answer->profile;
        uint32_t resource;
        int r;

        filling = (Filling){ .window = window, .look = look };
        *n_lostp = 0;
        r = add_resource(window, look, &resource);
        if (!r)
                r = add_profiles(&filling, resource);
        if (!r)
                r = add_module(&filling, look->mapping);
        if (!r)
                r = add_string(window, "native", &filling.type);
        if (!r)
                r = add_reason(&filling);
        for (uint32_t i = 0; i < profile->n.n_samples && !r; i++) {
                r = add_sample(&filling, &profile->samples[i]);
                *n_lostp += r == WINDOW_E_FULL;
                r = MIN(r, 0);
        }
        return r < 0 ? error_fold(r) : r;
}
