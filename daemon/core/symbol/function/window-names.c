/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects the words of a window that lack a name, orders them by object, and asks for each object's lines
 * in one batch.
 */

#include "core/symbol/function/window-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

/* The frames of one word. */
typedef struct Row {
        uint32_t n_frames;
        NamedFrame frames[];
} Row;

/* A word whose lines are to be asked for. */
typedef struct Pending {
        uint64_t address;
        FrameWord word;
        uint32_t module;
        uint32_t n_frames;              /* of the module, in all stacks: the fullest is asked for first */
} Pending;

struct WindowNames {
        const Window *window;
        Symbolizer *symbolizer;
        const WindowNamesOptions *options;
        bool want_lines;
        Hashmap rows;                   /* word → Row */
        Arena arena;                    /* rows and their texts */
        SymbolState *states;            /* by module, as the next */
        uint32_t *n_frames;             /* until lines are asked for */
        Pending *pending;
        size_t n_pending, pending_room;
        const Pending *batch;           /* frames that are asked for now */
        Hashmap seen;                   /* words */
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
                .build_id_htlhash = window_get_string(names->window, module->build_id_htlhash, NULL),
                .file = module->file,
                .source = options && options->source ? options->source(options->userdata, module) : NULL,
        };
}

static int add_pending(WindowNames *names, const WindowFrame *frame, FrameWord word) {
        int r = array_reserve(&names->pending, &names->pending_room, names->n_pending + 1, 256);

        if (!r)
                names->pending[names->n_pending++] = (Pending){ frame->address, word, frame->module };
        return r;
}

static int look_up(WindowNames *names, const WindowFrame *frame, FrameWord word) {
        SymbolObject object = object_of(names, frame->module);
        SymbolName found;
        int r = symbolizer_name(names->symbolizer, &object, frame->address, &found);

        if (r)
                return error_fold(r);
        names->states[frame->module] = found.state;
        return found.name ? add_row(names, word, &found) : 0;
}

/*
 * Whether there is something to find for a frame: native code of an object, and not symbolized with lines
 * before.
 */
static bool is_open(const WindowNames *names, const WindowFrame *frame) {
        const WindowFunction *function = window_get_function(names->window, frame->function);
        const char *type = window_get_string(names->window, frame->type, NULL);

        if (!frame->module || frame->line || function->filename || !strcmp(type, "kernel"))
                return false;
        return !frame->function || (names->want_lines && !strcmp(type, "native"));
}

