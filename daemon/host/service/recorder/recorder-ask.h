/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asking the Recorder
 *
 * The last part of a page's path: pairs of a word and its value, each pair once.
 *
 *     trace/ID      32 hex digits, fewer if they begin with zeros
 *     span/ID       16 hex digits, fewer if they begin with zeros
 *     process/PID
 *     start/NS      REALTIME
 *     end/NS
 *     last/SECONDS  as start, counted back from now
 *     reason/WORD   a-z, digits, _ and -: what the kept profiles say, and not by what they were chosen
 *
 *     GET /recorder/list/trace/4bf92f3577b34da6a3ce929d0e0e4736/start/1780000000000000000
 */

#include "host/service/recorder/recorder.h"

/* A list that is longer ends with the last line. */
enum { RECORDER_LIST_LINES = 32 << 10, RECORDER_REASON_SIZE = 40 };
#define RECORDER_LIST_MORE "more"

typedef struct RecorderAsk {
        RecorderQuery query;            /* words that choose windows; samples go by all of this */
        bool has_span;
        uint8_t span_id[8];
        uint32_t pid;                   /* 0 = any */
        uint64_t from;                  /* number of the first request; no word says it */
        uint64_t last_s;                /* 0 = query.start_ns says it; recorder_ask_begin() */
        /* as asked, or the word that says most: trace, span, process, time */
        char reason[RECORDER_REASON_SIZE];
} RecorderAsk;

enum {
        _RECORDER_ASK_E_SUCCESS,
        RECORDER_ASK_E_MALFORMED,       /* no such word, or no such value */
};

/* Pure. @path: "" or pairs, each with a slash before it. Return: 0, RECORDER_ASK_E_MALFORMED. */
int recorder_ask_parse(const char *path, RecorderAsk *askp);

/* Counts `last` back from @now_ns, REALTIME. */
void recorder_ask_begin(RecorderAsk *ask, uint64_t now_ns);
