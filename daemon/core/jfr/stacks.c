/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Methods, frames and stacks.
 *
 * A native frame that was left for a symbol service to name (`<remote>`) has the build id of its file in
 * place of the class, and its address as the descriptor:
 *
 *     class 6f3c…a1 | method <remote> | descriptor 0x1f2e0      →      Mapping 6f3c…a1, address 0x1f2e0
 *
 * Some releases write the class as 6f3c…a1.<remote>, then also without a method.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/jfr/constants.h"

enum {
        MAX_BUILD_ID = 64,              /* bytes */
        MAX_NAME = 16 << 10,
};

/* No stack, as the writer of JDK Mission Control has it; others write 0. */
#define NULL_INDEX (UINT64_C(1) << 63)

#define TRUNCATED (1u << 31)            /* in what is known of a stack: beside its index + 1 */

/* Knowledge of a frame type: kind, and the attribute with its name. */
enum { KIND_UNKNOWN, KIND_JVM, KIND_NATIVE, KIND_KERNEL, KIND_BITS = 3 };

static const char *const kind_names[] = { "unknown", "jvm", "native", "kernel" };

static int type_of(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *kindp,
                   uint32_t *attributep) {
        static const struct {
                const char *name;
                uint32_t kind;
        } kinds[] = { { "interpreted", KIND_JVM }, { "jit compiled", KIND_JVM }, { "c1 compiled", KIND_JVM },
                      { "inlined", KIND_JVM },     { "native", KIND_NATIVE },    { "c++", KIND_NATIVE },
                      { "kernel", KIND_KERNEL } };
        const JfrConstant *constant = jfr_constant(names->pools, class, index);
        uint32_t kind = KIND_UNKNOWN, attribute = 0, known;
        Text *text = &names->text3;
        int r;

        *kindp = *attributep = 0;
        if (!constant)
                return 0;
        known = jfr_constant_known(names->pools, class, constant, JFR_AS_FRAME_TYPE);
        if (!known) {
                text->size = 0;
                r = jfr_names_append(names, class, index, text);
                if (r)
                        return r;
                for (size_t i = 0; i < text->size; i++)
                        text->data[i] = (char)tolower(text->data[i]);
                for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                        if (text->size == strlen(kinds[i].name) &&
                            !memcmp(text->data, kinds[i].name, text->size))
                                kind = kinds[i].kind;
                if (kind == KIND_JVM) {
                        r = window_attribute_string(names->window, "jvm.frame.compilation", text->data,
                                                    text->size, &attribute);
                        if (r)
                                return r;
                }
                known = attribute << KIND_BITS | kind << 1 | 1;
                jfr_constant_know(names->pools, class, index, JFR_AS_FRAME_TYPE, known);
        }
        *kindp = known >> 1 & 3;
        *attributep = known >> KIND_BITS;
        return 0;
}

/* (II)Ljava/lang/String; and the like. What profilers write for native functions is none. */
static bool is_descriptor(const char *text, size_t size) {
        const char *close = size ? memchr(text, ')', size) : NULL;

        if (!size || text[0] != '(' || !close || close + 1 == text + size)
                return false;
        return text[size - 1] != ';' || size - (size_t)(close - text) > 3;
}

static bool is_build_id(const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                if (!isxdigit((unsigned char)text[i]))
                        return false;
        return size >= 2 && size <= 2 * MAX_BUILD_ID && size % 2 == 0;
}

/* `0x1f2e0`, in some releases between parentheses. */
static bool parse_address(const char *text, size_t size, uint64_t *addressp) {
        if (size && text[0] == '(') {
                text++;
                size -= 2;
        }
        return size > 2 && size < 32 && text[0] == '0' && text[1] == 'x' &&
                !text_hex(text + 2, text + size, addressp);
}

static uint32_t library_path(const JfrNames *names, uint32_t build_id) {
        for (uint32_t i = 0; i < names->n_libraries; i++)
                if (names->libraries[i].build_id == build_id)
                        return names->libraries[i].path;
        return 0;
}

static int remote_method(JfrNames *names, const Text *build_id, uint64_t address, JfrMethod *method) {
        WindowModule module = { 0 };
        char hex[2 * MAX_BUILD_ID];
        int r;

        for (size_t i = 0; i < build_id->size; i++)
                hex[i] = (char)tolower(build_id->data[i]);
        r = window_string(names->window, hex, build_id->size, &module.build_id_gnu);
        if (r)
                return r;
        module.path = library_path(names, module.build_id_gnu);
        method->remote = true;
        method->address = address;
        return window_module(names->window, &module, &method->module);
}

