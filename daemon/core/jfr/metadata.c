/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tree is read by recursion with a limit; whatever elements are unknown are passed over with their
 * children. Afterwards classes are joined with the classes of their fields. A class in which a value would
 * have no end (inside itself), or no known length, is marked `broken`: its values cannot be passed over
 * either. Fields that take no bytes are dropped, so that passing over a value costs no more than its bytes,
 * whatever the metadata says.
 */
#include "core/jfr/metadata.h"

#include <errno.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_STRINGS = 1 << 20,
        MAX_DEPTH = 24,                 /* depth of elements; real ones: 6 */
        MAX_CLASSES = 1 << 16,
        MAX_FIELDS = 1 << 17,
        MAX_VALUE_DEPTH = 32,           /* depth of structs in structs */
        MAX_ATTRIBUTES = 64,
};

typedef struct Reader {
        JfrMetadata *metadata;
        JfrCursor *cursor;
        const char **strings;
        uint32_t n_strings, n_fields;
        int r;
} Reader;

typedef struct Element {
        const char *name;
        const char *keys[MAX_ATTRIBUTES], *values[MAX_ATTRIBUTES];
        uint32_t n;
} Element;

static int malformed(Reader *reader) {
        if (!reader->r)
                reader->r = JFR_METADATA_E_MALFORMED;
        return reader->r;
}

static int no_memory(Reader *reader) {
        reader->r = error_origin(-ENOMEM);
        return reader->r;
}

static int read_strings(Reader *reader) {
        Text text = { 0 };

        reader->n_strings = jfr_int(reader->cursor);
        if (reader->n_strings > MAX_STRINGS || reader->n_strings > jfr_left(reader->cursor))
                return malformed(reader);
        reader->strings = arena_alloc(&reader->metadata->arena, reader->n_strings * sizeof(*reader->strings));
        if (!reader->strings)
                return no_memory(reader);
        for (uint32_t i = 0; i < reader->n_strings && !reader->r; i++) {
                JfrString string = jfr_string(reader->cursor);

                text.size = 0;
                jfr_string_append(&string, &text);
                reader->strings[i] = text.size ? arena_string(&reader->metadata->arena, text.data, text.size)
                                               : "";
                if (reader->cursor->failed)
                        malformed(reader);
                if (text.failed || !reader->strings[i])
                        no_memory(reader);
        }
        text_deinit(&text);
        return reader->r;
}

static const char *read_name(Reader *reader) {
        uint32_t index = jfr_int(reader->cursor);

        if (reader->cursor->failed || index >= reader->n_strings) {
                malformed(reader);
                return "";
        }
        return reader->strings[index];
}

static int read_element(Reader *reader, Element *element) {
        uint32_t n;

        element->name = read_name(reader);
        element->n = 0;
        n = jfr_int(reader->cursor);
        for (uint32_t i = 0; i < n && !reader->r; i++) {
                const char *key = read_name(reader), *value = read_name(reader);

                if (element->n < MAX_ATTRIBUTES) {
                        element->keys[element->n] = key;
                        element->values[element->n++] = value;
                }
        }
        return reader->r;
}

static const char *attribute(const Element *element, const char *key) {
        for (uint32_t i = 0; i < element->n; i++)
                if (!strcmp(element->keys[i], key))
                        return element->values[i];
        return "";
}

static JfrKind kind_of(const char *name) {
        static const char *const names[] = {
                [JFR_BOOLEAN] = "boolean", [JFR_BYTE] = "byte",     [JFR_CHAR] = "char",
                [JFR_SHORT] = "short",     [JFR_INT] = "int",       [JFR_LONG] = "long",
                [JFR_FLOAT] = "float",     [JFR_DOUBLE] = "double", [JFR_TEXT] = "java.lang.String"
        };

        for (size_t i = JFR_BOOLEAN; i < ARRAY_SIZE(names); i++)
                if (!strcmp(names[i], name))
                        return (JfrKind)i;
        return JFR_STRUCT;
}

