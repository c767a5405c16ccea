/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     Method ─▶ ConstMethod { _constants, _name_index, _signature_index, _code_size, … }, byte code, lines
 *                    │
 *                    └─▶ ConstantPool { _tags, _pool_holder, _length }, then a word each slot: Symbol *
 *                                             │                             with tag 1 (Utf8)
 *                                             └─▶ InstanceKlass { _name, _constants }
 *                                                     ▲                     └─▶ ConstantPool { _pool_holder }
 *                                                     └───────────────────────────────────────────┘
 *
 * A Method that was freed with its class is another's memory, so nothing is believed before it fits: both
 * indexes lie in the pool and have the tag of a name there, and the class that the pool belongs to has a pool
 * that belongs to it. (It may be another: intrinsics of method handles have pools of their own.)
 *
 * The line table is a row of steps in bci and line. A byte 0 ends it; 255 says that both steps follow as
 * numbers with a sign; else the upper five bits are the step in bci and the lower three that of the line.
 */
#include "host/runtime/hotspot/hotspot-method.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "core/base/util/java-name.h"
#include "core/base/util/text.h"
#include "host/runtime/hotspot/hotspot-number.h"

enum {
        MAX_HEAD = 512,                 /* bytes of one of these structures that are read */
        MAX_LINE_BYTES = 64 << 10,      /* bytes of a compressed line table */
        TAG_UTF8 = 1,                   /* JVM_CONSTANT_Utf8 (JVM specification, 4.4) */
        LINES_ESCAPE = 255,
};

/* The memory of one structure. */
typedef struct Head {
        size_t size;
        uint8_t data[MAX_HEAD];
} Head;

/* The way to the names. */
typedef struct Names {
        const HotspotLayout *layout;
        const HotspotReader *reader;
        HotspotMethodKey key;
        uint64_t tags;
        uint32_t pool_length;
        Head const_head;
} Names;

static bool read_head(const HotspotReader *reader, uint64_t address, size_t size, Head *head) {
        head->size = MIN(size, (size_t)MAX_HEAD);
        return address && !(address & 7) && hotspot_read(reader, address, head->data, head->size);
}

static uint64_t get(const Head *head, HotspotField field) {
        return hotspot_field(field, head->data, head->size);
}

static int find_pool(Names *names, uint64_t address) {
        const HotspotMethodLayout *at = &names->layout->method;
        uint64_t constants, holder, n_tags;
        Head head;

        if (!read_head(names->reader, address, at->method_size, &head))
                return HOTSPOT_METHOD_E_UNREADABLE;
        names->key.const_method = get(&head, at->const_method);
        if (!read_head(names->reader, names->key.const_method, at->const_method_size, &names->const_head))
                return HOTSPOT_METHOD_E_MALFORMED;
        names->key.pool = get(&names->const_head, at->constants);
        if (!read_head(names->reader, names->key.pool, at->pool_size, &head))
                return HOTSPOT_METHOD_E_MALFORMED;
        names->key.klass = get(&head, at->holder);
        names->tags = get(&head, at->tags);
        names->pool_length = (uint32_t)get(&head, at->pool_length);
        if (!hotspot_read_field(names->reader, at->klass_constants, names->key.klass, &constants) ||
            !hotspot_read_field(names->reader, at->holder, constants, &holder) ||
            holder != names->key.klass || names->pool_length > UINT16_MAX + 1 ||
            !hotspot_read_field(names->reader, at->array_length, names->tags, &n_tags) ||
            n_tags != names->pool_length)
                return HOTSPOT_METHOD_E_MALFORMED;
        return 0;
}

/* Return: bytes of the text of a Symbol in @to, @most at the most; 0 = there is none. */
static size_t read_symbol(const Names *names, uint64_t symbol, char *to, size_t most) {
        const HotspotMethodLayout *at = &names->layout->method;
        uint64_t length;

        if (!symbol || !hotspot_read_field(names->reader, at->symbol_length, symbol, &length))
                return 0;
        length = MIN(length >> at->symbol_shift & UINT16_MAX, most);
        if (!length || !hotspot_read(names->reader, symbol + at->symbol_body.offset, to, length))
                return 0;
        return length;
}

/* Slot @index of the constant pool, which must be a name; 0 = it is none. */
static uint64_t read_slot(const Names *names, uint64_t index) {
        const HotspotMethodLayout *at = &names->layout->method;
        uint64_t symbol;
        uint8_t tag;

        if (!index || index >= names->pool_length ||
            !hotspot_read(names->reader, names->tags + at->array_u1.offset + index, &tag, 1) ||
            tag != TAG_UTF8 ||
            !hotspot_read_u64(names->reader, names->key.pool + at->pool_size + index * 8, &symbol))
                return 0;
        return symbol;
}

