/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Spans of OpenTelemetry's SDK for Python
 *
 * The SDK keeps its current Context in one ContextVar, so a service that publishes nothing still says in its
 * memory which span a thread works for:
 *
 *     thread state ─▶ PyContext ─▶ HAMT ─▶ node ─▶ node ─▶ Context, a dict ─▶ its keys ─▶ Span
 *                                  by the variable's hash,   by the key's address         │
 *                                  five bits a level                                      ▼
 *                            trace id, span id ◀─ SpanContext, a tuple ◀─ `_context` among its attributes
 *
 * Nothing of it can be torn: a switch to another context, or to another span in it, is one store of a pointer
 * to objects that never change, and the thread that makes it is interrupted. The type of each object is
 * compared, and the key of each pair. What is of another type, or cannot be read within PYTHON_MAX_SPAN_READS
 * reads, is no span.
 *
 * A span of another process that a request came with (is_remote) is none of this thread's, as for publishers.
 *
 * What the span is named, and which one is its parent, lies beside `_context`. It is copied at once, since it
 * is gone with the span; where that is too far away, the span has no name.
 *
 * Includes nothing, as python.bpf.h, whose words it uses. The daemon has learned where things are by their
 * names (host/runtime/python/python-span.c).
 */

enum {
        PYTHON_MAX_SPAN_READS = 20,
        PYTHON_SPAN_BYTES = 256,        /* bytes of one read; a power of two */
        PYTHON_HAMT_BITS = 5,           /* bits of the hash that a level takes */
        PYTHON_HAMT_LAST = 30,          /* the last level's first bit; below it are collisions */
        PYTHON_MAX_HAMT = 16,           /* nodes, and pairs of a collision, that are looked at */
        PYTHON_SPAN_KEYS = 160,         /* bytes of a dict's keys that are read at once: five entries */
        PYTHON_SPAN_FEW_KEYS = 120,     /* bytes of the smallest keys */
        PYTHON_MAX_ENTRIES = 64,        /* entries of a Context that are looked at */
        PYTHON_TRACE_DIGITS = 5,
        PYTHON_SPAN_DIGITS = 3,
        PYTHON_DIGIT_BITS = 30,
        PYTHON_ENTRY_WITH_HASH = 24,    /* bytes of an entry; without a hash it has 16 */
};

enum python_span_end {
        PYTHON_SPAN_READ = 0,
        PYTHON_SPAN_NONE = 1,           /* the thread works for no span of this process */
        PYTHON_SPAN_UNREADABLE = 2,     /* a fault, another type than is known, or too far away */
        PYTHON_SPAN_UNLEARNED = 3,      /* the thread has variables, and it is not known which one is meant */
};

struct python_span_walk {
        uint64_t n_reads;
        uint64_t why;                   /* enum sdk_result, of a way that ends here */
        uint64_t node, value;           /* the next node; the variable's value, 0 = it has none */
        uint64_t shift;                 /* bits of the hash that were used */
        uint64_t pair;                  /* index among those of a collision */
        /* keys of a dict: address, entries, and bytes in front of the first one; those in `bytes` */
        uint64_t keys, n_entries, entries, entry_size;
        uint64_t entry;                 /* the next one */
        uint64_t from, to;              /* places in the keys of what is in `bytes` */
        uint64_t found;                 /* value of the key that was looked for; 0 = it is not there */
        uint64_t name, parent;          /* objects of the span; 0 = not known */
        uint64_t high, low;             /* halves of a number */
        uint64_t is_bad;
        struct python_span_facts facts;
        uint8_t bytes[PYTHON_SPAN_BYTES + 8];
};

static inline bool python_span_copy(struct python_span_walk *walk, uint64_t address, uint32_t size) {
        walk->why = SDK_RESULT_FAR;
        if (walk->n_reads >= PYTHON_MAX_SPAN_READS)
                return false;
        walk->n_reads++;
        walk->why = SDK_RESULT_FAULT;
        if (!address || !python_copy(walk->bytes, size, PYTHON_SPAN_BYTES, address))
                return false;
        walk->why = SDK_RESULT_TYPE;
        return true;
}

