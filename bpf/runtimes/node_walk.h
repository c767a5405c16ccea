/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Way to the Record of Node
 *
 * A thread of Node works for many requests in turns, and V8 itself keeps which one is current. So the
 * variable otel_thread_ctx_nodejs_v1 is no pointer to a record: it says where to begin in V8's memory.
 *
 *     variable ─ slot of the isolate ─▶ Map of JavaScript ─▶ its hash table ─▶ entry {key, value, next}
 *          ├─ handle ──────────────────▶ the writer's key ─────────────────────────▲     │
 *          └─ hash of the key, offset of the record's address in an object              ▼
 *                                                          record ◀──── an object of the writer
 *
 * Writers tell where an object has its record in one of two ways. @datadog/pprof from 5.20 on says it in the
 * variable. From 5.17 to 5.19 the word there is 0, and keys of the process context have it (struct
 * node_layout); before 5.19 the object leads to a wrapper, and that to the record. What they tell is right up
 * to V8 12. Newer ones put a word of the embedder's there, which is 0 in these objects, and the record behind
 * it.
 *
 * Nothing is taken on trust. Pointers to objects have 01 as their lowest bits and small integers have 32 zero
 * bits below them, in a build without compressed pointers; the table's length follows from its number of
 * buckets; the key is compared whole. A collector that moves an object writes where it went over its first
 * word: that is seen, too. What does not fit is an end, never a record.
 *
 * Both halves walk by these lines: node_read() is theirs. It includes nothing.
 */

#define NODE_PART static inline __attribute__((always_inline))

enum node_end {
        NODE_FOUND,
        NODE_NO_SPAN,                   /* the writer is not at work in this thread, or nothing is current */
        NODE_MOVING,                    /* an object on the way is being moved */
        NODE_UNREADABLE,                /* a fault, or another layout */
};

enum {
        NODE_TAG = 1,                   /* tag of a pointer to an object */
        NODE_MAX_BUCKETS = 1 << 16,
        NODE_MAX_CHAIN = 16,            /* entries of one bucket; two on average at most */
        NODE_ENTRIES_PER_BUCKET = 2,
        NODE_ENTRY_WORDS = 3,
        NODE_BUCKET_WORDS = 1 + NODE_ENTRIES_PER_BUCKET * NODE_ENTRY_WORDS,
        NODE_TABLE_COUNTS = 3,          /* words of the array before its buckets */
        NODE_TABLE_AT = 24,
        NODE_HEADER_SIZE = 16,          /* class and length of the array */
        NODE_RECORD_AT = 24,            /* up to V8 12: behind the object's three words … */
        NODE_RECORD_AT_WRAPPED = 32,    /* … and a word of the embedder's, since V8 13 */
};

struct node_variable {
        uint64_t slot;                  /* address of the isolate's word; 0 = the writer is not at work */
        uint64_t handle;                /* address of a word that has the key */
        uint32_t hash;
        uint32_t record_at;             /* offset in the object; 0 in writers that do not say it */
        uint64_t undefined;             /* V8's word for nothing */
};

struct node_table {
        uint64_t first;                 /* word of the first bucket */
        uint32_t n_buckets, n_entries;
};

/* Reads @size bytes of the target at @from. @memory: whose. Return: whether it could. */
NODE_PART bool node_read(const void *memory, void *to, uint32_t size, uint64_t from);

NODE_PART bool node_is_object(uint64_t word) {
        return (word & 3) == NODE_TAG;
}

/* Return: whether @word is a small integer, not a negative one. */
NODE_PART bool node_is_count(uint64_t word) {
        return !(word & 0x80000000ffffffffULL);
}

/* The layout to walk by, from what the process context tells. Return: whether there is one. */
NODE_PART bool node_choose_layout(const struct node_layout *told, const struct node_variable *variable,
                                  struct node_layout *layout) {
        bool is_said = variable->record_at == NODE_RECORD_AT || variable->record_at == NODE_RECORD_AT_WRAPPED;

        *layout = *told;
        if (!told->is_told) {
                layout->table_at = NODE_TABLE_AT;
                layout->header_size = NODE_HEADER_SIZE;
        }
        if (is_said) {
                layout->object_at = (uint8_t)variable->record_at;
                layout->is_wrapped = 0;
                layout->is_told = 0;
        }
        return is_said || (!variable->record_at && told->is_told);
}

