/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Spans of OpenTelemetry's SDK for Node.js
 *
 * Node keeps the values of all AsyncLocalStorages that are current in one Map (AsyncContextFrame: from 24 on,
 * in 22 by a flag), and V8 has a word for that Map in each isolate. One of the values is the SDK's Context:
 *
 *     thread ─▶ isolate ─▶ Map ─▶ its table ─▶ each value that has `_currentContext` ─▶ Map ─▶ its table
 *                                                                  the value of the SDK's key for spans │
 *     trace id, span id ◀─ `traceId`, `spanId` ◀─ SpanContext ◀─ `_spanContext` ◀─ the span ◀───────────┘
 *
 * A property is found by its name, which is compared character by character: an object's hidden class has the
 * names of its properties and their places. So nothing of the SDK is learned, its order of fields does not
 * count, and a collector may move all of it. The word that is asked first is where the last name was. What is
 * of another type, or cannot be read within V8_MAX_SPAN_READS reads, is no span: objects in dictionary mode,
 * more than V8_MAX_PROPERTIES properties.
 *
 * A context that changes is one store of a word, by the thread that is interrupted. The collector leaves the
 * new address in place of the hidden class of an object that it has moved; it is followed.
 *
 * Includes nothing, as v8.bpf.h. The daemon has found the isolate and the word in it in the file
 * (host/runtime/v8/v8-layout.c), and checked that other places are the ones below.
 */

enum {
        V8_MAX_SPAN_READS = 120,
        V8_MAX_PROPERTIES = 16,
        V8_MAX_VALUES = 8,              /* entries of a Map that are looked at */
        V8_MAX_BUCKETS = 1 << 16,
        V8_MAX_STRINGS = 4,             /* Strings that one is made of: a part of another one */
        V8_TRACE_DIGITS = 32,
        V8_SPAN_DIGITS = 16,
        V8_SPAN_WORDS = 32,             /* words of one read; a power of two */
        /* places in objects, without the tag */
        V8_AT_MAP_SIZE = 8,             /* in a hidden class: words of an object; in front of its fields */
        V8_AT_MAP_TYPE = 12,
        V8_AT_MAP_FLAGS = 16,
        V8_AT_MAP_DESCRIPTORS = 40,
        V8_MAP_BYTES = 48,
        V8_AT_PROPERTIES = 8,           /* in an object: those without a field of their own */
        V8_AT_ARRAY_DATA = 16,
        V8_AT_TABLE = 24,               /* in a Map of JavaScript */
        V8_AT_LENGTH = 12,              /* in a String */
        V8_AT_CHARACTERS = 16,
        V8_AT_OTHER = 16,               /* the String that it is, or is a part of */
        V8_AT_PART = 24,                /* begin of the part */
        V8_AT_DESCRIPTION = 16,         /* in a Symbol */
        V8_AT_ODDBALL_KIND = 40,
        V8_ODDBALL_TRUE = 1,
        V8_DESCRIPTOR_WORDS = 3,        /* name, place, value */
        V8_PLACE_ELSEWHERE = 1 << 5,    /* not in the object */
        V8_PLACE_DOUBLE = 2, V8_PLACE_FORM_SHIFT = 6, V8_PLACE_FORM_MASK = 7,
        V8_PLACE_INDEX_SHIFT = 19, V8_PLACE_INDEX_MASK = 0x3ff,
        V8_FLAGS_N_SHIFT = 10, V8_FLAGS_N_MASK = 0x3ff, V8_FLAGS_DICTIONARY = 1 << 21,
        V8_NO_STRING = 0x80,            /* the first type that is no String's */
        V8_ONE_BYTE = 8, V8_FORM_MASK = 7, V8_FORM_ROW = 0, V8_FORM_PART = 3, V8_FORM_THIN = 5,
};

/* Names that are looked for. */
enum v8_name {
        V8_NAME_CONTEXT,
        V8_NAME_SPAN_CONTEXT,
        V8_NAME_TRACE,
        V8_NAME_SPAN,
        V8_NAME_REMOTE,
        V8_NAME_KEY,                    /* description of the Symbol under which a Context has its span */
        V8_N_NAMES = 8,                 /* a power of two */
};