static inline uint64_t python_span_word(const struct python_span_walk *walk, uint32_t offset) {
        return python_word(walk->bytes, offset, PYTHON_SPAN_BYTES - 1);
}

/* Reads an object: its head, and @size bytes behind that. Return: whether it could, and is of @type. */
static inline bool python_span_object(const struct python_spans *spans, struct python_span_walk *walk,
                                      uint64_t address, uint32_t size, uint64_t type) {
        return type && python_span_copy(walk, address, spans->head + size) &&
                python_span_word(walk, spans->head - 8u) == type;
}

/* ---- the variable ---- */

/* Takes the pair of @key and @value. Return: whether to go on: it leads to another node. */
static inline bool python_hamt_pair(const struct python_spans *spans, struct python_span_walk *walk,
                                    uint64_t key, uint64_t value) {
        if (key) {
                walk->value = key == spans->variable ? value : 0;
                return false;
        }
        walk->node = value;
        walk->shift += PYTHON_HAMT_BITS;
        walk->is_bad = walk->shift > PYTHON_HAMT_LAST + PYTHON_HAMT_BITS;
        return !walk->is_bad;
}

static inline bool python_hamt_bitmap(const struct python_spans *spans, struct python_span_walk *walk) {
        uint32_t head = spans->head, bits = (uint32_t)python_span_word(walk, head + 8), at = head + 16;
        uint32_t bit = 1u << (spans->hash >> (walk->shift & 31) & 31), before = bits & (bit - 1);
        uint64_t pair = walk->node + at;

        if (python_span_word(walk, head) != 2ull * (uint32_t)__builtin_popcount(bits)) {
                walk->is_bad = 1;
                return false;
        }
        if (!(bits & bit))
                return false;
        if (before) {                   /* the first pair was read with the head */
                at = 0;
                pair += 16ull * (uint32_t)__builtin_popcount(before);
                walk->is_bad = !python_span_copy(walk, pair, 16);
                if (walk->is_bad)
                        return false;
        }
        return python_hamt_pair(spans, walk, python_span_word(walk, at), python_span_word(walk, at + 8));
}

static inline bool python_hamt_array(const struct python_spans *spans, struct python_span_walk *walk) {
        uint64_t at = walk->node + spans->head + 8ull * (spans->hash >> (walk->shift & 31) & 31);

        walk->is_bad = !python_span_copy(walk, at, 8);
        if (walk->is_bad || !python_span_word(walk, 0))
                return false;
        return python_hamt_pair(spans, walk, 0, python_span_word(walk, 0));
}

/* Pairs of variables with one hash. */
static inline bool python_hamt_collision(const struct python_spans *spans, struct python_span_walk *walk) {
        uint64_t n = python_span_word(walk, spans->head) / 2, at = walk->node + spans->head + 16;

        if (walk->pair >= n)
                return false;
        walk->is_bad = !python_span_copy(walk, at + 16 * walk->pair, 16) || !python_span_word(walk, 0);
        walk->pair++;
        if (walk->is_bad)
                return false;
        if (python_span_word(walk, 0) != spans->variable)
                return true;
        walk->value = python_span_word(walk, 8);
        return false;
}

/* Looks at a node. Return: whether to go on. */
static inline bool python_hamt_do_step(const struct python_spans *spans, struct python_span_walk *walk) {
        uint64_t type;

        /* The smallest node has one pair, which is read with its head. */
        if (!python_span_copy(walk, walk->node, spans->head + 32u)) {
                walk->is_bad = 1;
                return false;
        }
        type = python_span_word(walk, spans->head - 8u);
        if (type && walk->shift <= PYTHON_HAMT_LAST) {
                if (type == spans->bitmap_type)
                        return python_hamt_bitmap(spans, walk);
                if (type == spans->array_type)
                        return python_hamt_array(spans, walk);
        }
        if (type && type == spans->collision_type)
                return python_hamt_collision(spans, walk);
        walk->is_bad = 1;
        return false;
}

/* ---- a dict ---- */

static inline bool python_keys_bad(struct python_span_walk *walk) {
        walk->is_bad = 1;
        return false;
}

