/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-hangs LOG: waits of unusual kinds, by a thread that knows how long they are
 *
 * Obeys lines on its standard input and answers `ok` to each. All but `idle` and `burn` are done by a thread of
 * their own, in a span of their own, ROUNDS times:
 *
 *     epoll           span 1: waits in epoll_wait() for a byte that another thread writes 20 ms later
 *     vfork           span 2: has a child by vfork(), which sleeps for 20 ms before it ends
 *     fault FILE      span 3: maps the file, and reads a byte of each of its pages, which are not in memory
 *     burn            span 4: a thread begins to use the CPU
 *     burnt           … and ends
 *     idle N          N threads begin to wait in span 5, and never end
 *
 * LOG gets lines, times in ns, WALL by CLOCK_MONOTONIC, CPU by the thread's clock, both of the span:
 *
 *     TID SPAN WALL CPU
 *
 * TRACE = 0, 9. Prints first:
 *     pid 4711
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "spanprof/context.h"
#include "victim.h"

enum { ROUNDS = 10, SLEEP_MS = 20 };

typedef struct Task {
        void (*work)(struct Task *task);
        uint64_t span;
        const char *path;               /* of a file */
        int pipe[2];
        FILE *log;
} Task;

static volatile bool burns;
static sem_t begun, never;

static void sleep_ms(long ms) {
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void *live(void *data) {
        Task *task = data;
        uint64_t wall_ns, cpu_ns;

        sem_post(&begun);
        wall_ns = victim_clock_ns(CLOCK_MONOTONIC);
        cpu_ns = victim_cpu_ns();
        spanprof_context_set(0, 9, task->span);
        task->work(task);
        spanprof_context_clear();
        cpu_ns = victim_cpu_ns() - cpu_ns;
        wall_ns = victim_clock_ns(CLOCK_MONOTONIC) - wall_ns;
        fprintf(task->log, "%d %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", gettid(), task->span, wall_ns, cpu_ns);
        fflush(task->log);
        return NULL;
}

static void *write_bytes(void *data) {
        const Task *task = data;

        for (int i = 0; i < ROUNDS; i++) {
                sleep_ms(SLEEP_MS);
                if (write(task->pipe[1], "", 1) != 1)
                        abort();
        }
        return NULL;
}

static void epoll(Task *task) {
        struct epoll_event event = { .events = EPOLLIN };
        int fd = epoll_create1(EPOLL_CLOEXEC);
        pthread_t writer;
        char byte;

        if (fd < 0 || pipe(task->pipe) || epoll_ctl(fd, EPOLL_CTL_ADD, task->pipe[0], &event) ||
            pthread_create(&writer, NULL, write_bytes, task))
                abort();
        for (int i = 0; i < ROUNDS; i++) {
                while (epoll_wait(fd, &event, 1, -1) != 1)
                        if (errno != EINTR)
                                abort();
                if (read(task->pipe[0], &byte, 1) != 1)
                        abort();
        }
        pthread_join(writer, NULL);
        close(task->pipe[0]);
        close(task->pipe[1]);
        close(fd);
}

static void fork_shared(Task *task) {
        for (int i = 0; i < ROUNDS; i++) {
                pid_t pid = vfork();

                if (!pid) {
                        sleep_ms(SLEEP_MS);
                        _exit(0);
                }
                if (pid < 0 || waitpid(pid, NULL, 0) != pid)
                        abort();
        }
}

static void fault(Task *task) {
        int fd = open(task->path, O_RDONLY | O_CLOEXEC);
        const volatile char *bytes;
        struct stat st;

        if (fd < 0 || fstat(fd, &st))
                abort();
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED || madvise((void *)bytes, (size_t)st.st_size, MADV_RANDOM))
                abort();
        for (off_t at = 0; at < st.st_size; at += sysconf(_SC_PAGESIZE))
                victim_sink += (uint64_t)bytes[at];
        munmap((void *)bytes, (size_t)st.st_size);
        close(fd);
}

static void burn(Task *task) {
        while (burns)
                victim_sink = victim_spin(victim_sink, 10000);
}

static void idle(Task *task) {
        while (true)
                sem_wait(&never);
}

static pthread_t start(Task *task) {
        pthread_attr_t attributes;
        pthread_t thread;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 16384);
        if (pthread_create(&thread, &attributes, live, task))
                abort();
        while (sem_wait(&begun))
                continue;
        return thread;
}

static int obey(const char *line, FILE *log) {
        static Task tasks[] = { { .work = epoll, .span = 1 }, { .work = fork_shared, .span = 2 },
                                { .work = fault, .span = 3 }, { .work = burn, .span = 4 },
                                { .work = idle, .span = 5 } };
        static char path[256];
        static pthread_t burner;
        int n = -1;

        if (!strcmp(line, "epoll\n"))
                n = 0;
        else if (!strcmp(line, "vfork\n"))
                n = 1;
        else if (sscanf(line, "fault %255s", path) == 1)
                n = 2;
        if (n >= 0) {
                tasks[n].log = log;
                tasks[n].path = path;
                return pthread_join(start(&tasks[n]), NULL);
        }
        if (!strcmp(line, "burn\n")) {
                tasks[3].log = log;
                burns = true;
                burner = start(&tasks[3]);
                return 0;
        }
        if (!strcmp(line, "burnt\n")) {
                burns = false;
                return pthread_join(burner, NULL);
        }
        if (sscanf(line, "idle %d", &n) != 1)
                return 1;
        for (tasks[4].log = log; n; n--)
                start(&tasks[4]);
        return 0;
}

int main(int argc, char **argv) {
        FILE *log = argc == 2 ? fopen(argv[1], "we") : NULL;
        char line[300];

        if (!log) {
                fprintf(stderr, "usage: victim-hangs LOG\n");
                return 2;
        }
        if (sem_init(&begun, 0, 0) || sem_init(&never, 0, 0) || spanprof_context_start(NULL))
                return 1;
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                if (obey(line, log))
                        return 1;
                printf("ok\n");
                fflush(stdout);
        }
        return 0;
}
