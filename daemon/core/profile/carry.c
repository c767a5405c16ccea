/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps an array for each table with the new index of each row, plus 1; 0 means that the row was not
 * carried over yet. A frame may become several words.
 */

#include "core/profile/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

int carry_init(Carry *carry, Window *into, const Window *from) {
        static uint32_t (*const count[_CARRY_N])(const Window *) = {
                [CARRY_STRINGS] = window_n_strings,       [CARRY_MODULES] = window_n_modules,
                [CARRY_FUNCTIONS] = window_n_functions,   [CARRY_ATTRIBUTES] = window_n_attributes,
                [CARRY_SETS] = window_n_attribute_sets,   [CARRY_LINKS] = window_n_links,
                [CARRY_STACKS] = window_n_stacks,         [CARRY_RESOURCES] = window_n_resources,
        };

        *carry = (Carry){ .into = into, .from = from };
        for (size_t i = 0; i < _CARRY_N; i++) {
                carry->known[i] = calloc(MAX(count[i](from), 1U), sizeof(uint32_t));
                if (!carry->known[i])
                        return error_origin(-ENOMEM);
                carry->known[i][0] = i != CARRY_RESOURCES;
        }
        return 0;
}

void carry_deinit(Carry *carry) {
        for (size_t i = 0; i < _CARRY_N; i++)
                free(carry->known[i]);
        free(carry->words);
        free(carry->stack);
        hashmap_deinit(&carry->frames);
        *carry = (Carry){ 0 };
}

int carry_row(Carry *carry, CarryTable table, uint32_t row, int (*make)(Carry *, uint32_t, uint32_t *),
              uint32_t *indexp) {
        uint32_t *known = &carry->known[table][row];

        if (!*known) {
                int r = make(carry, row, indexp);

                if (r)
                        return r;
                *known = *indexp + 1;
        }
        *indexp = *known - 1;
        return 0;
}

static int make_string(Carry *carry, uint32_t row, uint32_t *indexp) {
        size_t size;
        const char *text = window_get_string(carry->from, row, &size);

        return window_string(carry->into, text, size, indexp);
}

int carry_string(Carry *carry, uint32_t string, uint32_t *indexp) {
        return carry_row(carry, CARRY_STRINGS, string, make_string, indexp);
}

int carry_profile_names(Carry *carry, const WindowProfileNames *names, WindowProfileNames *namesp) {
        int r = carry_string(carry, names->type, &namesp->type);

        r = r ? r : carry_string(carry, names->unit, &namesp->unit);
        r = r ? r : carry_string(carry, names->period_type, &namesp->period_type);
        return r ? r : carry_string(carry, names->period_unit, &namesp->period_unit);
}

/* ---- what stands beside the stack ---- */

static int make_attribute(Carry *carry, uint32_t row, uint32_t *indexp) {
        WindowAttribute attribute = *window_get_attribute(carry->from, row);
        int r = carry_string(carry, attribute.key, &attribute.key);

        r = r ? r : carry_string(carry, attribute.unit, &attribute.unit);
        r = r ? r : carry_string(carry, attribute.string, &attribute.string);
        return r ? r : window_attribute(carry->into, &attribute, indexp);
}

int carry_attributes(Carry *carry, const uint32_t *attributes, size_t n,
                     uint32_t carried[static WINDOW_MAX_SET]) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = carry_row(carry, CARRY_ATTRIBUTES, attributes[i], make_attribute, &carried[i]);
        return r;
}

int carry_resource(Carry *carry, const uint32_t *attributes, size_t n, uint32_t *indexp) {
        uint32_t n_before = window_n_resources(carry->into);
        int r = window_resource(carry->into, hash_bytes(attributes, n * sizeof(*attributes)), indexp);

        if (r || window_n_resources(carry->into) == n_before)
                return r;
        return window_resource_attributes(carry->into, *indexp, attributes, n);
}

