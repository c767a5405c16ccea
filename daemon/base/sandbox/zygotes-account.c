/* SPDX-License-Identifier: Apache-2.0 */

/* Who of the machine's processes are ours, and what they take. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sandbox/zygotes-private.h"
#include "base/util/file.h"

enum { SMALL_FILE_MAX = 4096 };

#define PAST_NS (10 * NS_PER_SEC)       /* then an id may be somebody else's */

/*
 * One that we have not been told of yet. Other children are not ours: a shell may have started some before it
 * became us.
 */
static bool is_new_worker(uint32_t pid) {
        _cleanup_(freep) char *comm = NULL;
        siginfo_t info;
        char path[32];
        size_t size;

        if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
                return false;
        snprintf(path, sizeof(path), "/proc/%u/comm", pid);
        return !file_read(path, SMALL_FILE_MAX, &comm, &size) && !strcmp(comm, ZYGOTE_COMM "\n");
}

bool zygotes_is_ours(const void *userdata, uint32_t pid) {
        uint64_t now_ns = clock_monotonic_ns();
        const Zygotes *zygotes = userdata;
        LOCKED(zygotes);

        if (is_new_worker(pid))
                return true;
        if (pair_have(zygotes, (pid_t)pid))
                return true;
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].pid == (int32_t)pid)
                        return true;
        for (uint32_t i = 0; i < MIN(zygotes->n_past, (uint32_t)MAX_PAST); i++)
                if (zygotes->past[i].pid == (pid_t)pid && now_ns - zygotes->past[i].end_ns < PAST_NS)
                        return true;
        return false;
}

static uint64_t cpu_ns_of(pid_t pid) {
        clockid_t id;

        return pid > 0 && !clock_getcpuclockid(pid, &id) ? clock_read_ns(id) : 0;
}

uint64_t zygotes_cpu_ns(const Zygotes *zygotes) {
        struct rusage dead = { 0 };
        uint64_t sum;
        LOCKED(zygotes);

        getrusage(RUSAGE_CHILDREN, &dead);
        sum = ((uint64_t)dead.ru_utime.tv_sec + (uint64_t)dead.ru_stime.tv_sec) * NS_PER_SEC +
              ((uint64_t)dead.ru_utime.tv_usec + (uint64_t)dead.ru_stime.tv_usec) * NS_PER_US;
        for (int i = 0; i < N_ZYGOTES; i++)
                sum += cpu_ns_of(zygotes->zygotes[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += cpu_ns_of(zygotes->workers[i].pid);
        return sum;
}

/* Resident and not shared: the rest is the program's own pages, which count with the daemon. */
static uint64_t own_bytes_of(pid_t pid) {
        _cleanup_(freep) char *text = NULL;
        uint64_t resident = 0, shared = 0;
        char path[32];
        size_t size;

        if (pid <= 0)
                return 0;
        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
        if (file_read(path, SMALL_FILE_MAX, &text, &size) ||
            sscanf(text, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2 || resident < shared)
                return 0;
        return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t zygotes_resident_bytes(const Zygotes *zygotes) {
        uint64_t sum = 0;
        LOCKED(zygotes);

        for (int i = 0; i < N_ZYGOTES; i++)
                sum += own_bytes_of(zygotes->zygotes[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += own_bytes_of(zygotes->workers[i].pid);
        return sum;
}
