/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes from names to addresses:
 *
 *     interpreter ─▶ any word that leads to a dict with the key "opentelemetry.context": sys.modules
 *     opentelemetry.context             _RUNTIME_CONTEXT ─▶ its _current_context, a ContextVar ─▶ its hash
 *                                       Context, the type
 *     opentelemetry.trace.propagation   _SPAN_KEY: "current-span-" and a UUID; it is found by its address
 *     opentelemetry.trace               NonRecordingSpan, SpanContext: types
 *     opentelemetry.sdk.trace           _Span, a type: the keys that its instances share have `_context`
 *     thread states                     the one place that leads to a PyContext
 *     the interpreter's own data        types whose names are "hamt", "hamt_bitmap_node" …
 *
 * The process runs meanwhile, so each object's type is asked, and each text compared. The objects stay where
 * they are for as long as their modules do.
 */
#include "host/runtime/python/python-span.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-text.h"

enum {
        MAX_READS = 200000,             /* reads of a process: some thousands are enough */
        MAX_STATE = 64 << 10,           /* bytes of an interpreter's state that are looked at */
        MAX_THREADS = 256,
        MAX_THREAD = 256,               /* bytes of a thread state: what lies behind it may lead anywhere */
        MAX_ENTRIES = 1 << 14,          /* entries of a dict */
        MAX_SCAN = 32 << 20,            /* bytes of a segment */
        MAX_TEXTS = 16,                 /* places of one name */
        PAGE = 4096,
        AT_A_TIME = 512,                /* bytes of an interpreter's state */
        ADDRESS_BITS = 47,
        MAX_TEXT_HEAD = 64,             /* bytes of a str up to its length */
        UUID_LENGTH = 36,
        LAST_LAYOUT = 0x030f,           /* the newest release whose thread state is known */
        FLAG_HEAP = 1 << 9,             /* tp_flags */
        FLAG_TUPLE = 1 << 26,
        FLAG_DICT = 1 << 29,
        ENTRY_WITH_HASH = 24,
};

/* Fields of a type, and of a variable, behind the head of an object; the head of a type has a word more. */
enum {
        TYPE_NAME = 8, TYPE_BASIC_SIZE = 16, TYPE_FLAGS = 152, TYPE_DICT = 272,
        SHARED_KEYS = 832, SHARED_KEYS_PLACES = 10,     /* ht_cached_keys: 848 in 3.9, 872 in 3.15 */
        VARIABLE_NAME = 0, VARIABLE_FIELDS = 7,
        TEXT_HASH = 8,
};

typedef struct Look {
        const PythonReader *reader;
        const PythonSubject *subject;
        const PythonLayout *layout;
        struct python_spans spans;      /* being made */
        uint64_t head;                  /* bytes of an object in front of its fields */
        uint32_t n_reads;
} Look;

/* ---- what a release does ---- */

/*
 * The place of the first context that the kernel half looks for. A release after these has its place learned;
 * until then its 3.15's is asked.
 */
static uint16_t likely_context(uint32_t version) {
        return version < 0x0309         ? 0
                : version <= 0x030a     ? 240
                : version == 0x030b     ? 224
                : version < LAST_LAYOUT ? 208
                                        : 232;
}

void python_span_begin(const PythonLayout *layout, uint64_t type, struct python_spans *spans) {
        static const uint8_t before[] = { [PYTHON_VALUES_DICT] = 0, [PYTHON_VALUES_POINTER] = 32,
                                          [PYTHON_VALUES_TAGGED] = 24, [PYTHON_VALUES_INLINE] = 24 };
        uint32_t version = layout->version, type_at = layout->type;

        memset(spans, 0, sizeof(*spans));
        spans->thread_context = likely_context(version);
        if (!spans->thread_context || (type_at != 8 && type_at != 24))
                return;
        spans->context_type = type;
        spans->head = (uint8_t)(type_at + 8);
        spans->values = version <= 0x030a   ? PYTHON_VALUES_DICT
                : version == 0x030b         ? PYTHON_VALUES_POINTER
                : version == 0x030c         ? PYTHON_VALUES_TAGGED
                                            : PYTHON_VALUES_INLINE;
        spans->values_head = spans->values == PYTHON_VALUES_INLINE ? 8 : 0;
        spans->before = layout->is_free_threaded ? 8 : before[spans->values];
        spans->old_keys = version <= 0x030a;
        spans->old_numbers = version <= 0x030b;
}