static JfrClass *add_class(Reader *reader, const Element *element) {
        JfrMetadata *metadata = reader->metadata;
        JfrClass *class;

        if (metadata->n_classes == MAX_CLASSES) {
                malformed(reader);
                return NULL;
        }
        if (array_reserve(&metadata->classes, &metadata->classes_size, metadata->n_classes + 1u, 256)) {
                no_memory(reader);
                return NULL;
        }
        class = arena_zero(&metadata->arena, 1, sizeof(*class));
        if (!class) {
                no_memory(reader);
                return NULL;
        }
        class->name = attribute(element, "name");
        class->kind = kind_of(class->name);
        if (text_u64(attribute(element, "id"), UINT64_MAX, &class->id)) {
                malformed(reader);
                return NULL;
        }
        class->number = metadata->n_classes;
        metadata->classes[metadata->n_classes++] = class;
        if (class->id < JFR_N_FIRST)
                metadata->first[class->id] = class;
        else if (hashmap_put(&metadata->by_id, class->id, class)) {
                no_memory(reader);
                return NULL;
        }
        return class;
}

/* Appended to the list of the class; an array is made of it at the end. */
static JfrField *add_field(Reader *reader, JfrClass *class, const Element *element) {
        JfrField *field;

        if (reader->n_fields++ == MAX_FIELDS) {
                malformed(reader);
                return NULL;
        }
        field = arena_zero(&reader->metadata->arena, 1, sizeof(*field));
        if (!field) {
                no_memory(reader);
                return NULL;
        }
        field->name = attribute(element, "name");
        if (text_u64(attribute(element, "class"), UINT64_MAX, &field->class_id))
                field->class_id = UINT64_MAX;
        field->pool = !strcmp(attribute(element, "constantPool"), "true");
        field->array = *attribute(element, "dimension") && strcmp(attribute(element, "dimension"), "0");
        if (class->last)
                class->last->next = field;
        else
                class->fields = field;
        class->last = field;
        class->n_fields++;
        return field;
}

/* The unit is in the value of one annotation; which one that is, is known once all classes are. */
static void add_annotation(JfrField *field, const Element *element) {
        const char *value = attribute(element, "value");
        uint64_t id;

        if (!*value || field->annotation_value || text_u64(attribute(element, "class"), UINT64_MAX, &id))
                return;
        if (!strcmp(value, "TICKS") || !strcmp(value, "NANOSECONDS") || !strcmp(value, "MICROSECONDS") ||
            !strcmp(value, "MILLISECONDS") || !strcmp(value, "SECONDS")) {
                field->annotation_id = id;
                field->annotation_value = value;
        }
}

static void read_tree(Reader *reader, JfrClass *class, JfrField *field, unsigned depth) {
        Element element;
        uint32_t n;

        if (depth > MAX_DEPTH) {
                malformed(reader);
                return;
        }
        if (read_element(reader, &element))
                return;
        if (!strcmp(element.name, "class") && !class)
                class = add_class(reader, &element);
        else if (!strcmp(element.name, "field") && class && !field)
                field = add_field(reader, class, &element);
        else if (!strcmp(element.name, "annotation") && field)
                add_annotation(field, &element);
        n = reader->r ? 0 : jfr_int(reader->cursor);
        for (uint32_t i = 0; i < n && !reader->r; i++)
                read_tree(reader, class, field, depth + 1);
}

static JfrUnit unit_of(const JfrMetadata *metadata, const JfrField *field) {
        static const struct {
                const char *value;
                JfrUnit unit;
        } units[] = { { "TICKS", JFR_TICKS },
                      { "NANOSECONDS", JFR_NANOSECONDS },
                      { "MICROSECONDS", JFR_MICROSECONDS },
                      { "MILLISECONDS", JFR_MILLISECONDS },
                      { "SECONDS", JFR_SECONDS } };
        const JfrClass *annotation = field->annotation_value ? jfr_class(metadata, field->annotation_id)
                                                             : NULL;

        if (!annotation ||
            (strcmp(annotation->name, "jdk.jfr.Timespan") && strcmp(annotation->name, "jdk.jfr.Timestamp")))
                return JFR_UNIT_NONE;
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (!strcmp(field->annotation_value, units[i].value))
                        return units[i].unit;
        return JFR_UNIT_NONE;
}