static int name_word(WindowNames *names, FrameWord word) {
        WindowFrame frame = window_expand_frame(names->window, word);
        int r;

        names->n_frames[frame.module]++;
        if (!is_open(names, &frame) || hashmap_get(&names->seen, word))
                return 0;
        r = hashmap_put(&names->seen, word, names);
        if (!r && !frame.function)
                r = look_up(names, &frame, word);
        if (!r && names->want_lines)
                r = add_pending(names, &frame, word);
        return r ? error_fold(r) : 0;
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

static int compare_pending(const void *left, const void *right) {
        const Pending *a = left, *b = right;

        if (a->n_frames != b->n_frames)
                return a->n_frames > b->n_frames ? -1 : 1;
        if (a->module != b->module)
                return a->module < b->module ? -1 : 1;
        return a->address < b->address ? -1 : a->address > b->address;
}

static int copy_part(WindowNames *names, const char *text, size_t size, const char **copyp) {
        *copyp = arena_string(&names->arena, text, size);
        return *copyp ? 0 : error_origin(-ENOMEM);
}

static int set_frame(WindowNames *names, NamedFrame *to, const LineFrame *from) {
        char readable[DEMANGLE_MAX_OUTPUT];
        size_t n;
        int r = copy_part(names, from->name, from->n_name, &to->linkage_name);

        if (!r)
                r = copy_part(names, from->file, from->n_file, &to->file);
        if (r)
                return error_fold(r);
        to->line = from->line;
        to->start_line = from->start_line;
        to->name = to->linkage_name;
        n = demangle(to->linkage_name, symbolizer_style(names->symbolizer), readable, sizeof(readable));
        if (n)
                r = copy_part(names, readable, n, &to->name);
        return r ? error_fold(r) : 0;
}

/*
 * The function that the code lies in keeps the name that it has without lines: of aliases DWARF may know
 * another.
 */
static int keep_name(WindowNames *names, FrameWord word, NamedFrame *frame) {
        const Row *before = hashmap_get(&names->rows, word);
        WindowFrame given = window_expand_frame(names->window, word);
        const WindowFunction *function = window_get_function(names->window, given.function);
        int r;

        if (before) {
                frame->name = before->frames[0].name;
                frame->linkage_name = before->frames[0].linkage_name;
        }
        if (!function->name)
                return 0;
        r = copy_text(names, window_get_string(names->window, function->name, NULL), &frame->name);
        if (!r)
                r = copy_text(names, window_get_string(names->window, function->system_name, NULL),
                              &frame->linkage_name);
        return r ? error_fold(r) : 0;
}

static int add_lines(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        WindowNames *names = userdata;
        FrameWord word = names->batch[index].word;
        Row *row = arena_zero(&names->arena, 1, sizeof(*row) + n * sizeof(row->frames[0]));
        int r = 0;

        if (!row)
                return error_origin(-ENOMEM);
        row->n_frames = (uint32_t)n;
        for (size_t i = 0; i < n && !r; i++) {
                r = set_frame(names, &row->frames[i], &frames[i]);
                row->frames[i].is_inlined = i + 1 < n;
        }
        if (!r)
                r = keep_name(names, word, &row->frames[n - 1]);
        if (!r)
                r = hashmap_put(&names->rows, word, row);
        return r ? error_fold(r) : 0;
}

static int ask_batch(WindowNames *names, const Pending *pending, size_t n) {
        SymbolObject object = object_of(names, pending->module);
        _cleanup_(freep) uint64_t *addresses = reallocarray(NULL, n, sizeof(*addresses));
        LinesState state;               /* for symbolizer_lines_object() */
        int r;

        if (!addresses)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                addresses[i] = pending[i].address;
        names->batch = pending;
        r = symbolizer_lines(names->symbolizer, &object, addresses, (uint32_t)n, add_lines, names, &state);
        return r ? error_fold(r) : 0;
}

/* Object by object, LINES_MAX_ADDRESSES of each at a time. */
static int ask_lines(WindowNames *names) {
        const Pending *pending = names->pending;
        int r = 0;

        for (size_t i = 0; i < names->n_pending; i++)
                names->pending[i].n_frames = names->n_frames[names->pending[i].module];
        if (names->n_pending)
                qsort(names->pending, names->n_pending, sizeof(*pending), compare_pending);
        for (size_t i = 0, k; i < names->n_pending && !r; i = k) {
                for (k = i; k < names->n_pending && pending[k].module == pending[i].module &&
                     k - i < LINES_MAX_ADDRESSES;)
                        k++;
                r = ask_batch(names, pending + i, k - i);
        }
        return r ? error_fold(r) : 0;
}

static int init_states(WindowNames *names) {
        uint32_t n = window_n_modules(names->window);

        names->states = calloc(n + 1u, sizeof(*names->states));
        names->n_frames = calloc(n + 1u, sizeof(*names->n_frames));
        if (!names->states || !names->n_frames)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                names->states[i] = SYMBOL_N_STATES;
        return 0;
}

/* Frees memory of the look-ups; options are the caller's for one call. */
static void forget_work(WindowNames *names) {
        free(names->pending);
        free(names->n_frames);
        hashmap_deinit(&names->seen);
        names->pending = NULL;
        names->n_frames = NULL;
        names->options = NULL;
}

int window_names_new(WindowNames **namesp, const Window *window, Symbolizer *symbolizer,
                     const WindowNamesOptions *options) {
        _cleanup_(window_names_freep) WindowNames *names = calloc(1, sizeof(*names));
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        names->window = window;
        names->symbolizer = symbolizer;
        names->options = options;
        names->want_lines = (options && options->lines) || symbolizer_wants_lines(symbolizer);
        r = init_states(names);
        if (!r)
                r = name_stacks(names);
        if (!r)
                r = ask_lines(names);
        if (r)
                return error_fold(r);
        forget_work(names);
        *namesp = take(names);
        return 0;
}

WindowNames *window_names_free(WindowNames *names) {
        if (!names)
                return NULL;
        forget_work(names);
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
