/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes one pair after the other. A word that is there twice is a mistake: which one counts would be a guess.
 */

#include "host/service/recorder/recorder-ask.h"

#include <stdint.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"

enum { VALUE_MAX = 64, LAST_MAX = 86400 };

/* @size bytes, big endian; a multiple of 8. */
static bool parse_id(const char *text, uint8_t *id, size_t size) {
        const size_t n_digits = strlen(text);

        if (n_digits > 2 * size)
                return false;
        memset(id, 0, size);
        for (size_t end = n_digits; end > 0;) {
                const size_t begin = end > 16 ? end - 16 : 0;
                uint64_t word;

                if (text_hex(text + begin, text + end, &word))
                        return false;
                for (size_t i = 0; i < 8; i++)
                        id[size - 1 - i] = (uint8_t)(word >> (8 * i));
                size -= 8;
                end = begin;
        }
        return true;
}

static bool parse_pid(const char *text, uint32_t *pidp) {
        uint64_t pid;

        if (text_u64(text, INT32_MAX, &pid) || !pid)
                return false;
        *pidp = (uint32_t)pid;
        return true;
}

static bool parse_reason(const char *text, char reason[static RECORDER_REASON_SIZE]) {
        size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

        if (text[size] || size >= RECORDER_REASON_SIZE)
                return false;
        memcpy(reason, text, size + 1);
        return true;
}

/* Return: whether it is such a pair, for the first time. */
static bool take_pair(RecorderAsk *ask, const char *word, const char *value) {
        RecorderQuery *query = &ask->query;

        if (!strcmp(word, "trace"))
                return !query->has_trace && (query->has_trace = parse_id(value, query->trace_id, 16));
        if (!strcmp(word, "span"))
                return !ask->has_span && (ask->has_span = parse_id(value, ask->span_id, 8));
        if (!strcmp(word, "process"))
                return !ask->pid && parse_pid(value, &ask->pid);
        if (!strcmp(word, "reason"))
                return !*ask->reason && parse_reason(value, ask->reason);
        if (!strcmp(word, "last"))
                return !ask->last_s && !text_u64(value, LAST_MAX, &ask->last_s) && ask->last_s;
        if (!strcmp(word, "start"))
                return !query->start_ns && !text_u64(value, UINT64_MAX, &query->start_ns);
        return !strcmp(word, "end") && query->end_ns == UINT64_MAX &&
                !text_u64(value, UINT64_MAX, &query->end_ns);
}

static const char *word_of(const RecorderAsk *ask) {
        return ask->query.has_trace ? "trace" : ask->has_span ? "span" : ask->pid ? "process" : "time";
}

int recorder_ask_parse(const char *path, RecorderAsk *askp) {
        RecorderAsk ask = { .query.end_ns = UINT64_MAX };
        char word[VALUE_MAX], value[VALUE_MAX];

        while (*path)
                if (!text_take_part(&path, word, VALUE_MAX) || !text_take_part(&path, value, VALUE_MAX) ||
                    !take_pair(&ask, word, value))
                        return RECORDER_ASK_E_MALFORMED;
        if (!*ask.reason)
                strcpy(ask.reason, word_of(&ask));
        *askp = ask;
        return 0;
}

void recorder_ask_begin(RecorderAsk *ask, uint64_t now_ns) {
        const uint64_t ns = ask->last_s * NS_PER_SEC;

        if (ns)
                ask->query.start_ns = MAX(ask->query.start_ns, now_ns - MIN(ns, now_ns));
}
