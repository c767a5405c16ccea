/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps an array for each table with the new index of each row, plus 1; 0 means that the row was not
 * copied yet. A frame may become several words.
 */

#include "core/profile/remap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

int remap_init(Remap *remap, Window *into, const Window *from) {
        static uint32_t (*const count[_REMAP_N])(const Window *) = {
                [REMAP_STRINGS] = window_n_strings,       [REMAP_MODULES] = window_n_modules,
                [REMAP_FUNCTIONS] = window_n_functions,   [REMAP_ATTRIBUTES] = window_n_attributes,
                [REMAP_SETS] = window_n_attribute_sets,   [REMAP_LINKS] = window_n_links,
                [REMAP_STACKS] = window_n_stacks,         [REMAP_RESOURCES] = window_n_resources,
        };

        *remap = (Remap){ .into = into, .from = from };
        for (size_t i = 0; i < _REMAP_N; i++) {
                remap->known[i] = calloc(MAX(count[i](from), 1U), sizeof(uint32_t));
                if (!remap->known[i])
                        return error_origin(-ENOMEM);
                remap->known[i][0] = i != REMAP_RESOURCES;
        }
        return 0;
}

void remap_deinit(Remap *remap) {
        for (size_t i = 0; i < _REMAP_N; i++)
                free(remap->known[i]);
        free(remap->words);
        free(remap->stack);
        hashmap_deinit(&remap->frames);
        *remap = (Remap){ 0 };
}

int remap_row(Remap *remap, RemapTable table, uint32_t row, int (*make)(Remap *, uint32_t, uint32_t *),
              uint32_t *indexp) {
        uint32_t *known = &remap->known[table][row];

        if (!*known) {
                int r = make(remap, row, indexp);

                if (r)
                        return r;
                *known = *indexp + 1;
        }
        *indexp = *known - 1;
        return 0;
}

static int make_string(Remap *remap, uint32_t row, uint32_t *indexp) {
        size_t size;
        const char *text = window_get_string(remap->from, row, &size);

        return window_string(remap->into, text, size, indexp);
}

int remap_string(Remap *remap, uint32_t string, uint32_t *indexp) {
        return remap_row(remap, REMAP_STRINGS, string, make_string, indexp);
}

int remap_profile_names(Remap *remap, const WindowProfileNames *names, WindowProfileNames *namesp) {
        int r = remap_string(remap, names->type, &namesp->type);

        r = r ? r : remap_string(remap, names->unit, &namesp->unit);
        r = r ? r : remap_string(remap, names->period_type, &namesp->period_type);
        return r ? r : remap_string(remap, names->period_unit, &namesp->period_unit);
}

/* ---- what stands beside the stack ---- */

static int make_attribute(Remap *remap, uint32_t row, uint32_t *indexp) {
        WindowAttribute attribute = *window_get_attribute(remap->from, row);
        int r = remap_string(remap, attribute.key, &attribute.key);

        r = r ? r : remap_string(remap, attribute.unit, &attribute.unit);
        r = r ? r : remap_string(remap, attribute.string, &attribute.string);
        return r ? r : window_attribute(remap->into, &attribute, indexp);
}

int remap_attributes(Remap *remap, const uint32_t *attributes, size_t n,
                     uint32_t remapped[static WINDOW_MAX_SET]) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = remap_row(remap, REMAP_ATTRIBUTES, attributes[i], make_attribute, &remapped[i]);
        return r;
}

int remap_resource(Remap *remap, const uint32_t *attributes, size_t n, uint32_t *indexp) {
        uint32_t n_before = window_n_resources(remap->into);
        int r = window_resource(remap->into, hash_bytes(attributes, n * sizeof(*attributes)), indexp);

        if (r || window_n_resources(remap->into) == n_before)
                return r;
        return window_resource_attributes(remap->into, *indexp, attributes, n);
}

static int make_set(Remap *remap, uint32_t row, uint32_t *indexp) {
        uint32_t remapped[WINDOW_MAX_SET];
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(remap->from, row, &n);
        int r = remap_attributes(remap, attributes, n, remapped);

        return r ? r : window_attribute_set(remap->into, remapped, n, indexp);
}

int remap_set(Remap *remap, uint32_t set, uint32_t *indexp) {
        return remap_row(remap, REMAP_SETS, set, make_set, indexp);
}

static int make_link(Remap *remap, uint32_t row, uint32_t *indexp) {
        return window_link(remap->into, window_get_link(remap->from, row), indexp);
}

