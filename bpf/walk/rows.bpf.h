/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Rows
 *
 * pc → rule: which mapping holds the pc, and which row of its file's table is in
 * force there (unwind_abi.h has the layout). Most samples ask for addresses that
 * were asked for before, so the answers are kept in a small cache per CPU, and a
 * frame costs one look into it.
 *
 * Searches have no branch that depends on what they compare: the verifier follows
 * one path through each, whatever the table holds, and so does the processor.
 *
 * Includes nothing, and reaches maps by functions that the includer has:
 *
 *     const uint8_t *rows_block(uint32_t table, uint32_t block)     4 KiB, or NULL
 *     const struct unwind_node *rows_leaf(uint64_t space, uint32_t leaf)
 *     uint64_t rows_rule(uint32_t table, uint64_t offset)           rows_read_table(), out of line
 */

enum {
        ROWS_CACHE_SHIFT = 10,
        ROWS_CACHE_SIZE = 1 << ROWS_CACHE_SHIFT,
        ROWS_WAYS = 4,                  /* entries of pcs that meet: a line of the processor's cache */
        ROWS_RUN = 4,                   /* frames in a run: a line of the processor's cache */
        ROWS_RUN_BEGINS = 8,            /* pcs of which one begins a run wherever it stands */
        /* runs, with the entries of 16 bytes each 32 KiB, the largest value a per-CPU map may have */
        ROWS_RUN_SHIFT = 8,
        ROWS_RUN_ENTRIES = ROWS_RUN << ROWS_RUN_SHIFT,
        ROWS_RUNS_KEPT = 64 / ROWS_RUN_SHIFT,           /* in struct rows_runs */
        ROWS_LINE = 64,                                 /* bytes of a processor's cache line */
};

/* No rule: a kind that does not exist. */
#define ROWS_NO_TABLE (~0ull)

/*
 * A pc and the generation of its process in one word. Two pcs of 47 bits meet in
 * one tag only if their generations' products agree in the 17 bits above and
 * differ below by just what the pcs do: not in the life of a daemon.
 */
#define ROWS_TAG_FACTOR 0x9e3779b97f4a7c15ull

/*
 * A pc may be in any of the four entries of its line, which is one of the processor's cache. The one that was
 * used last is in front, and the last goes for a new one.
 */
struct rows_cache_entry {
        uint64_t tag;
        uint64_t rule;
};

/*
 * A frame's caller is mostly the one that it was before. So rules are kept in runs of up to four frames,
 * found by the pc of the first: one line of the processor's cache, where four pcs by themselves are in four.
 *
 *     stack    a  b  c  d  e  f  g       runs   [a b c d] [e] [f g …]       f: a pc that begins a run
 *     later       x  c  d  e  f  g              [x c d e] [f g …]
 *
 * Some pcs begin one wherever they stand, so stacks that differ in their leaves share the runs of their
 * callers. An entry says the same as one of a single pc, and is compared as one: another caller is no hit.
 */
struct rows_cache {
        struct rows_cache_entry runs[ROWS_RUN_ENTRIES];
        struct rows_cache_entry entries[ROWS_CACHE_SIZE];
};

/* The runs of a walk. */
struct rows_runs {
        /* the last ROWS_RUNS_KEPT, ROWS_RUN_SHIFT bits each, the latest in the lowest */
        uint64_t last;
        uint32_t place;                 /* place of the last frame among the entries of all runs */
        uint32_t reserved;
};

/* Mapping of the last frame: the next frame is mostly in the same one. */
struct rows_place {
        uint64_t start, size;           /* addresses in the target; size 0 = none */
        uint64_t offset;                /* bytes from the table's first page to `start` */
        uint32_t table;
        uint32_t reserved;
};

/* Halves once: `low` moves up if the element in the middle is not above the searched one. */
#define ROWS_HALVE(_low, _left, _difference) \
        do { \
                _low += (_left >> 1) & (uint32_t) ~((int64_t)(_difference) >> 63); \
                _left -= _left >> 1; \
        } while (0)

