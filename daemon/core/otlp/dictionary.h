/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dictionary
 *
 * The ProfilesDictionary of one request: which rows of a window it uses, under
 * which index. Asking for a row adds it, and the rows that it refers to, so
 * the dictionary holds exactly what the request needs, in order of first use
 * (locations by dictionary_arrange()); row 0 of each table is the empty message. Only indexes are kept:
 * messages are made twice, once for their size and once into the request.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/profile/location.h"
#include "core/profile/window.h"

typedef struct DictionaryTable {
        uint32_t *local;                /* window index → index here; 0 = not used yet */
        uint32_t *rows;                 /* index here → window index */
        uint32_t n;
} DictionaryTable;

/* Tags of fields in messages that are made by hand: there may be millions. */
typedef struct DictionaryTags {
        uint8_t stack_locations;
        uint8_t location_mapping, location_address, location_lines, location_attributes;
        uint8_t line_function, line_line;
        uint8_t function_name, function_system_name, function_filename, function_start_line;
} DictionaryTags;

typedef struct Dictionary {
        const Window *window;
        DictionaryTable mappings, functions, links, strings, attributes, stacks;
        /* local: row of the window's frame table → location; rows: to forget them */
        DictionaryTable frame_rows;
        Hashmap locations;              /* any other location's word → index, as a pointer */
        Locations chains;               /* what words of locations with several frames mean */
        FrameWord *words;               /* index → location's word */
        int32_t *indexes;               /* locations of each stack: one stack behind the other */
        uint32_t *lengths;              /* index of a stack → its locations */
        size_t n_indexes, indexes_size;
        DictionaryTags tags;
        uint32_t n_locations, words_size;
        size_t size;                    /* bytes of the packed message */
        bool failed;                    /* an allocation failed; what was asked for since is not in it */
} Dictionary;

/* For @window, which must outlive it. Return: 0, -ENOMEM. */
int dictionary_init(Dictionary *dictionary, const Window *window);
void dictionary_deinit(Dictionary *dictionary);

/* Forgets all rows. */
void dictionary_reset(Dictionary *dictionary);

/* Index in this dictionary of a row of the window. */
int32_t dictionary_string(Dictionary *dictionary, uint32_t index);
int32_t dictionary_attribute(Dictionary *dictionary, uint32_t index);
int32_t dictionary_link(Dictionary *dictionary, uint32_t index);
int32_t dictionary_stack(Dictionary *dictionary, uint32_t index);

/*
 * Numbers locations anew, so that the request packs well: when all rows are there, and before anything is
 * written. No other stack may be asked for after that. dictionary->size may be less then, and is never more.
 * Return: 0, -ENOMEM (nothing may be written).
 */
int dictionary_arrange(Dictionary *dictionary);

/* Writes dictionary->size bytes. Return: the end. */
uint8_t *dictionary_write(Dictionary *dictionary, uint8_t *to);
