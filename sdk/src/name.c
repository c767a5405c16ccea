/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Local Roots
 *
 * Encodes the name of an entry span and its route as attributes of a thread's record, once for each pair of
 * both. A pair stays for the life of the process, in a table of a fixed size that grows without a lock: so
 * any thread may copy the bytes at any time, and nobody has to say when the last one is done with them.
 *
 *     slot of the hash | compare | next slot … | free: compare and swap the new pair in
 *
 * What users send can be part of a name (a span that is named by its URL). So the table takes
 * SPANPROF_OTEL_MAX_NAMES pairs; later ones have no attributes, and are counted.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend.h"
#include "spanprof/otel.h"

enum { N_SLOTS = 4096 };        /* a power of two, far more than names: probes stay short */

static _Atomic(struct spanprof_otel_name *) slots[N_SLOTS];
static atomic_uint n_names;
static _Atomic uint64_t n_refused;
static atomic_int is_off = -1;  /* SPANPROF_SPAN_NAMES; -1 = not asked for yet */
static _Atomic uint64_t last_number;

uint64_t spanprof_otel_names_refused(void) {
        return atomic_load_explicit(&n_refused, memory_order_relaxed);
}

static bool names_are_off(void) {
        int off = atomic_load_explicit(&is_off, memory_order_relaxed);
        const char *text;

        if (off < 0) {
                text = getenv(SPANPROF_OTEL_NAMES_ENVIRONMENT);
                off = text && strcasecmp(text, "off") == 0;
                atomic_store_explicit(&is_off, off, memory_order_relaxed);
        }
        return off;
}

/* @text: UTF-8. Return: bytes of the longest part that fits and ends behind a whole character. */
static size_t cut(const char *text, size_t size) {
        if (size <= SPANPROF_OTEL_MAX_NAME)
                return size;
        size = SPANPROF_OTEL_MAX_NAME;
        while (size && ((uint8_t)text[size] & 0xc0) == 0x80)
                size--;
        return size;
}

/* The words that OpenTelemetry's conventions name a span by before its route is known: `GET`, `HTTP GET`. */
static bool is_method(const char *text, size_t size) {
        static const char *const methods[] = { "GET",     "HEAD",    "POST",  "PUT",   "DELETE", "CONNECT",
                                               "OPTIONS", "TRACE",   "PATCH", "QUERY", "HTTP" };

        for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
                if (strlen(methods[i]) == size && memcmp(methods[i], text, size) == 0)
                        return true;
        return false;
}

static size_t put(uint8_t *to, uint8_t key, const char *value, size_t size) {
        size = cut(value, size);
        if (!size)
                return 0;
        to[0] = key;
        to[1] = (uint8_t)size;
        memcpy(to + 2, value, size);
        return 2 + size;
}

/* `GET` and `/cart/:id` are `GET /cart/:id`. */
static size_t encode(uint8_t to[static OTEL_NAME_ROOM], const char *name, size_t name_size, const char *route,
                     size_t route_size) {
        char both[16 + SPANPROF_OTEL_MAX_NAME];
        size_t n;

        route_size = cut(route, route_size);
        if (route_size && name_size > 5 && memcmp(name, "HTTP ", 5) == 0 && is_method(name + 5, name_size - 5)) {
                name += 5;
                name_size -= 5;
        }
        if (route_size && is_method(name, name_size)) {
                memcpy(both, name, name_size);
                both[name_size] = ' ';
                memcpy(both + name_size + 1, route, route_size);
                name = both;
                name_size += 1 + route_size;
        }
        n = put(to, SPANPROF_OTEL_KEY_NAME, name, name_size);
        return n + put(to + n, SPANPROF_OTEL_KEY_ROUTE, route, route_size);
}

static uint32_t hash_of(const uint8_t *bytes, size_t size) {
        uint32_t hash = 2166136261;     /* FNV-1a */

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ bytes[i]) * 16777619;
        return hash;
}

/* Return: a pair that can be put into the table, or NULL = the table has enough, or no memory. */
static struct spanprof_otel_name *make(const uint8_t *bytes, size_t size) {
        struct spanprof_otel_name *name;

        if (atomic_fetch_add(&n_names, 1) >= SPANPROF_OTEL_MAX_NAMES) {
                atomic_fetch_sub(&n_names, 1);
                return NULL;
        }
        name = malloc(sizeof(*name) + size);
        if (!name) {
                atomic_fetch_sub(&n_names, 1);
                return NULL;
        }
        name->size = (uint16_t)size;
        memcpy(name->bytes, bytes, size);
        return name;
}

/* A slot that has a pair keeps it, so a search that meets an empty one has seen all that there were. */
static const struct spanprof_otel_name *find(const uint8_t *bytes, size_t size) {
        struct spanprof_otel_name *mine = NULL, *there;

        for (uint32_t at = hash_of(bytes, size);; at++) {
                _Atomic(struct spanprof_otel_name *) *slot = &slots[at % N_SLOTS];

                there = atomic_load_explicit(slot, memory_order_acquire);
                if (!there) {
                        mine = mine ? mine : make(bytes, size);
                        if (!mine || atomic_compare_exchange_strong(slot, &there, mine))
                                return mine;
                }
                if (there->size == size && memcmp(there->bytes, bytes, size) == 0)
                        break;
        }
        if (mine) {
                free(mine);
                atomic_fetch_sub(&n_names, 1);
        }
        return there;
}

const struct spanprof_otel_name *otel_name(const char *name, size_t name_size, const char *route,
                                           size_t route_size) {
        const struct spanprof_otel_name *found;
        uint8_t bytes[OTEL_NAME_ROOM];
        size_t size;

        if (names_are_off())
                return NULL;
        size = encode(bytes, name, name_size, route, route_size);
        if (!size)
                return NULL;
        found = find(bytes, size);
        if (!found)
                atomic_fetch_add_explicit(&n_refused, 1, memory_order_relaxed);
        return found;
}

uint64_t otel_new_root(void) {
        return atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
}

void spanprof_otel_name(struct spanprof_otel_root *root, const char *name, size_t name_size,
                        const char *route, size_t route_size) {
        const struct spanprof_otel_name *now = otel_name(name, name_size, route, route_size);
        const void *thread;

        if (!root->number) {
                root->number = otel_new_root();
                root->name = now;
        } else if (__atomic_exchange_n(&root->name, now, __ATOMIC_ACQ_REL) != now) {
                thread = __atomic_load_n(&root->thread, __ATOMIC_ACQUIRE);
                if (thread)
                        otel_rename(root->number, now, thread != otel_this_thread());
        }
}