int remap_link(Remap *remap, uint32_t link, uint32_t *indexp) {
        return remap_row(remap, REMAP_LINKS, link, make_link, indexp);
}

/* ---- frames ---- */

static int remap_path(Remap *remap, uint32_t string, uint32_t *indexp) {
        const char *path = window_get_string(remap->from, string, NULL), *name = strrchr(path, '/');

        if (remap->paths == REMAP_PATHS_FULL || *path != '/')
                return remap_string(remap, string, indexp);
        name = remap->paths == REMAP_PATHS_NAME ? name + 1 : "";
        return window_string(remap->into, name, strlen(name), indexp);
}

static int make_module(Remap *remap, uint32_t row, uint32_t *indexp) {
        WindowModule module = *window_get_module(remap->from, row);
        int r = remap_path(remap, module.path, &module.path);

        r = r ? r : remap_string(remap, module.build_id_gnu, &module.build_id_gnu);
        r = r ? r : remap_string(remap, module.build_id_go, &module.build_id_go);
        r = r ? r : remap_string(remap, module.build_id_htlhash, &module.build_id_htlhash);
        return r ? r : window_module(remap->into, &module, indexp);
}

static int make_function(Remap *remap, uint32_t row, uint32_t *indexp) {
        WindowFunction function = *window_get_function(remap->from, row);
        int r = remap_string(remap, function.name, &function.name);

        r = r ? r : remap_string(remap, function.system_name, &function.system_name);
        r = r ? r : remap_string(remap, function.filename, &function.filename);
        return r ? r : window_function(remap->into, &function, indexp);
}

int remap_frame(Remap *remap, const WindowFrame *frame) {
        FrameWord word;
        int r = window_frame(remap->into, frame, &word);

        r = r ? r : array_reserve(&remap->words, &remap->words_room, remap->n_words + 1, 64);
        if (!r)
                remap->words[remap->n_words++] = word;
        return r;
}

static int remap_word(Remap *remap, FrameWord word) {
        WindowFrame frame = window_expand_frame(remap->from, word);
        int r = remap_row(remap, REMAP_MODULES, frame.module, make_module, &frame.module);

        r = r ? r : remap_row(remap, REMAP_FUNCTIONS, frame.function, make_function, &frame.function);
        r = r ? r : remap_string(remap, frame.type, &frame.type);
        r = r ? r : remap_row(remap, REMAP_ATTRIBUTES, frame.attribute, make_attribute, &frame.attribute);
        if (r)
                return r;
        return remap->expand ? remap->expand(remap, word, &frame) : remap_frame(remap, &frame);
}

/* *firstp: index in `words` of the number of words that @word became. */
static int make_words(Remap *remap, FrameWord word, size_t *firstp) {
        size_t first = remap->n_words;
        int r = array_reserve(&remap->words, &remap->words_room, first + 1, 64);

        if (r)
                return r;
        remap->n_words++;
        r = remap_word(remap, word);
        if (r) {
                remap->n_words = first;
                return r;
        }
        remap->words[first] = remap->n_words - first - 1;
        *firstp = first;
        return error_fold(hashmap_put(&remap->frames, word, (void *)(uintptr_t)(first + 1)));
}

static int find_words(Remap *remap, FrameWord word, size_t *firstp) {
        uintptr_t known = (uintptr_t)hashmap_get(&remap->frames, word);

        if (!known)
                return make_words(remap, word, firstp);
        *firstp = known - 1;
        return 0;
}

/* @np: words in `stack` so far. */
static int append_words(Remap *remap, FrameWord word, size_t *np) {
        size_t first, n;
        int r = find_words(remap, word, &first);

        if (r)
                return r;
        n = remap->words[first];
        if (!n)
                return 0;
        r = array_reserve(&remap->stack, &remap->stack_room, *np + n, 64);
        if (r)
                return r;
        memcpy(remap->stack + *np, remap->words + first + 1, n * sizeof(*remap->words));
        *np += n;
        return 0;
}

static int make_stack(Remap *remap, uint32_t row, uint32_t *indexp) {
        size_t n_from, n = 0;
        const FrameWord *words = window_get_stack(remap->from, row, &n_from);
        int r = 0;

        for (size_t i = 0; i < n_from && !r; i++)
                r = append_words(remap, words[i], &n);
        return r ? r : window_stack(remap->into, remap->stack, MIN(n, (size_t)WINDOW_MAX_DEPTH), indexp);
}

int remap_stack(Remap *remap, uint32_t stack, uint32_t *indexp) {
        return remap_row(remap, REMAP_STACKS, stack, make_stack, indexp);
}
