/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernel throttles an event that fires more often within one of its ticks than
 * that rate allows: the rest of the tick is lost. It says so with a record in the
 * event's ring, if there is one: hence two pages a CPU, one of control, one of data.
 * Nothing else arrives there, since the BPF program keeps its samples to itself.
 */

#include "host/sampling/sample/event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"

static size_t page_size(void) {
        return (size_t)sysconf(_SC_PAGESIZE);
}

int event_init(Event *event, EventOpener *opener, uint32_t cpu, uint64_t period_ns) {
        int fd = event_opener_open(opener, &(EventRequest){ EVENT_CLOCK, cpu, period_ns });
        void *pages;

        if (fd < 0)
                return fd;
        pages = mmap(NULL, 2 * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (pages == MAP_FAILED)
                log_debug("throttling on CPU %u will not be seen: %m", cpu);
        event->fd = fd;
        event->pages = pages == MAP_FAILED ? NULL : pages;
        event->period_ns = period_ns;
        event->since_ns = clock_monotonic_ns();
        return 0;
}

double event_programmed(const Event *event) {
        if (event->fd < 0)
                return event->programmed;
        return event->programmed +
                (double)(clock_monotonic_ns() - event->since_ns) / (double)event->period_ns;
}

void event_deinit(Event *event) {
        double programmed = event_programmed(event);

        if (event->pages)
                munmap(event->pages, 2 * page_size());
        if (event->fd >= 0)
                close(event->fd);
        *event = (Event){ .fd = -1, .programmed = programmed };
}

int event_set_period(Event *event, uint64_t period_ns) {
        if (ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period_ns) < 0)
                return -errno;
        event->programmed = event_programmed(event) - 0.5;      /* half a period had passed, on average */
        event->period_ns = period_ns;
        event->since_ns = clock_monotonic_ns();
        return 0;
}

uint64_t event_enabled_ns(const Event *event) {
        struct { uint64_t value, enabled_ns; } answer;

        return read(event->fd, &answer, sizeof(answer)) == sizeof(answer) ? answer.enabled_ns : 0;
}

uint64_t event_read_throttles(Event *event) {
        struct perf_event_mmap_page *control = event->pages;
        const size_t size = page_size();
        uint64_t head, tail, n = 0;

        if (!control)
                return 0;
        head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
        for (tail = control->data_tail; tail < head;) {
                /* Records and the page's end are 8-aligned, so a header is never torn. */
                const struct perf_event_header *header = (const void *)((const char *)control + size +
                                                                        tail % size);

                if (!header->size)
                        break;
                n += header->type == PERF_RECORD_THROTTLE;
                tail += header->size;
        }
        __atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
        return n;
}
