/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a list of pods is read
 *
 * It may be megabytes, of which three words a pod are wanted, and whoever answers may be hostile. So no tree
 * is made: a scanner goes over the text once, and knows of each container that is open only whether it is an
 * object, in one bit. What a string means follows from the depth and from the last key of each depth:
 *
 *     { "items": [ { "metadata": { "name": "cart-7d9f", … }, … }, … ], … }
 *     1            2 3             4                                      depth
 *
 * A name with an escape in it is none by the rules of Kubernetes, and is left out.
 */
#include "host/sampling/aggregate/pod-list.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_DEPTH = 64, DEPTH_LIST = 1, DEPTH_POD = 3, DEPTH_METADATA = 4 };

typedef struct Word {
        const char *at;
        size_t size;
} Word;

typedef enum Field { FIELD_NAMESPACE, FIELD_NAME, FIELD_UID, N_FIELDS } Field;

typedef struct Scanner {
        const char *at, *end;
        uint64_t objects;               /* bit: the container at that depth is an object */
        unsigned depth;
        bool in_items, in_metadata;     /* the key of depth 1, of depth 3, is that */
        bool has_items;
        Word fields[N_FIELDS];          /* fields of the pod that is open */
        Text *entries;
        size_t n, n_over;
} Scanner;

static bool is_word(const Word *word, const char *text) {
        return word->size == strlen(text) && !memcmp(word->at, text, word->size);
}

static void skip_blanks(Scanner *scanner) {
        while (scanner->at < scanner->end && strchr(" \t\r\n", *scanner->at) && *scanner->at)
                scanner->at++;
}

/* At a quote. @word: without quotes; NULL in `at` if it has an escape. */
static bool read_string(Scanner *scanner, Word *word) {
        bool escaped = false;

        *word = (Word){ .at = ++scanner->at };
        for (; scanner->at < scanner->end && *scanner->at != '"'; scanner->at++)
                if (*scanner->at == '\\') {
                        escaped = true;
                        scanner->at++;
                }
        if (scanner->at >= scanner->end)
                return false;
        word->size = (size_t)(scanner->at++ - word->at);
        if (escaped)
                *word = (Word){ .at = "", .size = 0 };
        return true;
}

static bool is_object(const Scanner *scanner) {
        return scanner->objects >> scanner->depth & 1;
}

static bool is_in_pod(const Scanner *scanner) {
        return scanner->in_items && !(scanner->objects >> 2 & 1);
}

static void take_field(Scanner *scanner, const Word *key, const Word *value) {
        static const char *const names[N_FIELDS] = { "namespace", "name", "uid" };

        if (scanner->depth != DEPTH_METADATA || !is_in_pod(scanner) || !scanner->in_metadata)
                return;
        for (Field field = 0; field < N_FIELDS; field++)
                if (is_word(key, names[field]))
                        scanner->fields[field] = *value;
}

static void note_key(Scanner *scanner, const Word *key) {
        if (scanner->depth == DEPTH_LIST)
                scanner->in_items = is_word(key, "items");
        if (scanner->depth == DEPTH_POD)
                scanner->in_metadata = is_word(key, "metadata");
}

static void end_pod(Scanner *scanner) {
        const Word *fields = scanner->fields;

        for (Field field = 0; field < N_FIELDS; field++)
                if (!fields[field].size || memchr(fields[field].at, 0, fields[field].size))
                        return;
        if (scanner->n == POD_LIST_MAX) {
                scanner->n_over++;
                return;
        }
        scanner->n++;
        for (Field field = 0; field < N_FIELDS; field++) {
                text_append(scanner->entries, fields[field].at, fields[field].size);
                text_append(scanner->entries, field == N_FIELDS - 1 ? "\0" : "_", 1);
        }
}

static bool open_container(Scanner *scanner, bool object) {
        if (++scanner->depth >= MAX_DEPTH)
                return false;
        scanner->objects &= ~(UINT64_C(1) << scanner->depth);
        scanner->objects |= (uint64_t)object << scanner->depth;
        if (scanner->depth == DEPTH_POD) {
                memset(scanner->fields, 0, sizeof(scanner->fields));
                scanner->in_metadata = false;
        }
        if (scanner->depth == DEPTH_LIST + 1 && scanner->in_items)
                scanner->has_items |= !object;
        return true;
}

static bool close_container(Scanner *scanner, bool object) {
        if (!scanner->depth || is_object(scanner) != object)
                return false;
        if (scanner->depth == DEPTH_POD && object && is_in_pod(scanner))
                end_pod(scanner);
        scanner->depth--;
        return true;
}

/* A number, true, false, null: whatever it is made of. */
static bool skip_scalar(Scanner *scanner) {
        const char *from = scanner->at;

        while (scanner->at < scanner->end && *scanner->at && !strchr(" \t\r\n,:]}[{\"", *scanner->at))
                scanner->at++;
        return scanner->at > from;
}

/* A value, or the beginning of one. @key: of it, "" in an array. */
static bool read_value(Scanner *scanner, const Word *key) {
        Word value;

        switch (*scanner->at) {
        case '{':
        case '[':
                return open_container(scanner, *scanner->at++ == '{');
        case '"':
                if (!read_string(scanner, &value))
                        return false;
                take_field(scanner, key, &value);
                return true;
        default:
                return skip_scalar(scanner);
        }
}

/* In an object: a key, a colon and a value; in an array: a value. */
static bool read_member(Scanner *scanner) {
        Word key = { .at = "" };

        if (!is_object(scanner))
                return read_value(scanner, &key);
        if (*scanner->at != '"' || !read_string(scanner, &key))
                return false;
        note_key(scanner, &key);
        skip_blanks(scanner);
        if (scanner->at >= scanner->end || *scanner->at++ != ':')
                return false;
        skip_blanks(scanner);
        return scanner->at < scanner->end && read_value(scanner, &key);
}

static bool scan(Scanner *scanner) {
        skip_blanks(scanner);
        if (scanner->at >= scanner->end || *scanner->at++ != '{' || !open_container(scanner, true))
                return false;
        while (scanner->depth) {
                skip_blanks(scanner);
                if (scanner->at >= scanner->end)
                        return false;
                if (*scanner->at == '}' || *scanner->at == ']') {
                        if (!close_container(scanner, *scanner->at++ == '}'))
                                return false;
                } else if (*scanner->at == ',') {
                        scanner->at++;
                } else if (!read_member(scanner)) {
                        return false;
                }
        }
        return true;
}

int pod_list_parse(const char *json, size_t size, Text *entries, size_t *n_overp) {
        Scanner scanner = { .at = json, .end = json + size, .entries = entries };

        *n_overp = 0;
        if (!scan(&scanner) || !scanner.has_items)
                return POD_LIST_E_MALFORMED;
        *n_overp = scanner.n_over;
        return 0;
}