/* @class, then the method, then the descriptor stand behind each other in one text. */
static int named_method(JfrNames *names, Text *text, size_t class_size, size_t name_size, JfrMethod *method) {
        WindowFunction function = { 0 };
        size_t size = MIN(text->size, (size_t)MAX_NAME), end = MIN(class_size + name_size, size), skip = 0;
        int r = 0;

        method->java = is_descriptor(text->data + class_size + name_size,
                                     text->size - class_size - name_size);
        if (!method->java) {
                /* a native function has its library as class, and its descriptor says nothing */
                skip = class_size;
                size = end;
                if (class_size)
                        r = window_string(names->window, text->data, class_size - 1, &function.filename);
        }
        if (!r)
                r = window_string(names->window, text->data + skip, end - skip, &function.name);
        if (!r)
                r = window_string(names->window, text->data + skip, size - skip, &function.system_name);
        return r ? r : window_function(names->window, &function, &method->function);
}

typedef struct MethodFields {
        const JfrClass *class, *name, *descriptor;
        uint64_t class_index, name_index, descriptor_index;
} MethodFields;

static int read_method(const JfrNames *names, const JfrClass *class, const JfrConstant *constant,
                       MethodFields *fields) {
        JfrCursor cursor = jfr_constant_cursor(names->pools, constant);
        int r = 0;

        *fields = (MethodFields){ 0 };
        for (uint32_t i = 0; i < class->n_fields && !r; i++) {
                const JfrField *field = &class->fields[i];
                const JfrClass **to = !strcmp(field->name, "type")         ? &fields->class
                                      : !strcmp(field->name, "name")       ? &fields->name
                                      : !strcmp(field->name, "descriptor") ? &fields->descriptor
                                                                           : NULL;
                uint64_t index;

                if (!to || !field->class || field->array) {
                        jfr_skip_field(&cursor, field);
                        continue;
                }
                r = jfr_pools_take(names->pools, &cursor, field, &index);
                *to = field->class;
                *(to == &fields->class  ? &fields->class_index
                  : to == &fields->name ? &fields->name_index
                                        : &fields->descriptor_index) = index;
        }
        return r;
}

/* Cuts what some releases put behind the build id. Return: whether it was there. */
static bool cut_remote(const Text *class, size_t *sizep) {
        static const char suffix[] = ".<remote>";
        const size_t n = sizeof(suffix) - 1;

        if (*sizep < n || memcmp(class->data + *sizep - n, suffix, n))
                return false;
        *sizep -= n;
        return true;
}

static int make_method(JfrNames *names, const MethodFields *fields, JfrMethod *method) {
        Text *text = &names->text2;
        size_t class_size, name_size, bare;
        uint64_t address;
        bool remote;
        int r;

        text->size = 0;
        r = jfr_names_append_class(names, fields->class, fields->class_index, text);
        bare = text->size;
        if (bare)
                text_append(text, ".", 1);
        class_size = text->size;
        if (!r)
                r = jfr_names_append(names, fields->name, fields->name_index, text);
        name_size = text->size - class_size;
        if (!r)
                r = jfr_names_append(names, fields->descriptor, fields->descriptor_index, text);
        text_append(text, "", 0);
        if (r || text->failed)
                return r ? r : error_origin(-ENOMEM);
        if (!text->data)
                return 0;
        remote = (cut_remote(text, &bare) && !name_size) ||
                (name_size == 8 && !memcmp(text->data + class_size, "<remote>", 8));
        if (remote && is_build_id(text->data, bare) &&
            parse_address(text->data + class_size + name_size, text->size - class_size - name_size,
                          &address)) {
                text->size = bare;
                return remote_method(names, text, address, method);
        }
        return named_method(names, text, class_size, name_size, method);
}

static int find_method(JfrNames *names, const JfrClass *class, uint64_t index, JfrMethod *methodp) {
        const JfrConstant *constant = jfr_constant(names->pools, class, index);
        JfrMethod method = { 0 };
        MethodFields fields;
        uint32_t known;
        int r;

        *methodp = method;
        names->counts->n_frames_missing += !constant && index;
        if (!constant || class->kind != JFR_STRUCT)
                return 0;
        known = jfr_constant_known(names->pools, class, constant, JFR_AS_METHOD);
        if (known) {
                *methodp = names->methods[known - 1];
                return 0;
        }
        r = read_method(names, class, constant, &fields);
        if (!r)
                r = make_method(names, &fields, &method);
        if (!r)
                r = array_reserve(&names->methods, &names->methods_size, names->n_methods + 1u, 64);
        if (r)
                return r;
        names->methods[names->n_methods++] = method;
        jfr_constant_know(names->pools, class, index, JFR_AS_METHOD, names->n_methods);
        *methodp = method;
        return 0;
}

