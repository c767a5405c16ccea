/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Converts a constant into a row of the window at its first use, and follows references between constants
 * to a limited depth.
 */

#include "core/jfr/constants.h"

#include <errno.h>
#include <stdio.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/java-name.h"
#include "core/base/util/macro.h"

enum {
        MAX_TEXT_DEPTH = 8,             /* references that lead to a text */
        MAX_WANT_DEPTH = 16,            /* from a field of an event to the last text of a frame: 5 */
        MAX_SYMBOL = 16 << 10,
};

/* Names of fields that are followed from constants to constants. */
static bool is_followed(const char *name) {
        static const char *const names[] = { "frames", "truncated", "method",      "lineNumber",
                                             "type",   "name",      "descriptor",  "string",
                                             "osName", "javaName",  "description", "osThreadId" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(names[i], name))
                        return true;
        return false;
}

static void want(const JfrField *field, unsigned depth) {
        JfrClass *class = field->class;

        if (!class || class->wanted || depth > MAX_WANT_DEPTH)
                return;
        class->wanted = true;
        for (uint32_t i = 0; i < class->n_fields; i++)
                if (class->n_fields == 1 || is_followed(class->fields[i].name) ||
                    (class->fields[i].class && class->fields[i].class->kind == JFR_TEXT))
                        want(&class->fields[i], depth + 1);
}

