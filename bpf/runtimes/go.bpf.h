/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Goroutines: Labels
 *
 * Which goroutine the interrupted thread runs, and the labels that runtime/pprof gave it.
 *
 *     thread pointer + tls_offset ─▶ g ─▶ m ─▶ curg ─▶ goid
 *                                    ▲           ├──▶ m      must be the same m
 *                     g0, gsignal or curg        └──▶ labels
 *
 * On arm64 that g is in x28 instead: Go reserves it, in assembly too, and C keeps it across calls. C that
 * uses it for something else has no goroutine then: what it holds does not lead to an m that leads back.
 *
 * The thread-local g is the scheduler's (g0) while the thread runs the runtime or C, the signal handler's
 * (gsignal) in one, and else the goroutine's own. All three lead to the m, and that one knows its goroutine.
 * r14 is not asked: it holds g only where Go's compiler made the code. Assembly of the same program (memory,
 * cryptography) uses it for anything.
 *
 * Labels are read anew at each sample. An address that was seen before may hold other labels by now, since
 * the collector uses memory again, and no cheap sign tells. What is read cannot be torn: Go makes a new set
 * for each change and then stores one pointer, and the thread that could is interrupted.
 *
 *     Go 1.18 … 1.23    labels ─▶ *map[string]string: count, buckets of eight, and old buckets while it grows
 *     Go 1.24 …         labels ─▶ slice of { key, value }, each a string: address, size
 *
 * Threads of other programs may have labels, too: custom_labels_current_set of Polar Signals, version 1. Its
 * set is a slice with the size of each string before its address. A key without an address is no label. It is
 * changed in place, in an order that is right at each instruction; of two with one key the first counts.
 *
 * A string has GO_MAX_STRING bytes at most, all together ABI_MAX_ATTRIBUTES_SIZE. Maps are read up to
 * GO_MAX_BUCKETS buckets, slices up to GO_MAX_CHUNKS * GO_CHUNK labels.
 *
 * Includes nothing: the same lines run on the host under test (tests/harness/c/bpf-shim.h).
 */

enum {
        GO_CHUNK = 16,                  /* labels of a slice that are read at once */
        GO_MAX_CHUNKS = 8,
        GO_LABEL_SIZE = 32,             /* two strings */
        GO_FEW_LABELS = 8,              /* labels that go into a sample in any order */
        /* bit n: labels that are ids have keys of n bytes: `span_id`, `trace_id`, `local root span id` */
        GO_ID_SIZES = 1 << 7 | 1 << 8 | 1 << 18,
        GO_MAX_BUCKETS = 12,            /* buckets of a map, overflow buckets included */
        GO_BUCKET_ENTRIES = 8,
        GO_FIRST_HASH = 5,              /* smaller ones: the entry is empty or has moved (minTopHash) */
        GO_MAX_SHIFT = 8,               /* log2 of the buckets; more are no labels */
        GO_MAX_COUNT = 1 << 16,         /* labels that a set may claim to have */
        GO_G_SIZE = 512,                /* bytes of a g that are read at the most: less than this */
        GO_BYTES_MASK = 1023,
};

struct go_string {
        uint64_t address, size;
};

struct go_bucket {
        uint8_t hashes[GO_BUCKET_ENTRIES];
        struct go_string keys[GO_BUCKET_ENTRIES];
        struct go_string values[GO_BUCKET_ENTRIES];
        uint64_t overflow;
};

/* runtime.hmap, up to Go 1.23. */
struct go_map {
        uint64_t count;
        uint8_t flags, shift;           /* log2 of the number of buckets */
        uint16_t n_overflow;
        uint32_t seed;
        uint64_t buckets, old_buckets;
};

/* Where in a map the next bucket is. */
struct go_walk {
        uint64_t begin, next;
        uint64_t n, index;              /* buckets from `begin` on */
        uint64_t is_old;
};