/* ---- objects ---- */

static bool read_bytes(Look *look, uint64_t address, void *to, size_t size) {
        return address >= PAGE && !(address >> RUNTIME_KIND_SHIFT) && look->n_reads++ < MAX_READS &&
                python_reader_read(look->reader, address, to, size);
}

static bool read_u64(Look *look, uint64_t address, uint64_t *to) {
        return read_bytes(look, address, to, sizeof(*to));
}

static bool is_of(Look *look, uint64_t object, uint64_t type) {
        uint64_t found;

        return type && !(object & 7) && read_u64(look, object + look->layout->type, &found) && found == type;
}

/* Address of a symbol in the process; 0 = not known. */
static uint64_t symbol_of(const Look *look, PythonSymbol symbol) {
        uint64_t address = look->subject->program->places[symbol].address;

        return address ? address + look->subject->bias : 0;
}

/* Whether it is a str: *@lengthp, its characters. */
static bool read_length(Look *look, uint64_t object, uint64_t *lengthp) {
        uint64_t words[MAX_TEXT_HEAD / 8], size = look->layout->text_length + sizeof(uint64_t);

        if (size > sizeof(words) || object & 7 || !read_bytes(look, object, words, size) ||
            words[look->layout->type / 8] != symbol_of(look, PYTHON_SYMBOL_TEXT))
                return false;
        *lengthp = words[look->layout->text_length / 8];
        return true;
}

/* Whether a str of @length is @text, and @more characters. */
static bool is_text_of(Look *look, uint64_t object, uint64_t length, const char *text, size_t more) {
        char found[PYTHON_MAX_TEXT];
        size_t n = strlen(text);

        return length == n + more &&
                python_text_read(look->reader, look->layout, object, UINT64_MAX, found) &&
                !strncmp(found, text, n) && strlen(found) == n + more;
}

static bool is_text(Look *look, uint64_t object, const char *text, size_t more) {
        uint64_t length;

        return read_length(look, object, &length) && is_text_of(look, object, length, text, more);
}

/* Whether it is a type with this name, and one of a module written in Python. */
static bool is_type(Look *look, uint64_t type, const char *name, uint64_t flags) {
        uint64_t text, found_flags;
        char found[64];
        size_t size = strlen(name) + 1;

        return !(type & 7) && read_u64(look, type + look->head + TYPE_NAME, &text) &&
                read_u64(look, type + look->head + TYPE_FLAGS, &found_flags) && size <= sizeof(found) &&
                (found_flags & (flags | FLAG_HEAP)) == (flags | FLAG_HEAP) &&
                read_bytes(look, text, found, size) &&
                !memcmp(found, name, size);
}

/* ---- dicts ---- */

typedef struct Keys {
        uint64_t entries, n;            /* address of the first one */
        uint32_t size;                  /* bytes of an entry */
} Keys;

static bool open_keys(Look *look, uint64_t address, Keys *keys) {
        uint64_t words[5];

        if (!read_bytes(look, address, words, sizeof(words)))
                return false;
        if (look->spans.old_keys) {
                uint64_t width = words[1] <= 0xff ? 1 : words[1] <= 0xffff ? 2 : 4;

                if (words[1] > MAX_ENTRIES * 4)
                        return false;
                *keys = (Keys){ address + 40 + width * words[1], words[4], ENTRY_WITH_HASH };
        } else {
                *keys = (Keys){ address + 32 + (UINT64_C(1) << (words[1] >> 8 & 31)), words[3],
                                words[1] >> 16 & 0xff ? 16 : ENTRY_WITH_HASH };
        }
        return keys->n <= MAX_ENTRIES;
}

