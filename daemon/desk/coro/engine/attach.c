/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The regions belong to other programs, perhaps to another engine: they are mapped read-only, and nothing is
 * written to them, not even the flag that asks for a wake-up. So an idle region is scanned from time to time,
 * mostly every 25 ms.
 *
 *      process 812   /dev/shm/spanprof-Ab12Cd/region.shm     scans[0]
 *      process 813   the same file                           "uses the region, too": read once
 *      process 814   memfd:stations (deleted)                scans[1]
 */

#include "desk/coro/engine/attach.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/short-turns.h"
#include "host/coro/region-find.h"

enum { MAX_REGIONS = 64 };

_Static_assert((int)MAX_REGIONS <= (int)EVENT_QUEUE_MAX_SCANS, "the queue tells regions apart by index");

typedef struct Attach {
        const CoroOptions *options;
        Region *regions[MAX_REGIONS];
        RegionScan scans[MAX_REGIONS];
        size_t n_regions;
        uint32_t pid;                   /* process that is looked at */
        Recording recording;
        struct pollfd fds[1 + MAX_REGIONS];     /* signals, then the processes that have not ended */
        nfds_t n_fds;
} Attach;

static bool is_open(const Attach *attach, const Region *region) {
        for (size_t i = 0; i < attach->n_regions; i++)
                if (region_is_same(attach->regions[i], region))
                        return true;
        return false;
}

static int on_region(void *userdata, int fd, const char *path) {
        _cleanup_(closep) int owned = fd;
        _cleanup_(region_freep) Region *region = NULL;
        Attach *attach = userdata;
        RegionHeader header;
        int r = region_open(&region, owned, &header);

        if (r == REGION_E_INVALID)
                log_warning("%s: %s", path, region_header_text(header));
        else if (r > 0)
                log_warning("%s: cannot be mapped: %s", path, strerror(errno));
        if (r)
                return r < 0 ? r : 0;
        if (is_open(attach, region)) {
                log_info("process %" PRIu32 " uses the region %s, too", attach->pid, path);
                return 0;
        }
        if (attach->n_regions == MAX_REGIONS) {
                log_warning("%s: %d regions are as many as are read at once", path, MAX_REGIONS);
                return 0;
        }
        r = region_scan_init(&attach->scans[attach->n_regions], region, STATION_DIALECT_UNKNOWN, true);
        attach->scans[attach->n_regions].pid = attach->pid;
        attach->regions[attach->n_regions++] = take(region);
        log_info("process %" PRIu32 ": region %s, %" PRIu32 " stations", attach->pid, path,
                 attach->regions[attach->n_regions - 1]->n_stations);
        return r;
}

/* Return: 0, CORO_E_FAILED, -errno. */
static int add_process(Attach *attach, uint32_t pid) {
        size_t n_before = attach->n_regions;
        int r, pidfd;

        attach->pid = pid;
        pidfd = pidfd_open((pid_t)pid, 0);
        if (pidfd >= 0 && attach->n_fds < ARRAY_SIZE(attach->fds))
                attach->fds[attach->n_fds++] = (struct pollfd){ .fd = pidfd, .events = POLLIN };
        r = find_regions((pid_t)pid, on_region, attach);
        if (r == FIND_E_GONE)
                log_error("there is no process %" PRIu32, pid);
        else if (r == FIND_E_DENIED)
                log_error("we may not look into process %" PRIu32 ": run it as root", pid);
        else if (!r && attach->n_regions == n_before)
                log_warning("process %" PRIu32 " has no region of stations of its own mapped", pid);
        return r > 0 ? CORO_E_FAILED : r;
}

/* Signals stay blocked: one that comes while the last events are written must not end the reader. */
static int make_signals(Attach *attach) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
        attach->fds[0] = (struct pollfd){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                          .events = POLLIN };
        return attach->fds[0].fd < 0 ? error_origin(-errno) : 0;
}

static uint64_t wait_ns(const Recording *recording) {
        const ScanInterval *interval = &recording->interval;

        if (recording_is_behind(recording))
                return 0;
        return interval->idle ? MAX(interval->deadline_ns / 2, 10 * NS_PER_MS) : interval->wait_ns;
}

/* Return: whether to go on. */
static bool look_around(Attach *attach, uint64_t ns) {
        struct timespec wait = { .tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC) };

        if (ppoll(attach->fds, attach->n_fds, &wait, NULL) <= 0)
                return true;
        for (nfds_t i = attach->n_fds; i-- > 1;)
                if (attach->fds[i].revents) {
                        close(attach->fds[i].fd);
                        attach->fds[i] = attach->fds[--attach->n_fds];
                }
        return attach->n_fds > 1 && !attach->fds[0].revents;
}

static void loop(Attach *attach) {
        uint64_t duration_ns = attach->options->duration_ns, now_ns, looked_ns = 0;

        short_turns_take();
        do {
                recording_scan(&attach->recording, attach->scans, attach->n_regions);
                now_ns = clock_monotonic_ns();
                recording_progress(&attach->recording, attach->scans, attach->n_regions, now_ns);
                if (!wait_ns(&attach->recording) && now_ns - looked_ns < NS_PER_MS)
                        continue;
                looked_ns = now_ns;
                if (!look_around(attach, wait_ns(&attach->recording)))
                        break;
        } while (!duration_ns || now_ns - attach->recording.begin_ns < duration_ns);
}

static void deinit(Attach *attach) {
        bool ended = recording_deinit(&attach->recording);

        for (size_t i = 0; ended && i < attach->n_regions; i++) {
                region_scan_deinit(&attach->scans[i]);
                region_free(attach->regions[i]);
        }
        for (nfds_t i = 0; i < attach->n_fds; i++)
                if (attach->fds[i].fd >= 0)
                        close(attach->fds[i].fd);
}

static int start(Attach *attach, const uint32_t *pids, size_t n_pids) {
        int r = make_signals(attach);

        for (size_t i = 0; !r && i < n_pids; i++)
                r = add_process(attach, pids[i]);
        if (!r && !attach->n_regions)
                r = CORO_E_FAILED;
        if (!r)
                r = recording_open(&attach->recording, attach->options, attach->scans, attach->n_regions);
        if (!r)
                recording_watch(&attach->recording, attach->scans, attach->n_regions);
        return r;
}

int coro_attach(const CoroOptions *options, const uint32_t *pids, size_t n_pids, CoroSummary *summary) {
        static Attach attach;
        int r;

        attach = (Attach){ .options = options, .fds[0].fd = -1, .n_fds = 1 };
        *summary = (CoroSummary){ 0 };
        prctl(PR_SET_TIMERSLACK, 1000UL);
        r = start(&attach, pids, n_pids);
        if (!r) {
                loop(&attach);
                r = recording_finish(&attach.recording, attach.scans, attach.n_regions, summary);
        }
        deinit(&attach);
        return r;
}