static int make_set(Carry *carry, uint32_t row, uint32_t *indexp) {
        uint32_t carried[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(carry->from, row, &n);
        int r = carry_attributes(carry, attributes, n, carried);

        return r ? r : window_attribute_set(carry->into, carried, n, indexp);
}

int carry_set(Carry *carry, uint32_t set, uint32_t *indexp) {
        return carry_row(carry, CARRY_SETS, set, make_set, indexp);
}

static int make_link(Carry *carry, uint32_t row, uint32_t *indexp) {
        return window_link(carry->into, window_get_link(carry->from, row), indexp);
}

int carry_link(Carry *carry, uint32_t link, uint32_t *indexp) {
        return carry_row(carry, CARRY_LINKS, link, make_link, indexp);
}

/* ---- frames ---- */

static int carry_path(Carry *carry, uint32_t string, uint32_t *indexp) {
        const char *path = window_get_string(carry->from, string, NULL), *name = strrchr(path, '/');

        if (carry->paths == CARRY_PATHS_FULL || *path != '/')
                return carry_string(carry, string, indexp);
        name = carry->paths == CARRY_PATHS_NAME ? name + 1 : "";
        return window_string(carry->into, name, strlen(name), indexp);
}

static int make_module(Carry *carry, uint32_t row, uint32_t *indexp) {
        WindowModule module = *window_get_module(carry->from, row);
        int r = carry_path(carry, module.path, &module.path);

        r = r ? r : carry_string(carry, module.build_id_gnu, &module.build_id_gnu);
        r = r ? r : carry_string(carry, module.build_id_go, &module.build_id_go);
        r = r ? r : carry_string(carry, module.build_id_htlhash, &module.build_id_htlhash);
        return r ? r : window_module(carry->into, &module, indexp);
}

static int make_function(Carry *carry, uint32_t row, uint32_t *indexp) {
        WindowFunction function = *window_get_function(carry->from, row);
        int r = carry_string(carry, function.name, &function.name);

        r = r ? r : carry_string(carry, function.system_name, &function.system_name);
        r = r ? r : carry_string(carry, function.filename, &function.filename);
        return r ? r : window_function(carry->into, &function, indexp);
}

int carry_frame(Carry *carry, const WindowFrame *frame) {
        FrameWord word;
        int r = window_frame(carry->into, frame, &word);

        r = r ? r : array_reserve(&carry->words, &carry->words_room, carry->n_words + 1, 64);
        if (!r)
                carry->words[carry->n_words++] = word;
        return r;
}

static int carry_word(Carry *carry, FrameWord word) {
        WindowFrame frame = window_expand_frame(carry->from, word);
        int r = carry_row(carry, CARRY_MODULES, frame.module, make_module, &frame.module);

        r = r ? r : carry_row(carry, CARRY_FUNCTIONS, frame.function, make_function, &frame.function);
        r = r ? r : carry_string(carry, frame.type, &frame.type);
        r = r ? r : carry_row(carry, CARRY_ATTRIBUTES, frame.attribute, make_attribute, &frame.attribute);
        if (r)
                return r;
        return carry->expand ? carry->expand(carry, word, &frame) : carry_frame(carry, &frame);
}

/* *firstp: index in `words` of the number of words that @word became. */
static int make_words(Carry *carry, FrameWord word, size_t *firstp) {
        size_t first = carry->n_words;
        int r = array_reserve(&carry->words, &carry->words_room, first + 1, 64);

        if (r)
                return r;
        carry->n_words++;
        r = carry_word(carry, word);
        if (r) {
                carry->n_words = first;
                return r;
        }
        carry->words[first] = carry->n_words - first - 1;
        *firstp = first;
        return error_fold(hashmap_put(&carry->frames, word, (void *)(uintptr_t)(first + 1)));
}

static int find_words(Carry *carry, FrameWord word, size_t *firstp) {
        uintptr_t known = (uintptr_t)hashmap_get(&carry->frames, word);

        if (!known)
                return make_words(carry, word, firstp);
        *firstp = known - 1;
        return 0;
}

/* @np: words in `stack` so far. */
static int append_words(Carry *carry, FrameWord word, size_t *np) {
        size_t first, n;
        int r = find_words(carry, word, &first);

        if (r)
                return r;
        n = carry->words[first];
        r = array_reserve(&carry->stack, &carry->stack_room, *np + n, 64);
        if (r)
                return r;
        memcpy(carry->stack + *np, carry->words + first + 1, n * sizeof(*carry->words));
        *np += n;
        return 0;
}

static int make_stack(Carry *carry, uint32_t row, uint32_t *indexp) {
        size_t n_from, n = 0;
        const FrameWord *words = window_get_stack(carry->from, row, &n_from);
        int r = 0;

        for (size_t i = 0; i < n_from && !r; i++)
                r = append_words(carry, words[i], &n);
        return r ? r : window_stack(carry->into, carry->stack, MIN(n, (size_t)WINDOW_MAX_DEPTH), indexp);
}

int carry_stack(Carry *carry, uint32_t stack, uint32_t *indexp) {
        return carry_row(carry, CARRY_STACKS, stack, make_stack, indexp);
}