typedef struct Entry {
        const char *name;               /* looked for */
        uint64_t key, value;
        uint32_t index;
        bool is_there;
} Entry;

static bool read_pair(Look *look, const Keys *keys, uint32_t index, uint64_t pair[2]) {
        uint64_t end = keys->entries + (index + UINT64_C(1)) * keys->size;

        return index < keys->n && read_bytes(look, end - 16, pair, 16);
}

static void take_entry(Look *look, uint32_t index, const uint64_t *pair, Entry *entries, size_t n) {
        uint64_t length;

        if (!pair[0] || !read_length(look, pair[0], &length))
                return;
        for (size_t i = 0; i < n; i++)
                if (!entries[i].is_there && is_text_of(look, pair[0], length, entries[i].name, 0))
                        entries[i] = (Entry){ entries[i].name, pair[0], pair[1], index, true };
}

/* Looks for @n keys at once. Return: whether the first one is there. */
static bool find_entries(Look *look, uint64_t address, Entry *entries, size_t n) {
        enum { AT_ONCE = 128 };
        uint64_t words[AT_ONCE * ENTRY_WITH_HASH / 8];
        uint32_t width, size;
        Keys keys;

        if (!open_keys(look, address, &keys))
                return false;
        width = keys.size / 8;
        for (uint32_t i = 0; i < keys.n; i += size) {
                size = MIN((uint32_t)keys.n - i, (uint32_t)AT_ONCE);
                if (!read_bytes(look, keys.entries + (uint64_t)i * keys.size, words,
                                (size_t)size * keys.size))
                        return false;
                for (uint32_t j = 0; j < size; j++)
                        take_entry(look, i + j, words + (size_t)j * width + width - 2, entries, n);
        }
        return entries[0].is_there;
}

static bool find_entry(Look *look, uint64_t address, const char *name, Entry *entry) {
        *entry = (Entry){ .name = name };
        return find_entries(look, address, entry, 1);
}

static bool find_in_dict(Look *look, uint64_t dict, Entry *entries, size_t n) {
        uint64_t fields[4];             /* used, version, keys, values */

        return is_of(look, dict, symbol_of(look, PYTHON_SYMBOL_DICT)) &&
                read_bytes(look, dict + look->head, fields, sizeof(fields)) && !fields[3] &&
                find_entries(look, fields[2], entries, n);
}

/* A value of the module that @entry of sys.modules has. */
static bool find_in_module(Look *look, const Entry *entry, const char *name, uint64_t *valuep) {
        Entry found = { .name = name };
        uint64_t dict;

        if (!entry->is_there || !is_of(look, entry->value, symbol_of(look, PYTHON_SYMBOL_MODULE)) ||
            !read_u64(look, entry->value + look->head, &dict) || !find_in_dict(look, dict, &found, 1))
                return false;
        *valuep = found.value;
        return found.value;
}

/* ---- attributes ---- */

/* The keys that instances of a type share are at one of some places, and have the attribute. */
static bool find_shared_keys(Look *look, uint64_t type, const char *attribute, uint64_t *keysp,
                             Entry *entry) {
        uint64_t words[SHARED_KEYS_PLACES];

        if (!read_bytes(look, type + look->head + SHARED_KEYS, words, sizeof(words)))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (!(words[i] & 7) && find_entry(look, words[i], attribute, entry)) {
                        *keysp = words[i];
                        return true;
                }
        return false;
}

/* Fills *@made for the kernel half. *@namep: address of the attribute's name. */
static bool read_type(Look *look, uint64_t type, const char *attribute, struct python_span_type *made,
                      uint64_t *namep) {
        uint64_t keys, values;
        Entry entry;

        if (!find_shared_keys(look, type, attribute, &keys, &entry) ||
            !read_u64(look, type + look->head +
                              (look->spans.values == PYTHON_VALUES_DICT ? TYPE_DICT : TYPE_BASIC_SIZE),
                      &values) ||
            values > UINT16_MAX || entry.index >= PYTHON_MAX_SPAN_WORDS)
                return false;
        *made = (struct python_span_type){ .type = type, .keys = keys, .values = (uint16_t)values,
                                           .context = (uint8_t)entry.index, .name = PYTHON_NO_ATTRIBUTE,
                                           .parent = PYTHON_NO_ATTRIBUTE };
        *namep = entry.key;
        return true;
}