static int make_array(Reader *reader, JfrClass *class) {
        JfrField *fields = arena_zero(&reader->metadata->arena, class->n_fields, sizeof(*fields)),
                 *at = fields;

        if (!fields)
                return no_memory(reader);
        for (const JfrField *field = class->fields; field; field = field->next) {
                *at = *field;
                at->unit = unit_of(reader->metadata, at);
                at->class = jfr_class(reader->metadata, at->class_id);
                /* an index can be read whatever it points to */
                class->broken |= !at->class && !at->pool;
                at++;
        }
        class->fields = fields;
        return 0;
}

static bool is_integer(const JfrField *field) {
        return !field->array &&
                (field->pool ||
                 (field->class && field->class->kind >= JFR_CHAR && field->class->kind <= JFR_LONG &&
                  field->class->kind != JFR_BYTE));
}

enum { UNSEEN, IN_PROGRESS, JOINED };

/* Depth-first; the depth of recursion is the one of values, and is limited. */
static void join(JfrClass *class, unsigned depth) {
        uint32_t n = 0;

        class->state = IN_PROGRESS;
        for (uint32_t i = 0; i < class->n_fields && !class->broken; i++) {
                JfrField *field = &class->fields[i];

                if (!field->pool && field->class->state == UNSEEN && depth < MAX_VALUE_DEPTH)
                        join(field->class, depth + 1);
                if (!field->pool && (field->class->state != JOINED || field->class->broken))
                        class->broken = true;
                if (!field->pool && field->class->state == JOINED)
                        class->depth = MAX(class->depth, field->class->depth + 1);
                if (field->pool || field->array || !field->class->empty)
                        class->fields[n++] = *field;
        }
        class->broken |= class->depth > MAX_VALUE_DEPTH;
        class->n_integers = n;
        for (uint32_t i = 0; i < n; i++)
                if (!is_integer(&class->fields[i]))
                        class->n_integers = 0;
        if (!class->broken)
                class->n_fields = n;
        class->empty = class->kind == JFR_STRUCT && !class->n_fields && !class->broken;
        class->state = JOINED;
}

int jfr_metadata_read(JfrMetadata *metadata, JfrCursor cursor) {
        Reader reader = { .metadata = metadata, .cursor = &cursor };

        *metadata = (JfrMetadata){ 0 };
        jfr_long(&cursor);              /* start time */
        jfr_long(&cursor);              /* duration */
        jfr_long(&cursor);              /* id of the metadata */
        if (!read_strings(&reader))
                read_tree(&reader, NULL, NULL, 0);
        for (uint32_t i = 0; i < metadata->n_classes && !reader.r; i++)
                make_array(&reader, metadata->classes[i]);
        for (uint32_t i = 0; i < metadata->n_classes && !reader.r; i++)
                if (metadata->classes[i]->state == UNSEEN)
                        join(metadata->classes[i], 0);
        return reader.r ? reader.r : cursor.failed ? JFR_METADATA_E_MALFORMED : 0;
}

void jfr_metadata_deinit(JfrMetadata *metadata) {
        arena_deinit(&metadata->arena);
        free(metadata->classes);
        hashmap_deinit(&metadata->by_id);
        *metadata = (JfrMetadata){ 0 };
}

JfrClass *jfr_class_named(const JfrMetadata *metadata, const char *name) {
        for (uint32_t i = 0; i < metadata->n_classes; i++)
                if (!strcmp(metadata->classes[i]->name, name))
                        return metadata->classes[i];
        return NULL;
}

const JfrField *jfr_field(const JfrClass *class, const char *name) {
        for (uint32_t i = 0; i < class->n_fields; i++)
                if (!strcmp(class->fields[i].name, name))
                        return &class->fields[i];
        return NULL;
}