struct v8_span_walk {
        uint64_t n_reads;
        uint64_t why;                   /* enum sdk_result, of a way that ends here */
        uint64_t object;                /* the one that was opened: address, its hidden class' words */
        uint64_t size, first;           /* words of the object, and in front of its fields */
        uint64_t keys, n_keys;          /* address of the first descriptor */
        uint64_t found;                 /* value of the property that was looked for */
        uint64_t entries, n_entries;    /* of a Map: address of the first one */
        uint64_t context, span;         /* objects; 0 = not there */
        uint64_t id[2];                 /* of an id: its first 16 digits, the others */
        uint8_t hints[V8_N_NAMES];      /* where a name was last, in the descriptors */
        uint64_t words[V8_SPAN_WORDS];
};

/* ---- reads ---- */

static inline bool v8_span_copy(struct v8_span_walk *walk, void *to, uint64_t address, uint32_t size) {
        walk->why = SDK_RESULT_FAR;
        if (walk->n_reads >= V8_MAX_SPAN_READS)
                return false;
        walk->n_reads++;
        walk->why = SDK_RESULT_FAULT;
        if (bpf_probe_read_user(to, size, (const void *)address))
                return false;
        walk->why = SDK_RESULT_TYPE;
        return true;
}

static inline uint64_t v8_span_word(const struct v8_span_walk *walk, uint32_t index) {
        index &= V8_SPAN_WORDS - 1;
        barrier_var(index);
        index &= V8_SPAN_WORDS - 1;
        return walk->words[index];
}

/*
 * Opens an object: walk->object, and its hidden class in walk->words. Return: its instance type; -1 = it is
 * none, or cannot be read.
 */
static inline int v8_span_do_open(struct v8_span_walk *walk, uint64_t tagged) {
        uint64_t address = tagged - V8_TAG, map = 0;

        walk->why = SDK_RESULT_TYPE;
        if ((tagged & V8_TAG_MASK) != V8_TAG || !v8_span_copy(walk, &map, address, sizeof(map)))
                return -1;
        if (!(map & V8_TAG)) {
                address = map;
                if ((address & 7) || !address || !v8_span_copy(walk, &map, address, sizeof(map)))
                        return -1;
        }
        if ((map & V8_TAG_MASK) != V8_TAG || !v8_span_copy(walk, walk->words, map - V8_TAG, V8_MAP_BYTES))
                return -1;
        walk->object = address;
        return (int)(v8_span_word(walk, V8_AT_MAP_TYPE / 8) >> 32 & 0xffff);
}

/* Goes from its hidden class to the names of an object that was opened. Return: whether it has such ones. */
static inline bool v8_span_keys(const struct v8_spans *spans, struct v8_span_walk *walk) {
        uint64_t sizes = v8_span_word(walk, V8_AT_MAP_SIZE / 8);
        uint32_t flags = (uint32_t)v8_span_word(walk, V8_AT_MAP_FLAGS / 8);
        uint64_t descriptors = v8_span_word(walk, V8_AT_MAP_DESCRIPTORS / 8), head = 0;

        walk->size = sizes & 0xff;
        walk->first = sizes >> 8 & 0xff;
        walk->n_keys = flags >> V8_FLAGS_N_SHIFT & V8_FLAGS_N_MASK;
        walk->why = SDK_RESULT_TYPE;
        if ((flags & V8_FLAGS_DICTIONARY) || walk->first > walk->size ||
            (descriptors & V8_TAG_MASK) != V8_TAG)
                return false;
        walk->keys = descriptors - V8_TAG;
        if (!v8_span_copy(walk, &head, walk->keys, sizeof(head)))
                return false;
        if (!(head & V8_TAG))           /* moved */
                walk->keys = head;
        walk->keys += spans->descriptors;
        return true;
}

/* ---- names ---- */

#define V8_EIGHT(text, at) \
        ((uint64_t)(uint8_t)(text)[at] | (uint64_t)(uint8_t)(text)[(at) + 1] << 8 | \
         (uint64_t)(uint8_t)(text)[(at) + 2] << 16 | (uint64_t)(uint8_t)(text)[(at) + 3] << 24 | \
         (uint64_t)(uint8_t)(text)[(at) + 4] << 32 | (uint64_t)(uint8_t)(text)[(at) + 5] << 40 | \
         (uint64_t)(uint8_t)(text)[(at) + 6] << 48 | (uint64_t)(uint8_t)(text)[(at) + 7] << 56)