static bool read_from_dict(Look *look, uint64_t dict, const struct python_span_type *type,
                           uint64_t name, uint64_t *valuep) {
        uint64_t fields[4], pair[2];    /* used, version, keys, values */
        Keys keys;

        if (!is_of(look, dict, symbol_of(look, PYTHON_SYMBOL_DICT)) ||
            !read_bytes(look, dict + look->head, fields, sizeof(fields)) ||
            !open_keys(look, fields[2], &keys) || !read_pair(look, &keys, type->context, pair) ||
            pair[0] != name)
                return false;
        *valuep = pair[1];
        return !fields[3] ||
                read_u64(look, fields[3] + look->spans.values_head + 8 * (uint64_t)type->context, valuep);
}

/* The attribute of an instance of @type. */
static bool read_attribute(Look *look, uint64_t object, const struct python_span_type *type,
                           uint64_t name, uint64_t *valuep) {
        uint64_t before[2], values = 0, dict = 0;

        if (!is_of(look, object, type->type) ||
            !read_bytes(look, object - look->spans.before, before, sizeof(before)))
                return false;
        switch ((enum python_values)look->spans.values) {
        case PYTHON_VALUES_DICT:
                if (!read_u64(look, object + type->values, &dict))
                        return false;
                break;
        case PYTHON_VALUES_POINTER:
                values = before[0];
                dict = before[1];
                break;
        case PYTHON_VALUES_TAGGED:
                values = before[0] & 1 ? before[0] + 1 : 0;
                dict = before[0];
                break;
        case PYTHON_VALUES_INLINE:
                dict = before[0];
                values = dict ? 0 : object + type->values;
                break;
        }
        if (!values)
                return read_from_dict(look, dict, type, name, valuep);
        return read_u64(look, values + look->spans.values_head + 8 * type->context, valuep);
}

/* ---- modules ---- */

enum module { MODULE_CONTEXT, MODULE_TRACE, MODULE_PROPAGATION, MODULE_SDK, N_MODULES };

static const char *const module_names[N_MODULES] = {
        [MODULE_CONTEXT] = "opentelemetry.context",
        [MODULE_TRACE] = "opentelemetry.trace",
        [MODULE_PROPAGATION] = "opentelemetry.trace.propagation",
        [MODULE_SDK] = "opentelemetry.sdk.trace",
};

static bool is_modules(Look *look, uint64_t dict, Entry modules[N_MODULES]) {
        for (size_t i = 0; i < N_MODULES; i++)
                modules[i] = (Entry){ .name = module_names[i] };
        return find_in_dict(look, dict, modules, N_MODULES) &&
                is_of(look, modules[MODULE_CONTEXT].value, symbol_of(look, PYTHON_SYMBOL_MODULE));
}

/* Goes over the interpreter's words up to one that leads to its modules. */
static bool find_modules(Look *look, uint64_t interpreter, Entry modules[N_MODULES]) {
        uint64_t words[AT_A_TIME / 8];

        for (uint64_t at = 0; at < MAX_STATE; at += sizeof(words)) {
                if (!read_bytes(look, interpreter + at, words, sizeof(words)))
                        continue;
                for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                        if (words[i] >= PAGE && !(words[i] & 7) && !(words[i] >> ADDRESS_BITS) &&
                            is_modules(look, words[i], modules))
                                return true;
        }
        return false;
}

/* ---- the variable ---- */

static uint64_t hash_of_pointer(uint64_t address) {
        return address >> 4 | address << 60;
}