/* Reads the head of a dict's keys, and the first entries. Return: whether it could. */
static inline bool python_keys_open(const struct python_spans *spans, struct python_span_walk *walk,
                                    uint64_t keys) {
        uint64_t size, n;

        walk->keys = keys;
        walk->entry = 0;
        walk->found = 0;
        walk->from = 0;
        walk->to = PYTHON_SPAN_KEYS;
        if (!python_span_copy(walk, keys, PYTHON_SPAN_KEYS)) {
                walk->to = PYTHON_SPAN_FEW_KEYS;
                if (!python_span_copy(walk, keys, PYTHON_SPAN_FEW_KEYS))
                        return python_keys_bad(walk);
        }
        if (spans->old_keys) {
                size = python_span_word(walk, 8);
                n = python_span_word(walk, 32);
                walk->entry_size = PYTHON_ENTRY_WITH_HASH;
                walk->entries = 40 + (size <= 0xff ? size : 2 * size);
        } else {
                n = python_span_word(walk, 24);
                size = 1ull << (python_span_word(walk, 9) & 15);
                walk->entry_size = python_span_word(walk, 10) & 0xff ? 16 : PYTHON_ENTRY_WITH_HASH;
                walk->entries = 32 + size;
        }
        walk->n_entries = n;
        return (size <= 0xffff && n <= 0xffff) || python_keys_bad(walk);
}

/* Has entry walk->entry in walk->bytes, at *@atp. Return: whether it could. */
static inline bool python_keys_entry(struct python_span_walk *walk, uint32_t *atp) {
        uint64_t place = walk->entries + walk->entry * walk->entry_size, left;

        if (place < walk->from || place + walk->entry_size > walk->to) {
                left = (walk->n_entries - walk->entry) * walk->entry_size;
                if (left > PYTHON_SPAN_BYTES)
                        left = PYTHON_SPAN_BYTES;
                walk->from = place;
                walk->to = place + left;
                if (!python_span_copy(walk, walk->keys + place, (uint32_t)left))
                        return python_keys_bad(walk);
        }
        *atp = (uint32_t)(place - walk->from) + (walk->entry_size == PYTHON_ENTRY_WITH_HASH ? 8 : 0);
        return true;
}

/* Looks at one entry of a Context. Return: whether to go on. */
static inline bool python_keys_do_step(const struct python_spans *spans, struct python_span_walk *walk) {
        uint32_t at = 0;

        if (walk->entry >= walk->n_entries || !python_keys_entry(walk, &at))
                return false;
        walk->entry++;
        if (python_span_word(walk, at) != spans->key)
                return true;
        walk->found = python_span_word(walk, at + 8);
        return false;
}

/* ---- the span ---- */

/* The type that was met; NULL = none that is known. */
static inline const struct python_span_type *python_span_type(const struct python_spans *spans,
                                                              uint64_t type) {
        for (uint32_t i = 0; i < PYTHON_N_SPAN_TYPES; i++)
                if (type && spans->types[i].type == type)
                        return &spans->types[i];
        return NULL;
}

/* An attribute among values that were read; 0 = there is no such one. */
static inline uint64_t python_span_at(const struct python_spans *spans, const struct python_span_walk *walk,
                                      uint32_t index) {
        return index < PYTHON_MAX_SPAN_WORDS ? python_span_word(walk, spans->values_head + 8 * index) : 0;
}

/*
 * The context among values at @values, and beside it name and parent. Return: 0 = it could not be read.
 */
static inline uint64_t python_span_value(const struct python_spans *spans, struct python_span_walk *walk,
                                         const struct python_span_type *type, uint64_t values) {
        uint32_t last = type->context;

        if (type->name != PYTHON_NO_ATTRIBUTE && type->name > last)
                last = type->name;
        if (type->parent != PYTHON_NO_ATTRIBUTE && type->parent > last)
                last = type->parent;
        if (last >= PYTHON_MAX_SPAN_WORDS ||
            !python_span_copy(walk, values, spans->values_head + 8 * (last + 1)))
                return 0;
        walk->name = python_span_at(spans, walk, type->name);
        walk->parent = python_span_at(spans, walk, type->parent);
        return python_span_at(spans, walk, type->context);
}

