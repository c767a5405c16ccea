/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where more threads compute than there are CPUs, one that was woken may wait for up to a tick, 4 ms at 250
 * Hz, although its turn is due: the kernel looks who is next when a thread wakes up, and at a tick. At the
 * wake-up the other may have the last part of its turn before it; when that ends, nobody looks.
 *
 *      other    ████████████████████████│← its turn ends           ████│ tick
 *      engine             woken ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ runs
 *      looker                             │ wakes: the kernel looks, and the engine runs here
 *
 * So a second thread, the looker, wakes up on the same CPU each 200 µs, and does nothing else. It takes some
 * 2 µs each time, and is asleep unless the engine waited for a CPU: more than a 25th of the last 5 ms, by the
 * kernel's count (/proc/PID/task/TID/schedstat). It goes on for a second after that, and at the start for
 * 100 ms: what the engine used before its first scan may make it wait.
 *
 * It does harm where a burst of one coroutine is over before any wait is: there the engine is best on the CPU
 * of the program, which it stops at each event, and the looker keeps it elsewhere. Its caller knows by the
 * losses (recording.c).
 *
 * Measured by `coro.py tight` with BUSY=2; docs/PERFORMANCE.md has the figures.
 */

#include "desk/coro/engine/contention.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/short-turns.h"

#define LOOK_NS (200 * NS_PER_US)
#define READ_NS (5 * NS_PER_MS)         /* between two looks at what the kernel counts */
#define AFTER_NS NS_PER_SEC             /* how long contention is assumed after it was seen */
#define START_NS (100 * NS_PER_MS)
enum { SHARE = 25 };                    /* time ÷ time that was waited for a CPU, from which on it is seen */

struct Contention {
        int fd;                         /* schedstat of the thread that scans; -1 = there is none */
        uint64_t read_ns, waited_ns;    /* at the last look: the time, and what was waited until then */
        uint64_t until_ns;
        Thread *looker;
        pthread_mutex_t mutex;          /* guards all that follows */
        pthread_cond_t changed;
        bool looks, stopping;
        int cpu;                        /* CPU of the thread that scans */
};

static void look(void *userdata) {
        const struct timespec time = { .tv_nsec = LOOK_NS };
        Contention *contention = userdata;
        int on = -1;

        (void)!prctl(PR_SET_TIMERSLACK, 1000UL);
        short_turns_take();
        pthread_mutex_lock(&contention->mutex);
        while (!contention->stopping) {
                int cpu = contention->cpu;

                if (!contention->looks) {
                        pthread_cond_wait(&contention->changed, &contention->mutex);
                        continue;
                }
                pthread_mutex_unlock(&contention->mutex);
                if (cpu >= 0 && cpu != on)
                        thread_stay_on(cpu);
                on = cpu;
                nanosleep(&time, NULL);
                pthread_mutex_lock(&contention->mutex);
        }
        pthread_mutex_unlock(&contention->mutex);
}

int contention_new(Contention **contentionp) {
        _cleanup_(contention_freep) Contention *contention = calloc(1, sizeof(*contention));
        const ThreadConfig config = { .run = look, .userdata = contention };
        int r;

        if (!contention)
                return error_origin(-ENOMEM);
        contention->cpu = -1;
        contention->fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
        pthread_mutex_init(&contention->mutex, NULL);
        pthread_cond_init(&contention->changed, NULL);
        r = thread_new(&contention->looker, &config);
        if (r)
                return r;
        *contentionp = take(contention);
        return 0;
}

Contention *contention_free(Contention *contention) {
        if (!contention)
                return NULL;
        pthread_mutex_lock(&contention->mutex);
        contention->stopping = true;
        pthread_cond_signal(&contention->changed);
        pthread_mutex_unlock(&contention->mutex);
        thread_join(contention->looker);
        pthread_cond_destroy(&contention->changed);
        pthread_mutex_destroy(&contention->mutex);
        closep(&contention->fd);
        free(contention);
        return NULL;
}

/* Time that the thread could run and had no CPU, since its start. Return: whether it is known. */
static bool read_waited(const Contention *contention, uint64_t *waited_ns) {
        char text[64];
        ssize_t n = pread(contention->fd, text, sizeof(text) - 1, 0);
        char *end;

        if (n <= 0)
                return false;
        text[n] = 0;
        (void)strtoull(text, &end, 10);         /* time that the thread ran */
        *waited_ns = strtoull(end, NULL, 10);
        return *end == ' ';
}

static void tell_looker(Contention *contention, bool looks, int cpu) {
        if (contention->looks == looks && (!looks || contention->cpu == cpu))
                return;
        pthread_mutex_lock(&contention->mutex);
        contention->looks = looks;
        contention->cpu = cpu;
        pthread_cond_signal(&contention->changed);
        pthread_mutex_unlock(&contention->mutex);
}

bool contention_update(Contention *contention, uint64_t now_ns, bool looks) {
        uint64_t waited_ns;
        bool is_there;

        if (now_ns - contention->read_ns >= READ_NS && read_waited(contention, &waited_ns)) {
                if (!contention->read_ns)
                        contention->until_ns = now_ns + START_NS;
                else if ((waited_ns - contention->waited_ns) * SHARE > now_ns - contention->read_ns)
                        contention->until_ns = now_ns + AFTER_NS;
                contention->read_ns = now_ns;
                contention->waited_ns = waited_ns;
        }
        is_there = now_ns < contention->until_ns;
        tell_looker(contention, is_there && looks, sched_getcpu());
        return is_there;
}