/* A variable keeps its hash, made of its address and its name's; it is the word that is so. */
static bool read_hash(Look *look, uint64_t variable) {
        uint64_t fields[VARIABLE_FIELDS], name_hash, hash;

        if (!read_bytes(look, variable + look->head, fields, sizeof(fields)) ||
            !is_text(look, fields[VARIABLE_NAME], "current_context", 0) ||
            !read_u64(look, fields[VARIABLE_NAME] + look->head + TEXT_HASH, &name_hash))
                return false;
        hash = hash_of_pointer(variable) ^ name_hash;
        if (hash == UINT64_MAX)
                hash = UINT64_MAX - 1;
        for (size_t i = 1; i < VARIABLE_FIELDS; i++)
                if (fields[i] == hash) {
                        look->spans.hash = (uint32_t)hash ^ (uint32_t)(hash >> 32);
                        if (look->spans.hash == UINT32_MAX)
                                look->spans.hash = UINT32_MAX - 1;
                        return true;
                }
        return false;
}

static bool find_variable(Look *look, const Entry modules[N_MODULES]) {
        struct python_span_type type;
        uint64_t runtime_context, class, variable, name;

        if (!find_in_module(look, &modules[MODULE_CONTEXT], "_RUNTIME_CONTEXT", &runtime_context) ||
            !read_u64(look, runtime_context + look->layout->type, &class) ||
            !read_type(look, class, "_current_context", &type, &name) ||
            !read_attribute(look, runtime_context, &type, name, &variable) ||
            !is_of(look, variable, symbol_of(look, PYTHON_SYMBOL_VARIABLE)) || !read_hash(look, variable))
                return false;
        look->spans.variable = variable;
        return true;
}

/* ---- types ---- */

/* Up to 3.10 instances may give up sharing their keys. Then those of each are asked for the name. */
static void guess_type(Look *look, uint64_t type, struct python_span_type *made) {
        uint64_t values;

        if (look->spans.values == PYTHON_VALUES_DICT &&
            read_u64(look, type + look->head + TYPE_DICT, &values) && values <= UINT16_MAX)
                *made = (struct python_span_type){ .type = type, .values = (uint16_t)values, .context = 1,
                                                   .name = PYTHON_NO_ATTRIBUTE,
                                                   .parent = PYTHON_NO_ATTRIBUTE };
}

/* Spans have names, and are read without one where these attributes are elsewhere. */
static void find_names(Look *look, struct python_span_type *type) {
        Entry entries[] = { { .name = "_name" }, { .name = "_parent" } };

        if (!find_entries(look, type->keys, entries, ARRAY_SIZE(entries)) || !entries[1].is_there ||
            MAX(entries[0].index, entries[1].index) >= PYTHON_MAX_SPAN_WORDS)
                return;
        type->name = (uint8_t)entries[0].index;
        type->parent = (uint8_t)entries[1].index;
}

/*
 * A process with the API alone has no `_Span`. One that has it and has made none yet does not know where its
 * instances have their context.
 */
static bool find_types(Look *look, const Entry modules[N_MODULES]) {
        struct python_spans *spans = &look->spans;
        uint64_t type, name, mapping, key, context;

        if (!find_in_module(look, &modules[MODULE_CONTEXT], "Context", &mapping) ||
            !is_type(look, mapping, "Context", FLAG_DICT) ||
            !find_in_module(look, &modules[MODULE_PROPAGATION], "_SPAN_KEY", &key) ||
            !is_text(look, key, "current-span-", UUID_LENGTH) ||
            !find_in_module(look, &modules[MODULE_TRACE], "SpanContext", &context) ||
            !is_type(look, context, "SpanContext", FLAG_TUPLE) ||
            !find_in_module(look, &modules[MODULE_TRACE], "NonRecordingSpan", &type) ||
            !is_type(look, type, "NonRecordingSpan", 0) ||
            !read_type(look, type, "_context", &spans->types[1], &spans->name_context))
                return false;
        spans->mapping_type = mapping;
        spans->key = key;
        spans->span_context_type = context;
        if (!find_in_module(look, &modules[MODULE_SDK], "_Span", &type))
                return true;
        if (!is_type(look, type, "_Span", 0))
                return false;
        if (read_type(look, type, "_context", &spans->types[0], &name)) {
                find_names(look, &spans->types[0]);
                return name == spans->name_context;
        }
        guess_type(look, type, &spans->types[0]);
        return spans->types[0].type;
}