/* The same in the object itself: values that are of use say so, and how many there are. */
static inline uint64_t python_span_inline(const struct python_spans *spans, struct python_span_walk *walk,
                                          const struct python_span_type *type, uint64_t values) {
        uint64_t value = python_span_value(spans, walk, type, values);
        uint32_t head = (uint32_t)python_span_word(walk, 0);

        if ((head & 0xff) <= type->name || (head & 0xff) <= type->parent)
                walk->name = walk->parent = 0;
        /* capacity, size, embedded, valid */
        return (head & 0xff) > type->context && head >> 16 == 0x0101 ? value : 0;
}

/* The same in a dict: of keys that are not the type's the entry is asked for its name. */
static inline uint64_t python_span_in_dict(const struct python_spans *spans, struct python_span_walk *walk,
                                           const struct python_span_type *type, uint64_t dict) {
        uint64_t keys, values;
        uint32_t at = 0;

        if (!python_span_object(spans, walk, dict, 32, spans->dict_type))
                return 0;
        keys = python_span_word(walk, spans->head + 16u);
        values = python_span_word(walk, spans->head + 24u);
        if (values && keys == type->keys)
                return python_span_value(spans, walk, type, values);
        if (!python_keys_open(spans, walk, keys))
                return 0;
        walk->entry = type->context;
        if (walk->entry >= walk->n_entries || !python_keys_entry(walk, &at) ||
            python_span_word(walk, at) != spans->name_context)
                return 0;
        if (!values)
                return python_span_word(walk, at + 8);
        values = python_span_value(spans, walk, type, values);
        walk->name = walk->parent = 0;  /* no name: one key of others was compared, and no more */
        return values;
}

/* The SpanContext of the span at @span; 0 = it could not be read. */
static inline uint64_t python_span_context(const struct python_spans *spans, struct python_span_walk *walk,
                                           uint64_t span) {
        uint32_t behind = spans->values == PYTHON_VALUES_DICT ? 16 : 0;
        const struct python_span_type *type;
        uint64_t first, second;

        if (!python_span_copy(walk, span - spans->before, spans->before + spans->head + behind))
                return 0;
        type = python_span_type(spans, python_span_word(walk, spans->before + spans->head - 8u));
        if (!type)
                return 0;
        first = python_span_word(walk, 0);
        second = python_span_word(walk, 8);
        switch (spans->values) {
        case PYTHON_VALUES_DICT:
                return python_span_in_dict(spans, walk, type, python_span_word(walk, type->values));
        case PYTHON_VALUES_POINTER:
                return first ? python_span_value(spans, walk, type, first)
                             : python_span_in_dict(spans, walk, type, second);
        case PYTHON_VALUES_TAGGED:
                return first & 1 ? python_span_value(spans, walk, type, first + 1)
                                 : python_span_in_dict(spans, walk, type, first);
        case PYTHON_VALUES_INLINE:
                return first ? python_span_in_dict(spans, walk, type, first)
                             : python_span_inline(spans, walk, type, span + type->values);
        default:
                return 0;
        }
}

/* ---- ids ---- */

static inline uint64_t python_span_digit(const struct python_span_walk *walk, uint32_t at, uint64_t i,
                                         uint64_t n) {
        return i < n ? (uint32_t)python_span_word(walk, at + 4 * (uint32_t)i) : 0;
}

/* The number at @number, of @max digits at most. Return: whether it is one of 128 bits: walk->high, low. */
static inline bool python_span_number(const struct python_spans *spans, struct python_span_walk *walk,
                                      uint64_t number, uint32_t max) {
        uint32_t at = spans->head + 8u;
        uint64_t n, d0, d1, d2, d3, d4;

        if (!python_span_object(spans, walk, number, 8 + 4 * max, spans->number_type))
                return false;
        n = python_span_word(walk, spans->head);
        if (!spans->old_numbers) {
                if (n & 2)              /* negative */
                        return false;
                n >>= 3;
        }
        if (n > max)
                return false;
        d0 = python_span_digit(walk, at, 0, n);
        d1 = python_span_digit(walk, at, 1, n);
        d2 = python_span_digit(walk, at, 2, n);
        d3 = python_span_digit(walk, at, 3, n);
        d4 = python_span_digit(walk, at, 4, n);
        walk->low = d0 | d1 << 30 | d2 << 60;
        walk->high = d2 >> 4 | d3 << 26 | d4 << 56;
        return !((d0 | d1 | d2 | d3) >> PYTHON_DIGIT_BITS | d4 >> 8);
}

