/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/stat.h"

enum {
        LOG_LINE_MAX = 2048,
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

/* Names that a target chose for itself are in here: a line break would forge a message, an escape drives the terminal. */
static void mask_controls(char *text) {
        for (; *text; text++)
                if ((unsigned char)*text < 0x20 || *text == 0x7F)
                        *text = '?';
}

/*
 * A pipe says that it can be written when a page is free, a terminal when it is not held (Ctrl-S): a line fits. One that is
 * merely slow (a serial console) gets a moment, but not again while that was in vain.
 */
static bool can_write(void) {
        struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

        return poll(&fd, 1, n_lost ? 0 : SLOW_MS) == 1 && fd.revents & (POLLOUT | POLLERR);
}

static void print(uint32_t pid, const char *text) {
        if (never_wait && !can_write()) {
                n_lost++;
                stat_add(COUNTER_LOG_LOST, 1);
                return;
        }
        if (n_lost)
                fprintf(stderr, "spanprof: messages that are missing here, since nobody read them: %llu\n", (unsigned long long)n_lost);
        n_lost = 0;
        if (pid)
                fprintf(stderr, "spanprof: [pid %u] %s\n", pid, text);
        else
                fprintf(stderr, "spanprof: %s\n", text);
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
        mask_controls(text);
        if (stderr_is_journal())
                sd_journal_send("PRIORITY=%d", level, "MESSAGE=%s", text, "MESSAGE_ID=%s", event_ids[event], "REASON=%s", reason,
                                NULL);
        else
                print(0, text);
}

static void emit(int level, uint32_t pid, const char *format, va_list args) {
        char text[LOG_LINE_MAX];

        vsnprintf(text, sizeof(text), format, args);
        mask_controls(text);
        if (stderr_is_journal()) {
                if (pid)
                        sd_journal_send("PRIORITY=%d", level, "MESSAGE=%s", text, "TARGET_PID=%u", pid, NULL);
                else
                        sd_journal_send("PRIORITY=%d", level, "MESSAGE=%s", text, NULL);
        } else
                print(pid, text);
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
