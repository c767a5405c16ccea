/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Answers one request at a time over a pair of sockets:
 *
 *     daemon   form, CPU, period   ──▶   opener: perf_event_open()
 *              0, or -errno        ◀──   with the descriptor
 *
 * Whoever takes the daemon over gets from it what CAP_PERFMON would give on other kernels, and no more: clock
 * events and records of mappings.
 */
#include "host/sampling/sample/event-opener.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/rights.h"
#include "core/base/sandbox/sandbox.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/sampling/sample/machine.h"

enum {
        ANSWER_S = 5,                   /* then it hangs */
        SOCKET = 0,                     /* descriptor of the opener, which has no other */
        LEAST_PERIOD_NS = 10000,        /* below it a machine does little else */
        PARANOID_OF_PERFMON = 2,        /* the highest level that the kernel's own source knows */
};

struct EventOpener {
        pid_t pid;
        int socket;                     /* the other end is the opener's */
};

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

/* No frequency either: the kernel's own periods make sums false, and hardly sample. */
static struct perf_event_attr faults_attr(uint64_t config, uint64_t period) {
        return (struct perf_event_attr){
                .type = PERF_TYPE_SOFTWARE,
                .size = sizeof(struct perf_event_attr),
                .config = config,
                .sample_period = period,
        };
}

static struct perf_event_attr attr_of(const EventRequest *request) {
        switch (request->form) {
        case EVENT_CLOCK:
                return clock_attr(request->period);
        case EVENT_FAULTS_MINOR:
                return faults_attr(PERF_COUNT_SW_PAGE_FAULTS_MIN, request->period);
        case EVENT_FAULTS_MAJOR:
                return faults_attr(PERF_COUNT_SW_PAGE_FAULTS_MAJ, request->period);
        default:
                return mappings_attr();
        }
}

int event_open(const EventRequest *request) {
        struct perf_event_attr attr = attr_of(request);
        int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)request->cpu, -1, PERF_FLAG_FD_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/* ---- the opener ---- */

bool event_opener_is_wanted(void) {
        int64_t paranoid;

        return !machine_setting("perf_event_paranoid", &paranoid) && paranoid > PARANOID_OF_PERFMON &&
                rights_hold(CAP_SYS_ADMIN);
}

static bool is_valid(const EventRequest *request) {
        switch (request->form) {
        case EVENT_CLOCK:
                return request->period >= LEAST_PERIOD_NS;
        case EVENT_FAULTS_MINOR:
        case EVENT_FAULTS_MAJOR:
                return request->period;
        default:
                return request->form == EVENT_MAPPINGS;
        }
}

static void answer(void) {
        EventRequest request;

        while (!channel_receive_all(SOCKET, &request, sizeof(request))) {
                int fd = is_valid(&request) ? event_open(&request) : -EINVAL;
                int32_t r = MIN(fd, 0);

                if (channel_send(SOCKET, &r, sizeof(r), fd))
                        return;
                closep(&fd);
        }
}

/* Signals for a whole group of processes are not for it. All other descriptors would stay open through it. */
static _Noreturn void serve(int socket) {
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, EVENT_OPENER_COMM, 0, 0, 0);
        if (socket != SOCKET && dup2(socket, SOCKET) < 0)
                _exit(1);
        syscall(SYS_close_range, SOCKET + 1, ~0u, 0);
        if (sandbox_enter_opener())
                _exit(1);
        answer();
        _exit(0);
}

int event_opener_new(EventOpener **openerp) {
        _cleanup_(event_opener_freep) EventOpener *opener = calloc(1, sizeof(*opener));
        const struct timeval patience = { .tv_sec = ANSWER_S };
        int ends[2];

        if (!opener)
                return error_origin(-ENOMEM);
        opener->socket = -1;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return error_origin(-errno);
        opener->socket = ends[1];
        setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        opener->pid = fork();
        if (opener->pid == 0)
                serve(ends[0]);
        close(ends[0]);
        if (opener->pid < 0)
                return error_origin(-errno);
        *openerp = take(opener);
        return 0;
}

EventOpener *event_opener_free(EventOpener *opener) {
        if (!opener)
                return NULL;
        closep(&opener->socket);
        while (opener->pid > 0 && waitpid(opener->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        free(opener);
        return NULL;
}

/* An answer that comes late would be taken for that of the next request, so it is never asked again. */
static int ask(EventOpener *opener, const EventRequest *request) {
        int32_t answered = 0;
        int fd = -1;
        ssize_t n = opener->socket < 0 ? -EPIPE : channel_send(opener->socket, request, sizeof(*request), -1);

        if (!n)
                n = channel_receive(opener->socket, &answered, sizeof(answered), &fd, 0);

        if (n == sizeof(answered) && (answered < 0) == (fd < 0))
                return answered < 0 ? answered : fd;
        closep(&fd);
        closep(&opener->socket);
        opener->socket = -1;
        return n == -EAGAIN ? -ETIMEDOUT : -EPIPE;
}

int event_opener_open(EventOpener *opener, const EventRequest *request) {
        int fd = event_open(request);

        return opener && (fd == -EACCES || fd == -EPERM) ? ask(opener, request) : fd;
}
