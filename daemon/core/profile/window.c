/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The life of a window and its readers; window-rows.c fills its tables, samples.c its profiles.
 *
 * The tables are Interns, so a row is its own key:
 *
 *     strings   "" | "/usr/bin/xz" | "native" | …        with their NUL, so that readers get C strings
 *     modules   {} | {path 1, build id 7, …} | …
 *     stacks    [] | [word, word, …] | …                 leaf first
 *     samples   {profile, stack, set, link} | …          beside each: SampleSum
 */
#include "core/profile/window-private.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/util/error.h"

const WindowLimits window_default_limits = {
        .max_strings = 64 << 10,
        .max_modules = 16 << 10,
        .max_functions = 64 << 10,
        .max_frames = 64 << 10,
        .max_stacks = 128 << 10,
        .max_links = 64 << 10,
        .max_attributes = 64 << 10,
        .max_samples = 256 << 10,
        .max_resources = 4 << 10,
        .max_times = 1 << 20,
        .max_bytes = 40 << 20,
};

static void init_tables(Window *window) {
        const WindowLimits *limits = &window->limits;

        intern_init(&window->tables.strings, limits->max_strings);
        intern_init(&window->tables.modules, MIN(limits->max_modules, UINT32_C(1) << FRAME_MODULE_BITS));
        intern_init(&window->tables.functions, limits->max_functions);
        intern_init(&window->tables.frames, limits->max_frames);
        intern_init(&window->tables.stacks, limits->max_stacks);
        intern_init(&window->tables.links, limits->max_links);
        intern_init(&window->tables.attributes, limits->max_attributes);
        intern_init(&window->tables.sets, limits->max_attributes);
        intern_init(&window->tables.resource_keys, limits->max_resources);
        intern_init(&window->tables.profile_keys, limits->max_resources * 4);
        intern_init(&window->tables.samples, limits->max_samples);
}

static int add_empty_rows(Window *window) {
        static const uint8_t zero[sizeof(WindowModule)];
        const struct {
                Intern *table;
                size_t size;
        } rows[] = {
                { &window->tables.strings, 1 },
                { &window->tables.modules, sizeof(WindowModule) },
                { &window->tables.functions, sizeof(WindowFunction) },
                { &window->tables.frames, sizeof(WindowFrame) },
                { &window->tables.stacks, 0 },
                { &window->tables.links, sizeof(WindowLink) },
                { &window->tables.attributes, sizeof(WindowAttribute) },
                { &window->tables.sets, 0 },
                { &window->tables.resource_keys, 0 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                uint32_t index;
                int r = intern_add(rows[i].table, zero, rows[i].size, &index);

                if (r)
                        return r < 0 ? error_fold(r) : error_origin(-EINVAL);   /* a cap of 0 */
        }
        return 0;
}

int window_new(Window **windowp, uint64_t start_ns, int64_t realtime_offset_ns, const WindowLimits *limits) {
        static atomic_uint_fast64_t serial;
        _cleanup_(window_freep) Window *window = NULL;
        int r;

        window = calloc(1, sizeof(*window));
        if (!window)
                return error_origin(-ENOMEM);
        window->serial = atomic_fetch_add(&serial, 1) + 1;
        window->start_ns = start_ns;
        window->end_ns = start_ns + 1;
        window->realtime_offset_ns = realtime_offset_ns;
        window->limits = limits ? *limits : window_default_limits;
        init_tables(window);
        r = add_empty_rows(window);
        if (r)
                return error_fold(r);
        *windowp = take(window);
        return 0;
}

static void for_each_table(Window *window, void (*f)(Intern *table)) {
        Intern *tables[] = { &window->tables.strings,     &window->tables.modules,
                             &window->tables.functions,   &window->tables.frames,
                             &window->tables.stacks,      &window->tables.links,
                             &window->tables.attributes,  &window->tables.sets,
                             &window->tables.samples,     &window->tables.resource_keys,
                             &window->tables.profile_keys };

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                f(tables[i]);
}

Window *window_free(Window *window) {
        if (!window)
                return NULL;
        for_each_table(window, intern_deinit);
        arena_deinit(&window->arena);
        free(window->resources);
        free(window->module_attributes);
        hashmap_deinit(&window->names);
        free(window->spread);
        hashmap_deinit(&window->alike);
        arena_deinit(&window->events.arena);
        free(window->profiles);
        free(window->sums);
        free(window->sorted.times_ns);
        free(window->sorted.values);
        free(window->sorted.order);
        free(window->sorted.profile_first);
        free(window);
        return NULL;
}

uint64_t window_serial(const Window *window) {
        return window->serial;
}

void window_move_start(Window *window, uint64_t start_ns) {
        window->start_ns = start_ns;
}

uint64_t window_start_ns(const Window *window) {
        return window->start_ns;
}

uint64_t window_end_ns(const Window *window) {
        return window->end_ns;
}

int64_t window_realtime_offset_ns(const Window *window) {
        return window->realtime_offset_ns;
}

#define N_ROWS(_name, _table) \
        uint32_t window_n_##_name(const Window *window) { \
                return window->tables._table.n_items; \
        }
N_ROWS(strings, strings)
N_ROWS(modules, modules)
N_ROWS(functions, functions)
N_ROWS(frames, frames)
N_ROWS(stacks, stacks)
N_ROWS(links, links)
N_ROWS(attributes, attributes)
N_ROWS(attribute_sets, sets)
N_ROWS(resources, resource_keys)
N_ROWS(profiles, profile_keys)
#undef N_ROWS

#define GET_ROW(_type, _name, _table) \
        const _type *window_get_##_name(const Window *window, uint32_t index) { \
                return intern_get(&window->tables._table, index)->data; \
        }
