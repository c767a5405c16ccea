/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Entry Spans
 *
 * Spans that the kernel half has read out of an SDK's memory say their own name and their parent's id. All
 * spans of a request have the name of the one that it began with in this process: its entry span, which has
 * no parent here. It is known if a sample has met it, and each span between.
 */

#include <stdint.h>

#include "border/abi.h"
#include "core/base/data/intern.h"

/* A span that was met. */
typedef struct EntrySpan {
        uint64_t parent;                /* id, of a child */
        uint32_t place;                 /* enum python_span_place */
        uint32_t name;                  /* number + 1 in `texts`; 0 = none */
} EntrySpan;

typedef struct EntryNames {
        Intern spans;                   /* program and ids → number */
        Intern texts;                   /* names, with their NUL */
        EntrySpan *entries;             /* by number of a span */
        uint32_t room;
} EntryNames;

void entry_names_init(EntryNames *names);
void entry_names_deinit(EntryNames *names);

/*
 * A sample has met @span of the program of @generation: its @place, @parent and @name (NULL = it was not
 * read). *@entryp: the name of its entry span, NULL = not known; it lives until the next call. Return: 0,
 * -ENOMEM.
 */
int entry_names_meet(EntryNames *names, uint64_t generation, const struct abi_span *span, uint32_t place,
                     uint64_t parent, const char *name, const char **entryp);

/* The name of @span's entry span, as samples have met them so far; NULL = not known. It lives as above. */
const char *entry_names_find(const EntryNames *names, uint64_t generation, const struct abi_span *span);