/* The texts that a method's name is made of, as they are in the JVM. */
typedef struct Symbols {
        char class[HOTSPOT_MAX_CLASS], method[HOTSPOT_MAX_METHOD], signature[HOTSPOT_MAX_SIGNATURE];
        size_t n_class, n_method, n_signature;
} Symbols;

static bool read_symbols(const Names *names, Symbols *symbols) {
        symbols->n_method = read_symbol(names, names->key.name, symbols->method, HOTSPOT_MAX_METHOD);
        symbols->n_signature = read_symbol(names, names->key.signature, symbols->signature,
                                           HOTSPOT_MAX_SIGNATURE);
        symbols->n_class = read_symbol(names, names->key.class_name, symbols->class, HOTSPOT_MAX_CLASS);
        return symbols->n_class && symbols->class[0] && symbols->n_method && symbols->method[0] &&
               symbols->n_signature && symbols->signature[0] == '(';
}

static uint64_t hash_symbols(const Symbols *symbols) {
        const uint64_t parts[] = { hash_bytes(symbols->class, symbols->n_class),
                                   hash_bytes(symbols->method, symbols->n_method),
                                   hash_bytes(symbols->signature, symbols->n_signature) };

        return hash_bytes(parts, sizeof(parts));
}

static int find_names(Names *names, Symbols *symbols, uint64_t address) {
        const HotspotMethodLayout *at = &names->layout->method;
        int r = find_pool(names, address);

        if (r)
                return r;
        names->key.name = read_slot(names, get(&names->const_head, at->name));
        names->key.signature = read_slot(names, get(&names->const_head, at->signature));
        if (!names->key.name || !names->key.signature ||
            !hotspot_read_field(names->reader, at->klass_name, names->key.klass, &names->key.class_name) ||
            !read_symbols(names, symbols))
                return HOTSPOT_METHOD_E_MALFORMED;
        names->key.texts = hash_symbols(symbols);
        return 0;
}

/* ---- names ---- */

/* `I` → int; a class is in @class, with a NUL. *atp: behind it, on success. NULL = no type is there. */
static const char *type_name(const char **atp, const char *end,
                             char class[static HOTSPOT_MAX_SIGNATURE + 1]) {
        static const struct {
                char letter;
                const char *name;
        } types[] = { { 'Z', "boolean" }, { 'B', "byte" }, { 'C', "char" },  { 'S', "short" },
                      { 'I', "int" },     { 'J', "long" }, { 'F', "float" }, { 'D', "double" } };
        const char *at = *atp, *stop;

        if (at < end && *at == 'L') {
                stop = memchr(at, ';', (size_t)(end - at));
                if (!stop)
                        return NULL;
                java_class_name(class, at + 1, (size_t)(stop - at - 1));
                *atp = stop + 1;
                return class;
        }
        for (size_t i = 0; at < end && i < ARRAY_SIZE(types); i++)
                if (*at == types[i].letter) {
                        *atp = at + 1;
                        return types[i].name;
                }
        return NULL;
}

size_t hotspot_parameters(char to[static HOTSPOT_MAX_SIGNATURE + 1], const char *text, size_t size) {
        static const char rest[] = "…)";
        const char *at = text + 1, *end = text + size;
        char class[HOTSPOT_MAX_SIGNATURE + 1];
        bool is_whole = true;
        size_t n = 0;

        to[n++] = '(';
        while (at < end && *at != ')') {
                const char *separator = n > 1 ? ", " : "", *name;
                size_t n_arrays = 0, n_name;

                for (; at < end && *at == '['; at++)
                        n_arrays++;
                name = type_name(&at, end, class);
                n_name = name ? strlen(name) : 0;
                is_whole = n_name &&
                        n + strlen(separator) + n_name + 2 * n_arrays + sizeof(rest) <= HOTSPOT_MAX_SIGNATURE;
                if (!is_whole)
                        break;
                n = (size_t)(stpcpy(stpcpy(to + n, separator), name) - to);
                for (; n_arrays; n_arrays--)
                        n = (size_t)(stpcpy(to + n, "[]") - to);
        }
        stpcpy(to + n, is_whole && at < end ? ")" : rest);
        return strlen(to);
}

/* Return: bytes of the name of the class' source file, which is not known if it is 0. */
static size_t read_file(const Names *names, char file[HOTSPOT_MAX_FILE]) {
        const HotspotMethodLayout *at = &names->layout->method;
        uint64_t index = 0;

        if (at->pool_source_file.size)
                hotspot_read_field(names->reader, at->pool_source_file, names->key.pool, &index);
        else
                hotspot_read_field(names->reader, at->klass_source_file, names->key.klass, &index);
        return read_symbol(names, read_slot(names, index), file, HOTSPOT_MAX_FILE);
}

