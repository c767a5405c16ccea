/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-live: a program that allocates, and keeps some of it; to be run with libspanprof-alloc preloaded
 *
 * Prints first
 *     pid 4711
 * then obeys lines on its standard input, each answered by a line "ok":
 *     span ID              from here on in this span of trace (7, 8); 0 = in none
 *     keep N               live_f() allocates N × 1,000 bytes, which stay
 *     more N               live_g() allocates N × 2,000 bytes, which stay
 *     drop N               frees the last N of those of live_f()
 *     grow                 live_r() gives the last one of them, which it takes away, 6,000 bytes by realloc()
 *     churn N              churn() allocates and frees 3,000 bytes, N times
 *     burn MS              uses so much of a CPU
 *     fork                 answered "ok PID" by a child, which obeys until it has ended
 *     exec                 runs itself again, which prints "ok" instead of its first line
 *     end                  ends; in a child the parent answers
 */
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "spanprof/context.h"
#include "victim.h"

enum { MAX_KEPT = 4096, BYTES_F = 1000, BYTES_G = 2000, BYTES_R = 6000, BYTES_CHURN = 3000 };

static void *kept[MAX_KEPT], *others[MAX_KEPT];
static long n_kept, n_others;
static char line[128];

/* The compiler knows malloc() and free(), and leaves out what nobody reads. */
static void hide(void *pointer) {
        __asm__ volatile("" : : "r"(pointer) : "memory");
}

static STEP void live_f(long n) {
        KEEP_FRAME();
        while (n-- > 0 && n_kept < MAX_KEPT)
                hide(kept[n_kept++] = malloc(BYTES_F));
}

static STEP void live_g(long n) {
        KEEP_FRAME();
        while (n-- > 0 && n_others < MAX_KEPT)
                hide(others[n_others++] = malloc(BYTES_G));
}

static STEP void live_r(void) {
        KEEP_FRAME();
        if (n_kept && n_others < MAX_KEPT)
                hide(others[n_others++] = realloc(kept[--n_kept], BYTES_R));
}

static STEP void churn(long n) {
        KEEP_FRAME();
        while (n-- > 0) {
                void *pointer = malloc(BYTES_CHURN);

                hide(pointer);
                free(pointer);
        }
}

static void burn(long ms) {
        const uint64_t end_ns = victim_cpu_ns() + (uint64_t)ms * 1000000;

        while (victim_cpu_ns() < end_ns)
                ;
}

static void drop(long n) {
        while (n-- > 0 && n_kept)
                free(kept[--n_kept]);
}

/* Without stdio, whose buffer a child would have, too. Return: 0, 1 = there is no more. */
static int read_line(void) {
        size_t n = 0;

        while (n < sizeof(line) - 1 && read(0, line + n, 1) == 1)
                if (line[n++] == '\n') {
                        line[n - 1] = 0;
                        return 0;
                }
        return 1;
}

static void say(const char *text) {
        if (write(1, text, strlen(text)) < 0)
                exit(1);
}

static void fork_child(void) {
        char text[32];
        pid_t child = fork();

        if (child < 0)
                exit(1);
        if (child) {
                waitpid(child, NULL, 0);
                return;
        }
        snprintf(text, sizeof(text), "ok %d\n", getpid());
        say(text);
}

static void obey(char **argv) {
        long n = strchr(line, ' ') ? strtol(strchr(line, ' '), NULL, 10) : 0;

        if (!strncmp(line, "span", 4)) {
                if (n)
                        spanprof_context_set(7, 8, (uint64_t)n);
                else
                        spanprof_context_clear();
        } else if (!strncmp(line, "keep", 4)) {
                live_f(n);
        } else if (!strncmp(line, "more", 4)) {
                live_g(n);
        } else if (!strncmp(line, "drop", 4)) {
                drop(n);
        } else if (!strncmp(line, "grow", 4)) {
                live_r();
        } else if (!strncmp(line, "churn", 5)) {
                churn(n);
        } else if (!strncmp(line, "burn", 4)) {
                burn(n);
        } else if (!strncmp(line, "exec", 4)) {
                execl(argv[0], argv[0], "again", NULL);
                exit(1);
        } else if (!strncmp(line, "end", 3)) {
                exit(0);
        }
}

int main(int argc, char **argv) {
        char text[32];

        if (spanprof_context_start(NULL))
                abort();
        snprintf(text, sizeof(text), argc > 1 ? "ok\n" : "pid %d\n", getpid());
        say(text);
        while (!read_line()) {
                bool is_child = false;

                if (!strncmp(line, "fork", 4)) {
                        const pid_t self = getpid();

                        fork_child();
                        is_child = getpid() != self;
                } else {
                        obey(argv);
                }
                if (!is_child)
                        say("ok\n");
        }
        return 0;
}