GET_ROW(WindowModule, module, modules)
GET_ROW(WindowFunction, function, functions)
GET_ROW(WindowFrame, frame, frames)
GET_ROW(WindowLink, link, links)
GET_ROW(WindowAttribute, attribute, attributes)
#undef GET_ROW

const char *window_get_string(const Window *window, uint32_t index, size_t *sizep) {
        const InternItem *item = intern_get(&window->tables.strings, index);

        if (sizep)
                *sizep = item->size - 1;
        return item->data;
}

const FrameWord *window_get_stack(const Window *window, uint32_t index, size_t *n_framesp) {
        const InternItem *item = intern_get(&window->tables.stacks, index);

        if (window->spread && window->spread[index].words) {
                *n_framesp = window->spread[index].n;
                return window->spread[index].words;
        }
        *n_framesp = item->size / sizeof(FrameWord);
        return item->data;
}

bool window_has_inlined(const Window *window) {
        return window->has_inlined;
}

const uint32_t *window_get_attribute_set(const Window *window, uint32_t index, size_t *np) {
        const InternItem *item = intern_get(&window->tables.sets, index);

        *np = item->size / sizeof(uint32_t);
        return item->data;
}

uint32_t window_get_module_attributes(const Window *window, uint32_t module) {
        return module ? window->module_attributes[module] : 0;
}

uint32_t window_get_type_attribute(const Window *window, uint32_t type) {
        for (uint32_t i = 0; i < window->types.n; i++)
                if (window->types.rows[i].string == type)
                        return window->types.rows[i].attribute;
        return 0;
}

const uint32_t *window_get_resource(const Window *window, uint32_t index, size_t *n_attributesp) {
        const Resource *resource = &window->resources[index];

        *n_attributesp = resource->n_attributes;
        return resource->attributes;
}

static const WindowAttribute *find_resource_attribute(const Window *window, uint32_t index, const char *key,
                                                      uint32_t kind) {
        size_t n;
        const uint32_t *attributes = window_get_resource(window, index, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);

                if (attribute->kind == kind && !strcmp(window_get_string(window, attribute->key, NULL), key))
                        return attribute;
        }
        return NULL;
}

const char *window_get_resource_text(const Window *window, uint32_t index, const char *key) {
        const WindowAttribute *attribute = find_resource_attribute(window, index, key, ATTRIBUTE_STRING);

        return attribute ? window_get_string(window, attribute->string, NULL) : "";
}

bool window_get_resource_integer(const Window *window, uint32_t index, const char *key, int64_t *valuep) {
        const WindowAttribute *attribute = find_resource_attribute(window, index, key, ATTRIBUTE_INT);

        if (!attribute)
                return false;
        *valuep = attribute->integer;
        return true;
}

static size_t table_memory(const Intern *table) {
        return table->arena.total + table->items_size * sizeof(*table->items) +
               table->n_slots * sizeof(*table->slots);
}

size_t window_memory(const Window *window) {
        size_t size = sizeof(*window) + window->arena.total + window->events.arena.total +
                      window->resources_size * sizeof(*window->resources) +
                      window->module_attributes_size * sizeof(*window->module_attributes) +
                      (window->names.n_slots + window->alike.n_slots) * sizeof(HashmapEntry) +
                      window->profiles_size * sizeof(*window->profiles) +
                      window->sums_size * sizeof(*window->sums);

        size += table_memory(&window->tables.strings) + table_memory(&window->tables.modules);
        size += table_memory(&window->tables.functions) + table_memory(&window->tables.frames);
        size += table_memory(&window->tables.stacks) + table_memory(&window->tables.links);
        size += table_memory(&window->tables.attributes) + table_memory(&window->tables.sets);
        size += table_memory(&window->tables.resource_keys) + table_memory(&window->tables.profile_keys);
        size += table_memory(&window->tables.samples);
        if (window->spread)
                size += window->tables.stacks.n_items * sizeof(*window->spread);
        if (window->sorted.times_ns)
                size += window->events.n_times *
                        (sizeof(*window->sorted.times_ns) +
                         (window->sorted.values ? sizeof(*window->sorted.values) : 0));
        if (window->sorted.order)
                size += window->tables.samples.n_items * sizeof(*window->sorted.order) +
                        window->tables.profile_keys.n_items * sizeof(*window->sorted.profile_first);
        return size;
}

static_assert(sizeof(WindowTables) == WINDOW_N_TABLES * sizeof(Intern), "each is a part");

static uint32_t fill_of(uint64_t n, uint64_t max) {
        return (uint32_t)MIN(n * WINDOW_FILL_MAX / max, (uint64_t)WINDOW_FILL_MAX);
}

void window_fill(const Window *window, WindowFill *fill) {
        const Intern *tables = (const Intern *)&window->tables;
        size_t size = window->arena.total + window->events.arena.total +
                      window->tables.samples.n_items * sizeof(*window->sums);

        for (size_t i = 0; i < WINDOW_N_TABLES; i++) {
                fill->parts[i] = fill_of(tables[i].n_items, tables[i].max_items);
                size += tables[i].arena.total + tables[i].n_items * sizeof(InternItem);
        }
        fill->parts[WINDOW_MEMORY] = fill_of(size, window->limits.max_bytes);
        fill->parts[WINDOW_TIMES] = fill_of(window->events.n_times, window->limits.max_times);
        fill->memory = fill_of(window_memory(window), window->limits.max_bytes);
}

void window_refuse_rows(Window *window, uint32_t parts) {
        window->refused = parts >> WINDOW_MEMORY ? parts | WINDOW_ALL_TABLES : parts;
}
