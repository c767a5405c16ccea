/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills the tables of a window; window-frames.c fills those for frames and stacks.
 *
 * Rows are looked up as bytes, so a struct with padding is copied field by field into a cleared one
 * first: equal rows must be equal bytes.
 *
 * Memory: after each new row the total is compared with max_bytes; once it is over, `full` is set and
 * new rows are refused. It overshoots by one doubling of one table, at most a few MiB.
 */
#include "core/base/util/array.h"
#include "core/profile/window-private.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"

static bool takes_rows(const Window *window, const Intern *table) {
        return !window->full && !(window->refused >> (table - (const Intern *)&window->tables) & 1);
}

int window_add_row(Window *window, Intern *table, const void *data, size_t size, uint32_t *indexp) {
        int r;

        if (!takes_rows(window, table)) {
                r = intern_find(table, data, size, indexp);
                return r ? WINDOW_E_FULL : 0;
        }
        r = intern_add(table, data, size, indexp);
        if (r == INTERN_E_FOUND)
                return 0;
        if (r == INTERN_E_FULL)
                return WINDOW_E_FULL;
        if (r)
                return error_fold(r);
        window->full = window_memory(window) > window->limits.max_bytes;
        return 0;
}

/* Cuts before the character that would cross the cap; bytes that are no UTF-8 are cut anywhere. */
static size_t cut_length(const char *text, size_t size) {
        size_t at = WINDOW_MAX_STRING;

        if (size <= WINDOW_MAX_STRING)
                return size;
        for (int i = 0; i < 3 && ((uint8_t)text[at] & 0xC0) == 0x80; i++)
                at--;
        return at;
}

int window_string(Window *window, const char *text, size_t size, uint32_t *indexp) {
        _cleanup_(freep) char *heap = NULL;
        char small[512], *copy = small;
        int r;

        size = cut_length(text, size);
        if (size * 3 + 1 > sizeof(small)) {
                heap = copy = malloc(size * 3 + 1);
                if (!copy)
                        return error_origin(-ENOMEM);
        }
        if (text_is_utf8(text, size)) {
                if (size)
                        memcpy(copy, text, size);
                copy[size] = 0;
        } else {
                size = text_repair_utf8(copy, text, size);
                stat_add(COUNTER_UTF8_REPAIRED, 1);
        }
        r = window_add_row(window, &window->tables.strings, copy, size + 1, indexp);
        return r < 0 ? error_fold(r) : r;
}

/* Number of modules that differ from @module in the file alone. */
static uint64_t count_alike(const Window *window, const WindowModule *module, uint64_t *keyp) {
        WindowModule plain = *module;

        plain.file = 0;
        *keyp = hash_bytes(&plain, sizeof(plain));
        return (uintptr_t)hashmap_get(&window->alike, *keyp);
}

/*
 * The build ids as attributes: the same row for every module that shares one. @n_alike: 0 = none differs in
 * the file alone.
 */
static int module_set(Window *window, const WindowModule *module, uint64_t n_alike, uint32_t *indexp) {
        const struct {
                const char *key;
                uint32_t value;
        } ids[] = {
                { "process.executable.build_id.gnu", module->build_id_gnu },
                { "process.executable.build_id.go", module->build_id_go },
                { "process.executable.build_id.htlhash", module->build_id_htlhash },
        };
        uint32_t set[WINDOW_MODULE_ATTRIBUTES];
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
                WindowAttribute attribute = { .kind = ATTRIBUTE_STRING, .string = ids[i].value };
                int r;

                if (!ids[i].value)
                        continue;
                r = window_string(window, ids[i].key, strlen(ids[i].key), &attribute.key);
                if (!r)
                        r = window_attribute(window, &attribute, &set[n++]);
                if (r)
                        return r;
        }
        if (n_alike) {
                int r = window_attribute_int(window, "spanprof.file", (int64_t)n_alike + 1, &set[n++]);

                if (r)
                        return r;
        }
        return window_attribute_set(window, set, n, indexp);
}

int window_module(Window *window, const WindowModule *module, uint32_t *indexp) {
        WindowModule row = *module;
        uint64_t alike, n_alike;
        uint32_t index, set;
        int r;

        if (!row.build_id_gnu && !row.build_id_go && !row.build_id_htlhash) {
                *indexp = 0;
                return 0;
        }
        if (row.start >= row.limit)
                row.start = row.limit = 0;
        if (!intern_find(&window->tables.modules, &row, sizeof(row), indexp))
                return 0;
        n_alike = count_alike(window, &row, &alike);
        r = module_set(window, &row, n_alike, &set);
        if (!r)
                r = hashmap_put(&window->alike, alike, (void *)(uintptr_t)(n_alike + 1));
        if (!r)
                r = array_reserve_zero(&window->module_attributes, &window->module_attributes_size,
                                       window->tables.modules.n_items + 1u, 16);
        if (!r)
                r = window_add_row(window, &window->tables.modules, &row, sizeof(row), &index);
        if (r)
                return r;
        window->module_attributes[index] = set;
        *indexp = index;
        return 0;
}

