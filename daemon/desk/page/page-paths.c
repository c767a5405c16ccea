/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the stacks of a window to paths of frames that have a name. Each frame word is looked up once; where
 * code was inlined, one address becomes several frames.
 *
 * A window may bring such frames itself. They stand in a stack one behind the other, with one address: the
 * innermost first, and last the function that the machine was really in. So a frame is inlined if its caller
 * has the same address in the same object, unless the caller is the frame that this address began with: then
 * a function has called itself from there.
 */
#include <errno.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/page/build.h"

typedef struct Names {
        PageModel *model;
        const Window *window;
        WindowNames *native;            /* names of native code; NULL = only names in the window */
        /* frame word, and whether it is inlined → where its chain begins, and its length */
        Hashmap known;
        PageStep *chains;               /* the innermost first */
        size_t n_chains, chains_room;
        uint32_t *strings;              /* string of the window → string + 1; 0 = not yet */
        uint32_t *places;               /* by row of the frame table */
        PageStep *path;                 /* room for the deepest stack so far */
        size_t path_room;
} Names;

/* Frames of the table use few of their 61 bits, others none of the mark's: this one is free in both. */
#define WORD_INLINED ((uint64_t)1 << 60 | (uint64_t)FRAME_MARK_TABLE << 61)

static int string_of(Names *names, uint32_t string, uint32_t *stringp) {
        const char *text;
        size_t size;
        int r;

        if (!names->strings[string]) {
                text = window_get_string(names->window, string, &size);
                r = page_string(names->model, text, size, stringp);
                if (r)
                        return r;
                names->strings[string] = *stringp + 1;
        }
        *stringp = names->strings[string] - 1;
        return 0;
}

static int add_text(PageModel *model, const char *text, uint32_t *stringp) {
        return page_string(model, text, strlen(text), stringp);
}

/* `[libc.so.6]`: all that is known of code without a name. */
static int bracketed(PageModel *model, const char *path, uint32_t *stringp) {
        const char *slash = strrchr(path, '/');
        Text text = { 0 };
        int r;

        path = slash && slash[1] ? slash + 1 : path;
        text_printf(&text, path[0] == '[' ? "%s" : "[%s]", path);
        r = text.failed ? error_origin(-ENOMEM) : page_string(model, text.data, text.size, stringp);
        text_deinit(&text);
        return r;
}

static bool is_kernel_image(const char *path) {
        return !path[0] || !strcmp(path, "vmlinux") || !strncmp(path, "[kernel", strlen("[kernel"));
}

static int object_of(Names *names, const WindowFrame *frame, bool is_kernel, uint32_t *objectp) {
        const WindowModule *module = window_get_module(names->window, frame->module);
        const char *path = window_get_string(names->window, module->path, NULL);

        if (is_kernel)
                return bracketed(names->model, is_kernel_image(path) ? "kernel" : path, objectp);
        return string_of(names, module->path, objectp);
}

static int name_of(Names *names, const WindowFrame *frame, bool is_kernel, PageFrame *made) {
        const WindowFunction *function = window_get_function(names->window, frame->function);
        const char *type;
        int r = string_of(names, function->name, &made->name);

        if (r || made->name)
                return r;
        if (made->object)
                return bracketed(names->model, page_get_string(names->model, made->object), &made->name);
        type = window_get_string(names->window, frame->type, NULL);
        return bracketed(names->model,
                         is_kernel                            ? "kernel"
                                 : type[0] && frame->function ? type
                                                              : "unknown",
                         &made->name);
}

/*
 * The type of a frame. Interpreted and compiled code of a function are two, since people want to know which.
 */
static int type_of(Names *names, const WindowFrame *frame, PageFrame *made) {
        const WindowAttribute *attribute = window_get_attribute(names->window, frame->attribute);
        const char *key = window_get_string(names->window, attribute->key, NULL);
        const char *value = window_get_string(names->window, attribute->string, NULL);

        if (!strcmp(key, "jvm.frame.compilation") && attribute->kind == ATTRIBUTE_STRING) {
                made->inlined |= !strcmp(value, "inlined");
                if (!strcmp(value, "interpreted"))
                        return add_text(names->model, "jvm interpreted", &made->type);
        }
        return string_of(names, frame->type, &made->type);
}

