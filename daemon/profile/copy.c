/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/hashmap.h"
#include "util/intern.h"

/* New index by old one; 0 = not copied yet, since 0 is the empty row in both. */
typedef struct Copy {
        Window *to;
        const Window *from;
        const CopyOptions *options;
        CopyCounts *counts;
        WindowFilter filter;
        uint32_t *strings, *modules, *functions, *stacks, *links, *attributes, *sets, *resources;
        Hashmap frames;                 /* old word → index in `words` + 1 */
        FrameWord *words;               /* by frame: how many, then the words */
        size_t n_words, words_room;
        FrameWord *stack;               /* of the stack being copied */
        size_t stack_room;
} Copy;

static void copy_deinit(Copy *copy) {
        uint32_t *const maps[] = { copy->strings, copy->modules,    copy->functions, copy->stacks,
                                   copy->links,   copy->attributes, copy->sets,      copy->resources };

        for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
                free(maps[i]);
        hashmap_deinit(&copy->frames);
        free(copy->words);
        free(copy->stack);
        filter_deinit(&copy->filter);
        window_free(copy->to);
}

static int make_map(uint32_t **mapp, uint32_t n) {
        *mapp = calloc(n + 1u, sizeof(**mapp));
        return *mapp ? 0 : error_origin(-ENOMEM);
}

static int copy_init(Copy *copy, const Window *from) {
        int r = make_map(&copy->strings, window_n_strings(from));

        r = r ? r : make_map(&copy->modules, window_n_modules(from));
        r = r ? r : make_map(&copy->functions, window_n_functions(from));
        r = r ? r : make_map(&copy->stacks, window_n_stacks(from));
        r = r ? r : make_map(&copy->links, window_n_links(from));
        r = r ? r : make_map(&copy->attributes, window_n_attributes(from));
        r = r ? r : make_map(&copy->sets, window_n_attribute_sets(from));
        r = r ? r : make_map(&copy->resources, window_n_resources(from));
        return r ? r : window_new(&copy->to, window_start_ns(from), window_realtime_offset_ns(from), copy->options->limits);
}

static int copy_string(Copy *copy, uint32_t old, uint32_t *newp) {
        const char *text;
        size_t size;
        int r = 0;

        if (old && !copy->strings[old]) {
                text = window_get_string(copy->from, old, &size);
                r = window_string(copy->to, text, size, &copy->strings[old]);
        }
        *newp = copy->strings[old];
        return r;
}

static int copy_module(Copy *copy, uint32_t old, uint32_t *newp) {
        WindowModule module;
        int r = 0;

        if (old && !copy->modules[old]) {
                module = *window_get_module(copy->from, old);
                r = copy_string(copy, module.path, &module.path);
                r = r ? r : copy_string(copy, module.build_id_gnu, &module.build_id_gnu);
                r = r ? r : copy_string(copy, module.build_id_go, &module.build_id_go);
                r = r ? r : copy_string(copy, module.build_id_htlhash, &module.build_id_htlhash);
                r = r ? r : window_module(copy->to, &module, &copy->modules[old]);
        }
        *newp = copy->modules[old];
        return r;
}

static int copy_function(Copy *copy, uint32_t old, uint32_t *newp) {
        WindowFunction function;
        int r = 0;

        if (old && !copy->functions[old]) {
                function = *window_get_function(copy->from, old);
                r = copy_string(copy, function.name, &function.name);
                r = r ? r : copy_string(copy, function.system_name, &function.system_name);
                r = r ? r : copy_string(copy, function.filename, &function.filename);
                r = r ? r : window_function(copy->to, &function, &copy->functions[old]);
        }
        *newp = copy->functions[old];
        return r;
}

static int copy_attribute(Copy *copy, uint32_t old, uint32_t *newp) {
        WindowAttribute attribute;
        int r = 0;

        if (old && !copy->attributes[old]) {
                attribute = *window_get_attribute(copy->from, old);
                r = copy_string(copy, attribute.key, &attribute.key);
                r = r ? r : copy_string(copy, attribute.unit, &attribute.unit);
                if (!r && attribute.kind == ATTRIBUTE_STRING)
                        r = copy_string(copy, attribute.string, &attribute.string);
                r = r ? r : window_attribute(copy->to, &attribute, &copy->attributes[old]);
        }
        *newp = copy->attributes[old];
        return r;
}