enum go_end {
        GO_END_READ = 0,                /* the goroutine is known, its labels are as far as they fit */
        GO_END_NONE = 1,                /* the thread runs no goroutine */
        GO_END_UNREADABLE = 2,
};

/* A slice is in order of its keys, and too long a one must not lose its ids for that. */
enum go_pass { GO_PASS_ALL = 0, GO_PASS_IDS = 1, GO_PASS_OTHERS = 2 };

/* Reading of a goroutine. */
struct go_state {
        uint64_t size;                  /* size of `bytes`, 0 or at least GO_HEADER_SIZE */
        uint64_t n_left_out;            /* labels */
        uint64_t n_put;
        uint64_t n_absent;              /* no labels, and nothing is lost with them */
        uint64_t n;                     /* labels in `slice` */
        uint64_t pass;                  /* enum go_pass: which of them are taken */
        uint64_t is_custom;             /* the slice is of custom_labels_current_set */
        uint64_t next, left;            /* address of the next ones, and how many */
        uint64_t g[GO_G_SIZE / 8];      /* from its m on */
        struct go_map map;
        struct go_walk walk;
        union {
                struct go_bucket bucket;
                struct go_string slice[2 * GO_CHUNK];
        };
        /* behind what may be used: room for what the verifier fears */
        uint8_t bytes[GO_BYTES_MASK + 1 + 2 + 2 * (GO_MAX_STRING + 1)];
};

static inline bool go_word(uint64_t address, uint64_t *valuep) {
        return !bpf_probe_read_user(valuep, sizeof(*valuep), (const void *)address);
}

/* Puts a label behind the others. */
static inline void go_do_put(struct go_state *state, const struct go_string *key,
                             const struct go_string *value) {
        uint64_t at = state->size, key_size = key->size, value_size = value->size;
        uint8_t *to;

        if (!key_size || key_size > GO_MAX_STRING || value_size > GO_MAX_STRING ||
            at + 2 + key_size + value_size > ABI_MAX_ATTRIBUTES_SIZE) {
                state->n_left_out++;
                return;
        }
        at &= GO_BYTES_MASK;
        barrier_var(at);
        at &= GO_BYTES_MASK;
        key_size &= GO_MAX_STRING;
        barrier_var(key_size);
        key_size &= GO_MAX_STRING;
        value_size &= GO_MAX_STRING;
        barrier_var(value_size);
        value_size &= GO_MAX_STRING;
        to = state->bytes + at;
        to[0] = (uint8_t)key_size;
        to[1] = (uint8_t)value_size;
        if (bpf_probe_read_user(to + 2, (uint32_t)key_size, (const void *)key->address) ||
            (value_size &&
             bpf_probe_read_user(to + 2 + key_size, (uint32_t)value_size, (const void *)value->address))) {
                state->n_left_out++;
                return;
        }
        state->size = at + 2 + key_size + value_size;
        state->n_put++;
}

/* The includer defines these by go_do_…; the verifier goes through each once. */
int go_put_slice(struct go_state *state, uint32_t index);
int go_chunk(struct go_state *state);
int go_put_bucket(struct go_state *state, uint32_t index);
int go_step(struct go_state *state);

/* Return: whether there is a next one. */
static inline bool go_do_put_slice(struct go_state *state, uint32_t index) {
        bool is_last = index + 1 >= state->n, is_id;
        struct go_string key, value;

        index &= GO_CHUNK - 1;
        barrier_var(index);
        index &= GO_CHUNK - 1;
        key = state->slice[2 * index];
        value = state->slice[2 * index + 1];
        if (state->is_custom) {
                key = (struct go_string){ key.size, key.address };
                value = (struct go_string){ value.size, value.address };
        }
        is_id = key.size < 32 && 1u << (key.size & 31) & GO_ID_SIZES;
        if (state->pass != GO_PASS_ALL && (state->pass == GO_PASS_IDS) != is_id)
                return !is_last;
        if (state->is_custom && !key.address)
                state->n_absent++;
        else
                go_do_put(state, &key, &value);
        return !is_last;
}