static HotspotMethod *make_method(const Symbols *symbols, const char *file, size_t n_file) {
        /* Three bytes for each that is no UTF-8. */
        char class[HOTSPOT_MAX_CLASS + 1], parameters[HOTSPOT_MAX_SIGNATURE + 1], *at;
        size_t n_parameters = hotspot_parameters(parameters, symbols->signature, symbols->n_signature);
        size_t room = 3 * (symbols->n_class + symbols->n_method + symbols->n_signature + n_parameters +
                           n_file) + 8;
        HotspotMethod *method = calloc(1, sizeof(*method) + room);

        if (!method)
                return NULL;
        java_class_name(class, symbols->class, symbols->n_class);
        at = method->name = method->text;
        at += text_repair_utf8(at, class, strlen(class));
        *at++ = '.';
        at += text_repair_utf8(at, symbols->method, symbols->n_method) + 1;
        method->signature = at;
        at += text_repair_utf8(at, symbols->signature, symbols->n_signature) + 1;
        method->parameters = at;
        at += text_repair_utf8(at, parameters, n_parameters) + 1;
        method->file = at;
        text_repair_utf8(at, file, n_file);
        return method;
}

/* ---- lines ---- */

static bool next_line(HotspotNumbers *numbers, int64_t *bcip, int64_t *linep) {
        uint8_t byte = hotspot_numbers_byte(numbers);

        if (byte == LINES_ESCAPE) {
                *bcip += hotspot_numbers_next_signed(numbers);
                *linep += hotspot_numbers_next_signed(numbers);
        } else {
                *bcip += byte >> 3;
                *linep += byte & 7;
        }
        return byte && !numbers->has_failed && *bcip >= 0 && *bcip <= UINT16_MAX && *linep >= 0 &&
                *linep <= UINT16_MAX;
}

static int take_lines(HotspotMethod *method, HotspotNumbers numbers) {
        HotspotNumbers again = numbers;
        int64_t bci = 0, line = 0;
        uint32_t n = 0;

        while (n < HOTSPOT_MAX_LINES && next_line(&numbers, &bci, &line))
                n++;
        method->lines = n ? calloc(n, sizeof(*method->lines)) : NULL;
        if (n && !method->lines)
                return error_origin(-ENOMEM);
        bci = line = 0;
        for (; method->n_lines < n && next_line(&again, &bci, &line); method->n_lines++)
                method->lines[method->n_lines] = (HotspotLine){ (uint16_t)bci, (uint16_t)line };
        return 0;
}

/* Reads the tables behind the byte code, up to the end of the ConstMethod. */
static int read_lines(HotspotMethod *method, const Names *names) {
        const HotspotMethodLayout *at = &names->layout->method;
        uint64_t start = method->code + method->code_size;
        uint64_t end = names->key.const_method +
                8 * (uint64_t)(uint32_t)get(&names->const_head, at->const_size);
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;

        if (!(get(&names->const_head, at->flags) & at->line_table_flag) || end <= start)
                return 0;
        size = MIN(end - start, (uint64_t)MAX_LINE_BYTES);
        data = malloc(size);
        if (!data)
                return error_origin(-ENOMEM);
        if (!hotspot_read(names->reader, start, data, size))
                return 0;
        return take_lines(method,
                          (HotspotNumbers){ .data = data,
                                            .size = size,
                                            .has_zero_free_numbers = names->layout->has_zero_free_numbers });
}

uint32_t hotspot_method_line(const HotspotMethod *method, int32_t bci) {
        const HotspotLine *best = NULL;

        bci = MAX(bci, 0);
        for (uint32_t i = 0; i < method->n_lines; i++)
                if (method->lines[i].bci <= bci && (!best || method->lines[i].bci >= best->bci))
                        best = &method->lines[i];
        return best ? best->line : 0;
}

/* ---- the whole ---- */

int hotspot_method_key(HotspotMethodKey *keyp, const HotspotLayout *layout, const HotspotReader *reader,
                       uint64_t address) {
        Names names = { .layout = layout, .reader = reader };
        Symbols symbols;
        int r = find_names(&names, &symbols, address);

        if (!r)
                *keyp = names.key;
        return r;
}

int hotspot_method_new(HotspotMethod **methodp, const HotspotLayout *layout, const HotspotReader *reader,
                       uint64_t address) {
        _cleanup_(hotspot_method_freep) HotspotMethod *method = NULL;
        Names names = { .layout = layout, .reader = reader };
        char file[HOTSPOT_MAX_FILE];
        Symbols symbols;
        int r = find_names(&names, &symbols, address);

        if (r)
                return r;
        method = make_method(&symbols, file, read_file(&names, file));
        if (!method)
                return error_origin(-ENOMEM);
        method->key = names.key;
        method->code = names.key.const_method + layout->method.const_method_size;
        method->code_size = (uint32_t)get(&names.const_head, layout->method.code_size);
        r = read_lines(method, &names);
        if (r)
                return error_fold(r);
        *methodp = take(method);
        return 0;
}

HotspotMethod *hotspot_method_free(HotspotMethod *method) {
        if (method)
                free(method->lines);
        free(method);
        return NULL;
}
