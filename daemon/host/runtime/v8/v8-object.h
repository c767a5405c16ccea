/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Objects of V8's Heap
 *
 * Everything here reads a process through one call, so that tests and the fuzzer feed made-up memory. What it
 * gives is the target's word: no value is an address, a length or an index before a check. An object that the
 * collector has moved is followed to its new place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/v8/v8-layout.h"

enum {
        V8_MAX_TEXT = 256,              /* bytes of a name, with its NUL; longer ones are cut */
        V8_PAGE = 4096, V8_N_PAGES = 32,
};

/* Pages of the target that the present question has read. */
typedef struct V8Pages {
        uint64_t numbers[V8_N_PAGES];   /* address / V8_PAGE + 1; 0 = none */
        uint8_t bytes[V8_N_PAGES][V8_PAGE];
} V8Pages;

typedef struct V8Reader {
        /* Reads @size bytes, 64 KiB at most, at @address. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        const V8Layout *layout;
        V8Pages *pages;                 /* NULL = each read asks the target */
} V8Reader;

typedef struct V8Object {
        uint64_t address;               /* without its tag */
        uint16_t type;
} V8Object;

static inline int32_t v8_value(const V8Reader *reader, V8Field field) {
        return reader->layout->values[field];
}

/*
 * Whole pages are read where they can be: a question looks at many words of few pages. Return: whether all of
 * @to was read.
 */
bool v8_read(const V8Reader *reader, uint64_t address, void *to, size_t size);

/* What is read from now on is read anew. */
void v8_pages_forget(V8Pages *pages);

/* The object that a tagged pointer, also a weak one, leads to. Return: whether it is one. */
bool v8_object_at(const V8Reader *reader, uint64_t tagged, V8Object *object);

/* The same, of an object that must be of the type that @field says. */
bool v8_object_of(const V8Reader *reader, uint64_t tagged, V8Field field, V8Object *object);

/* The word at an offset in the object; its object. */
bool v8_word_of(const V8Reader *reader, const V8Object *object, int32_t offset, uint64_t *word);
bool v8_object_in(const V8Reader *reader, const V8Object *object, int32_t offset, V8Object *to);

/* A number that is kept in a tagged word. Return: whether it is one. */
bool v8_small_number(uint64_t word, int32_t *numberp);

/* Length of an array or a byte array, 0 … @max. */
bool v8_length_of(const V8Reader *reader, const V8Object *array, int32_t max, int32_t *lengthp);

bool v8_is_string(const V8Reader *reader, const V8Object *object);

/* A String as UTF-8, cut where it is too long. Return: whether it is a String and could be read. */
bool v8_text_read(const V8Reader *reader, const V8Object *string, char to[V8_MAX_TEXT]);

/* Characters of a sequential or external String. */
typedef struct V8Characters {
        uint64_t address;
        uint32_t n, width;              /* bytes of one: 1, 2 */
} V8Characters;

/* Return: whether all characters of @string lie in a row. */
bool v8_characters_of(const V8Reader *reader, const V8Object *string, V8Characters *characters);