static inline void go_do_put_bucket(struct go_state *state, uint32_t index) {
        index &= GO_BUCKET_ENTRIES - 1;
        barrier_var(index);
        index &= GO_BUCKET_ENTRIES - 1;
        if (state->bucket.hashes[index] >= GO_FIRST_HASH)
                go_do_put(state, &state->bucket.keys[index], &state->bucket.values[index]);
}

/* Takes the labels of one bucket. Return: whether it could be read. */
static inline bool go_do_bucket(struct go_state *state, uint64_t address) {
        if (bpf_probe_read_user(&state->bucket, sizeof(state->bucket), (const void *)address))
                return false;
        for (uint32_t i = 0; i < GO_BUCKET_ENTRIES; i++)
                go_put_bucket(state, i);
        return true;
}

/*
 * Takes one bucket, and says which is the next: the next of all buckets, then, while the map grows, of the
 * old ones. Entries of those that have moved are marked there. Old buckets are half as many, or as many if
 * the map only gets rid of overflow. Return: whether there is a next one.
 */
static inline bool go_do_step(struct go_state *state) {
        struct go_map *map = &state->map;
        struct go_walk *walk = &state->walk;

        if (!walk->next || state->n_put + state->n_left_out >= map->count || !go_do_bucket(state, walk->next))
                return false;
        walk->next = state->bucket.overflow;
        if (walk->next)
                return true;
        if (++walk->index >= walk->n) {
                if (walk->is_old || !map->old_buckets)
                        return false;
                walk->is_old = 1;
                walk->begin = map->old_buckets;
                walk->index = 0;
        }
        walk->next = walk->begin + walk->index * sizeof(struct go_bucket);
        return true;
}

/* @labels: address of the pointer to the map. */
static inline bool go_from_map(struct go_state *state, uint64_t labels) {
        struct go_map *map = &state->map;
        uint64_t address;

        if (!go_word(labels, &address))
                return false;
        if (!address)
                return true;
        if (bpf_probe_read_user(map, sizeof(*map), (const void *)address) || map->count > GO_MAX_COUNT ||
            map->shift > GO_MAX_SHIFT || (map->count && !map->buckets))
                return false;
        state->walk = (struct go_walk){ .begin = map->buckets, .next = map->buckets,
                                        .n = 1ull << (map->shift & 15) };
        for (uint32_t i = 0; i < GO_MAX_BUCKETS; i++)
                if (!go_step(state))
                        break;
        if (state->n_put + state->n_left_out < map->count)
                state->n_left_out = map->count - state->n_put;
        return true;
}

/* Takes the next GO_CHUNK labels of a slice, if state->pass is for them. Return: whether there are more. */
static inline bool go_do_chunk(struct go_state *state) {
        uint64_t n = state->left < GO_CHUNK ? state->left : GO_CHUNK;

        state->n = n;
        state->left -= n;
        barrier_var(n);
        n &= 2 * GO_CHUNK - 1;
        if (!n || n > GO_CHUNK ||
            bpf_probe_read_user(state->slice, (uint32_t)(n * GO_LABEL_SIZE), (const void *)state->next))
                return false;
        state->next += n * GO_LABEL_SIZE;
        for (uint32_t i = 0; i < GO_CHUNK; i++)
                if (!go_put_slice(state, i))
                        break;
        return state->left;
}

static inline void go_chunks(struct go_state *state, uint32_t pass, uint64_t address, uint64_t n) {
        state->pass = pass;
        state->next = address;
        state->left = n;
        for (uint32_t i = 0; i < GO_MAX_CHUNKS; i++)
                if (!go_chunk(state))
                        break;
}

