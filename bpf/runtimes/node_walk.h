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

/* The table of the map that is current, or why there is none. */
NODE_PART enum node_end node_find_table(const void *memory, const struct node_variable *variable,
                                        struct node_table *table) {
        uint64_t current = 0, map[4] = {}, head[5] = {};
        uint32_t n;

        if (!node_read(memory, &current, sizeof(current), variable->slot))
                return NODE_UNREADABLE;
        if (current == variable->undefined)
                return NODE_NO_SPAN;
        if (!node_is_object(current) || !node_read(memory, map, sizeof(map), current - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(map[0]))
                return NODE_MOVING;
        if (!node_is_object(map[3]) || !node_read(memory, head, sizeof(head), map[3] - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(head[0]))
                return NODE_MOVING;
        /* head: class, length of the array, entries that are there, entries that were, buckets */
        if (!node_is_count(head[1]) || !node_is_count(head[2]) || !node_is_count(head[3]) ||
            !node_is_count(head[4]))
                return NODE_UNREADABLE;
        n = (uint32_t)(head[4] >> 32);
        if (!n || n > NODE_MAX_BUCKETS || n & (n - 1) ||
            head[1] >> 32 != NODE_TABLE_COUNTS + (uint64_t)NODE_BUCKET_WORDS * n ||
            (head[2] >> 32) + (head[3] >> 32) > (uint64_t)NODE_ENTRIES_PER_BUCKET * n)
                return NODE_UNREADABLE;
        table->first = map[3] - NODE_TAG + sizeof(head);
        table->n_buckets = n;
        table->n_entries = (uint32_t)((head[2] >> 32) + (head[3] >> 32));
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
NODE_PART enum node_end node_open(const void *memory, const struct node_variable *variable, uint64_t object,
                                  uint64_t *recordp) {
        uint64_t first = 0;

        if (object == variable->undefined)
                return NODE_NO_SPAN;
        if (!node_is_object(object) || !node_read(memory, &first, sizeof(first), object - NODE_TAG))
                return NODE_UNREADABLE;
        if (!node_is_object(first))
                return NODE_MOVING;
        if (!node_read(memory, recordp, sizeof(*recordp), object - NODE_TAG + variable->record_at))
                return NODE_UNREADABLE;
        if (!*recordp)
                return NODE_NO_SPAN;            /* the writer ends */
        return *recordp & 1 ? NODE_UNREADABLE : NODE_FOUND;
}

/* From the variable at @address to the record of what is current in its thread. */
NODE_PART enum node_end node_find_record(const void *memory, uint64_t address, uint64_t *recordp) {
        struct node_variable variable = {};
        struct node_table table = {};
        uint64_t object = 0;
        enum node_end end;

        if (!node_read(memory, &variable, sizeof(variable), address))
                return NODE_UNREADABLE;
        if (!variable.slot)
                return NODE_NO_SPAN;
        if (variable.record_at != NODE_RECORD_AT && variable.record_at != NODE_RECORD_AT_WRAPPED)
                return NODE_UNREADABLE;
        end = node_find_table(memory, &variable, &table);
        if (end == NODE_FOUND)
                end = node_find_value(memory, &variable, &table, &object);
        return end == NODE_FOUND ? node_open(memory, &variable, object, recordp) : end;
}
