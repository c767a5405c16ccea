/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JVM 4711 and its workers:
 *
 *     open       worker 1 is made, gets libjvm's file and 4711's memory, says where things lie
 *     frames     worker 1 is asked, 30 to 100 µs each; the loop waits for it
 *     …          10 s without a question: worker 1 is not wanted any more
 *     frames     worker 2 is made, opens, is asked
 *     …          worker 2 dies: counted; this frame has no name for now
 *     frames     worker 3 is made at once, the next ones after 1 s, 2 s, … 64 s
 *
 * Why the loop waits: a frame's name has to be read before the code has gone, and the stack it belongs to
 * goes into the window now. What that may cost is bounded four times:
 *
 *     a question          400 ms; then its worker is late and killed
 *     a JVM               its budget of a second (sampling/runtime/runtimes.c), and the pauses above
 *     all JVMs            600 ms of a second; then there are no answers until it is over
 *     workers             64 at a time, and 32 more that were killed and cannot die (hotspot-handle.c)
 *
 * A worker has a limited time of a processor for its whole life (sandbox.h). Long before that it is ended
 * and made again.
 */
#include "runtime/hotspot/hotspot-link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/sandbox/sandbox.h"
#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "base/util/stat.h"
#include "runtime/hotspot/hotspot-session.h"

enum {
        MAX_THERE = HOTSPOT_MAX_LINKED + 32,    /* those that were ended and are still there included */
        MAX_DOUBLINGS = 6,
};

#define QUESTION_NS (400 * NS_PER_MS)
#define ALL_BUDGET_NS (600 * NS_PER_MS)
#define BATCH_NS (2 * NS_PER_MS)        /* frames of one stack are asked for within it */
#define IDLE_NS (10 * NS_PER_SEC)
#define WORKER_CPU_NS (SANDBOX_CPU_SECONDS * NS_PER_SEC / 2)
#define FORGIVE_NS (2 * NS_PER_SEC << MAX_DOUBLINGS)

struct HotspotLink {
        HotspotLinks *links;
        HotspotLink *next;
        pid_t pid;
        uint64_t start_time_ns, size, bias;
        int fd;
        HotspotSession session;
        uint64_t asked_ns, batch_ns;    /* the last question, the last batch */
        uint64_t failed_ns, retry_ns;   /* its last worker failed; the next may be made */
        unsigned n_failures;            /* in a row */
        uint64_t past_cpu_ns;           /* of its workers before this one */
        uint64_t cpu_ns;                /* of this one, when it was last looked at */
};

struct HotspotLinks {
        Zygotes *zygotes;
        HotspotLink *first;
        HotspotAnswer *answer;
        WorkerSessionCounts counts;
        uint64_t second_ns, spent_ns;   /* of this second, waiting */
        uint32_t n_linked;
        uint32_t ended[MAX_THERE];      /* serials of workers that were ended; 0 = none */
};

int hotspot_links_new(HotspotLinks **linksp, Zygotes *zygotes) {
        _cleanup_(hotspot_links_freep) HotspotLinks *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        links->zygotes = zygotes;
        links->answer = calloc(1, sizeof(*links->answer));
        if (!links->answer)
                return error_origin(-ENOMEM);
        *linksp = take(links);
        return 0;
}

HotspotLinks *hotspot_links_free(HotspotLinks *links) {
        if (links)
                free(links->answer);
        free(links);
        return NULL;
}

/* ---- one worker, from its beginning to its end ---- */

static bool has_worker(const HotspotLink *link) {
        return link->session.worker.socket >= 0;
}

/* Whether one more may be there. */
static bool has_room(HotspotLinks *links) {
        uint32_t n = links->n_linked;

        for (uint32_t i = 0; i < MAX_THERE; i++) {
                if (links->ended[i] && !zygotes_has(links->zygotes, links->ended[i]))
                        links->ended[i] = 0;
                n += links->ended[i] != 0;
        }
        return n < MAX_THERE;
}

