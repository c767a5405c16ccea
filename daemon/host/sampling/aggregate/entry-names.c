/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps each span that samples have met with its parent, and follows parents up to one that has none:
 *
 *     sample in `charge`   parent `checkout`, not met yet: no name
 *     sample in `checkout` parent `POST /order`, not met yet: no name
 *     sample in the entry  its own name: POST /order
 *     sample in `charge`   checkout, POST /order: that is its name, too
 *
 * The parent of a span is in the same trace. At the cap all are forgotten: requests are short.
 */

#include "host/sampling/aggregate/entry-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"

enum {
        MAX_SPANS = 1 << 16,
        MAX_TEXTS = 1 << 12,
        MAX_DEPTH = 64,                 /* spans of one request, one in another */
};

typedef struct SpanKey {
        uint64_t generation, trace_high, trace_low, span;
} SpanKey;

void entry_names_init(EntryNames *names) {
        *names = (EntryNames){ 0 };
        intern_init(&names->spans, MAX_SPANS);
        intern_init(&names->texts, MAX_TEXTS);
}

void entry_names_deinit(EntryNames *names) {
        intern_deinit(&names->spans);
        intern_deinit(&names->texts);
        free(names->entries);
}

static void forget(EntryNames *names) {
        intern_reset(&names->spans);
        intern_reset(&names->texts);
}

/* Facts that could not be read this time stay as they were. Return: 0, INTERN_E_FULL, -ENOMEM. */
static int keep(EntryNames *names, const SpanKey *key, const EntrySpan *span, const char *name) {
        EntrySpan kept = { 0 };
        uint32_t number, text;
        int r = intern_add(&names->spans, key, sizeof(*key), &number);

        if (r == INTERN_E_FOUND)
                kept = names->entries[number];
        else if (!r)
                r = array_reserve(&names->entries, &names->room, number + 1u, 256);
        if (r && r != INTERN_E_FOUND)
                return r;
        if (span->place != PYTHON_PLACE_UNKNOWN) {
                kept.place = span->place;
                kept.parent = span->parent;
        }
        names->entries[number] = kept;
        if (!name)
                return 0;
        r = intern_add(&names->texts, name, strlen(name) + 1, &text);
        if (r && r != INTERN_E_FOUND)
                return r;
        names->entries[number].name = text + 1;
        return 0;
}

static const char *find(const EntryNames *names, SpanKey key) {
        const EntrySpan *span;
        uint32_t number;

        for (unsigned i = 0; i < MAX_DEPTH; i++) {
                if (intern_find(&names->spans, &key, sizeof(key), &number))
                        return NULL;
                span = &names->entries[number];
                if (span->place == PYTHON_PLACE_ENTRY)
                        return span->name ? intern_get(&names->texts, span->name - 1)->data : NULL;
                if (span->place != PYTHON_PLACE_CHILD)
                        return NULL;
                key.span = span->parent;
        }
        return NULL;
}

static SpanKey key_of(uint64_t generation, const struct abi_span *span) {
        return (SpanKey){ generation, span->trace_high, span->trace_low, span->span };
}

const char *entry_names_find(const EntryNames *names, uint64_t generation, const struct abi_span *span) {
        return find(names, key_of(generation, span));
}

int entry_names_meet(EntryNames *names, uint64_t generation, const struct abi_span *span, uint32_t place,
                     uint64_t parent, const char *name, const char **entryp) {
        const SpanKey key = key_of(generation, span);
        const EntrySpan met = { .parent = parent, .place = place };
        int r = keep(names, &key, &met, name);

        if (r == INTERN_E_FULL) {
                forget(names);
                r = keep(names, &key, &met, name);
        }
        if (r < 0)
                return error_fold(r);
        *entryp = find(names, key);
        return 0;
}