const JfrClass *jfr_number_class(const JfrField *field) {
        for (unsigned depth = 0; depth < MAX_VALUE_DEPTH && field->class && !field->array; depth++) {
                const JfrClass *class = field->class;

                if (class->kind != JFR_STRUCT)
                        return class->kind == JFR_TEXT ? NULL : class;
                if (class->broken || class->n_fields != 1)
                        return NULL;
                field = &class->fields[0];
        }
        return NULL;
}

uint64_t jfr_number(JfrCursor *cursor, const JfrClass *class) {
        uint64_t value;
        double real;

        switch (class->kind) {
        case JFR_CHAR:
        case JFR_SHORT:
                return jfr_integer(cursor, 2);
        case JFR_INT:
                return jfr_int(cursor);
        case JFR_LONG:
                return jfr_long(cursor);
        case JFR_FLOAT:
        case JFR_DOUBLE:
                real = class->kind == JFR_FLOAT ? jfr_float(cursor) : jfr_double(cursor);
                memcpy(&value, &real, sizeof(value));
                return value;
        default:
                return jfr_byte(cursor);
        }
}

/*
 * The bytes of recordings are such values for the most part: frames of stacks. Eight bytes at once: as many
 * bytes without a mark, as many integers end there. The last of them that ends is where the next eight begin,
 * so that nine-byte ones are told by eight bytes with a mark.
 */
static void skip_integers(JfrCursor *cursor, uint64_t n) {
        const uint8_t *at = cursor->at, *end = cursor->end;

        while (n && end - at >= JFR_MAX_INTEGER) {
                uint64_t ends = jfr_integer_ends(at), n_ends = jfr_count_ends(ends);

                if (ends && n_ends <= n) {
                        n -= n_ends;
                        at += 8 - (unsigned)__builtin_clzll(ends) / 8;
                } else {
                        n--;
                        jfr_quick_compressed(&at);
                }
        }
        cursor->at = at;
        for (; n && !cursor->failed; n--)
                jfr_compressed(cursor);
}

static void skip_value(JfrCursor *cursor, const JfrClass *class) {
        if (cursor->compressed && class->n_integers) {
                skip_integers(cursor, class->n_integers);
                return;
        }
        switch (class->kind) {
        case JFR_STRUCT:
                for (uint32_t i = 0; i < class->n_fields && !cursor->failed; i++)
                        jfr_skip_field(cursor, &class->fields[i]);
                break;
        case JFR_BOOLEAN:
        case JFR_BYTE:
                jfr_byte(cursor);
                break;
        case JFR_CHAR:
        case JFR_SHORT:
                jfr_integer(cursor, 2);
                break;
        case JFR_INT:
                jfr_int(cursor);
                break;
        case JFR_LONG:
                jfr_long(cursor);
                break;
        case JFR_FLOAT:
                jfr_take(cursor, 4);
                break;
        case JFR_DOUBLE:
                jfr_take(cursor, 8);
                break;
        case JFR_TEXT:
                jfr_string(cursor);
                break;
        }
}

void jfr_skip(JfrCursor *cursor, const JfrClass *class) {
        if (class->broken)
                cursor->failed = true;
        else
                skip_value(cursor, class);
}

void jfr_skip_field(JfrCursor *cursor, const JfrField *field) {
        uint32_t n = field->array ? jfr_int(cursor) : 1;

        /* an element that takes no bytes may come any number of times */
        if (field->array && !field->pool && field->class->empty)
                return;
        if (cursor->compressed && !cursor->failed && (field->pool || field->class->n_integers)) {
                skip_integers(cursor, (uint64_t)n * (field->pool ? 1 : field->class->n_integers));
                return;
        }
        for (uint32_t i = 0; i < n && !cursor->failed; i++) {
                if (field->pool)
                        jfr_long(cursor);
                else
                        skip_value(cursor, field->class);
        }
}
