/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the stacks of a window to paths of frames that have a name. Each frame word is looked up once.
 *
 * Code that was inlined stands in a stack as frames of one address: the innermost first, and last the function that the
 * machine was really in. So a frame is inlined if its caller has the same address in the same object, and another function
 * or line. (A function that calls itself has the same address too, but also the same function and line.)
 */
#include <errno.h>
#include <string.h>

#include "page/page-private.h"
#include "util/error.h"

typedef struct Names {
        PageModel *model;
        const Window *window;
        Hashmap known;                  /* frame word, and whether it is inlined → frame + 1 */
        uint32_t *strings;              /* string of the window → string + 1; 0 = not yet */
        uint32_t *path;                 /* room for the deepest stack so far */
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

static int symbolize(Names *names, const WindowFrame *frame, uint32_t *namep) {
        const WindowModule *module = window_get_module(names->window, frame->module);
        SymbolObject object = { .path = window_get_string(names->window, module->path, NULL),
                                .build_id_gnu = window_get_string(names->window, module->build_id_gnu, NULL),
                                .build_id_go = window_get_string(names->window, module->build_id_go, NULL) };
        const char *name = NULL;
        SymbolState state;
        uint64_t offset;
        int r;

        if (!names->model->options->symbolizer)
                return 0;
        r = symbolizer_find(names->model->options->symbolizer, &object, frame->address, &name, &offset, &state);
        return r || !name ? r : add_text(names->model, name, namep);
}

static int name_of(Names *names, const WindowFrame *frame, bool is_kernel, PageFrame *made) {
        const WindowFunction *function = window_get_function(names->window, frame->function);
        const char *type;
        int r = 0;

        if (function->name)
                r = string_of(names, function->name, &made->name);
        else if (frame->module && !is_kernel)
                r = symbolize(names, frame, &made->name);
        if (r || made->name)
                return r;
        if (made->object)
                return bracketed(names->model, page_get_string(names->model, made->object), &made->name);
        type = window_get_string(names->window, frame->type, NULL);
        return bracketed(names->model, is_kernel ? "kernel" : type[0] && frame->function ? type : "unknown", &made->name);
}

/* Of runtimes: interpreted and compiled code of one function are two, since that is what people want to know. */
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

static int make_frame(Names *names, FrameWord word, bool inlined, uint32_t *framep) {
        WindowFrame frame = window_expand_frame(names->window, word);
        const WindowFunction *function = window_get_function(names->window, frame.function);
        bool is_kernel = !strcmp(window_get_string(names->window, frame.type, NULL), "kernel");
        PageFrame made = { .inlined = inlined };
        int r = type_of(names, &frame, &made);

        if (!r && (frame.module || is_kernel))
                r = object_of(names, &frame, is_kernel, &made.object);
        if (!r)
                r = name_of(names, &frame, is_kernel, &made);
        if (!r && function->filename)
                r = string_of(names, function->filename, &made.file);
        if (r)
                return r;
        if (function->start_line > 0 && function->start_line < UINT32_MAX)
                made.line = (uint32_t)function->start_line;
        r = page_intern(&names->model->frames, &made, sizeof(made), framep);
        if (r == INTERN_E_FULL) {
                *framep = 0;
                r = 0;
        }
        return r;
}

static int frame_of(Names *names, FrameWord word, bool inlined, uint32_t *framep) {
        uint64_t key = inlined ? word ^ WORD_INLINED : word;
        void *known = hashmap_get(&names->known, key);
        int r;

        if (known) {
                *framep = (uint32_t)((uintptr_t)known - 1);
                return 0;
        }
        r = make_frame(names, word, inlined, framep);
        return r ? r : hashmap_put(&names->known, key, (void *)(uintptr_t)(*framep + 1u));
}

static bool is_table(FrameWord word) {
        return word >> 61 == FRAME_MARK_TABLE;
}

static bool is_inlined(const Window *window, FrameWord word, FrameWord caller) {
        WindowFrame a, b;

        if (!is_table(word) || !is_table(caller) || word == caller)
                return false;
        a = window_expand_frame(window, word);
        b = window_expand_frame(window, caller);
        return a.address && a.function && b.function && a.address == b.address && a.module == b.module;
}

static int reserve(Names *names, size_t n) {
        uint32_t *path;

        if (n <= names->path_room)
                return 0;
        path = reallocarray(names->path, n * 2, sizeof(*path));
        if (!path)
                return error_origin(-ENOMEM);
        names->path = path;
        names->path_room = n * 2;
        return 0;
}

static int make_path(Names *names, uint32_t stack, PagePath *path) {
        size_t n;
        const FrameWord *words = window_get_stack(names->window, stack, &n);
        const uint32_t *frames;
        int r = reserve(names, n + 1);

        for (size_t i = 0; i < n && !r; i++)
                r = frame_of(names, words[i], i + 1 < n && is_inlined(names->window, words[i], words[i + 1]),
                             &names->path[n - 1 - i]);
        if (!r && !n) {
                names->path[0] = 0;             /* `[no stack]` */
                n = 1;
        }
        if (r)
                return r;
        frames = arena_copy(&names->model->arena, names->path, n * sizeof(*names->path));
        if (!frames)
                return error_origin(-ENOMEM);
        *path = (PagePath){ .frames = frames, .n_frames = (uint32_t)n };
        return 0;
}

/* Frame 0 stands for stacks without any. */
static int add_no_stack(PageModel *model) {
        PageFrame none = { 0 };
        uint32_t frame;
        int r = model->frames.n_items ? 0 : add_text(model, "[no stack]", &none.name);

        return r || model->frames.n_items ? r : page_intern(&model->frames, &none, sizeof(none), &frame);
}

int page_paths_of(PageModel *model, PageSide *side) {
        Names names = { .model = model, .window = side->window };
        int r = add_no_stack(model);

        names.strings = calloc(window_n_strings(side->window) + 1u, sizeof(*names.strings));
        side->paths = calloc(window_n_stacks(side->window), sizeof(*side->paths));
        if (!names.strings || !side->paths)
                r = error_origin(-ENOMEM);
        for (uint32_t i = 0; i < window_n_stacks(side->window) && !r; i++)
                r = make_path(&names, i, &side->paths[i]);
        hashmap_deinit(&names.known);
        free(names.strings);
        free(names.path);
        return r;
}