static int copy_attributes(Copy *copy, const uint32_t *old, size_t n, uint32_t *set) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = copy_attribute(copy, old[i], &set[i]);
        return r;
}

static int copy_set(Copy *copy, uint32_t old, uint32_t *newp) {
        uint32_t set[WINDOW_MAX_SET];
        const uint32_t *attributes;
        size_t n;
        int r = 0;

        if (old && !copy->sets[old]) {
                attributes = window_get_attribute_set(copy->from, old, &n);
                r = copy_attributes(copy, attributes, n, set);
                r = r ? r : window_attribute_set(copy->to, set, n, &copy->sets[old]);
        }
        *newp = copy->sets[old];
        return r;
}

static int copy_link(Copy *copy, uint32_t old, uint32_t *newp) {
        int r = 0;

        if (old && !copy->links[old])
                r = window_link(copy->to, window_get_link(copy->from, old), &copy->links[old]);
        *newp = copy->links[old];
        return r;
}

static int copy_resource(Copy *copy, uint32_t old, uint32_t *newp) {
        uint32_t set[WINDOW_MAX_SET];
        const uint32_t *attributes;
        size_t n;
        int r = 0;

        if (!copy->resources[old]) {
                attributes = window_get_resource(copy->from, old, &n);
                r = window_resource(copy->to, old, &copy->resources[old]);
                r = r ? r : copy_attributes(copy, attributes, n, set);
                r = r ? r : window_resource_attributes(copy->to, copy->resources[old], set, n);
        }
        *newp = copy->resources[old];
        return r;
}

/* Frames: an old one becomes one or, where functions were inlined, several. */

static int put_word(Copy *copy, FrameWord word) {
        if (copy->n_words == copy->words_room) {
                size_t room = MAX(copy->words_room * 2, (size_t)1024);
                FrameWord *bigger = reallocarray(copy->words, room, sizeof(*bigger));

                if (!bigger)
                        return error_origin(-ENOMEM);
                copy->words = bigger;
                copy->words_room = room;
        }
        copy->words[copy->n_words++] = word;
        return 0;
}

static int put_frame(Copy *copy, const WindowFrame *frame) {
        FrameWord word;
        int r = window_frame(copy->to, frame, &word);

        return r ? r : put_word(copy, word);
}

static int add_name(Copy *copy, const CopyName *name, WindowFrame *frame) {
        WindowFunction function = { 0 };
        int r = window_string(copy->to, name->name, strlen(name->name), &function.name);

        if (!r && name->system_name)
                r = window_string(copy->to, name->system_name, strlen(name->system_name), &function.system_name);
        if (!r && name->file)
                r = window_string(copy->to, name->file, strlen(name->file), &function.filename);
        frame->line = name->line;
        return r ? r : window_function(copy->to, &function, &frame->function);
}

/* @frame: with the new window's indexes. */
static int put_named(Copy *copy, FrameWord word, WindowFrame *frame) {
        CopyName names[COPY_MAX_INLINED];
        size_t n = copy->options->namer(copy->options->userdata, word, names);
        int r = 0;

        if (!n)
                return put_frame(copy, frame);
        for (size_t i = 0; i < n && !r; i++) {
                r = add_name(copy, &names[i], frame);
                r = r ? r : put_frame(copy, frame);
        }
        return r;
}

static int copy_frame(Copy *copy, FrameWord word) {
        WindowFrame old = window_expand_frame(copy->from, word), frame = old;
        int r = copy_module(copy, old.module, &frame.module);

        r = r ? r : copy_function(copy, old.function, &frame.function);
        r = r ? r : copy_string(copy, old.type, &frame.type);
        r = r ? r : copy_attribute(copy, old.attribute, &frame.attribute);
        if (r)
                return r;
        return old.module && copy->options->namer ? put_named(copy, word, &frame) : put_frame(copy, &frame);
}