/* ---- the thread's context ---- */

/* Adds places of a thread state that lead to a context. Return: whether there is at most one so far. */
static bool look_at_thread(Look *look, uint64_t thread, uint64_t *placep) {
        uint64_t words[MAX_THREAD / 8];

        if (!read_bytes(look, thread, words, sizeof(words)))
                return true;
        for (uint64_t i = 1; i < ARRAY_SIZE(words); i++) {
                if (words[i] < PAGE || !is_of(look, words[i], look->spans.context_type))
                        continue;
                if (*placep && *placep != i * 8)
                        return false;
                *placep = i * 8;
        }
        return true;
}

static bool find_context(Look *look, uint64_t interpreter) {
        uint64_t thread = 0, place = 0;

        if (!read_u64(look, interpreter + look->layout->threads, &thread))
                return false;
        for (size_t i = 0; i < MAX_THREADS && thread; i++)
                if (!look_at_thread(look, thread, &place) ||
                    !read_u64(look, thread + look->layout->next_thread, &thread))
                        return false;
        if (look->layout->version <= LAST_LAYOUT && place != look->spans.thread_context)
                return false;
        look->spans.thread_context = (uint16_t)place;
        return place;
}

/* ---- types of the interpreter's own ---- */

static const char *const node_names[] = { "hamt", "hamt_bitmap_node", "hamt_array_node",
                                          "hamt_collision_node" };

typedef struct Nodes {
        uint64_t texts[ARRAY_SIZE(node_names)][MAX_TEXTS];
        uint32_t n_texts[ARRAY_SIZE(node_names)];
        uint64_t types[ARRAY_SIZE(node_names)];
} Nodes;

static void take_texts(Nodes *nodes, uint64_t address, const char *data, size_t size) {
        const char *at = data, *end = data + size;

        for (; (at = memmem(at, (size_t)(end - at), node_names[0], strlen(node_names[0]))); at++)
                for (size_t i = 0; i < ARRAY_SIZE(node_names); i++) {
                        size_t n = strlen(node_names[i]) + 1;

                        if ((size_t)(end - at) >= n && !memcmp(at, node_names[i], n) &&
                            nodes->n_texts[i] < MAX_TEXTS)
                                nodes->texts[i][nodes->n_texts[i]++] = address + (uint64_t)(at - data);
                }
}

/* Where the names are, by the file: parts of it that cannot be written never change. */
static void find_texts(const Look *look, Nodes *nodes, bool is_code) {
        enum { OVERLAP = 32, SIZE = 64 << 10 };
        const DynamicImage *image = &look->subject->program->image;
        static char data[SIZE];

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];
                uint64_t end = header->p_vaddr + MIN(header->p_filesz, (uint64_t)MAX_SCAN), size;

                if (header->p_type != PT_LOAD || header->p_flags & PF_W ||
                    !(header->p_flags & PF_X) == is_code)
                        continue;
                for (uint64_t at = header->p_vaddr; at < end; at += SIZE - OVERLAP) {
                        size = MIN(end - at, (uint64_t)SIZE);
                        if (dynamic_image_read(image, at, data, size))
                                take_texts(nodes, at + look->subject->bias, data, size);
                }
        }
}

/* A @word at @address that leads to the name of a type is that of a type if there is one around it. */
static void take_word(Look *look, Nodes *nodes, uint64_t address, uint64_t word) {
        uint64_t type = address - look->head - TYPE_NAME;

        for (size_t i = 0; i < ARRAY_SIZE(node_names); i++)
                for (uint32_t j = 0; j < nodes->n_texts[i]; j++)
                        if (word == nodes->texts[i][j] &&
                            is_of(look, type, symbol_of(look, PYTHON_SYMBOL_TYPE)))
                                nodes->types[i] = type;
}

