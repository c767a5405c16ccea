/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the filter for each key, finds the key's name in the process context, and counts distinct values per
 * key and process, so that one key cannot fill a window. Once three quarters of all that may be are there, a
 * process with more than are left has no new ones.
 */

#include "host/sampling/aggregate/context-attributes.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/thread-record.h"

enum {
        MAX_VALUES_IN_ALL = 1 << 16,    /* over it every new value is over its key's cap */
        MAX_NAME = 256,                 /* bytes of a key */
        FIRST_LABEL = CONTEXT_ATTRIBUTES_MAX_KEYS,      /* numbers of labels are behind those of indexes */
        ALL_LABELS = -1,                /* in place of a key: how many labels a process has, */
        ALL_VALUES = -2,                /* … and how many values of all its keys */
};

static bool matches(char *const *globs, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++)
                if (!fnmatch(globs[i], key, 0))
                        return true;
        return false;
}

bool attribute_filter_allows(const AttributeFilter *filter, const char *key) {
        return (!filter->n_allow || matches(filter->allow, filter->n_allow, key)) &&
                !matches(filter->deny, filter->n_deny, key);
}

void context_attributes_init(ContextAttributes *attributes) {
        *attributes = (ContextAttributes){ 0 };
        intern_init(&attributes->values, MAX_VALUES_IN_ALL);
        intern_init(&attributes->keys, MAX_VALUES_IN_ALL);
        intern_init(&attributes->labels, MAX_VALUES_IN_ALL);
}

void context_attributes_deinit(ContextAttributes *attributes) {
        intern_deinit(&attributes->values);
        intern_deinit(&attributes->keys);
        intern_deinit(&attributes->labels);
        free(attributes->counts);
        *attributes = (ContextAttributes){ 0 };
}

void context_attributes_reset(ContextAttributes *attributes) {
        intern_reset(&attributes->values);
        intern_reset(&attributes->keys);
        intern_reset(&attributes->labels);
        if (attributes->counts)
                memset(attributes->counts, 0, attributes->size * sizeof(*attributes->counts));
}

static int count_of(ContextAttributes *attributes, uint64_t generation, uint32_t key, uint32_t **countp) {
        struct {
                uint64_t generation;
                uint64_t key;
        } id = { generation, key };
        uint32_t number;
        int r = intern_add(&attributes->keys, &id, sizeof(id), &number);

        if (r && r != INTERN_E_FOUND)
                return r;
        r = array_reserve_zero(&attributes->counts, &attributes->size, number + 1u, 64);
        if (r)
                return r;
        *countp = &attributes->counts[number];
        return 0;
}

static int count_one(ContextAttributes *attributes, uint64_t generation, uint32_t key) {
        uint32_t *count = NULL;
        int r = count_of(attributes, generation, key, &count);

        if (!r)
                ++*count;
        return r;
}

/* Whether there is room in the process' share for one more value. Return: as count_of(). */
static int ask_share(ContextAttributes *attributes, uint64_t generation, bool *has_roomp) {
        uint32_t left = MAX_VALUES_IN_ALL - attributes->values.n_items, *count = NULL;
        int r = count_of(attributes, generation, (uint32_t)ALL_VALUES, &count);

        if (r)
                return r;
        *has_roomp = left >= MAX_VALUES_IN_ALL / 4 || *count < left;
        return 0;
}

/* Whether this value of the key may be sent as it is. Return: 0, INTERN_E_FULL, -ENOMEM. */
static int admit(ContextAttributes *attributes, uint64_t generation, uint32_t key, const uint8_t *value,
                 size_t size, bool *admittedp) {
        struct {
                uint64_t generation;
                uint32_t key, size;
                uint8_t value[256];
        } id = { .generation = generation, .key = key, .size = (uint32_t)size };
        uint32_t number, *count = NULL;
        bool has_room = false;
        int r;

        memcpy(id.value, value, size);
        size += offsetof(__typeof__(id), value);
        *admittedp = intern_find(&attributes->values, &id, size, &number) == 0;
        if (*admittedp)
                return 0;
        r = count_of(attributes, generation, key, &count);
        if (r || *count >= CONTEXT_ATTRIBUTES_MAX_VALUES)
                return r;
        r = ask_share(attributes, generation, &has_room);
        if (r || !has_room)
                return r;
        r = intern_add(&attributes->values, &id, size, &number);
        if (!r)
                r = count_one(attributes, generation, key);
        if (!r)
                r = count_one(attributes, generation, (uint32_t)ALL_VALUES);
        if (r)
                return r;
        *admittedp = true;
        return 0;
}

