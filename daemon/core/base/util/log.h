/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Log
 *
 * One line a message, masked (core/base/util/text.h). Goes to the journal as a structured entry when standard
 * error is the journal (JOURNAL_STREAM names it), else to standard error as
 * `spanprof: text`. Never fails.
 */

#include <stdint.h>

#include "core/base/util/macro.h"

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

/*
 * From now on a message that is not taken soon (a pipe without a reader, a terminal that is held, a journal
 * that hangs) is lost and counted, instead of holding up its writer.
 */
void log_never_wait(void);

/*
 * Last call of a process: the journal asks /proc whose message it has (_SYSTEMD_UNIT=), so that the last
 * words of one that is gone by then would have no unit.
 */
void log_finish(void);

/* Turns an option's text (error, warning, notice, info, debug) into a level. Return: 0, 1 = no such level. */
int log_level_parse(const char *text, int *levelp);

_printf_(2, 3) void log_write(int level, const char *format, ...);

/*
 * The same about one target: adds the field TARGET_PID= in the journal and
 * `[pid N]` elsewhere.
 */
_printf_(3, 4) void log_write_target(int level, uint32_t pid, const char *format, ...);

/*
 * Messages that an operator may wait for: each has an identity of its own (MESSAGE_ID= in the journal), by
 * which systemd/spanprof.catalog explains it, and says its cause in one word (REASON=).
 */
#define LOG_EVENTS(X) \
        X(READY, "8ef9f6a1cb0242dbac4420f063bd0ef1") \
        X(CAPABILITIES_MISSING, "2ae7a228a4b9446184891a22e54f39ec") \
        X(FILE_HIDDEN, "25172b0e9d394f7c99a5099954ca4b01") \
        X(CONFIG_REFUSED, "c99283d11d294041a3ff8d76c5b6e853") \
        X(PAUSED, "993c5585d3f14e399fd2b65320bd989e") \
        X(RESUMED, "d21bb139b019424abe70e98a40b04894") \
        X(SLOWED, "1acee16bee2149b8af97e0ed1c2d77a1") \
        X(MEMORY_LIMIT, "c569cb343f62446490d4e0d86b8de09e") \
        X(WORKERS_GONE, "30e53121e222432e8c3021f9729453fe") \
        X(RING_FULL, "b3a54d5e6c1f4a4b9d0e7f21c8a96e35") \
        X(UNSERVED, "6f0c1c4b8d4e4d1f9a2a5b7c3e90d214")

typedef enum LogEvent {
#define X(name, id) LOG_EVENT_##name,
        LOG_EVENTS(X)
#undef X
} LogEvent;

_printf_(4, 5) void log_write_event(int level, LogEvent event, const char *reason, const char *format, ...);

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
