/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Periods. A program faults in rounds: a loop that touches 50 pages in f, 30 in g and 20 in h would have
 * each 100th fault in f. So every period is a prime, and another one follows after some time, drawn from
 * 1 … 1.25 × what the number of faults asks for: nine samples at most where the clock has ten ticks. That
 * goes up at once, and down by a fifth a second, since a storm costs more than a second with few samples. At
 * 100 Hz:
 *
 *     faults a second    9,000    400,000    400,000    20,000    20,000
 *     asked for            997      4,444      4,444     3,555     2,844
 *     period             1,109      5,479      4,783     4,201     3,001
 *
 * With less than 97 a storm would be over before it is noticed. Major faults wait for a disk, and begin with
 * each one.
 *
 * A sample has to come by count, and never by time. The first fault after a moment is mostly one behind a
 * pause: of a thread that faults now and then, and not of one that faults eighty times in a row. Each new
 * period makes the next fault a sample. The kernel half leaves that one out (faults.bpf.h), but the samples
 * behind it are at fixed distances from it. So a period goes on for 64 samples, unless the number of faults
 * asks for another one. Where A faults 80 times in a row once a second, and B once five times, by chance:
 *
 *     new period             never    each second    after each sample    after 64
 *     B's share of weight    5.9 %    44 %           2 %                  5.6 %
 *
 * The new period is not the next one either: the one before runs once more (perf_swevent_set_period()). A
 * much longer one would keep it waiting, so it is set again, which ends that.
 *
 * The kernel's own adaptation (`freq`) is no use here: it hardly samples, and the sum of its periods is not
 * the number of faults.
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
        SAMPLES = 64,                   /* as many has a period, at least */
        N_KINDS = 2,                    /* minor, major */
};

typedef struct FaultEvent {
        int fd;                         /* -1 = closed */
        KernelHalfLink *link;
        FaultPeriod period;
} FaultEvent;

typedef struct FaultCpu {
        FaultEvent kinds[N_KINDS];
        uint64_t entries;               /* entries of the sampler, at the last look */
} FaultCpu;

struct FaultEvents {
        KernelHalf *half;
        EventOpener *opener;
        uint32_t frequency;
        size_t n_cpus;
        FaultCpu *cpus;
};

static bool is_prime(uint32_t n) {
        for (uint32_t i = 2; i * i <= n; i++)
                if (n % i == 0)
                        return false;
        return true;
}

uint32_t fault_period_next(uint32_t asked, bool is_major, double rate, uint32_t frequency) {
        const double wanted = MIN(rate / (0.9 * frequency), (double)MOST);

        return MAX(MAX((uint32_t)wanted, asked - asked / 5), (uint32_t)(is_major ? 1 : LEAST_MINOR));
}

/* Draws step through the range by the golden ratio, as those of the clock's (event.c). */
uint64_t fault_period_draw(uint32_t asked, uint32_t *drawp) {
        uint32_t period;

        *drawp += 0x9E3779B9;
        period = asked + (uint32_t)((uint64_t)asked * *drawp / 4 >> 32);
        while (!is_prime(period))
                period++;
        return period;
}

void fault_period_begin(FaultPeriod *period, bool is_major, uint64_t now_ns) {
        *period = (FaultPeriod){ .draw = period->draw, .looked_ns = now_ns };
        period->period = fault_period_draw(is_major ? 1 : FIRST_MINOR, &period->draw);
        period->before = period->period;
}

void fault_period_idle(FaultPeriod *period, uint64_t now_ns) {
        period->looked_ns = now_ns;
}

uint64_t fault_period_adapt(FaultPeriod *period, bool is_major, uint64_t counted, uint64_t now_ns,
                            uint32_t frequency) {
        const double seconds = (double)MAX(now_ns - period->looked_ns, UINT64_C(1)) / NS_PER_SEC;
        const uint64_t n = counted - period->counted, n_all = counted - period->begun;
        uint32_t asked;
        bool waits;

        period->counted = counted;
        period->looked_ns = now_ns;
        if (!n)
                return 0;
        asked = fault_period_next(period->asked, is_major, (double)n / seconds, frequency);
        waits = asked == period->asked && period->before > 2 * period->period && n_all < period->before;
        if (asked == period->asked && !waits && n_all < (uint64_t)SAMPLES * asked)
                return 0;
        period->asked = asked;
        period->begun = counted;
        period->before = period->period;
        if (!waits)
                period->period = fault_period_draw(asked, &period->draw);
        return period->period;
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
                        events->cpus[i].kinds[kind].fd = -1;
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
        FaultEvent *event = &events->cpus[cpu].kinds[is_major];
        int r;

        fault_period_begin(&event->period, is_major, clock_monotonic_ns());
        event->fd = event_opener_open(events->opener,
                                      &(EventRequest){ is_major ? EVENT_FAULTS_MAJOR : EVENT_FAULTS_MINOR,
                                                       (uint32_t)cpu, event->period.period });
        if (event->fd == -ENODEV)
                return 0;
        if (event->fd < 0)
                return kernel_half_refuse("open an event of page faults", event->fd);
        r = kernel_half_attach_faults(events->half, event->fd, is_major, &event->link);
        return r ? kernel_half_refuse("attach to an event of page faults", r) : 0;
}

int fault_events_open(FaultEvents *events, size_t cpu) {
        int r = 0;

        for (size_t kind = 0; kind < N_KINDS && !r; kind++)
                if (events->cpus[cpu].kinds[kind].fd < 0)
                        r = open_one(events, cpu, kind);
        return r;
}

void fault_events_close(FaultEvents *events, size_t cpu) {
        for (size_t kind = 0; kind < N_KINDS; kind++) {
                FaultEvent *event = &events->cpus[cpu].kinds[kind];

                event->link = kernel_half_detach(event->link);
                closep(&event->fd);
                event->fd = -1;
        }
}

void fault_events_set_frequency(FaultEvents *events, uint32_t frequency) {
        events->frequency = frequency;
}

/* Asking interrupts the CPU. */
static void adapt(FaultEvent *event, bool is_major, uint32_t frequency, uint64_t now_ns) {
        uint64_t counted, period;

        if (event->fd < 0 || read(event->fd, &counted, sizeof(counted)) != sizeof(counted))
                return;
        period = fault_period_adapt(&event->period, is_major, counted, now_ns, frequency);
        /* The call fails where the CPU has gone: then the period counts for nobody. */
        if (period)
                (void)ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period);
}

void fault_events_adapt(FaultEvents *events, const uint64_t *entries, uint64_t now_ns) {
        for (size_t i = 0; i < events->n_cpus; i++) {
                FaultCpu *cpu = &events->cpus[i];
                const bool is_idle = cpu->entries == entries[i];

                cpu->entries = entries[i];
                for (size_t kind = 0; kind < N_KINDS; kind++)
                        if (is_idle)
                                fault_period_idle(&cpu->kinds[kind].period, now_ns);
                        else
                                adapt(&cpu->kinds[kind], kind, events->frequency, now_ns);
        }
}