static void remember_end(HotspotLinks *links, uint32_t serial) {
        for (uint32_t i = 0; i < MAX_THERE; i++)
                if (!links->ended[i]) {
                        links->ended[i] = serial;
                        return;
                }
}

/* The session has no worker (any more): its place is free once the worker is gone. */
static void note_end(HotspotLink *link) {
        link->past_cpu_ns += link->cpu_ns;
        link->cpu_ns = 0;
        link->links->n_linked--;
        remember_end(link->links, link->session.worker.serial);
}

static void end_worker(HotspotLink *link) {
        if (!has_worker(link))
                return;
        hotspot_session_end(&link->session);
        note_end(link);
}

/* It has ended the session itself. */
static void note_failure(HotspotLink *link, uint64_t now_ns) {
        note_end(link);
        if (now_ns - link->failed_ns > FORGIVE_NS)
                link->n_failures = 0;
        link->failed_ns = now_ns;
        link->retry_ns = now_ns;
        if (link->n_failures)
                link->retry_ns += NS_PER_SEC << MIN(link->n_failures - 1, (unsigned)MAX_DOUBLINGS);
        link->n_failures++;
        log_write_target(LOG_LEVEL_DEBUG, (uint32_t)link->pid,
                         "java: the worker that reads it has ended (%u in a row)", link->n_failures);
}

static void count(HotspotLinks *links) {
        worker_session_count(&links->counts);
        links->counts = (WorkerSessionCounts){ 0 };
}

static HotspotLink *oldest(const HotspotLinks *links) {
        HotspotLink *best = NULL;

        for (HotspotLink *link = links->first; link; link = link->next)
                if (has_worker(link) && (!best || link->asked_ns < best->asked_ns))
                        best = link;
        return best;
}

/* Return: whether it is there. */
static bool make_worker(HotspotLink *link) {
        HotspotLinks *links = link->links;

        if (links->n_linked >= HOTSPOT_MAX_LINKED) {
                end_worker(oldest(links));
                stat_add(COUNTER_WORKERS_EVICTED, 1);
        }
        if (worker_session_begin(&link->session.worker))
                return false;
        links->n_linked++;
        return true;
}

/* A worker, which has read the JVM anew. Return: 0, HOTSPOT_E_*. */
static int open_jvm(HotspotLink *link, uint64_t now_ns) {
        HotspotHandle handle = { -1, -1 };
        int r = HOTSPOT_E_LATER;

        if (now_ns < link->retry_ns || !has_room(link->links) ||
            !hotspot_handle_open(&handle, link->pid, link->start_time_ns))
                return HOTSPOT_E_LATER;
        link->session.worker.end_ns = now_ns + QUESTION_NS;
        if (make_worker(link)) {
                r = hotspot_session_open(&link->session, &handle, link->fd, link->size, link->bias);
                if (r == HOTSPOT_E_GONE)
                        note_failure(link, clock_monotonic_ns());
                else if (r)
                        note_end(link);
        }
        hotspot_handle_close(&handle);
        return r;
}

static bool has_time(HotspotLinks *links, uint64_t now_ns) {
        if (now_ns - links->second_ns > NS_PER_SEC) {
                links->second_ns = now_ns;
                links->spent_ns = 0;
        }
        return links->spent_ns < ALL_BUDGET_NS;
}

/* ---- questions ---- */

static uint64_t worker_cpu_ns(const HotspotLink *link) {
        return zygotes_worker_cpu_ns(link->links->zygotes, link->session.worker.serial);
}

/* After each: @begin_ns: when it began. */
static void settle(HotspotLink *link, uint64_t begin_ns) {
        uint64_t now_ns = clock_monotonic_ns();
        HotspotLinks *links = link->links;

        links->spent_ns += now_ns - begin_ns;
        link->asked_ns = now_ns;
        if (has_worker(link)) {
                link->cpu_ns = MAX(link->cpu_ns, worker_cpu_ns(link));
                if (link->cpu_ns > WORKER_CPU_NS)
                        end_worker(link);
        }
        count(links);
}

