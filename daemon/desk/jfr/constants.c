/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Converts a constant into a row of the window at its first use, and follows references between constants
 * to a limited depth.
 */

#include "desk/jfr/constants.h"

#include <errno.h>
#include <stdio.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_TEXT_DEPTH = 4,             /* strings that are indexes of strings */
        MAX_SYMBOL = 16 << 10,
};

void jfr_names_want(JfrMetadata *metadata) {
        static const char *const names[] = { "jdk.types.StackTrace", "jdk.types.Method",
                                             "java.lang.Class",      "jdk.types.Symbol",
                                             "java.lang.String",     "jdk.types.FrameType",
                                             "java.lang.Thread",     "jdk.types.ThreadState" };

        for (uint32_t i = 0; i < metadata->n_classes; i++)
                for (size_t j = 0; j < ARRAY_SIZE(names); j++)
                        if (!strcmp(metadata->classes[i]->name, names[j]))
                                metadata->classes[i]->wanted = true;
}

int jfr_names_init(JfrNames *names, Window *window, JfrCounts *counts) {
        *names = (JfrNames){ .window = window, .counts = counts };
        names->words = malloc(WINDOW_MAX_DEPTH * sizeof(*names->words));
        names->cache_bits = JFR_FRAME_CACHE_FIRST_BITS;
        names->cache = calloc((size_t)1 << names->cache_bits, sizeof(*names->cache));
        if (!names->words || !names->cache) {
                jfr_names_deinit(names);
                return error_origin(-ENOMEM);
        }
        return 0;
}

void jfr_names_deinit(JfrNames *names) {
        free(names->threads);
        free(names->methods);
        free(names->words);
        free(names->cache);
        text_deinit(&names->text);
        text_deinit(&names->text2);
        text_deinit(&names->text3);
        *names = (JfrNames){ 0 };
}

static int field_number(const JfrClass *class, const char *name) {
        for (uint32_t i = 0; class && i < class->n_fields; i++)
                if (!strcmp(class->fields[i].name, name))
                        return (int)i;
        return -1;
}

void jfr_names_begin(JfrNames *names, const JfrMetadata *metadata, JfrPools *pools) {
        const JfrClass *frame = NULL;

        names->metadata = metadata;
        names->pools = pools;
        names->n_cached = 0;
        memset(names->cache, 0, sizeof(*names->cache) << names->cache_bits);
        names->n_threads = names->n_methods = 0;
        names->text_class = jfr_class_named(metadata, "java.lang.String");
        names->layout.stack = jfr_class_named(metadata, "jdk.types.StackTrace");
        names->layout.frames = names->layout.stack && !names->layout.stack->broken
                ? jfr_field(names->layout.stack, "frames")
                : NULL;
        if (names->layout.frames && (!names->layout.frames->array || names->layout.frames->pool))
                names->layout.frames = NULL;
        if (names->layout.frames)
                frame = names->layout.frames->class;
        names->layout.method = field_number(frame, "method");
        names->layout.line = field_number(frame, "lineNumber");
        names->layout.type = field_number(frame, "type");
        names->layout.n_quick = frame && pools->compressed && frame->n_integers <= 8 ? frame->n_integers : 0;
}

/* A string of the recording as a window string; names->text keeps the bytes. */
static int intern_text(JfrNames *names, Text *text, uint32_t *stringp) {
        if (text->failed)
                return error_origin(-ENOMEM);
        return window_string(names->window, text->data ? text->data : "", text->size, stringp);
}

static void read_text(JfrNames *names, const JfrClass *class, uint64_t index, unsigned depth, Text *text);

static void append_string(JfrNames *names, const JfrString *string, unsigned depth, Text *text) {
        if (string->encoding == JFR_STRING_POOL)
                read_text(names, names->text_class, string->index, depth + 1, text);
        else
                jfr_string_append(string, text);
}

/* The field that names a value: `name`, `string` or `description`, else the first text. */
static const JfrField *name_field(const JfrClass *class) {
        static const char *const names[] = { "string", "name", "description" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const JfrField *field = jfr_field(class, names[i]);

                if (field && !field->array)
                        return field;
        }
        for (uint32_t i = 0; i < class->n_fields; i++)
                if (!class->fields[i].array && !class->fields[i].pool &&
                    class->fields[i].class->kind == JFR_TEXT)
                        return &class->fields[i];
        return NULL;
}

/* Appends what a constant is called; nothing if it is not known. */
static void read_text(JfrNames *names, const JfrClass *class, uint64_t index, unsigned depth, Text *text) {
        const JfrConstant *constant = depth < MAX_TEXT_DEPTH ? jfr_constant(names->pools, class, index)
                                                             : NULL;
        const JfrField *named;
        JfrCursor cursor;
        JfrString string;

        if (!constant)
                return;
        cursor = jfr_constant_cursor(names->pools, constant);
        if (class->kind == JFR_TEXT) {
                string = jfr_string(&cursor);
                append_string(names, &string, depth, text);
                return;
        }
        named = class->kind == JFR_STRUCT ? name_field(class) : NULL;
        for (const JfrField *field = class->fields; named && field < named; field++)
                jfr_skip_field(&cursor, field);
        if (!named)
                return;
        if (named->pool) {
                read_text(names, named->class, jfr_long(&cursor), depth + 1, text);
        } else if (named->class->kind == JFR_TEXT) {
                string = jfr_string(&cursor);
                append_string(names, &string, depth, text);
        }
}