void jfr_names_want(const JfrField *field) {
        want(field, 0);
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

/* Number of a field that is no array; -1 = there is none. */
static int field_number(const JfrClass *class, const char *name) {
        for (uint32_t i = 0; class && i < class->n_fields; i++)
                if (!strcmp(class->fields[i].name, name) && !class->fields[i].array && class->fields[i].class)
                        return (int)i;
        return -1;
}

static void find_layout(JfrNames *names, const JfrPools *pools) {
        JfrFrameLayout *layout = &names->layout;
        const JfrClass *stack = jfr_class_named(names->metadata, "jdk.types.StackTrace"), *frame;

        *layout = (JfrFrameLayout){ .stack = stack };
        layout->frames = stack && !stack->broken ? jfr_field(stack, "frames") : NULL;
        if (layout->frames && (!layout->frames->array || !layout->frames->class))
                layout->frames = NULL;
        frame = layout->frames && !layout->frames->class->broken ? layout->frames->class : NULL;
        layout->method = field_number(frame, "method");
        layout->line = field_number(frame, "lineNumber");
        layout->type = field_number(frame, "type");
        layout->integers = frame && pools->compressed && frame->n_integers;
        if (frame && pools->compressed && layout->frames->pool)
                layout->n_quick = 1;
        else if (layout->integers && frame->n_integers <= 8)
                layout->n_quick = frame->n_integers;
}

void jfr_names_begin(JfrNames *names, const JfrMetadata *metadata, JfrPools *pools) {
        names->metadata = metadata;
        names->pools = pools;
        names->n_cached = 0;
        memset(names->cache, 0, sizeof(*names->cache) << names->cache_bits);
        names->n_threads = names->n_methods = 0;
        names->text_class = jfr_class_named(metadata, "java.lang.String");
        find_layout(names, pools);
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
                if (!class->fields[i].array && class->fields[i].class &&
                    class->fields[i].class->kind == JFR_TEXT)
                        return &class->fields[i];
        return NULL;
}

/* Appends what the value at @cursor is called; nothing where that is not said. */
static void append_value(JfrNames *names, const JfrClass *class, JfrCursor *cursor, unsigned depth,
                         Text *text) {
        const JfrField *named;

        while (class->kind == JFR_STRUCT && !class->broken && (named = name_field(class))) {
                for (const JfrField *field = class->fields; field < named; field++)
                        jfr_skip_field(cursor, field);
                if (named->pool) {
                        read_text(names, named->class, jfr_long(cursor), depth + 1, text);
                        return;
                }
                class = named->class;
        }
        if (class->kind == JFR_TEXT) {
                JfrString string = jfr_string(cursor);

                append_string(names, &string, depth, text);
        }
}

/* Appends what a constant is called; nothing if it is not known. */
static void read_text(JfrNames *names, const JfrClass *class, uint64_t index, unsigned depth, Text *text) {
        const JfrConstant *constant = depth < MAX_TEXT_DEPTH ? jfr_constant(names->pools, class, index)
                                                             : NULL;
        JfrCursor cursor;

        if (!constant)
                return;
        cursor = jfr_constant_cursor(names->pools, constant);
        append_value(names, class, &cursor, depth, text);
}

int jfr_names_text(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp) {
        const JfrConstant *constant = jfr_constant(names->pools, class, index);
        uint32_t known = constant ? jfr_constant_known(names->pools, class, constant, JFR_AS_TEXT) : 1;
        int r;

        if (!known) {
                names->text.size = 0;
                read_text(names, class, index, 0, &names->text);
                r = intern_text(names, &names->text, stringp);
                if (r)
                        return r;
                known = *stringp + 1;
                jfr_constant_know(names->pools, class, index, JFR_AS_TEXT, known);
        }
        *stringp = known - 1;
        return 0;
}

int jfr_names_append(JfrNames *names, const JfrClass *class, uint64_t index, Text *text) {
        read_text(names, class, index, 0, text);
        return text->failed ? error_origin(-ENOMEM) : 0;
}

static void append_class_name(Text *text, const char *name, size_t size) {
        size_t begin = text->size;

        text_append(text, name, size);
        text_append(text, "", 1);       /* room for the NUL */
        if (!text->failed)
                text->size = begin + java_class_name(text->data + begin, name, size);
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
                append_class_name(text, element + 1, size - dimensions - 2);
        else {
                text_append(text, name, size);
                return;
        }
        for (size_t i = 0; i < dimensions; i++)
                text_append(text, "[]", 2);
}

/* A class as people write it. */
int jfr_names_append_class(JfrNames *names, const JfrClass *class, uint64_t index, Text *text) {
        if (jfr_constant(names->pools, class, index)) {
                names->text.size = 0;
                read_text(names, class, index, 0, &names->text);
                if (names->text.failed)
                        return error_origin(-ENOMEM);
                if (names->text.size && names->text.size < MAX_SYMBOL) {
                        if (names->text.data[0] == '[')
                                print_array(names->text.data, text);
                        else
                                append_class_name(text, names->text.data, names->text.size);
                }
        }
        return text->failed ? error_origin(-ENOMEM) : 0;
}

int jfr_names_class(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp) {
        const JfrConstant *constant = jfr_constant(names->pools, class, index);
        uint32_t known = constant ? jfr_constant_known(names->pools, class, constant, JFR_AS_CLASS) : 1;
        int r;

        if (!known) {
                names->text2.size = 0;
                r = jfr_names_append_class(names, class, index, &names->text2);
                if (!r)
                        r = intern_text(names, &names->text2, stringp);
                if (r)
                        return r;
                known = *stringp + 1;
                jfr_constant_know(names->pools, class, index, JFR_AS_CLASS, known);
        }
        *stringp = known - 1;
        return 0;
}

/* What the recording says of a thread. */
typedef struct ThreadFields {
        uint32_t os_name, java_name;    /* window strings */
        uint64_t id;
} ThreadFields;

static int read_thread(JfrNames *names, const JfrClass *class, const JfrConstant *constant,
                       ThreadFields *thread) {
        JfrCursor cursor = jfr_constant_cursor(names->pools, constant);
        int r = 0;

        *thread = (ThreadFields){ 0 };
        for (uint32_t i = 0; i < class->n_fields && !r; i++) {
                const JfrField *field = &class->fields[i];
                const JfrClass *number = jfr_number_class(field);
                bool os_name = !strcmp(field->name, "osName"), java_name = !strcmp(field->name, "javaName");
                uint64_t index;

                if ((os_name || java_name) && field->class && !field->array) {
                        r = jfr_pools_take(names->pools, &cursor, field, &index);
                        if (!r)
                                r = jfr_names_text(names, field->class, index,
                                                   os_name ? &thread->os_name : &thread->java_name);
                } else if (!strcmp(field->name, "osThreadId") && number && jfr_is_integer(number))
                        thread->id = jfr_pools_number(names->pools, &cursor, field);
                else
                        jfr_skip_field(&cursor, field);
        }
        return r;
}

static int make_thread(JfrNames *names, const ThreadFields *fields, JfrThread *thread) {
        uint32_t name = fields->java_name ? fields->java_name : fields->os_name;
        size_t size;
        int r = 0;

        if (fields->id)
                r = window_attribute_int(names->window, "thread.id", (int64_t)fields->id, &thread->id);
        if (!r && name) {
                const char *text = window_get_string(names->window, name, &size);
                _cleanup_(freep) char *copy = strndup(text, size);

                if (!copy)
                        return error_origin(-ENOMEM);
                r = window_attribute_string(names->window, "thread.name", copy, size, &thread->name);
        }
        return r;
}

int jfr_names_thread(JfrNames *names, const JfrClass *class, uint64_t index, JfrThread *threadp) {
        const JfrConstant *constant = jfr_constant(names->pools, class, index);
        JfrThread thread = { 0 };
        ThreadFields fields;
        uint32_t known;
        int r;

        *threadp = thread;
        if (!constant || class->kind != JFR_STRUCT)
                return 0;
        known = jfr_constant_known(names->pools, class, constant, JFR_AS_THREAD);
        if (known) {
                *threadp = names->threads[known - 1];
                return 0;
        }
        r = read_thread(names, class, constant, &fields);
        if (!r)
                r = make_thread(names, &fields, &thread);
        if (!r)
                r = array_reserve(&names->threads, &names->threads_size, names->n_threads + 1u, 64);
        if (r)
                return r;
        names->threads[names->n_threads++] = thread;
        jfr_constant_know(names->pools, class, index, JFR_AS_THREAD, names->n_threads);
        *threadp = thread;
        return 0;
}
