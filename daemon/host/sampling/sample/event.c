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
#include <sys/random.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/sampling/sample/machine.h"

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

/* ---- whether it still ticks ---- */

/*
 * Shortest silence that counts. It is long enough for a virtual CPU that its host keeps waiting, since asking
 * an idle CPU wakes it up. Periods are drawn up to a quarter longer than nominal, and each draw throws away
 * the one that had begun.
 */
#define MIN_SILENCE_NS (2 * NS_PER_SEC)
#define MIN_SILENCE_PERIODS 20

void event_pulse_reset(EventPulse *pulse) {
        *pulse = (EventPulse){ 0 };
}

bool event_is_silent(EventPulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns) {
        if (!pulse->since_ns || entries != pulse->entries) {
                *pulse = (EventPulse){ .entries = entries, .since_ns = now_ns };
                return false;
        }
        return now_ns - pulse->since_ns >= MAX(MIN_SILENCE_NS, MIN_SILENCE_PERIODS * period_ns);
}

bool event_has_stopped(EventPulse *pulse, uint64_t enabled_ns) {
        uint64_t before_ns = pulse->enabled_ns;

        if (before_ns && enabled_ns != before_ns)
                event_pulse_reset(pulse);
        else
                pulse->enabled_ns = enabled_ns;
        return before_ns && enabled_ns == before_ns;
}

/* ---- periods, and the limit of the kernel ---- */

/* To read the file of a setting costs as much as a drain. */
#define LOOK_INTERVAL_NS (5 * NS_PER_SEC)

/*
 * Jitter. A timer with a fixed period sees work in step with it always at the same place: a loop that takes 5
 * ms, sampled at 200 Hz, would show one line of code. So each period is drawn from 0.75 … 1.25 × a mean:
 *
 *     nominal 5.025 ms (199 Hz)    second 1: 4.31 ms   second 2: 5.86 ms   second 3: 4.88 ms   …
 *
 * Each period lasts for about a second, so the rate is the mean of 1/x for x from 0.75 to 1.25, which is
 * ln(1.25 ÷ 0.75) ÷ 0.5 = 1.0217. Besides, each new period throws away half of one that had begun. The mean
 * makes up for both, so that the rate is nominal.
 *
 * Each second of a flight recorder is to be about as fine as it was told: its periods are from 11/12 … 13/12,
 * for which the mean of 1/x is 1.0023.
 *
 * Draws of one CPU step through the range by the golden ratio from a random start. They are spread as evenly
 * as can be after any number of them, so short runs have the nominal rate too.
 */
uint64_t event_draw_period(uint64_t nominal_ns, EventJitter jitter, uint32_t *drawp) {
        uint64_t mean_ns = nominal_ns + nominal_ns * (jitter == EVENT_JITTER_WIDE ? 217 : 23) / 10000;

        if (!*drawp && getrandom(drawp, sizeof(*drawp), GRND_NONBLOCK) != sizeof(*drawp))
                *drawp = (uint32_t)clock_monotonic_ns() << 12;
        *drawp += 0x9E3779B9;           /* 2^32 ÷ the golden ratio */
        mean_ns -= MIN(mean_ns, NS_PER_SEC / 4) * mean_ns / (2 * NS_PER_SEC);
        return mean_ns - mean_ns / jitter + (2 * mean_ns / jitter * *drawp >> 32);
}

void event_limit_begin(EventLimit *limit, uint32_t frequency) {
        limit->frequency = frequency;
        if (!machine_setting("perf_event_max_sample_rate", &limit->max_rate) && limit->max_rate < frequency)
                log_warning(
                        "kernel.perf_event_max_sample_rate is %lld: below the %u Hz asked for, samples will be lost",
                        (long long)limit->max_rate, frequency);
}

/* The kernel lowers the limit by itself when interrupts take too long. An administrator may lower it, too. */
void event_limit_watch(EventLimit *limit) {
        uint64_t now_ns = clock_monotonic_ns();
        int64_t rate;

        if (now_ns < limit->look_ns)
                return;
        limit->look_ns = now_ns + LOOK_INTERVAL_NS;
        if (machine_setting("perf_event_max_sample_rate", &rate))
                return;
        if (rate < limit->max_rate) {
                stat_add(COUNTER_RATE_LOWERED, 1);
                log_warning("kernel.perf_event_max_sample_rate fell from %lld to %lld%s",
                            (long long)limit->max_rate, (long long)rate,
                            rate < limit->frequency ? ": samples will be lost" : "");
        }
        limit->max_rate = rate;
}