static inline const struct unwind_mapping *rows_mapping_at(const struct unwind_node *node, uint32_t index) {
        /* Masked twice, as in memory.bpf.h. */
        index &= UNWIND_MAX_MAPPINGS - 1;
        barrier_var(index);
        index &= UNWIND_MAX_MAPPINGS - 1;
        return &node->mappings[index];
}

/* Last mapping that does not begin above @pc: steps of 32, 16, 8, 4, 2, 1. */
static inline const struct unwind_mapping *rows_search_node(const struct unwind_node *node, uint64_t pc) {
        uint32_t low = 0, left = node->n;

        ROWS_HALVE(low, left, pc - rows_mapping_at(node, low + (left >> 1))->start);
        ROWS_HALVE(low, left, pc - rows_mapping_at(node, low + (left >> 1))->start);
        ROWS_HALVE(low, left, pc - rows_mapping_at(node, low + (left >> 1))->start);
        ROWS_HALVE(low, left, pc - rows_mapping_at(node, low + (left >> 1))->start);
        ROWS_HALVE(low, left, pc - rows_mapping_at(node, low + (left >> 1))->start);
        return rows_mapping_at(node, low);
}

/* Return: 0, ABI_STACK_NO_MAPPING, ABI_STACK_STALE (root or leaf are of another set than @generation). */
APART uint32_t rows_find_place(uint64_t space, uint64_t generation, uint64_t pc, struct rows_place *place) {
        const struct unwind_node *root = rows_leaf(space, 0);
        const struct unwind_mapping *mapping;
        uint64_t size;

        if (!place)
                return ABI_STACK_INTERNAL;
        if (!root || root->generation != generation)
                return ABI_STACK_STALE;
        mapping = rows_search_node(root, pc);
        if (!root->is_leaf) {
                const struct unwind_node *leaf = rows_leaf(space, mapping->table);

                if (!leaf || leaf->generation != generation)
                        return ABI_STACK_STALE;
                mapping = rows_search_node(leaf, pc);
        }
        size = (uint64_t)mapping->n_pages << UNWIND_PAGE_SHIFT;
        if (pc - mapping->start >= size)
                return ABI_STACK_NO_MAPPING;
        place->start = mapping->start;
        place->size = size;
        place->offset = mapping->offset;
        place->table = mapping->table;
        return 0;
}

static inline uint64_t rows_word_at(const uint8_t *block, uint32_t at) {
        at &= UNWIND_BLOCK_SIZE - 8;
        barrier_var(at);
        at &= UNWIND_BLOCK_SIZE - 8;
        return *(const uint64_t *)(block + at);
}

static inline uint32_t rows_key_at(const uint8_t *block, uint32_t at) {
        barrier_var(at);
        at &= UNWIND_BLOCK_SIZE - 2;
        return *(const uint16_t *)(block + at);
}

static inline uint32_t rows_index_at(const uint8_t *block, uint32_t at) {
        barrier_var(at);
        at &= UNWIND_BLOCK_SIZE - 1;
        return block[at];
}

#define ROWS_HALVE_KEYS(_block, _record, _key, _low, _left) \
        ROWS_HALVE(_low, _left, \
                   (int64_t)(_key) - (int64_t)rows_key_at(_block, (_record) + ((_low + (_left >> 1)) << 1)))

/* Row that is in force at @key (offset in the page), in a record of @n rows. */
static inline uint32_t rows_search_record(const uint8_t *block, uint32_t record, uint32_t n, uint32_t key) {
        uint32_t low = 0, left = n;

        /* UNWIND_SEARCH_STEPS of them; most pages have fewer than 256 rows. */
        if (left > 255) {
                ROWS_HALVE_KEYS(block, record, key, low, left);
                ROWS_HALVE_KEYS(block, record, key, low, left);
                ROWS_HALVE_KEYS(block, record, key, low, left);
        }
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        ROWS_HALVE_KEYS(block, record, key, low, left);
        return low;
}

/*
 * Begins to fetch all lines that will be needed at once, where a search would wait for one after the other.
 */
static inline void rows_touch(const uint8_t *block, uint32_t at) {
        barrier_var(at);
        at &= UNWIND_BLOCK_SIZE - 1;
        (void)*(const volatile uint8_t *)(block + at);
}