/* The table of the map that is current, or why there is none. */
NODE_PART enum node_end node_find_table(const void *memory, const struct node_variable *variable,
                                        const struct node_layout *layout, struct node_table *table) {
        uint64_t current = 0, class = 0, at = 0, head[2] = {}, counts[3] = {};
        uint32_t n;

        if (!node_read(memory, &current, sizeof(current), variable->slot))
                return NODE_UNREADABLE;
        if (current == variable->undefined)
                return NODE_NO_SPAN;
        if (!node_is_object(current) || !node_read(memory, &class, sizeof(class), current - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(class))
                return NODE_MOVING;
        if (!node_read(memory, &at, sizeof(at), current - NODE_TAG + layout->table_at) ||
            !node_is_object(at) || !node_read(memory, head, sizeof(head), at - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(head[0]))
                return NODE_MOVING;
        /* head: class, length of the array; counts: entries that are there, entries that were, buckets */
        at = at - NODE_TAG + layout->header_size;
        if (!node_read(memory, counts, sizeof(counts), at) || !node_is_count(head[1]) ||
            !node_is_count(counts[0]) || !node_is_count(counts[1]) || !node_is_count(counts[2]))
                return NODE_UNREADABLE;
        n = (uint32_t)(counts[2] >> 32);
        if (!n || n > NODE_MAX_BUCKETS || n & (n - 1) ||
            head[1] >> 32 != NODE_TABLE_COUNTS + (uint64_t)NODE_BUCKET_WORDS * n ||
            (counts[0] >> 32) + (counts[1] >> 32) > (uint64_t)NODE_ENTRIES_PER_BUCKET * n)
                return NODE_UNREADABLE;
        table->first = at + sizeof(counts);
        table->n_buckets = n;
        table->n_entries = (uint32_t)((counts[0] >> 32) + (counts[1] >> 32));
        return NODE_FOUND;
}

/* The value of the writer's key. */
NODE_PART enum node_end node_find_value(const void *memory, const struct node_variable *variable,
                                        const struct node_table *table, uint64_t *valuep) {
        uint64_t key = 0, index = 0, entry[NODE_ENTRY_WORDS];

        if (!node_read(memory, &key, sizeof(key), variable->handle) || !node_is_object(key) ||
            !node_read(memory, &index, sizeof(index),
                       table->first + 8ULL * (variable->hash & (table->n_buckets - 1))))
                return NODE_UNREADABLE;
        for (int i = 0; i < NODE_MAX_CHAIN; i++) {
                if (index == 0xffffffff00000000ULL)     /* −1: the last one */
                        return NODE_NO_SPAN;
                if (!node_is_count(index) || index >> 32 >= table->n_entries ||
                    !node_read(memory, entry, sizeof(entry),
                               table->first + 8ULL * table->n_buckets + (index >> 32) * sizeof(entry)))
                        return NODE_UNREADABLE;
                if (entry[0] == key) {
                        *valuep = entry[1];
                        return NODE_FOUND;
                }
                index = entry[2];
        }
        return NODE_UNREADABLE;
}

/* The address of the record that @object, one of the writer's, has in it. */
NODE_PART enum node_end node_open(const void *memory, const struct node_variable *variable,
                                  const struct node_layout *layout, uint64_t object, uint64_t *recordp) {
        uint64_t first = 0;

        if (object == variable->undefined)
                return NODE_NO_SPAN;
        if (!node_is_object(object) || !node_read(memory, &first, sizeof(first), object - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(first))
                return NODE_MOVING;
        object = object - NODE_TAG + layout->object_at;
        if (!node_read(memory, recordp, sizeof(*recordp), object))
                return NODE_UNREADABLE;
        if (!*recordp && layout->is_told && !node_read(memory, recordp, sizeof(*recordp), object + 8))
                return NODE_UNREADABLE;
        if (layout->is_wrapped && *recordp & 1)
                return NODE_UNREADABLE;
        if (layout->is_wrapped && *recordp &&
            !node_read(memory, recordp, sizeof(*recordp), *recordp + layout->wrap_at))
                return NODE_UNREADABLE;
        if (!*recordp)
                return NODE_NO_SPAN;            /* the writer ends */
        return *recordp & 1 ? NODE_UNREADABLE : NODE_FOUND;
}

/* From the variable at @address to the record of what is current in its thread. @told: by the process. */
NODE_PART enum node_end node_find_record(const void *memory, const struct node_layout *told, uint64_t address,
                                         uint64_t *recordp) {
        struct node_variable variable = {};
        struct node_layout layout;
        struct node_table table = {};
        uint64_t object = 0;
        enum node_end end;

        if (!node_read(memory, &variable, sizeof(variable), address))
                return NODE_UNREADABLE;
        if (!variable.slot)
                return NODE_NO_SPAN;
        if (!node_choose_layout(told, &variable, &layout))
                return NODE_UNREADABLE;
        end = node_find_table(memory, &variable, &layout, &table);
        if (end == NODE_FOUND)
                end = node_find_value(memory, &variable, &table, &object);
        return end == NODE_FOUND ? node_open(memory, &variable, &layout, object, recordp) : end;
}
