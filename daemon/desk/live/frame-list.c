/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds texts of a stack's frames and attributes in the window, and prints them as lines or as JSON.
 */

#include "desk/live/frame-list.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/util/text.h"

enum { NAME_COLUMNS = 48 };

const char *frame_list_text(const Window *window, const uint32_t *set, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(window, set[i]);

                if (row->kind == ATTRIBUTE_STRING && !strcmp(window_get_string(window, row->key, NULL), key))
                        return window_get_string(window, row->string, NULL);
        }
        return "";
}

int64_t frame_list_number(const Window *window, const uint32_t *set, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(window, set[i]);

                if (row->kind != ATTRIBUTE_STRING && !strcmp(window_get_string(window, row->key, NULL), key))
                        return row->integer;
        }
        return 0;
}

const char *frame_list_base(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

FrameTexts frame_list_texts(const Window *window, FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);
        const WindowFunction *function = window_get_function(window, frame.function);

        const WindowModule *module = window_get_module(window, frame.module);

        return (FrameTexts){ .name = window_get_string(window, function->name, NULL),
                             .module = window_get_string(window, module->path, NULL),
                             .file = window_get_string(window, function->filename, NULL),
                             .address = frame.address,
                             .line = frame.line };
}

/* In stripped files it has no name: the function of libstdc++ that a new thread begins with. */
static bool begins_std_thread(const Window *window, const FrameWord *words, size_t n) {
        FrameTexts frame = frame_list_texts(window, words[0]);

        return n > 1 && !*frame.name && !strncmp(frame_list_base(frame.module), "libstdc++.so", 12) &&
                !strcmp(frame_list_texts(window, words[1]).name, "start_thread");
}

/* @words: of a frame, and of the @n - 1 that called it. */
static void add_name(const Window *window, const FrameWord *words, size_t n, Text *name) {
        FrameTexts frame = frame_list_texts(window, words[0]);

        if (*frame.name)
                text_append_masked(name, frame.name);
        else if (begins_std_thread(window, words, n))
                text_printf(name, "[start of a std::thread]");
        else
                text_printf(name, "0x%" PRIx64, frame.address);
}

/* Names stand in a column, which long ones leave. */
static int name_columns(const Window *window, const FrameWord *words, size_t n) {
        size_t columns = 0;

        for (size_t i = 0; i < n && columns < NAME_COLUMNS; i++) {
                _cleanup_(text_deinit) Text name = { 0 };

                add_name(window, words + i, n - i, &name);
                columns = MAX(columns, MIN(name.size, (size_t)NAME_COLUMNS));
        }
        return (int)columns;
}

static void print_frame(const Window *window, const FrameWord *words, size_t n, int columns, FILE *out) {
        FrameTexts frame = frame_list_texts(window, words[0]);
        _cleanup_(text_deinit) Text name = { 0 }, place = { 0 };

        add_name(window, words, n, &name);
        if (*frame.module)
                text_append_masked(&place, frame_list_base(frame.module));
        if (*frame.file && (frame.line || !*frame.module)) {
                text_printf(&place, "%s", *frame.module ? "  " : "");
                text_append_masked(&place, frame_list_base(frame.file));
                if (frame.line)
                        text_printf(&place, ":%" PRIu64, frame.line);
        }
        fprintf(out, "%*s%-*s%s%s\n", FRAME_LIST_INDENT, "", place.size ? columns : 0, name.data ? name.data : "",
                place.size ? "  " : "", place.size ? place.data : "");
}

size_t frame_list_print(const Window *window, uint32_t stack, FILE *out) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);
        int columns = name_columns(window, words, n);

        for (size_t i = 0; i < n; i++)
                print_frame(window, words + i, n - i, columns, out);
        return n;
}

typedef struct LinkTexts {
        char trace[33], span[17];
} LinkTexts;

static LinkTexts link_texts(const Window *window, uint32_t link) {
        const WindowLink *row = window_get_link(window, link);
        LinkTexts texts;

        text_to_hex(texts.trace, row->trace_id, sizeof(row->trace_id));
        text_to_hex(texts.span, row->span_id, sizeof(row->span_id));
        return texts;
}