static int make_frame(JfrNames *names, const JfrField *method_field, const JfrField *type_field,
                      const JfrRawFrame *raw, FrameWord *wordp) {
        WindowFrame frame = { .line = (int32_t)raw->line };
        uint32_t kind = 0, attribute = 0;
        JfrMethod method = { 0 };
        int r = 0;

        if (method_field)
                r = find_method(names, method_field->class, raw->method, &method);
        if (!r && type_field)
                r = type_of(names, type_field->class, raw->type, &kind, &attribute);
        if (r)
                return r;
        if (method.remote) {
                names->counts->n_remote_frames++;
                return window_native_frame(names->window, FRAME_MARK_NATIVE, method.module, method.address,
                                           wordp);
        }
        /* a native method of Java is Java's; a type that is missing from its pool says nothing */
        if (method.java && kind != KIND_KERNEL)
                kind = KIND_JVM;
        if (!names->kind_strings[kind])
                r = window_string(names->window, kind_names[kind], strlen(kind_names[kind]),
                                  &names->kind_strings[kind]);
        frame.type = names->kind_strings[kind];
        frame.function = method.function;
        frame.attribute = attribute;
        return r ? r : window_frame(names->window, &frame, wordp);
}

static inline uint64_t place_of(unsigned bits, uint64_t key) {
        return (key ^ key >> 32) * 0x9E3779B97F4A7C15 >> (64 - bits);
}

/* A newcomer replaces what is there; a table that fills up becomes a larger one, as far as it may. */
static int remember(JfrNames *names, uint64_t key, FrameWord word) {
        size_t size = (size_t)1 << names->cache_bits;
        JfrFrameEntry *entry;

        if (names->n_cached > size / 4 && names->cache_bits < JFR_FRAME_CACHE_BITS) {
                JfrFrameEntry *bigger = calloc(2 * size, sizeof(*bigger));

                if (!bigger)
                        return error_origin(-ENOMEM);
                for (size_t i = 0; i < size; i++)
                        if (names->cache[i].key)
                                bigger[place_of(names->cache_bits + 1, names->cache[i].key)] =
                                        names->cache[i];
                free(names->cache);
                names->cache = bigger;
                names->cache_bits++;
        }
        entry = &names->cache[place_of(names->cache_bits, key)];
        names->n_cached += !entry->key;
        *entry = (JfrFrameEntry){ key, word };
        return 0;
}

/* Reads a frame's fields. One that is an index, and the other kinds, are told apart by jfr_pools_take(). */
static int read_fields(JfrNames *names, JfrCursor *cursor, JfrRawFrame *frame) {
        const JfrClass *class = names->layout.frames->class;
        int r = 0;

        for (uint32_t i = 0; i < class->n_fields && !r; i++) {
                const JfrField *field = &class->fields[i];
                const JfrClass *number;

                if ((int)i == names->layout.method)
                        r = jfr_pools_take(names->pools, cursor, field, &frame->method);
                else if ((int)i == names->layout.type)
                        r = jfr_pools_take(names->pools, cursor, field, &frame->type);
                else if ((int)i == names->layout.line && (number = jfr_number_class(field)) &&
                         jfr_is_integer(number))
                        frame->line = jfr_pools_number(names->pools, cursor, field);
                else if (names->layout.integers)
                        jfr_compressed(cursor);
                else
                        jfr_skip_field(cursor, field);
        }
        return r;
}

/* Reads a frame where it stands, or where a reference leads. *therep: it is there. */
static int read_frame(JfrNames *names, JfrCursor *cursor, JfrRawFrame *frame, bool *therep) {
        const JfrField *frames = names->layout.frames;
        const JfrConstant *constant;
        JfrCursor there;

        *frame = (JfrRawFrame){ 0 };
        *therep = true;
        if (!frames->pool)
                return read_fields(names, cursor, frame);
        constant = jfr_constant(names->pools, frames->class, jfr_long(cursor));
        *therep = constant && !frames->class->broken;
        if (!*therep)
                return 0;
        there = jfr_constant_cursor(names->pools, constant);
        return read_fields(names, &there, frame);
}

/*
 * A frame of integers alone, or a reference to a frame, is known by its bytes, if they are no more than
 * eight: what they say is asked once. Return: these bytes, 0 = they are more; *sizep: how many they are.
 */
static inline uint64_t key_of(const uint8_t *at, uint32_t n_integers, unsigned *sizep) {
        uint64_t ends = jfr_integer_ends(at), word;

        for (; n_integers > 1; n_integers--)
                ends &= ends - 1;
        memcpy(&word, at, sizeof(word));
        *sizep = ends ? ((unsigned)__builtin_ctzll(ends) + 1) / 8 : 0;
        return ends ? le64toh(word) & (ends ^ (ends - 1)) : 0;
}