int hotspot_link_open(HotspotLink *link, const HotspotOpened **openedp) {
        uint64_t begin_ns = clock_monotonic_ns();
        HotspotLinks *links = link->links;
        int r = HOTSPOT_E_LATER;

        *openedp = &links->answer->opened;
        links->answer->opened = (HotspotOpened){ .reason = "java: not readable for us" };
        end_worker(link);
        if (has_time(links, begin_ns))
                r = open_jvm(link, begin_ns);
        settle(link, begin_ns);
        return r;
}

static bool is_new_batch(HotspotLink *link, uint64_t now_ns) {
        if (now_ns - link->batch_ns <= BATCH_NS)
                return false;
        link->batch_ns = now_ns;
        return true;
}

int hotspot_link_frames(HotspotLink *link, const uint64_t words[HOTSPOT_WORDS],
                        const HotspotFrames **framesp) {
        uint64_t begin_ns = clock_monotonic_ns();
        HotspotLinks *links = link->links;
        int r;

        if (!has_time(links, begin_ns))
                return HOTSPOT_E_LATER;
        r = has_worker(link) ? 0 : open_jvm(link, begin_ns);
        if (!r) {
                link->session.worker.end_ns = begin_ns + QUESTION_NS;
                r = hotspot_session_frames(&link->session, words, is_new_batch(link, begin_ns));
                if (r == HOTSPOT_E_GONE)
                        note_failure(link, clock_monotonic_ns());
        } else
                r = HOTSPOT_E_LATER;
        settle(link, begin_ns);
        *framesp = &links->answer->frames;
        return !r || r == HOTSPOT_E_NAMELESS ? r : HOTSPOT_E_LATER;
}

uint64_t hotspot_link_cpu_ns(const HotspotLink *link) {
        return link->past_cpu_ns + link->cpu_ns;
}

/* ---- links ---- */

int hotspot_link_new(HotspotLink **linkp, HotspotLinks *links, pid_t pid, uint64_t start_time_ns, int fd,
                     uint64_t size, uint64_t bias) {
        HotspotLink *link = calloc(1, sizeof(*link));

        if (!link)
                return error_origin(-ENOMEM);
        *link = (HotspotLink){ .links = links, .next = links->first, .pid = pid,
                               .start_time_ns = start_time_ns, .fd = fd, .size = size, .bias = bias,
                               .session = { .worker = { .zygotes = links->zygotes,
                                                        .counts = &links->counts, .socket = -1 },
                                            .answer = links->answer } };
        links->first = link;
        *linkp = link;
        return 0;
}

HotspotLink *hotspot_link_free(HotspotLink *link) {
        HotspotLink **at;

        if (!link)
                return NULL;
        end_worker(link);
        for (at = &link->links->first; *at != link;)
                at = &(*at)->next;
        *at = link->next;
        closep(&link->fd);
        free(link);
        return NULL;
}

/* A worker that was not asked has nothing to say: that its socket can be read is its end, or a lie. */
static void look_after(HotspotLink *link, uint64_t now_ns) {
        struct pollfd fd = { .fd = link->session.worker.socket, .events = POLLIN };

        if (now_ns > link->asked_ns && now_ns - link->asked_ns > IDLE_NS) {
                end_worker(link);
                return;
        }
        if (poll(&fd, 1, 0) <= 0)
                return;
        if (fd.revents & POLLIN && !(fd.revents & POLLHUP))
                worker_session_refuse(&link->session.worker);
        else {
                link->links->counts.n_died++;
                worker_session_end(&link->session.worker);
        }
        note_failure(link, now_ns);
}

void hotspot_links_tend(HotspotLinks *links, uint64_t now_ns) {
        for (HotspotLink *link = links->first; link; link = link->next)
                if (has_worker(link))
                        look_after(link, now_ns);
        count(links);
}