static int add_value(ContextAttributes *attributes, Window *window, const Process *process, uint32_t index,
                     const char *name, const uint8_t *value, size_t size, uint32_t *attributep) {
        static const char overflow[] = "__overflow__";
        bool admitted;
        int r = admit(attributes, process->generation, index, value, size, &admitted);

        if (r < 0)
                return r;
        if (!admitted) {
                stat_add(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW, 1);
                return window_attribute_string(window, name, overflow, sizeof(overflow) - 1, attributep);
        }
        return window_attribute_string(window, name, (const char *)value, size, attributep);
}

/* The last entry of each index; its value is NULL where there is none. */
static void sort_entries(const Sample *sample, ThreadAttribute last[CONTEXT_ATTRIBUTES_MAX_KEYS]) {
        size_t at = 0, size = sample->header->attributes_size;
        ThreadAttribute entry;

        while (thread_attributes_next(sample->attributes, size, &at, &entry))
                last[entry.key] = entry;
        if (at != size)
                stat_add(COUNTER_CONTEXT_ATTRIBUTES_MALFORMED, 1);
}

/* Return: false = the process context has no name for it. */
static bool name_of(const ProcessContext *context, unsigned index, char name[MAX_NAME]) {
        if (!context || index >= context->n_keys || !context->keys[index].size ||
            context->keys[index].size >= MAX_NAME)
                return false;
        memcpy(name, context->keys[index].data, context->keys[index].size);
        name[context->keys[index].size] = 0;
        return true;
}

/* Return: 0 with *keyp, INTERN_E_FULL = the process has too many, -ENOMEM. */
static int label_key(ContextAttributes *attributes, uint64_t generation, const GoroutineLabel *label,
                     uint32_t *keyp) {
        struct {
                uint64_t generation;
                uint8_t name[MAX_NAME];
        } id = { .generation = generation };
        size_t size = offsetof(__typeof__(id), name) + label->key_size;
        uint32_t number, *count = NULL;
        int r;

        memcpy(id.name, label->key, label->key_size);
        r = intern_find(&attributes->labels, &id, size, &number);
        if (r) {
                r = count_of(attributes, generation, (uint32_t)ALL_LABELS, &count);
                if (!r && *count >= CONTEXT_ATTRIBUTES_MAX_KEYS)
                        r = INTERN_E_FULL;
                if (!r)
                        r = intern_add(&attributes->labels, &id, size, &number);
                if (r)
                        return r;
                ++*count;
        }
        *keyp = FIRST_LABEL + number;
        return 0;
}

/* A key that holds a NUL is none. An empty value says nothing. */
static int add_label(ContextAttributes *attributes, const AttributeFilter *filter, Window *window,
                     const Process *process, const GoroutineLabel *label, uint32_t *to, size_t *np) {
        char name[MAX_NAME];
        uint32_t key;
        int r;

        memcpy(name, label->key, label->key_size);
        name[label->key_size] = 0;
        if (strlen(name) != label->key_size || !label->value_size || !attribute_filter_allows(filter, name))
                return 0;
        r = label_key(attributes, process->generation, label, &key);
        if (r) {
                stat_add(COUNTER_CONTEXT_ATTRIBUTES_OVERFLOW, 1);
                return MIN(r, 0);
        }
        r = add_value(attributes, window, process, key, name, label->value, label->value_size, to);
        *np += !r;
        return r;
}

int context_attributes_add_labels(ContextAttributes *attributes, const AttributeFilter *filter,
                                  Window *window, const Process *process, const Sample *sample,
                                  uint32_t *to, size_t max, size_t *np) {
        size_t at = GO_HEADER_SIZE;
        GoroutineLabel label;
        int r = 0;

        while (!r && *np < max &&
               goroutine_labels_next(sample->attributes, sample->header->attributes_size, &at, &label))
                r = add_label(attributes, filter, window, process, &label, &to[*np], np);
        return r;
}

int context_attributes_add(ContextAttributes *attributes, const AttributeFilter *filter, Window *window,
                           const Program *program, const Sample *sample, uint32_t *to, size_t *np) {
        Publication *publication = program->publication;
        ThreadAttribute last[CONTEXT_ATTRIBUTES_MAX_KEYS] = { 0 };
        char name[MAX_NAME];
        int r = 0;

        sort_entries(sample, last);
        for (unsigned i = 0; i < CONTEXT_ATTRIBUTES_MAX_KEYS && !r; i++) {
                if (!last[i].value)
                        continue;
                if (!name_of(publication->context, i, name)) {
                        stat_add(COUNTER_CONTEXT_KEYS_UNKNOWN, 1);
                        publication->wants_context = true;
                } else if (attribute_filter_allows(filter, name)) {
                        r = add_value(attributes, window, program->process, i, name, last[i].value,
                                      last[i].size, &to[*np]);
                        *np += !r;
                }
        }
        return r;
}
