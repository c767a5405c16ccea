/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log
 *
 * One line a message: control characters in it become `?`. Goes to the journal as a structured entry when standard
 * error is the journal (JOURNAL_STREAM names it), else to standard error as
 * `spanprof: text`. Never fails and never blocks on anything but that write.
 */

#include <stdint.h>

#include "util/macro.h"

enum {
        LOG_LEVEL_ERROR = 3,            /* syslog's numbers */
        LOG_LEVEL_WARNING = 4,
        LOG_LEVEL_NOTICE = 5,
        LOG_LEVEL_INFO = 6,
        LOG_LEVEL_DEBUG = 7,
};

/* Drops messages above @level. Default: LOG_LEVEL_INFO. */
void log_set_level(int level);
int log_level(void);

/* Turns an option's text (error, warning, notice, info, debug) into a level. Return: 0, 1 = no such level. */
int log_level_parse(const char *text, int *levelp);

_printf_(2, 3) void log_write(int level, const char *format, ...);

/*
 * The same about one target: adds the field TARGET_PID= in the journal and
 * `[pid N]` elsewhere.
 */
_printf_(3, 4) void log_write_target(int level, uint32_t pid, const char *format, ...);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * Lets one message pass per @interval_ns and place, and counts the others:
 *
 *     static LogLimit limit;
 *     if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped)) ...
 */
typedef struct LogLimit {
        uint64_t next_ns;
        uint64_t n_skipped;
} LogLimit;

/* Return: 1 if the message may be written now; *n_skippedp = messages held back since the last one. */
int log_limit(LogLimit *limit, uint64_t interval_ns, uint64_t *n_skippedp);