/* @labels: address of the slice: address, number, room. */
static inline bool go_from_slice(struct go_state *state, uint64_t labels) {
        uint64_t slice[3], n;

        if (bpf_probe_read_user(slice, sizeof(slice), (const void *)labels) || slice[1] > slice[2] ||
            slice[2] > GO_MAX_COUNT)
                return false;
        n = slice[1];
        state->n_absent = 0;
        if (n > GO_FEW_LABELS) {
                go_chunks(state, GO_PASS_IDS, slice[0], n);
                go_chunks(state, GO_PASS_OTHERS, slice[0], n);
        } else if (n) {
                go_chunks(state, GO_PASS_ALL, slice[0], n);
        }
        state->n_left_out = n - state->n_put - state->n_absent;
        return true;
}

/*
 * Reads the labels that a thread of any program has, a set of custom_labels_current_set, as those of a
 * goroutine whose id is 0. Return: enum go_end.
 */
static inline uint32_t go_do_read_custom(struct go_state *state, uint64_t labels) {
        __builtin_memset(state->bytes, 0, GO_HEADER_SIZE);
        state->size = GO_HEADER_SIZE;
        state->n_left_out = 0;
        state->n_put = 0;
        state->is_custom = 1;
        return go_from_slice(state, labels) ? GO_END_READ : GO_END_UNREADABLE;
}

/* Reads a g from its m to its labels at once: each read costs more than the bytes that are not asked for. */
static inline bool go_read_g(const struct go_process *process, struct go_state *state, uint64_t g) {
        uint64_t size = (uint64_t)process->labels + sizeof(uint64_t) - process->m;

        size &= GO_G_SIZE - 1;
        barrier_var(size);
        size &= GO_G_SIZE - 1;
        return size && !bpf_probe_read_user(state->g, (uint32_t)size, (const void *)(g + process->m));
}

/* The word of the g that was read last, at @offset of it. */
static inline uint64_t go_word_of_g(const struct go_process *process, const struct go_state *state,
                                    uint64_t offset) {
        uint64_t index = (offset - process->m) / sizeof(uint64_t);

        index &= GO_G_SIZE / 8 - 1;
        barrier_var(index);
        index &= GO_G_SIZE / 8 - 1;
        return state->g[index];
}

/*
 * Finds the goroutine. @place: thread pointer or register. Return: enum go_end; *labelsp: its pointer to
 * labels.
 */
static inline uint32_t go_find(const struct go_process *process, struct go_state *state, uint64_t place,
                               uint64_t *labelsp) {
        uint64_t g = place, m, current, goid;

        if (!process->in_register && !go_word(place + (uint64_t)process->tls_offset, &g))
                return GO_END_UNREADABLE;
        if (!g)                         /* a thread of C that has not called Go */
                return GO_END_NONE;
        if (!go_read_g(process, state, g))
                return GO_END_UNREADABLE;
        m = state->g[0];
        if (!m || !go_word(m + process->curg, &current))
                return GO_END_UNREADABLE;
        if (!current)                   /* the scheduler looks for work */
                return GO_END_NONE;
        if (current != g && (!go_read_g(process, state, current) || state->g[0] != m))
                return GO_END_UNREADABLE;
        goid = go_word_of_g(process, state, process->goid);
        if (!goid || goid >> 62)
                return GO_END_UNREADABLE;
        *labelsp = go_word_of_g(process, state, process->labels);
        __builtin_memcpy(state->bytes, &goid, sizeof(goid));
        state->size = GO_HEADER_SIZE;
        return GO_END_READ;
}

/*
 * Reads goroutine and labels of a thread. @place: its thread pointer, or the register if g is in one. Return:
 * enum go_end. Labels that are none cost only themselves.
 */
static inline uint32_t go_do_read(const struct go_process *process, struct go_state *state, uint64_t place) {
        uint64_t labels = 0;
        uint32_t end;
        bool ok;

        state->size = 0;
        state->n_left_out = 0;
        state->n_put = 0;
        state->is_custom = 0;
        end = go_find(process, state, place, &labels);
        if (end != GO_END_READ || !labels)
                return end;
        ok = process->form == GO_LABELS_MAP ? go_from_map(state, labels) : go_from_slice(state, labels);
        return ok ? GO_END_READ : GO_END_UNREADABLE;
}