void frame_list_print_link(const Window *window, uint32_t link, FILE *out) {
        LinkTexts texts;

        if (!link)
                return;
        texts = link_texts(window, link);
        fprintf(out, "%*sspan %s of trace %s\n", FRAME_LIST_INDENT, "", texts.span, texts.trace);
}

void frame_list_json_link(const Window *window, uint32_t link, JsonWriter *json) {
        LinkTexts texts;

        if (!link)
                return;
        texts = link_texts(window, link);
        json_text(json, "trace_id", texts.trace);
        json_text(json, "span_id", texts.span);
}

void frame_list_json(const Window *window, uint32_t stack, JsonWriter *json) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        json_open(json, "frames", '[');
        for (size_t i = 0; i < n; i++) {
                FrameTexts frame = frame_list_texts(window, words[i]);

                json_open(json, NULL, '{');
                json_text(json, "function", frame.name);
                json_text(json, "module", frame.module);
                json_number(json, "address", frame.address);
                if (*frame.file)
                        json_text(json, "file", frame.file);
                if (frame.line)
                        json_number(json, "line", frame.line);
                json_close(json, '}');
        }
        json_close(json, ']');
}

/* ---- locks without an owner ---- */

enum { LOCK_FRAMES = 10 };              /* innermost ones: Go has seven below sync.(*Mutex).Lock */

/* Functions in which a thread waits; of Rust, as both forms of its names end. */
static const struct {
        const char *function, *lock;
} lock_functions[] = {
        { "mutex::futex::Mutex>::lock_contended", "std::sync::Mutex" },
        { "mutex::futex::Mutex::lock_contended", "std::sync::Mutex" },
        { "futex_mutex::Mutex::lock_contended", "std::sync::Mutex" },
        { "rwlock::futex::RwLock>::read_contended", "std::sync::RwLock" },
        { "rwlock::futex::RwLock::read_contended", "std::sync::RwLock" },
        { "rwlock::futex::RwLock>::write_contended", "std::sync::RwLock" },
        { "rwlock::futex::RwLock::write_contended", "std::sync::RwLock" },
        { "sync.(*Mutex).lockSlow", "sync.Mutex" },
        { "sync.(*RWMutex).RLock", "sync.RWMutex" },
        { "sync.(*RWMutex).Lock", "sync.RWMutex" },
};

/* Whether @name is that function of Go's or Rust's own library. */
static bool is_function(const char *name, const char *function) {
        size_t n = strlen(name), end = strlen(function);

        if (n < end || strcmp(name + n - end, function))
                return false;
        return n == end || !strncmp(name, "std::sys", 8) || !strncmp(name, "<std::sys", 9) ||
                !strncmp(name, "internal/sync.", 14);
}

const char *frame_list_lock(const Window *window, uint32_t stack) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < MIN(n, (size_t)LOCK_FRAMES); i++) {
                const char *name = frame_list_texts(window, words[i]).name;

                for (size_t k = 0; k < ARRAY_SIZE(lock_functions); k++)
                        if (is_function(name, lock_functions[k].function))
                                return lock_functions[k].lock;
        }
        return NULL;
}

void frame_list_print_untold(const char *what, uint64_t n, FILE *out) {
        if (n)
                fprintf(out, "whether there is a deadlock cannot be told of %" PRIu64 " %s%s that wait%s for locks "
                             "which do not know who has them\n",
                        n, what, n == 1 ? "" : "s", n == 1 ? "s" : "");
}

void frame_list_print_lock(const char *lock, FILE *out) {
        if (lock)
                fprintf(out, "%*swaits for a %s, which does not know who has it\n", FRAME_LIST_INDENT, "", lock);
}

void frame_list_json_lock(const char *lock, JsonWriter *json) {
        if (!lock)
                return;
        json_text(json, "lock", "lock");
        json_text(json, "lock_class", lock);
}
