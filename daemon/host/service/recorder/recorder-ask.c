/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes one pair after the other. A word that is there twice is a mistake: which one counts would be a guess.
 */

#include "host/service/recorder/recorder-ask.h"

#include <stdint.h>
#include <string.h>

#include "core/base/util/text.h"

enum { VALUE_MAX = 64 };

/* The part up to the next slash. Return: false = it is empty or too long. */
static bool take_part(const char **path, char part[static VALUE_MAX]) {
        size_t size;

        if (**path != '/')
                return false;
        size = strcspn(++*path, "/");
        if (!size || size >= VALUE_MAX)
                return false;
        memcpy(part, *path, size);
        part[size] = 0;
        *path += size;
        return true;
}

static bool parse_trace(const char *text, uint8_t id[static 16]) {
        const size_t size = strlen(text), n_low = size < 16 ? size : 16;
        uint64_t halves[2] = { 0 };

        if (size > 32 || text_hex(text + size - n_low, text + size, &halves[1]) ||
            (size > 16 && text_hex(text, text + size - 16, &halves[0])))
                return false;
        for (size_t i = 0; i < 16; i++)
                id[i] = (uint8_t)(halves[i / 8] >> (56 - 8 * (i % 8)));
        return true;
}

int recorder_ask_parse(const char *path, RecorderQuery *queryp) {
        RecorderQuery query = { .end_ns = UINT64_MAX };
        char word[VALUE_MAX], value[VALUE_MAX];
        bool has_start = false, has_end = false;

        while (*path) {
                if (!take_part(&path, word) || !take_part(&path, value))
                        return RECORDER_ASK_E_MALFORMED;
                if (!strcmp(word, "trace") && !query.has_trace && parse_trace(value, query.trace_id))
                        query.has_trace = true;
                else if (!strcmp(word, "start") && !has_start && !text_u64(value, UINT64_MAX, &query.start_ns))
                        has_start = true;
                else if (!strcmp(word, "end") && !has_end && !text_u64(value, UINT64_MAX, &query.end_ns))
                        has_end = true;
                else
                        return RECORDER_ASK_E_MALFORMED;
        }
        *queryp = query;
        return 0;
}