/* Word @i of a name, in which zeros follow the last character. */
static inline uint64_t v8_name_word(uint32_t name, uint32_t i) {
        switch (name << 2 | (i & 3)) {
        case V8_NAME_CONTEXT << 2:
                return V8_EIGHT("_currentContext\0", 0);
        case V8_NAME_CONTEXT << 2 | 1:
                return V8_EIGHT("_currentContext\0", 8);
        case V8_NAME_SPAN_CONTEXT << 2:
                return V8_EIGHT("_spanContext\0\0\0\0", 0);
        case V8_NAME_SPAN_CONTEXT << 2 | 1:
                return V8_EIGHT("_spanContext\0\0\0\0", 8);
        case V8_NAME_TRACE << 2:
                return V8_EIGHT("traceId\0", 0);
        case V8_NAME_SPAN << 2:
                return V8_EIGHT("spanId\0\0", 0);
        case V8_NAME_REMOTE << 2:
                return V8_EIGHT("isRemote", 0);
        case V8_NAME_KEY << 2:
                return V8_EIGHT("OpenTelemetry Context Key SPAN\0\0", 0);
        case V8_NAME_KEY << 2 | 1:
                return V8_EIGHT("OpenTelemetry Context Key SPAN\0\0", 8);
        case V8_NAME_KEY << 2 | 2:
                return V8_EIGHT("OpenTelemetry Context Key SPAN\0\0", 16);
        case V8_NAME_KEY << 2 | 3:
                return V8_EIGHT("OpenTelemetry Context Key SPAN\0\0", 24);
        default:
                return 0;
        }
}

static inline uint32_t v8_name_length(uint32_t name) {
        return name == V8_NAME_CONTEXT         ? 15
                : name == V8_NAME_SPAN_CONTEXT ? 12
                : name == V8_NAME_TRACE        ? 7
                : name == V8_NAME_SPAN         ? 6
                : name == V8_NAME_REMOTE       ? 8
                                               : 30;
}

/*
 * Whether the String @tagged is the name: 1, 0, -1 = it cannot be said. Its length is asked first, as a
 * shorter one may be the last object of memory that is there.
 */
static inline int v8_span_compare(struct v8_span_walk *walk, uint64_t tagged, uint32_t name) {
        uint32_t length = v8_name_length(name), n = (length + 7) / 8;
        uint64_t address = tagged - V8_TAG;
        uint64_t head[2] = { 0 };

        if ((tagged & V8_TAG_MASK) != V8_TAG)
                return 0;
        if (!v8_span_copy(walk, head, address, sizeof(head)))
                return -1;
        if (!(head[0] & V8_TAG)) {
                address = head[0];
                if ((address & 7) || !v8_span_copy(walk, head, address, sizeof(head)))
                        return -1;
        }
        if (head[1] >> 32 != length)
                return 0;
        walk->words[0] = walk->words[1] = walk->words[2] = walk->words[3] = 0;
        if (!v8_span_copy(walk, walk->words, address + V8_AT_CHARACTERS, length & 31))
                return -1;
        for (uint32_t i = 0; i < 4; i++)
                if (i < n && walk->words[i] != v8_name_word(name, i))
                        return 0;
        return 1;
}

/*
 * The includer defines these by v8_span_do_…(); the verifier goes through each once. The kernel allows eight
 * functions that call each other, so the others are none of their own.
 */
int v8_span_open(struct v8_span_walk *walk, uint64_t tagged);
int v8_span_property(struct v8_span_walk *walk, uint32_t name, uint32_t index);
int v8_span_find(struct v8_span_walk *walk, uint32_t name);
int v8_span_table(const struct v8_spans *spans, struct v8_span_walk *walk, uint64_t tagged);
int v8_span_store(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index);
int v8_span_pair(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index);
int v8_span_digits(struct v8_span_walk *walk, uint64_t tagged, uint32_t n);

/* ---- properties ---- */