/* Page by page: not every one is there. */
static void find_type_words(Look *look, Nodes *nodes) {
        const DynamicImage *image = &look->subject->program->image;
        uint64_t words[PAGE / 8];

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];
                uint64_t at = (header->p_vaddr + look->subject->bias) & ~7ull, size;
                uint64_t end = at + MIN(header->p_filesz, (uint64_t)MAX_SCAN);

                if (header->p_type != PT_LOAD || !(header->p_flags & PF_W))
                        continue;
                for (; at < end; at += size) {
                        size = MIN(end - at, PAGE - at % PAGE);
                        if (!read_bytes(look, at, words, size))
                                continue;
                        for (uint64_t j = 0; j < size / 8; j++)
                                take_word(look, nodes, at + 8 * j, words[j]);
                }
        }
}

static bool find_nodes(Look *look) {
        Nodes nodes = { 0 };

        for (int is_code = 0; is_code <= 1 && !nodes.n_texts[1]; is_code++)
                find_texts(look, &nodes, is_code);
        find_type_words(look, &nodes);
        for (size_t i = 0; i < ARRAY_SIZE(node_names); i++)
                if (!nodes.types[i])
                        return false;
        look->spans.hamt_type = nodes.types[0];
        look->spans.bitmap_type = nodes.types[1];
        look->spans.array_type = nodes.types[2];
        look->spans.collision_type = nodes.types[3];
        return true;
}

static bool take_symbols(Look *look) {
        struct python_spans *spans = &look->spans;
        uint64_t items;

        spans->dict_type = symbol_of(look, PYTHON_SYMBOL_DICT);
        spans->number_type = symbol_of(look, PYTHON_SYMBOL_NUMBER);
        spans->local = symbol_of(look, PYTHON_SYMBOL_FALSE);
        spans->none = symbol_of(look, PYTHON_SYMBOL_NONE);
        if (!spans->dict_type || !spans->number_type || !spans->local || !spans->none ||
            !symbol_of(look, PYTHON_SYMBOL_TUPLE) ||
            !read_u64(look, symbol_of(look, PYTHON_SYMBOL_TUPLE) + look->head + TYPE_BASIC_SIZE, &items) ||
            items > UINT8_MAX)
                return false;
        spans->items = (uint8_t)items;
        return true;
}

int python_span_learn(const PythonReader *reader, const PythonSubject *subject, struct python_spans *spans) {
        Look look = { .reader = reader, .subject = subject, .layout = subject->layout };
        uint64_t runtime = symbol_of(&look, PYTHON_SYMBOL_RUNTIME), interpreter;
        Entry modules[N_MODULES];

        python_span_begin(subject->layout, symbol_of(&look, PYTHON_SYMBOL_CONTEXT), &look.spans);
        look.head = look.spans.head;
        if (!look.spans.context_type || !runtime ||
            !read_u64(&look, runtime + subject->layout->interpreters, &interpreter) ||
            !find_modules(&look, interpreter, modules))
                return PYTHON_SPAN_E_NONE;
        if (!find_variable(&look, modules) || !find_types(&look, modules) ||
            !find_context(&look, interpreter) || !take_symbols(&look) || !find_nodes(&look) ||
            !python_span_check(&look.spans))
                return PYTHON_SPAN_E_SOON;
        *spans = look.spans;
        return 0;
}

bool python_span_check(const struct python_spans *spans) {
        for (size_t i = 0; i < PYTHON_N_SPAN_TYPES; i++)
                if (spans->types[i].context >= PYTHON_MAX_SPAN_WORDS)
                        return false;
        return (spans->head == 16 || spans->head == 32) && spans->items >= spans->head + 8 &&
                spans->items <= spans->head + 24 && spans->values <= PYTHON_VALUES_INLINE &&
                spans->values_head <= 8 && spans->before <= 32 && spans->old_keys <= 1 &&
                spans->old_numbers <= 1;
}