int window_function(Window *window, const WindowFunction *function, uint32_t *indexp) {
        WINDOW_ROW(WindowFunction, row);

        row.name = function->name;
        row.system_name = function->system_name;
        row.filename = function->filename;
        row.start_line = MAX(function->start_line, 0);
        return window_add_row(window, &window->tables.functions, &row, sizeof(row), indexp);
}

int window_link(Window *window, const WindowLink *link, uint32_t *indexp) {
        static const WindowLink zero;

        /* Half a link is left out: a receiver would refuse it (ids must not be zero). */
        if (!memcmp(link->trace_id, zero.trace_id, sizeof(zero.trace_id)) ||
            !memcmp(link->span_id, zero.span_id, sizeof(zero.span_id))) {
                *indexp = 0;
                return 0;
        }
        return window_add_row(window, &window->tables.links, link, sizeof(*link), indexp);
}

int window_attribute(Window *window, const WindowAttribute *attribute, uint32_t *indexp) {
        WindowAttribute row = *attribute;

        if (row.kind == ATTRIBUTE_STRING)
                row.integer = 0;
        else
                row.string = 0;
        if (row.kind == ATTRIBUTE_BOOL)
                row.integer = !!row.integer;
        return window_add_row(window, &window->tables.attributes, &row, sizeof(row), indexp);
}

int window_attribute_string(Window *window, const char *key, const char *value, size_t size,
                            uint32_t *indexp) {
        WindowAttribute attribute = { .kind = ATTRIBUTE_STRING };
        int r;

        r = window_string(window, key, strlen(key), &attribute.key);
        if (!r)
                r = window_string(window, value, size, &attribute.string);
        return r ? r : window_attribute(window, &attribute, indexp);
}

int window_attribute_int(Window *window, const char *key, int64_t value, uint32_t *indexp) {
        WindowAttribute attribute = { .kind = ATTRIBUTE_INT, .integer = value };
        int r = window_string(window, key, strlen(key), &attribute.key);

        return r ? r : window_attribute(window, &attribute, indexp);
}

/* Copies without index 0 and without the later ones of a key. Return: how many. */
static size_t unique_keys(const Window *window, uint32_t *to, const uint32_t *attributes, size_t n) {
        size_t n_to = 0;

        for (size_t i = 0; i < n; i++) {
                uint32_t key = window_get_attribute(window, attributes[i])->key;
                size_t j = 0;

                while (j < n_to && window_get_attribute(window, to[j])->key != key)
                        j++;
                if (j == n_to && attributes[i])
                        to[n_to++] = attributes[i];
        }
        return n_to;
}

/* Sets are short: a handful of attributes. */
static void sort_indexes(uint32_t *indexes, size_t n) {
        for (size_t i = 1; i < n; i++) {
                uint32_t index = indexes[i];
                size_t j = i;

                for (; j && indexes[j - 1] > index; j--)
                        indexes[j] = indexes[j - 1];
                indexes[j] = index;
        }
}

int window_attribute_set(Window *window, const uint32_t *attributes, size_t n, uint32_t *indexp) {
        uint32_t set[WINDOW_MAX_SET];

        if (n > WINDOW_MAX_SET)
                return WINDOW_E_FULL;
        n = unique_keys(window, set, attributes, n);
        sort_indexes(set, n);
        return window_add_row(window, &window->tables.sets, set, n * sizeof(*set), indexp);
}

int window_resource(Window *window, uint64_t key, uint32_t *indexp) {
        uint32_t index;
        int r;

        r = array_reserve_zero(&window->resources, &window->resources_size,
                               window->tables.resource_keys.n_items + 1u, 16);
        if (!r)
                r = window_add_row(window, &window->tables.resource_keys, &key, sizeof(key), &index);
        if (r)
                return r;
        *indexp = index;
        return 0;
}

int window_resource_attributes(Window *window, uint32_t resource, const uint32_t *attributes, size_t n) {
        uint32_t set[WINDOW_MAX_SET], *copy;

        if (n > WINDOW_MAX_SET || window->full)
                return WINDOW_E_FULL;
        n = unique_keys(window, set, attributes, n);
        copy = arena_copy(&window->arena, set, n * sizeof(*set));
        if (!copy)
                return error_origin(-ENOMEM);
        window->resources[resource].attributes = copy;
        window->resources[resource].n_attributes = (uint32_t)n;
        window->full = window_memory(window) > window->limits.max_bytes;
        return 0;
}