static inline void rows_touch_record(const uint8_t *block, uint32_t record) {
        rows_touch(block, record);
        rows_touch(block, record + ROWS_LINE);
        rows_touch(block, record + 2 * ROWS_LINE);
        rows_touch(block, record + 3 * ROWS_LINE);
        rows_touch(block, record + 4 * ROWS_LINE);
        rows_touch(block, record + 5 * ROWS_LINE);
        /* the first rules of a block are used most */
        rows_touch(block, UNWIND_BLOCK_SIZE - ROWS_LINE);
        rows_touch(block, UNWIND_BLOCK_SIZE - 2 * ROWS_LINE);
        rows_touch(block, UNWIND_BLOCK_SIZE - 3 * ROWS_LINE);
}

/*
 * A page without any row in a file that has some is code that a runtime put there: Go's part of a program
 * with C in it, V8's builtins. It keeps frame pointers.
 * Return: the rule at @offset of @table; 0 = none, but its page has some; UNWIND_RULE_FP = its page has
 * none; ROWS_NO_TABLE = the table is not there.
 */
static inline uint64_t rows_read_table(uint32_t table, uint64_t offset) {
        uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_SHIFT), record, n, row;
        const uint8_t *block = rows_block(table, page >> UNWIND_DIRECTORY_SHIFT);
        uint64_t word;

        if (!block)
                return ROWS_NO_TABLE;
        word = rows_word_at(block, page << 3);
        n = (uint32_t)(word >> 48);
        if (!n)
                return UNWIND_RULE_FP;
        block = rows_block(table, (uint32_t)word);
        if (!block)
                return ROWS_NO_TABLE;
        record = (uint32_t)(word >> 32) & 0xffff;
        rows_touch_record(block, record);
        row = rows_search_record(block, record, n, (uint32_t)offset & (UNWIND_PAGE_SIZE - 1));
        return rows_word_at(block,
                            UNWIND_BLOCK_SIZE - 8 - (rows_index_at(block, record + (n << 1) + row) << 3));
}

static inline uint32_t rows_hash(uint64_t pc) {
        return (uint32_t)pc * 0x9e3779b1u;
}

/* First entry of the line of @pc. */
static inline uint32_t rows_cache_index(uint64_t pc) {
        return rows_hash(pc) >> (32 - ROWS_CACHE_SHIFT) & ~(ROWS_WAYS - 1u);
}

/* Place of a frame in the runs: the next in its run, or the first of another one. */
static inline struct rows_cache_entry *rows_run_at(struct rows_cache *cache, uint64_t pc,
                                                   struct rows_runs *runs) {
        uint32_t hash = rows_hash(pc), place = runs->place + 1;

        if (!(place & (ROWS_RUN - 1)) || !(hash >> 8 & (ROWS_RUN_BEGINS - 1))) {
                place = (hash >> (32 - ROWS_RUN_SHIFT)) * ROWS_RUN;
                runs->last = runs->last << ROWS_RUN_SHIFT | hash >> (32 - ROWS_RUN_SHIFT);
        }
        runs->place = place;
        place &= ROWS_RUN_ENTRIES - 1;
        barrier_var(place);
        place &= ROWS_RUN_ENTRIES - 1;
        return &cache->runs[place];
}

/*
 * The line of @pc, with the entry of @tag in front. If it has none, another is there, which is the second
 * entry as well: the caller may write over it.
 */
static inline struct rows_cache_entry *rows_cache_find(struct rows_cache *cache, uint64_t pc, uint64_t tag) {
        uint32_t index = rows_cache_index(pc) & (ROWS_CACHE_SIZE - ROWS_WAYS);
        struct rows_cache_entry *line, entry, before;

        /* Masked twice, as in memory.bpf.h. */
        barrier_var(index);
        index &= ROWS_CACHE_SIZE - ROWS_WAYS;
        line = &cache->entries[index];
        before = line[0];
        if (before.tag == tag)
                return line;
        for (int i = 1; i < ROWS_WAYS; i++) {
                entry = line[i];
                line[i] = before;
                if (entry.tag == tag) {
                        line[0] = entry;
                        return line;
                }
                before = entry;
        }
        return line;
}
