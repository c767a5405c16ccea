/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads statm, the descriptors and the times of this process, and raises its limit of descriptors.
 */

#include "host/service/control/self.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"

enum { SMALL_FILE_MAX = 64 << 10 };

uint64_t self_cpu_ns(void) {
        return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* /proc/self/statm: size and resident set, in pages. */
static void read_memory(uint64_t *virtualp, uint64_t *residentp) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), total = 0, resident = 0;
        _cleanup_(freep) char *text = NULL;
        size_t size;

        if (!file_read("/proc/self/statm", SMALL_FILE_MAX, &text, &size))
                sscanf(text, "%" SCNu64 " %" SCNu64, &total, &resident);
        *virtualp = total * page;
        *residentp = resident * page;
}

uint64_t self_resident_bytes(void) {
        uint64_t virtual, resident;

        read_memory(&virtual, &resident);
        return resident;
}

static uint64_t count_descriptors(void) {
        DIR *dir = opendir("/proc/self/fd");
        uint64_t n = 0;

        if (!dir)
                return 0;
        for (struct dirent *entry; (entry = readdir(dir));)
                n += entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir);
        closedir(dir);
        return n;
}

/* proc(5): field 22 of stat, counted behind the name, which may hold anything: clock ticks since boot. */
static double start_time(void) {
        _cleanup_(freep) char *text = NULL;
        unsigned long long ticks = 0;
        const char *rest;
        size_t size;

        if (file_read("/proc/self/stat", SMALL_FILE_MAX, &text, &size) || !(rest = strrchr(text, ')')))
                return 0;
        if (sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                   &ticks) != 1)
                return 0;
        return (double)ticks / (double)sysconf(_SC_CLK_TCK) +
               (double)(clock_read_ns(CLOCK_REALTIME) - clock_read_ns(CLOCK_BOOTTIME)) / (double)NS_PER_SEC;
}

void self_read(Self *self) {
        struct rlimit limit = { 0 };

        *self = (Self){ .cpu_ns = self_cpu_ns(),
                        .n_descriptors = count_descriptors(),
                        .start_time = start_time() };
        read_memory(&self->virtual_bytes, &self->resident_bytes);
        if (!getrlimit(RLIMIT_NOFILE, &limit))
                self->max_descriptors = limit.rlim_cur;
}

void self_raise_descriptor_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
                return;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
                log_debug("cannot raise the limit of open files: %m");
}
