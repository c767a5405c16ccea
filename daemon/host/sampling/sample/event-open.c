/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sampling/sample/event-open.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * A period in ns, no frequency: with a frequency the kernel adapts the period by itself, and refuses what is
 * above perf_event_max_sample_rate.
 */
static struct perf_event_attr clock_attr(uint64_t period_ns) {
        return (struct perf_event_attr){
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(struct perf_event_attr),
                .config = PERF_COUNT_SW_CPU_CLOCK,
                .sample_period = period_ns,
                .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
        };
}

/*
 * Asks for device and inode, not for the build id, though the kernel could tell it. Once it has told one
 * event the build id, it leaves the flag PERF_RECORD_MISC_MMAP_BUILD_ID in the same record for other events
 * that did not ask (perf_event_mmap_output(), seen on 6.18). Every `perf record` on the machine would read
 * inodes as build ids then, and perf 6.1 aborts.
 */
static struct perf_event_attr mappings_attr(void) {
        return (struct perf_event_attr){
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(struct perf_event_attr),
                .config = PERF_COUNT_SW_DUMMY,
                .sample_type = PERF_SAMPLE_TIME,
                .sample_id_all = 1,
                .use_clockid = 1,
                .clockid = CLOCK_MONOTONIC,
                .mmap = 1,              /* asks for them, `mmap2` for the longer form */
                .mmap2 = 1,
                .comm = 1,
                .comm_exec = 1,
                .watermark = 1,
                .wakeup_watermark = 0,  /* half of the ring: a wake-up interrupts the mapper */
        };
}

int event_open(const EventRequest *request) {
        struct perf_event_attr attr = request->form == EVENT_CLOCK ? clock_attr(request->period_ns)
                                                                   : mappings_attr();
        int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)request->cpu, -1, PERF_FLAG_FD_CLOEXEC);

        return fd < 0 ? -errno : fd;
}
