/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of the pprof parser: pprof.c goes through the profile, pprof-rows.c makes rows of the window
 * from its tables, pprof-samples.c events from its samples; pprof-message.c reads for all of them.
 */

#include "base/util/hashmap.h"
#include "base/util/protobuf.h"
#include "formats/pprof/pprof-fields.h"
#include "formats/pprof/pprof.h"

enum { PPROF_MAX_COLUMNS = 64 };

typedef struct Bytes {
        const uint8_t *data;
        size_t size;
} Bytes;

typedef struct Mapping {
        uint32_t module;
        bool by_offset;                 /* addresses are of a process: file offsets are made of them */
        uint64_t start, offset;
} Mapping;

/* Frames of a location, innermost first: words[first … first + n). */
typedef struct Location {
        size_t first;
        uint32_t n;
} Location;

typedef struct Table {
        Hashmap ids;                    /* id → index + 1 */
        size_t n, room;
} Table;

typedef struct Parser {
        Window *window;
        Text *problem;
        PprofResult *result;
        uint64_t key;
        const uint8_t *begin;
        Bytes *texts;                   /* the string table */
        uint32_t *strings;              /* of the window + 1; 0 = not made yet */
        size_t n_texts, texts_room;
        Bytes *locations_raw;
        Location *locations;
        uint32_t *functions;
        Mapping *mappings;
        Table location_ids, function_ids, mapping_ids;
        FrameWord *words, *stack;
        size_t n_words, words_room, stack_room;
        WindowProfileNames columns[PPROF_MAX_COLUMNS];      /* what each counts */
        uint32_t n_columns;
        uint64_t period_type, period_unit;
        int64_t period, time_ns, duration_ns;
} Parser;

static inline int pprof_full(int r) {
        return r == WINDOW_E_FULL ? PPROF_E_FULL : r;
}

/* Says that @what at @at is broken. Return: PPROF_E_MALFORMED. */
int pprof_malformed(Parser *parser, const uint8_t *at, const char *what);

/* The fields of a message that are numbers, by their field numbers below @n. Return: 0, PPROF_E_MALFORMED. */
int pprof_read_numbers(Parser *parser, const Field *message, uint64_t *numbers, size_t n, const char *what);
void pprof_read_type(const Field *field, uint64_t *typep, uint64_t *unitp);

/* Makes room for an item more than @n. Return: 0, -ENOMEM. */
int pprof_grow(void **itemsp, size_t *roomp, size_t n, size_t size);

/* Ids are any numbers; a second row with one id is not looked at. Return: 0, 1 = not wanted, -ENOMEM. */
int pprof_add_id(Table *table, uint64_t id);
bool pprof_find_id(const Table *table, uint64_t id, size_t *indexp);

/* Rows and events of the window from the messages of the profile. Return: 0, PPROF_E_*, -ENOMEM. */
/* one that is not in the table is empty */
int pprof_string(Parser *parser, uint64_t index, uint32_t *stringp);
int pprof_add_column(Parser *parser, const Field *message);
int pprof_add_mapping(Parser *parser, const Field *message);
int pprof_add_function(Parser *parser, const Field *message);
int pprof_make_locations(Parser *parser);
int pprof_add_sample(Parser *parser, const Field *message);