static inline uint32_t python_span_ids(const struct python_spans *spans, struct python_span_walk *walk,
                                       uint64_t context, struct abi_span *span) {
        uint64_t trace, number, remote;
        uint32_t items = spans->items;

        if (!python_span_object(spans, walk, context, items - spans->head + 24u, spans->span_context_type) ||
            python_span_word(walk, spans->head) != 6)
                return PYTHON_SPAN_UNREADABLE;
        trace = python_span_word(walk, items);
        number = python_span_word(walk, items + 8);
        remote = python_span_word(walk, items + 16);
        if (remote != spans->local) {
                walk->why = SDK_RESULT_REMOTE;
                return PYTHON_SPAN_NONE;
        }
        if (!python_span_number(spans, walk, trace, PYTHON_TRACE_DIGITS))
                return PYTHON_SPAN_UNREADABLE;
        span->trace_high = walk->high;
        span->trace_low = walk->low;
        if (!python_span_number(spans, walk, number, PYTHON_SPAN_DIGITS) || walk->high)
                return PYTHON_SPAN_UNREADABLE;
        span->span = walk->low;
        return span->span && (span->trace_high | span->trace_low) ? PYTHON_SPAN_READ : PYTHON_SPAN_NONE;
}

/* ---- name and parent ---- */

/* A parent that cannot be read is not known, and leaves the span as it is. */
static inline void python_span_read_parent(const struct python_spans *spans, struct python_span_walk *walk) {
        uint32_t items = spans->items;
        uint64_t number;

        if (!walk->parent)
                return;
        if (walk->parent == spans->none) {
                walk->facts.place = PYTHON_PLACE_ENTRY;
                return;
        }
        if (!python_span_object(spans, walk, walk->parent, items - spans->head + 24u,
                                spans->span_context_type) ||
            python_span_word(walk, spans->head) != 6)
                return;
        number = python_span_word(walk, items + 8);
        if (python_span_word(walk, items + 16) != spans->local) {
                walk->facts.place = PYTHON_PLACE_ENTRY;
                return;
        }
        if (!python_span_number(spans, walk, number, PYTHON_SPAN_DIGITS) || walk->high || !walk->low)
                return;
        walk->facts.parent = walk->low;
        walk->facts.place = PYTHON_PLACE_CHILD;
}

static inline void python_span_read_name(struct python_span_walk *walk) {
        const void *name = (const void *)walk->name;

        if (!name || walk->n_reads >= PYTHON_MAX_SPAN_READS - 1)
                return;
        walk->n_reads += 2;
        if (!bpf_probe_read_user(walk->facts.name, PYTHON_NAME_SIZE, name))
                walk->facts.name_size = PYTHON_NAME_SIZE;
        else if (!bpf_probe_read_user(walk->facts.name, PYTHON_NAME_FEW, name))
                walk->facts.name_size = PYTHON_NAME_FEW;
}

/* ---- all of it ---- */

/* The includer defines these by python_…_do_step(); the verifier goes through each once. */
int python_hamt_step(const struct python_spans *spans, struct python_span_walk *walk);
int python_keys_step(const struct python_spans *spans, struct python_span_walk *walk);