/* *firstp: where in `words` the number of the new words stands. */
static int find_frame(Copy *copy, FrameWord word, size_t *firstp) {
        uintptr_t known = (uintptr_t)hashmap_get(&copy->frames, word);
        int r;

        if (!known) {
                size_t first = copy->n_words;

                r = put_word(copy, 0);
                r = r ? r : copy_frame(copy, word);
                if (r)
                        return r;
                copy->words[first] = copy->n_words - first - 1;
                known = first + 1;
                r = hashmap_put(&copy->frames, word, (void *)known);
                if (r)
                        return r;
        }
        *firstp = known - 1;
        return 0;
}

static int make_stack_room(Copy *copy, size_t n) {
        FrameWord *bigger;

        if (n <= copy->stack_room)
                return 0;
        n = MAX(n, copy->stack_room * 2);
        bigger = reallocarray(copy->stack, n, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        copy->stack = bigger;
        copy->stack_room = n;
        return 0;
}

static int copy_stack(Copy *copy, uint32_t old, uint32_t *newp) {
        const FrameWord *words;
        size_t n_old, n = 0;
        int r = 0;

        if (old && !copy->stacks[old]) {
                words = window_get_stack(copy->from, old, &n_old);
                for (size_t i = 0; i < n_old && !r; i++) {
                        size_t first, n_new;

                        r = find_frame(copy, words[i], &first);
                        if (r)
                                break;
                        n_new = copy->words[first];
                        r = make_stack_room(copy, n + n_new);
                        if (!r)
                                memcpy(copy->stack + n, copy->words + first + 1, n_new * sizeof(*words));
                        n += n_new;
                }
                r = r ? r : window_stack(copy->to, copy->stack, MIN(n, (size_t)WINDOW_MAX_DEPTH), &copy->stacks[old]);
        }
        *newp = copy->stacks[old];
        return r;
}

/* Samples */

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

/* What has no time counts whole; when a time is asked for, nobody knows, and it is left out and counted. */
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
        r = copy_stack(copy, old->stack, &stack);
        r = r ? r : copy_set(copy, old->attributes, &attributes);
        r = r ? r : copy_link(copy, old->link, &link);
        r = r ? r : window_sample_number(copy->to, profile, stack, attributes, link, &sample);
        r = r ? r : copy_times(copy, old, profile, sample);
        return !r && old->n_events > old->n_times ? copy_rest(copy, old, profile, sample) : r;
}

static int open_profile(Copy *copy, const WindowProfile *old, uint32_t *profilep) {
        WindowProfileNames names = { 0 };
        uint32_t resource;
        int r = copy_resource(copy, old->resource, &resource);

        r = r ? r : copy_string(copy, old->names.type, &names.type);
        r = r ? r : copy_string(copy, old->names.unit, &names.unit);
        r = r ? r : copy_string(copy, old->names.period_type, &names.period_type);
        r = r ? r : copy_string(copy, old->names.period_unit, &names.period_unit);
        r = r ? r : window_profile_named(copy->to, resource, &names, old->period, profilep);
        if (r)
                return r;
        window_set_profile_id(copy->to, *profilep, old->id);
        if (old->payload_format)
                window_set_profile_payload(copy->to, *profilep, old->payload_format, old->payload, old->payload_size);
        return 0;
}

static int copy_profile(Copy *copy, uint32_t index) {
        const WindowProfile *old = window_get_profile(copy->from, index);
        uint32_t profile = 0;
        int r;

        if (!filter_wants_resource(&copy->filter, old->resource)) {
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
        static const FilterOptions everything = { .end_ns = UINT64_MAX };
        Copy copy = { .from = from, .options = options, .counts = counts };
        int r = copy_init(&copy, from);

        *counts = (CopyCounts){ 0 };
        r = r ? r : filter_init(&copy.filter, options->filter ? options->filter : &everything, from);
        r = r ? r : copy_all(&copy);
        if (!r)
                *windowp = take(copy.to);
        copy_deinit(&copy);
        return r < 0 ? error_fold(r) : r;
}
