/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/window-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/arena.h"
#include "util/error.h"
#include "util/hashmap.h"

/* The frames of one word. */
typedef struct Row {
        uint32_t n_frames;
        NamedFrame frames[];
} Row;

struct WindowNames {
        const Window *window;
        Symbolizer *symbolizer;
        const WindowNamesOptions *options;
        Hashmap rows;                   /* word → Row */
        Arena arena;                    /* rows and their texts */
        SymbolState *states;            /* by module */
};

static int copy_text(WindowNames *names, const char *text, const char **copyp) {
        *copyp = arena_string(&names->arena, text, strlen(text));
        return *copyp ? 0 : error_origin(-ENOMEM);
}

static int add_row(WindowNames *names, FrameWord word, const SymbolName *found) {
        Row *row = arena_zero(&names->arena, 1, sizeof(*row) + sizeof(row->frames[0]));
        int r;

        if (!row)
                return error_origin(-ENOMEM);
        row->n_frames = 1;
        row->frames[0].file = "";
        r = copy_text(names, found->name, &row->frames[0].name);
        if (!r && found->linkage_name == found->name)
                row->frames[0].linkage_name = row->frames[0].name;
        else if (!r)
                r = copy_text(names, found->linkage_name, &row->frames[0].linkage_name);
        if (!r)
                r = hashmap_put(&names->rows, word, row);
        return r ? error_fold(r) : 0;
}

static SymbolObject object_of(const WindowNames *names, uint32_t index) {
        const WindowModule *module = window_get_module(names->window, index);
        const WindowNamesOptions *options = names->options;

        return (SymbolObject){
                .path = window_get_string(names->window, module->path, NULL),
                .build_id_gnu = window_get_string(names->window, module->build_id_gnu, NULL),
                .build_id_go = window_get_string(names->window, module->build_id_go, NULL),
                .source = options && options->source ? options->source(options->userdata, module) : NULL,
        };
}

static int name_word(WindowNames *names, FrameWord word) {
        WindowFrame frame = window_expand_frame(names->window, word);
        SymbolObject object;
        SymbolName found;
        int r;

        if (!frame.module || frame.function || hashmap_get(&names->rows, word) ||
            !strcmp(window_get_string(names->window, frame.type, NULL), "kernel"))
                return 0;
        object = object_of(names, frame.module);
        r = symbolizer_name(names->symbolizer, &object, frame.address, &found);
        if (r)
                return error_fold(r);
        names->states[frame.module] = found.state;
        return found.name ? add_row(names, word, &found) : 0;
}

static int name_stacks(WindowNames *names) {
        for (uint32_t i = 0; i < window_n_stacks(names->window); i++) {
                size_t n;
                const FrameWord *words = window_get_stack(names->window, i, &n);

                for (size_t k = 0; k < n; k++) {
                        int r = name_word(names, words[k]);

                        if (r)
                                return error_fold(r);
                }
        }
        return 0;
}

int window_names_new(WindowNames **namesp, const Window *window, Symbolizer *symbolizer,
                     const WindowNamesOptions *options) {
        _cleanup_(window_names_freep) WindowNames *names = calloc(1, sizeof(*names));
        uint32_t n_modules = window_n_modules(window);
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        names->window = window;
        names->symbolizer = symbolizer;
        names->options = options;
        names->states = calloc(n_modules + 1u, sizeof(*names->states));
        if (!names->states)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n_modules; i++)
                names->states[i] = SYMBOL_N_STATES;
        r = name_stacks(names);
        if (r)
                return error_fold(r);
        names->options = NULL;          /* the caller's, for this call */
        *namesp = take(names);
        return 0;
}

WindowNames *window_names_free(WindowNames *names) {
        if (!names)
                return NULL;
        hashmap_deinit(&names->rows);
        arena_deinit(&names->arena);
        free(names->states);
        free(names);
        return NULL;
}

size_t window_names_get(const WindowNames *names, FrameWord word, const NamedFrame **framesp) {
        const Row *row = hashmap_get(&names->rows, word);

        if (!row)
                return 0;
        *framesp = row->frames;
        return row->n_frames;
}

SymbolState window_names_state(const WindowNames *names, uint32_t module) {
        return names->states[module];
}