/* A comparison matches functions as the report's does (report/diff.c): by name, and by the file's name. */
static int match_frame(PageModel *model, const PageFrame *made, uint32_t *framep) {
        const char *path = page_get_string(model, made->object), *slash = strrchr(path, '/');
        PageFrame frame = *made;
        uint32_t key[2] = { made->name }, match;
        int r = page_string(model, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path), &frame.object);

        if (r)
                return r;
        key[1] = frame.object;
        r = intern_add(&model->matches, key, sizeof(key), &match);
        if (r == INTERN_E_FOUND) {
                *framep = model->matched[match];
                return 0;
        }
        if (r)
                return r;
        r = array_reserve(&model->matched, &model->matched_room, (size_t)match + 1, 256);
        if (r)
                return r;
        model->matched[match] = 0;
        r = page_intern(&model->frames, &frame, sizeof(frame), framep);
        if (!r)
                model->matched[match] = *framep;
        return r;
}

/* @line: 0 = not known. */
static int add_to_chain(Names *names, const PageFrame *made, uint32_t line) {
        PageModel *model = names->model;
        uint32_t frame;
        int r = model->n_sides > 1 ? match_frame(model, made, &frame)
                                   : page_intern(&model->frames, made, sizeof(*made), &frame);

        if (r == INTERN_E_FULL)
                frame = 0;
        else if (r)
                return r;
        r = array_reserve(&names->chains, &names->chains_room, names->n_chains + 1, 1024);
        if (!r)
                names->chains[names->n_chains++] = (PageStep){ frame, line };
        return r;
}

static uint32_t line_of(int64_t line) {
        return line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
}

/* Adds a frame as the window itself describes it. @common: parts that all frames of the word share. */
static int add_own(Names *names, const WindowFrame *frame, bool is_kernel, const PageFrame *common) {
        const WindowFunction *function = window_get_function(names->window, frame->function);
        PageFrame made = *common;
        int r = name_of(names, frame, is_kernel, &made);

        if (!r)
                r = string_of(names, function->filename, &made.file);
        if (r)
                return r;
        made.line = line_of(function->start_line);
        return add_to_chain(names, &made, line_of(frame->line));
}

/* The line of a call says where, not which function: frames of one function are one. */
static int add_named(Names *names, const NamedFrame *named, const WindowFrame *frame,
                     const PageFrame *common) {
        PageFrame made = *common;
        int r = *named->name ? add_text(names->model, named->name, &made.name)
                             : name_of(names, frame, false, &made);

        made.inlined |= named->is_inlined;
        if (!r)
                r = add_text(names->model, named->file, &made.file);
        return r ? r : add_to_chain(names, &made, named->line);
}

static int make_chain(Names *names, FrameWord word, bool inlined) {
        WindowFrame frame = window_expand_frame(names->window, word);
        bool is_kernel = !strcmp(window_get_string(names->window, frame.type, NULL), "kernel");
        PageFrame common = { .inlined = inlined };
        const NamedFrame *named;
        size_t n = names->native ? window_names_get(names->native, word, &named) : 0;
        int r = type_of(names, &frame, &common);

        if (!r && (frame.module || is_kernel))
                r = object_of(names, &frame, is_kernel, &common.object);
        if (!r && !n)
                r = add_own(names, &frame, is_kernel, &common);
        for (size_t i = 0; i < n && !r; i++)
                r = add_named(names, &named[i], &frame, &common);
        return r;
}

/* A chain as one word: its beginning and, below, its length. Never NULL, since no chain is empty. */
static int chain_of(Names *names, FrameWord word, bool inlined, size_t *beginp, size_t *np) {
        uint64_t key = inlined ? word ^ WORD_INLINED : word;
        uintptr_t known = (uintptr_t)hashmap_get(&names->known, key);
        int r;

        if (!known) {
                size_t begin = names->n_chains;

                r = make_chain(names, word, inlined);
                if (r)
                        return r;
                known = (uintptr_t)begin << 16 | MIN(names->n_chains - begin, (size_t)UINT16_MAX);
                r = hashmap_put(&names->known, key, (void *)known);
                if (r)
                        return r;
        }
        *beginp = known >> 16;
        *np = known & UINT16_MAX;
        return 0;
}

/*
 * Numbers the places {module, address} of the frame table; 0 = frames that could not be inlined into one of
 * them.
 */
