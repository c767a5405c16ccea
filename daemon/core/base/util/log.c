/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Formats one line, masks it, and writes it to standard error or, with its fields, to the journal. A line
 * that finds no reader is counted, and the next line that does says how many.
 */

#include "core/base/util/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/log-journal.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"

enum {
        LOG_LINE_MAX = 2048,
        FIELDS_MAX = 512,               /* bytes of an entry's fields in the journal, beside the text */
        SLOW_MS = 100,
};

static int max_level = LOG_LEVEL_INFO;
static bool never_wait;
static uint64_t n_lost;                 /* since the last line that was written */

void log_set_level(int level) {
        max_level = level;
}

int log_level(void) {
        return max_level;
}

void log_never_wait(void) {
        never_wait = true;
}

void log_finish(void) {
        log_journal_drain();
}

int log_level_parse(const char *text, int *levelp) {
        static const char *const names[] = { "error", "warning", "notice", "info", "debug" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(text, names[i])) {
                        *levelp = LOG_LEVEL_ERROR + (int)i;
                        return 0;
                }
        return 1;
}

/* JOURNAL_STREAM=DEVICE:INODE names the socket that systemd made our standard error (systemd.exec(5)). */
static bool stderr_is_journal(void) {
        static int known = -1;
        unsigned long long device, inode;
        const char *text;
        struct stat st;

        if (known >= 0)
                return known;
        text = getenv("JOURNAL_STREAM");
        known = text && sscanf(text, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
                st.st_dev == device && st.st_ino == inode;
        return known;
}

/*
 * A pipe says that it can be written when a page is free, a terminal when it is not held (Ctrl-S): a line
 * fits. One that is merely slow (a serial console) gets a moment, but not again while that was in vain.
 */
static bool can_write(void) {
        struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

        return poll(&fd, 1, n_lost ? 0 : SLOW_MS) == 1 && fd.revents & (POLLOUT | POLLERR);
}

typedef struct Entry {
        int level;
        uint32_t pid;                   /* 0 = about no target */
        const char *id, *reason;        /* names of an event, else NULL */
        const char *text;
} Entry;

static bool print(const Entry *entry) {
        if (never_wait && !can_write())
                return false;
        if (entry->pid)
                fprintf(stderr, "spanprof: [pid %u] %s\n", entry->pid, entry->text);
        else
                fprintf(stderr, "spanprof: %s\n", entry->text);
        return true;
}

static bool send_to_journal(const Entry *entry) {
        char data[LOG_LINE_MAX + FIELDS_MAX];
        int n = snprintf(data, sizeof(data), "SYSLOG_IDENTIFIER=spanprof\nPRIORITY=%d\nMESSAGE=%s\n",
                         entry->level, entry->text);

        if (entry->pid)
                n += snprintf(data + n, sizeof(data) - (size_t)n, "TARGET_PID=%u\n", entry->pid);
        if (entry->id)
                n += snprintf(data + n, sizeof(data) - (size_t)n, "MESSAGE_ID=%s\nREASON=%.100s\n", entry->id,
                              entry->reason);
        return !log_journal_send(data, (size_t)n, never_wait ? (n_lost ? 0 : SLOW_MS) : -1);
}

static void put(const Entry *entry) {
        bool (*out)(const Entry *) = stderr_is_journal() ? send_to_journal : print;
        char text[128];

        snprintf(text, sizeof(text), "messages that are missing here, since nobody read them: %llu",
                 (unsigned long long)n_lost);
        if (n_lost && out(&(Entry){ .level = LOG_LEVEL_WARNING, .text = text }))
                n_lost = 0;
        if (!n_lost && out(entry))
                return;
        n_lost++;
        stat_add(COUNTER_LOG_LOST, 1);
}

static const char *const event_ids[] = {
#define X(name, id) [LOG_EVENT_##name] = id,
        LOG_EVENTS(X)
#undef X
};

void log_write_event(int level, LogEvent event, const char *reason, const char *format, ...) {
        char text[LOG_LINE_MAX];
        va_list args;

        if (level > max_level)
                return;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        text_mask(text);
        put(&(Entry){ .level = level, .id = event_ids[event], .reason = reason, .text = text });
}

/* Masked, since names that a target chose for itself are in it: a line break would forge a message. */
static void emit(int level, uint32_t pid, const char *format, va_list args) {
        char text[LOG_LINE_MAX];

        vsnprintf(text, sizeof(text), format, args);
        text_mask(text);
        put(&(Entry){ .level = level, .pid = pid, .text = text });
}

void log_write(int level, const char *format, ...) {
        va_list args;

        if (level > max_level)
                return;
        va_start(args, format);
        emit(level, 0, format, args);
        va_end(args);
}

void log_write_target(int level, uint32_t pid, const char *format, ...) {
        va_list args;

        if (level > max_level)
                return;
        va_start(args, format);
        emit(level, pid, format, args);
        va_end(args);
}

int log_limit(LogLimit *limit, uint64_t interval_ns, uint64_t *n_skippedp) {
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < limit->next_ns) {
                limit->n_skipped++;
                return 0;
        }
        *n_skippedp = limit->n_skipped;
        limit->n_skipped = 0;
        limit->next_ns = now_ns + interval_ns;
        return 1;
}