/* Reads the value of a property whose place is @place. Return: 1, -1 = it cannot be read. */
static inline int v8_span_value(struct v8_span_walk *walk, uint32_t place) {
        uint64_t index = place >> V8_PLACE_INDEX_SHIFT & V8_PLACE_INDEX_MASK, at = walk->object, other = 0;

        walk->why = SDK_RESULT_TYPE;
        if ((place & V8_PLACE_ELSEWHERE) ||
            (place >> V8_PLACE_FORM_SHIFT & V8_PLACE_FORM_MASK) == V8_PLACE_DOUBLE)
                return -1;
        if (index < walk->size - walk->first)
                return v8_span_copy(walk, &walk->found, at + 8 * (walk->first + index), 8) ? 1 : -1;
        index -= walk->size - walk->first;
        if (!v8_span_copy(walk, &other, at + V8_AT_PROPERTIES, 8) || (other & V8_TAG_MASK) != V8_TAG)
                return -1;
        return v8_span_copy(walk, &walk->found, other - V8_TAG + V8_AT_ARRAY_DATA + 8 * index, 8) ? 1 : -1;
}

/* Looks at one name. Return: 1 = it is @name, and walk->found its value; 0; -1 = it cannot be said. */
static inline int v8_span_do_property(struct v8_span_walk *walk, uint32_t name, uint32_t index) {
        uint64_t pair[2] = { 0 };
        int is_same;

        if (index >= walk->n_keys)
                return 0;
        if (!v8_span_copy(walk, pair, walk->keys + 8ull * V8_DESCRIPTOR_WORDS * index, sizeof(pair)))
                return -1;
        is_same = v8_span_compare(walk, pair[0], name);
        return is_same == 1 ? v8_span_value(walk, (uint32_t)(pair[1] >> 32)) : is_same;
}

/* Looks for @name in the object that was opened. Return: as above. */
static inline int v8_span_do_find(struct v8_span_walk *walk, uint32_t name) {
        uint32_t hint;
        int r;

        name &= V8_N_NAMES - 1;
        barrier_var(name);
        name &= V8_N_NAMES - 1;
        hint = walk->hints[name];
        r = v8_span_property(walk, name, hint);
        if (r)
                return r;
        for (uint32_t i = 0; i < V8_MAX_PROPERTIES; i++) {
                r = i < walk->n_keys && i != hint ? v8_span_property(walk, name, i) : 0;
                if (r) {
                        walk->hints[name] = (uint8_t)i;
                        return r;
                }
        }
        walk->why = walk->n_keys > V8_MAX_PROPERTIES ? SDK_RESULT_FAR : SDK_RESULT_TYPE;
        return walk->n_keys > V8_MAX_PROPERTIES ? -1 : 0;
}

/* ---- Maps of JavaScript ---- */

/* Return: 1 with walk->entries; 0 = @tagged is no Map; -1 = it is one, and cannot be read. */
static inline int v8_span_do_table(const struct v8_spans *spans, struct v8_span_walk *walk,
                                   uint64_t tagged) {
        uint64_t table = 0, words[5] = { 0 }, n, n_buckets;
        int type = v8_span_open(walk, tagged);

        if (type != spans->map_type)
                return type < 0 ? -1 : 0;
        if (!v8_span_copy(walk, &table, walk->object + V8_AT_TABLE, 8) || (table & V8_TAG_MASK) != V8_TAG)
                return -1;
        table -= V8_TAG;
        if (!v8_span_copy(walk, words, table, sizeof(words)))
                return -1;
        if (!(words[0] & V8_TAG)) {
                table = words[0];
                if ((table & 7) || !v8_span_copy(walk, words, table, sizeof(words)))
                        return -1;
        }
        /* hidden class, length of the array; entries, those that were deleted, buckets: small numbers */
        n = (words[2] >> 32) + (words[3] >> 32);
        n_buckets = words[4] >> 32;
        if ((uint32_t)words[1] || (uint32_t)words[2] || (uint32_t)words[3] || (uint32_t)words[4] ||
            !n_buckets || n_buckets > V8_MAX_BUCKETS || (n_buckets & (n_buckets - 1)) || n > 2 * n_buckets ||
            words[1] >> 32 != 3 + 7 * n_buckets)
                return -1;
        walk->entries = table + sizeof(words) + 8 * n_buckets;
        walk->n_entries = n;
        return 1;
}