static int find_places(Names *names) {
        uint32_t n = window_n_frames(names->window), place;
        Intern known;
        int r = 0;

        names->places = calloc(n, sizeof(*names->places));
        if (!names->places)
                return error_origin(-ENOMEM);
        intern_init(&known, UINT32_MAX / 4);
        for (uint32_t i = 1; i < n && !r; i++) {
                const WindowFrame *frame = window_get_frame(names->window, i);
                uint64_t key[] = { frame->module, frame->address };

                if (!frame->address || !frame->function)
                        continue;
                r = page_intern(&known, key, sizeof(key), &place);
                names->places[i] = place + 1;
        }
        intern_deinit(&known);
        return r;
}

static uint32_t place_of(const Names *names, FrameWord word) {
        return word >> 61 == FRAME_MARK_TABLE ? names->places[(uint32_t)word] : 0;
}

static bool is_inlined(const Names *names, FrameWord word, FrameWord caller) {
        uint32_t place = place_of(names, word);

        return place && word != caller && place == place_of(names, caller);
}

static int add_to_path(Names *names, size_t *np, PageStep step) {
        int r = array_reserve(&names->path, &names->path_room, *np + 1, 256);

        if (!r)
                names->path[(*np)++] = step;
        return r;
}

static void reverse(PageStep *steps, size_t n) {
        for (size_t i = 0; i < n / 2; i++) {
                PageStep step = steps[i];

                steps[i] = steps[n - 1 - i];
                steps[n - 1 - i] = step;
        }
}

static int add_word(Names *names, FrameWord word, bool inlined, size_t *np) {
        size_t begin, length;
        int r = chain_of(names, word, inlined, &begin, &length);

        for (size_t i = 0; !r && i < length; i++)
                r = add_to_path(names, np, names->chains[begin + i]);
        return r;
}

/* Stacks begin inside, paths outside. @first: where the frames of the current address begin. */
static int make_path(Names *names, uint32_t stack, PagePath *path) {
        size_t n_words, n = 0, first = 0;
        const FrameWord *words = window_get_stack(names->window, stack, &n_words);
        const PageStep *steps;
        int r = n_words ? 0 : add_to_path(names, &n, (PageStep){ 0 });  /* `[no stack]` */

        for (size_t i = 0; i < n_words && !r; i++) {
                bool inlined = i + 1 < n_words && words[i + 1] != words[first] &&
                               is_inlined(names, words[i], words[i + 1]);

                r = add_word(names, words[i], inlined, &n);
                if (!inlined)
                        first = i + 1;
        }
        if (r)
                return r;
        reverse(names->path, n);
        steps = arena_copy(&names->model->arena, names->path, n * sizeof(*names->path));
        if (!steps)
                return error_origin(-ENOMEM);
        *path = (PagePath){ .steps = steps, .n_steps = (uint32_t)n };
        return 0;
}

/* Frame 0 stands for stacks without any. */
static int add_no_stack(PageModel *model) {
        PageFrame none = { 0 };
        uint32_t frame;
        int r = model->frames.n_items ? 0 : add_text(model, "[no stack]", &none.name);

        return r || model->frames.n_items ? r : page_intern(&model->frames, &none, sizeof(none), &frame);
}

static int names_init(Names *names, const Window *window) {
        const PageOptions *options = names->model->options;
        int r = add_no_stack(names->model);

        names->strings = calloc(window_n_strings(window) + 1u, sizeof(*names->strings));
        if (!names->strings)
                r = error_origin(-ENOMEM);
        if (!r)
                r = find_places(names);
        if (!r && options->symbolizer)
                r = window_names_new(&names->native, window, options->symbolizer, options->naming);
        return r;
}

static void names_deinit(Names *names) {
        window_names_free(names->native);
        hashmap_deinit(&names->known);
        free(names->chains);
        free(names->places);
        free(names->strings);
        free(names->path);
}

int page_paths_of(PageModel *model, PageSide *side) {
        Names names = { .model = model, .window = side->window };
        int r = names_init(&names, side->window);

        side->paths = calloc(window_n_stacks(side->window), sizeof(*side->paths));
        if (!side->paths && !r)
                r = error_origin(-ENOMEM);
        for (uint32_t i = 0; i < window_n_stacks(side->window) && !r; i++)
                r = make_path(&names, i, &side->paths[i]);
        names_deinit(&names);
        return r;
}