/* Finds the root of the thread's variables. Return: enum python_span_end; READ = walk->node. */
static inline uint32_t python_span_root(const struct python_spans *spans, struct python_span_walk *walk,
                                        uint64_t thread) {
        uint64_t context;

        if (!python_span_copy(walk, thread + spans->thread_context, 8))
                return PYTHON_SPAN_UNREADABLE;
        context = python_span_word(walk, 0);
        if (!context)                   /* nothing was ever set in this thread */
                return PYTHON_SPAN_NONE;
        if (!python_span_object(spans, walk, context, 16, spans->context_type))
                return PYTHON_SPAN_UNREADABLE;
        walk->node = python_span_word(walk, spans->head + 8u);
        if (!spans->variable)
                return python_span_copy(walk, walk->node, spans->head + 24u) &&
                                python_span_word(walk, spans->head + 16u)
                        ? PYTHON_SPAN_UNLEARNED
                        : PYTHON_SPAN_NONE;
        if (!python_span_object(spans, walk, walk->node, 24, spans->hamt_type))
                return PYTHON_SPAN_UNREADABLE;
        walk->node = python_span_word(walk, spans->head);
        return python_span_word(walk, spans->head + 16u) ? PYTHON_SPAN_READ : PYTHON_SPAN_NONE;
}

/* Finds the span in the Context at walk->value. Return: as above; READ = walk->found. */
static inline uint32_t python_span_find(const struct python_spans *spans, struct python_span_walk *walk) {
        uint64_t keys;

        if (!python_span_object(spans, walk, walk->value, 32, spans->mapping_type) ||
            python_span_word(walk, spans->head + 24u))
                return PYTHON_SPAN_UNREADABLE;
        if (!python_span_word(walk, spans->head))
                return PYTHON_SPAN_NONE;
        keys = python_span_word(walk, spans->head + 16u);
        if (!python_keys_open(spans, walk, keys))
                return PYTHON_SPAN_UNREADABLE;
        if (walk->n_entries > PYTHON_MAX_ENTRIES) {
                walk->why = SDK_RESULT_FAR;
                return PYTHON_SPAN_UNREADABLE;
        }
        for (uint32_t i = 0; i < PYTHON_MAX_ENTRIES; i++)
                if (!python_keys_step(spans, walk))
                        break;
        if (walk->is_bad)
                return PYTHON_SPAN_UNREADABLE;
        return walk->found ? PYTHON_SPAN_READ : PYTHON_SPAN_NONE;
}

/*
 * The span that the thread with the state @thread works for. Return: enum python_span_end; READ = *@span,
 * which is of no use otherwise.
 */
static inline uint32_t python_span_do_read(const struct python_spans *spans, struct python_span_walk *walk,
                                           uint64_t thread, struct abi_span *span) {
        uint64_t context;
        uint32_t end;

        walk->n_reads = 0;
        walk->value = 0;
        walk->shift = 0;
        walk->pair = 0;
        walk->is_bad = 0;
        walk->name = 0;
        walk->parent = 0;
        walk->facts.place = PYTHON_PLACE_UNKNOWN;
        walk->facts.parent = 0;
        walk->facts.name_size = 0;
        end = python_span_root(spans, walk, thread);
        if (end != PYTHON_SPAN_READ)
                return end;
        for (uint32_t i = 0; i < PYTHON_MAX_HAMT; i++)
                if (!python_hamt_step(spans, walk))
                        break;
        if (walk->is_bad)
                return PYTHON_SPAN_UNREADABLE;
        if (!walk->value)
                return PYTHON_SPAN_NONE;
        end = python_span_find(spans, walk);
        if (end != PYTHON_SPAN_READ)
                return end;
        context = python_span_context(spans, walk, walk->found);
        end = context ? python_span_ids(spans, walk, context, span) : PYTHON_SPAN_UNREADABLE;
        if (end == PYTHON_SPAN_READ) {
                python_span_read_parent(spans, walk);
                python_span_read_name(walk);
        }
        return end;
}

/* The result of a look that ended so. */
static inline uint32_t python_span_result(const struct python_span_walk *walk, uint32_t end) {
        switch (end) {
        case PYTHON_SPAN_READ:
                return SDK_RESULT_READ;
        case PYTHON_SPAN_NONE:
                return walk->why == SDK_RESULT_REMOTE ? SDK_RESULT_REMOTE : SDK_RESULT_NONE;
        case PYTHON_SPAN_UNLEARNED:
                return SDK_RESULT_UNLEARNED;
        default:
                return walk->why == SDK_RESULT_REMOTE ? SDK_RESULT_TYPE : (uint32_t)walk->why;
        }
}