/*
 * Looks at a value of the thread's Map. Return: 1 = it is the SDK's Context, and walk->context its Map; 0;
 * -1 = it cannot be said.
 */
static inline int v8_span_do_store(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index) {
        uint64_t value = 0;
        int r;

        if (!v8_span_copy(walk, &value, walk->entries + 24ull * index + 8, 8))
                return -1;
        if ((value & V8_TAG_MASK) != V8_TAG)
                return 0;
        r = v8_span_open(walk, value);
        if (r != spans->object_type)
                return r < 0 ? -1 : 0;
        if (!v8_span_keys(spans, walk)) /* another storage's, in whatever form */
                return walk->why == SDK_RESULT_TYPE ? 0 : -1;
        r = v8_span_find(walk, V8_NAME_CONTEXT);
        if (r == 1)
                walk->context = walk->found;
        return r < 0 && walk->why == SDK_RESULT_FAR && walk->n_keys > V8_MAX_PROPERTIES ? 0 : r;
}

/* Looks at a pair of the Context. Return: 1 = it is the span, walk->span; 0; -1 = it cannot be said. */
static inline int v8_span_do_pair(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index) {
        uint64_t pair[2] = { 0 }, description = 0;
        int r;

        if (!v8_span_copy(walk, pair, walk->entries + 24ull * index, sizeof(pair)))
                return -1;
        r = v8_span_open(walk, pair[0]);
        if (r != spans->symbol_type)
                return r < 0 ? -1 : 0;
        if (!v8_span_copy(walk, &description, walk->object + V8_AT_DESCRIPTION, 8))
                return -1;
        r = v8_span_compare(walk, description, V8_NAME_KEY);
        if (r == 1)
                walk->span = pair[1];
        return r;
}

/* ---- ids ---- */

/* A digit of an id; 16 and more = it is none. */
static inline uint32_t v8_span_digit(uint64_t word, uint32_t at) {
        uint32_t character = (uint32_t)(word >> (8 * (at & 7))) & 0xff;

        if (character - '0' < 10)
                return character - '0';
        return character - 'a' < 6 ? character - 'a' + 10 : 16;
}

/* Reads @n digits, 16 or 32, to walk->id. Return: 1, 0 = there are no such ones. */
static inline int v8_span_do_digits(struct v8_span_walk *walk, uint64_t tagged, uint32_t n) {
        uint64_t from = 0, word = 0, address = 0;
        int type = -1;

        for (uint32_t i = 0; i < V8_MAX_STRINGS; i++) {
                type = v8_span_open(walk, tagged);
                if (type < 0 || type >= V8_NO_STRING)
                        return 0;
                if (!v8_span_copy(walk, walk->words, walk->object, 16))
                        return 0;
                if (!i && walk->words[1] >> 32 != n)
                        return 0;
                address = walk->object;
                if ((type & V8_FORM_MASK) == V8_FORM_ROW)
                        break;
                if ((type & V8_FORM_MASK) != V8_FORM_PART && (type & V8_FORM_MASK) != V8_FORM_THIN)
                        return 0;
                if (!v8_span_copy(walk, &tagged, address + V8_AT_OTHER, 8))
                        return 0;
                if ((type & V8_FORM_MASK) == V8_FORM_PART) {
                        if (!v8_span_copy(walk, &word, address + V8_AT_PART, 8) || (uint32_t)word)
                                return 0;
                        from += word >> 32;
                }
        }
        walk->why = SDK_RESULT_TYPE;
        if ((type & (V8_FORM_MASK | V8_ONE_BYTE)) != V8_ONE_BYTE || from > walk->words[1] >> 32 ||
            (walk->words[1] >> 32) - from < n)
                return 0;
        if (!v8_span_copy(walk, walk->words, address + V8_AT_CHARACTERS + from,
                          n == V8_TRACE_DIGITS ? V8_TRACE_DIGITS : V8_SPAN_DIGITS))
                return 0;
        walk->id[0] = walk->id[1] = 0;
        for (uint32_t i = 0; i < V8_TRACE_DIGITS; i++) {
                uint32_t digit = i < n ? v8_span_digit(walk->words[i / 8], i) : 0;

                if (digit > 15)
                        return 0;
                if (i < n)
                        walk->id[i / 16] = walk->id[i / 16] << 4 | digit;
        }
        return 1;
}

