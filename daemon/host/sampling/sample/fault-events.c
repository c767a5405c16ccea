/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Periods. A program faults in rounds: a loop that touches 50 pages in f, 30 in g and 20 in h would have
 * each 100th fault in f. So every period is a prime, and each second has another one, drawn from 1 … 1.25 ×
 * what the number of faults asks for: nine samples where the clock has ten ticks, as each change makes one
 * more. That goes up at once, and down by a fifth a second, since a storm costs more than a second with few
 * samples. At 100 Hz:
 *
 *     faults a second    9,000    400,000    400,000    20,000    20,000
 *     asked for            997      4,444      4,444     3,555     2,844
 *     period             1,109      5,479      4,783     4,201     3,001
 *
 * With less than 97 a storm would be over before it is noticed. Major faults wait for a disk, and begin with
 * each one.
 *
 * The kernel's own adaptation (`freq`) is no use here: it hardly samples, and the sum of its periods is not
 * the number of faults. A new period lets the next fault be a sample. That does no harm, since the weight of
 * a sample is a difference of counters.
 */

#include "host/sampling/sample/fault-events.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/perf_event.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        FIRST_MINOR = 997,
        LEAST_MINOR = 97,
        MOST = 1 << 20,                 /* for a hundred million faults a second */
        N_KINDS = 2,                    /* minor, major */
};

typedef struct FaultEvent {
        int fd;                         /* -1 = closed */
        KernelHalfLink *link;
        uint32_t asked;                 /* fault_period_next() */
        uint32_t draw;                  /* state of fault_period() */
        uint64_t counted;               /* by the kernel, at the last look */
        uint64_t looked_ns;
} FaultEvent;

struct FaultEvents {
        KernelHalf *half;
        EventOpener *opener;
        uint32_t frequency;
        size_t n_cpus;
        FaultEvent (*cpus)[N_KINDS];
};

static bool is_prime(uint32_t n) {
        for (uint32_t i = 2; i * i <= n; i++)
                if (n % i == 0)
                        return false;
        return true;
}

uint32_t fault_period_first(bool is_major) {
        return is_major ? 1 : FIRST_MINOR;
}

uint32_t fault_period_next(uint32_t asked, bool is_major, double rate, uint32_t frequency) {
        const double wanted = MIN(rate / (0.9 * frequency), (double)MOST);

        return MAX(MAX((uint32_t)wanted, asked - asked / 5), (uint32_t)(is_major ? 1 : LEAST_MINOR));
}

/* Draws step through the range by the golden ratio, as those of the clock's (event.c). */
uint64_t fault_period(uint32_t asked, uint32_t *drawp) {
        uint32_t period;

        *drawp += 0x9E3779B9;
        period = asked + (uint32_t)((uint64_t)asked * *drawp / 4 >> 32);
        while (!is_prime(period))
                period++;
        return period;
}

int fault_events_new(FaultEvents **eventsp, KernelHalf *half, EventOpener *opener,
                     uint32_t frequency) {
        _cleanup_(freep) FaultEvents *events = calloc(1, sizeof(*events));

        if (!events)
                return error_origin(-ENOMEM);
        events->half = half;
        events->opener = opener;
        events->frequency = frequency;
        events->n_cpus = kernel_half_n_cpus(half);
        events->cpus = calloc(events->n_cpus, sizeof(*events->cpus));
        if (!events->cpus)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < events->n_cpus; i++)
                for (size_t kind = 0; kind < N_KINDS; kind++)
                        events->cpus[i][kind].fd = -1;
        *eventsp = take(events);
        return 0;
}

FaultEvents *fault_events_free(FaultEvents *events) {
        if (!events)
                return NULL;
        for (size_t i = 0; i < events->n_cpus; i++)
                fault_events_close(events, i);
        free(events->cpus);
        free(events);
        return NULL;
}

static int open_one(FaultEvents *events, size_t cpu, bool is_major) {
        FaultEvent *event = &events->cpus[cpu][is_major];
        int r;

        event->asked = fault_period_first(is_major);
        event->fd = event_opener_open(events->opener,
                                      &(EventRequest){ is_major ? EVENT_FAULTS_MAJOR : EVENT_FAULTS_MINOR,
                                                       (uint32_t)cpu,
                                                       fault_period(event->asked, &event->draw) });
        if (event->fd == -ENODEV)
                return 0;
        if (event->fd < 0)
                return kernel_half_refuse("open an event of page faults", event->fd);
        event->counted = 0;
        event->looked_ns = clock_monotonic_ns();
        r = kernel_half_attach_faults(events->half, event->fd, is_major, &event->link);
        return r ? kernel_half_refuse("attach to an event of page faults", r) : 0;
}

int fault_events_open(FaultEvents *events, size_t cpu) {
        int r = 0;

        for (size_t kind = 0; kind < N_KINDS && !r; kind++)
                if (events->cpus[cpu][kind].fd < 0)
                        r = open_one(events, cpu, kind);
        return r;
}

void fault_events_close(FaultEvents *events, size_t cpu) {
        for (size_t kind = 0; kind < N_KINDS; kind++) {
                FaultEvent *event = &events->cpus[cpu][kind];

                event->link = kernel_half_detach(event->link);
                closep(&event->fd);
                event->fd = -1;
        }
}

void fault_events_set_frequency(FaultEvents *events, uint32_t frequency) {
        events->frequency = frequency;
}

/* An event that has counted nothing is left alone: a new period would interrupt an idle CPU. */
static void adapt(FaultEvent *event, bool is_major, uint32_t frequency, uint64_t now_ns) {
        uint64_t counted, period, time_ns = MAX(now_ns - event->looked_ns, UINT64_C(1));

        if (event->fd < 0 || read(event->fd, &counted, sizeof(counted)) != sizeof(counted) ||
            counted == event->counted)
                return;
        event->asked = fault_period_next(event->asked, is_major,
                                         (double)(counted - event->counted) * NS_PER_SEC / (double)time_ns,
                                         frequency);
        event->counted = counted;
        event->looked_ns = now_ns;
        period = fault_period(event->asked, &event->draw);
        /* The call fails where the CPU has gone: then the period counts for nobody. */
        (void)ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period);
}

void fault_events_adapt(FaultEvents *events, uint64_t now_ns) {
        for (size_t i = 0; i < events->n_cpus; i++)
                for (size_t kind = 0; kind < N_KINDS; kind++)
                        adapt(&events->cpus[i][kind], kind, events->frequency, now_ns);
}