/* Reads frames up to @n or to the first that was not seen before. Return: how many. */
static uint32_t read_known_frames(const JfrNames *names, JfrCursor *cursor, FrameWord *words, uint32_t n) {
        const JfrFrameEntry *cache = names->cache;
        const uint8_t *at = cursor->at, *end = cursor->end;
        uint32_t n_integers = names->layout.n_quick, i = 0;
        unsigned size, bits = names->cache_bits;

        for (; i < n; i++) {
                uint64_t key = key_of(at, n_integers, &size);
                const JfrFrameEntry *entry = &cache[place_of(bits, key)];

                if (!key || entry->key != key || at + size > end)
                        break;
                words[i] = entry->word;
                at += size;
        }
        cursor->at = at;
        return i;
}

static int add_frame(JfrNames *names, JfrCursor *cursor, FrameWord *wordp) {
        const JfrField *fields = names->layout.frames->class->fields;
        const uint8_t *at = cursor->at;
        JfrRawFrame frame;
        unsigned size;
        uint64_t key;
        bool there;
        int r = read_frame(names, cursor, &frame, &there);

        names->counts->n_frames_missing += !there;
        if (!r)
                r = make_frame(names,
                               there && names->layout.method >= 0 ? &fields[names->layout.method] : NULL,
                               there && names->layout.type >= 0 ? &fields[names->layout.type] : NULL, &frame,
                               wordp);
        if (r || !names->layout.n_quick || cursor->failed)
                return r;
        key = key_of(at, names->layout.n_quick, &size);
        return key ? remember(names, key, *wordp) : 0;
}

static int read_frames(JfrNames *names, JfrCursor *cursor, uint32_t n, size_t *np, bool *truncatedp) {
        while (n && !cursor->failed) {
                uint32_t room = MIN(n, (uint32_t)(WINDOW_MAX_DEPTH - *np));
                uint32_t n_known = names->layout.n_quick
                        ? read_known_frames(names, cursor, names->words + *np, room)
                        : 0;
                FrameWord word;
                int r;

                *np += n_known;
                n -= n_known;
                if (!n)
                        break;
                r = add_frame(names, cursor, &word);
                if (r)
                        return r;
                *truncatedp |= *np == WINDOW_MAX_DEPTH;
                if (*np < WINDOW_MAX_DEPTH)
                        names->words[(*np)++] = word;
                n--;
        }
        return 0;
}

/* Leaf first, as JFR has it. */
static int read_stack(JfrNames *names, const JfrClass *class, const JfrConstant *constant, size_t *np,
                      bool *truncatedp) {
        JfrCursor cursor = jfr_constant_cursor(names->pools, constant);

        *np = 0;
        *truncatedp = false;
        for (uint32_t i = 0; i < class->n_fields; i++) {
                const JfrField *field = &class->fields[i];
                int r;

                if (!strcmp(field->name, "truncated") && jfr_number_class(field)) {
                        *truncatedp = jfr_pools_number(names->pools, &cursor, field);
                        continue;
                }
                if (field != names->layout.frames) {
                        jfr_skip_field(&cursor, field);
                        continue;
                }
                r = read_frames(names, &cursor, jfr_int(&cursor), np, truncatedp);
                if (r)
                        return r;
        }
        return 0;
}

static int make_stack(JfrNames *names, const JfrClass *class, uint64_t index, const JfrConstant *constant,
                      uint32_t *knownp) {
        uint32_t stack;
        bool truncated;
        size_t n;
        int r = read_stack(names, class, constant, &n, &truncated);

        if (!r)
                r = window_stack(names->window, names->words, n, &stack);
        if (r)
                return r;
        names->counts->n_stacks++;
        names->counts->n_frames += n;
        names->counts->n_truncated += truncated;
        *knownp = (stack + 1) | (truncated ? TRUNCATED : 0);
        jfr_constant_know(names->pools, class, index, JFR_AS_STACK, *knownp);
        return 0;
}

int jfr_names_stack(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stackp,
                    bool *truncatedp, bool *missingp) {
        const JfrConstant *constant = class == names->layout.stack && names->layout.frames
                ? jfr_constant(names->pools, class, index)
                : NULL;
        uint32_t known;
        int r = 0;

        *stackp = 0;
        *truncatedp = false;
        *missingp = index != 0 && index != NULL_INDEX;
        if (!constant)
                return 0;
        known = jfr_constant_known(names->pools, class, constant, JFR_AS_STACK);
        if (!known)
                r = make_stack(names, class, index, constant, &known);
        if (r)
                return r;
        *stackp = (known & ~TRUNCATED) - 1;
        *truncatedp = known & TRUNCATED;
        *missingp = !*stackp;
        return 0;
}