/* ---- all of it ---- */

/* Whether the SpanContext that was opened is another process's: 1, 0, -1 = it cannot be said. */
static inline int v8_span_is_remote(struct v8_span_walk *walk) {
        uint64_t kind = 0;
        int r = v8_span_find(walk, V8_NAME_REMOTE);

        if (r <= 0)
                return r;
        if ((walk->found & V8_TAG_MASK) != V8_TAG ||
            !v8_span_copy(walk, &kind, walk->found - V8_TAG + V8_AT_ODDBALL_KIND, 8))
                return -1;
        return kind >> 32 == V8_ODDBALL_TRUE;
}

/* The ids of walk->span. Return: enum sdk_result. */
static inline uint32_t v8_span_ids(const struct v8_spans *spans, struct v8_span_walk *walk,
                                   struct abi_span *span) {
        uint64_t number;
        int is_remote;

        /* a Context of which the span was deleted */
        if (v8_span_open(walk, walk->span) != spans->object_type || !v8_span_keys(spans, walk) ||
            v8_span_find(walk, V8_NAME_SPAN_CONTEXT) != 1 ||
            v8_span_open(walk, walk->found) != spans->object_type || !v8_span_keys(spans, walk))
                return (uint32_t)walk->why;
        is_remote = v8_span_is_remote(walk);
        if (is_remote)
                return is_remote < 0 ? (uint32_t)walk->why : SDK_RESULT_REMOTE;
        if (v8_span_find(walk, V8_NAME_SPAN) != 1)
                return (uint32_t)walk->why;
        number = walk->found;
        if (v8_span_find(walk, V8_NAME_TRACE) != 1 || !v8_span_digits(walk, walk->found, V8_TRACE_DIGITS))
                return (uint32_t)walk->why;
        span->trace_high = walk->id[0];
        span->trace_low = walk->id[1];
        if (!v8_span_digits(walk, number, V8_SPAN_DIGITS))
                return (uint32_t)walk->why;
        span->span = walk->id[0];
        return span->span && (span->trace_high | span->trace_low) ? SDK_RESULT_READ : SDK_RESULT_NONE;
}

/*
 * The span that the thread with this isolate works for. Return: enum sdk_result; READ = *@span, which is of
 * no use otherwise.
 */
static inline uint32_t v8_span_read(const struct v8_spans *spans, struct v8_span_walk *walk,
                                    uint64_t isolate, struct abi_span *span) {
        uint64_t current = 0;
        int r;

        walk->n_reads = 0;
        walk->context = walk->span = 0;
        if (!v8_span_copy(walk, &current, isolate + spans->current, sizeof(current)))
                return (uint32_t)walk->why;
        /* undefined: nothing is current */
        r = v8_span_table(spans, walk, current);
        if (r <= 0)
                return r ? (uint32_t)walk->why : SDK_RESULT_NONE;
        r = 0;
        for (uint32_t i = 0; i < V8_MAX_VALUES && !r; i++)
                if (i < walk->n_entries)
                        r = v8_span_store(spans, walk, i);
        if (r <= 0)
                return r ? (uint32_t)walk->why
                        : walk->n_entries > V8_MAX_VALUES ? SDK_RESULT_FAR
                                                          : SDK_RESULT_NONE;
        r = v8_span_table(spans, walk, walk->context);
        if (r <= 0)
                return r ? (uint32_t)walk->why : SDK_RESULT_TYPE;
        r = 0;
        for (uint32_t i = 0; i < V8_MAX_VALUES && !r; i++)
                if (i < walk->n_entries)
                        r = v8_span_pair(spans, walk, i);
        if (r <= 0)
                return r ? (uint32_t)walk->why
                        : walk->n_entries > V8_MAX_VALUES ? SDK_RESULT_FAR
                                                          : SDK_RESULT_NONE;
        return v8_span_ids(spans, walk, span);
}