int jfr_names_string(JfrNames *names, const JfrString *string, uint32_t *stringp) {
        if (string->encoding == JFR_STRING_POOL)
                return jfr_names_text(names, names->text_class, string->index, stringp);
        names->text.size = 0;
        append_string(names, string, 0, &names->text);
        return intern_text(names, &names->text, stringp);
}

int jfr_names_text(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp) {
        JfrConstant *constant = jfr_constant(names->pools, class, index);
        int r;

        *stringp = 0;
        if (!constant)
                return 0;
        if (!constant->known) {
                names->text.size = 0;
                read_text(names, class, index, 0, &names->text);
                r = intern_text(names, &names->text, stringp);
                if (r)
                        return r;
                constant->known = *stringp + 1;
        }
        *stringp = constant->known - 1;
        return 0;
}

int jfr_names_append(JfrNames *names, const JfrClass *class, uint64_t index, Text *text) {
        read_text(names, class, index, 0, text);
        return text->failed ? error_origin(-ENOMEM) : 0;
}

/* [[Ljava/lang/String; → java.lang.String[][] */
static void print_array(const char *name, Text *text) {
        static const char *const types[] = { "Bbyte", "Cchar", "Ddouble", "Ffloat",
                                             "Iint",  "Jlong", "Sshort",  "Zboolean" };
        size_t dimensions = strspn(name, "["), size = strlen(name);
        const char *element = name + dimensions, *word = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(types) && size == dimensions + 1; i++)
                if (types[i][0] == *element)
                        word = types[i] + 1;
        if (word)
                text_append(text, word, strlen(word));
        else if (*element == 'L' && name[size - 1] == ';')
                text_append(text, element + 1, size - dimensions - 2);
        else {
                text_append(text, name, size);
                return;
        }
        for (size_t i = 0; i < dimensions; i++)
                text_append(text, "[]", 2);
}

/* A class as people write it. */
int jfr_names_append_class(JfrNames *names, const JfrClass *class, uint64_t index, Text *text) {
        size_t begin = text->size;

        if (jfr_constant(names->pools, class, index)) {
                names->text.size = 0;
                read_text(names, class, index, 0, &names->text);
                if (names->text.failed)
                        return error_origin(-ENOMEM);
                if (names->text.size && names->text.size < MAX_SYMBOL) {
                        if (names->text.data[0] == '[')
                                print_array(names->text.data, text);
                        else
                                text_append(text, names->text.data, names->text.size);
                }
        }
        for (size_t i = begin; i < text->size; i++)
                if (text->data[i] == '/')
                        text->data[i] = '.';
        return text->failed ? error_origin(-ENOMEM) : 0;
}

int jfr_names_class(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp) {
        JfrConstant *constant = jfr_constant(names->pools, class, index);
        int r;

        *stringp = 0;
        if (!constant)
                return 0;
        if (!constant->known) {
                names->text2.size = 0;
                r = jfr_names_append_class(names, class, index, &names->text2);
                if (!r)
                        r = intern_text(names, &names->text2, stringp);
                if (r)
                        return r;
                constant->known = *stringp + 1;
        }
        *stringp = constant->known - 1;
        return 0;
}

int jfr_names_thread(JfrNames *names, const JfrClass *class, uint64_t index, JfrThread *threadp) {
        JfrConstant *constant = jfr_constant(names->pools, class, index);
        uint32_t name = 0, java_name = 0;
        uint64_t id = 0;
        JfrThread thread = { 0 };
        JfrCursor cursor;
        size_t size;
        int r = 0;

        *threadp = thread;
        if (!constant || class->kind != JFR_STRUCT)
                return 0;
        if (constant->known) {
                *threadp = names->threads[constant->known - 1];
                return 0;
        }
        cursor = jfr_constant_cursor(names->pools, constant);
        for (uint32_t i = 0; i < class->n_fields && !r; i++) {
                const JfrField *field = &class->fields[i];
                bool text = !field->pool && !field->array && field->class->kind == JFR_TEXT;

                if (text && (!strcmp(field->name, "osName") || !strcmp(field->name, "javaName"))) {
                        JfrString string = jfr_string(&cursor);

                        r = jfr_names_string(names, &string, *field->name == 'o' ? &name : &java_name);
                } else if (!strcmp(field->name, "osThreadId") && !field->pool && !field->array &&
                           field->class->kind == JFR_LONG)
                        id = jfr_long(&cursor);
                else
                        jfr_skip_field(&cursor, field);
        }
        if (java_name)
                name = java_name;
        if (!r && id)
                r = window_attribute_int(names->window, "thread.id", (int64_t)id, &thread.id);
        if (!r && name) {
                const char *text = window_get_string(names->window, name, &size);
                _cleanup_(freep) char *copy = strndup(text, size);

                if (!copy)
                        return error_origin(-ENOMEM);
                r = window_attribute_string(names->window, "thread.name", copy, size, &thread.name);
        }
        if (!r)
                r = array_reserve(&names->threads, &names->threads_size, names->n_threads + 1u, 64);
        if (r)
                return r;
        names->threads[names->n_threads++] = thread;
        constant->known = names->n_threads;
        *threadp = thread;
        return 0;
}
