/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Process 4711 and its workers:
 *
 *     open       worker 1 is made, gets a file and 4711's memory, says where things lie
 *     ask        worker 1 is asked for a frame, 30 to 100 µs each; the loop waits for it
 *     …          10 s without a question: worker 1 is not wanted any more
 *     ask        worker 2 is made, opens, is asked
 *     …          worker 2 dies: counted; this frame has no name for now
 *     ask        worker 3 is made at once, the next ones after 1 s, 2 s, … 64 s
 *
 * Why the loop waits: a frame's name has to be read before the code has gone, and the stack it belongs to
 * goes into the window now. What that may cost is bounded four times:
 *
 *     a question          400 ms; then its worker is late and killed
 *     a process           its budget of a second (host/sampling/runtime/runtimes.c), and the pauses above
 *     all processes       600 ms of a second; then there are no answers until it is over. The last 200 of
 *                         these are for processes whose group, user and self have used less than others
 *     workers             64 at a time, and 32 more that were killed and cannot die (reader-handle.c)
 *
 * With more processes than workers, who has more of them than its share gives one to who has less (shares.h):
 * the one that was asked longest ago. Among equals, one that is still asked keeps its worker: the names of a
 * process are known after some seconds, and then its worker makes room. Else each question of one would end
 * another one's worker, and most of the time would go into opening. So a worker is ended for an equal if it
 * was not asked for a second, or has had its turn of 4 s; else the other one has to wait.
 *
 * A worker has a limited time of a processor for its whole life (sandbox.h). Long before that it is ended
 * and made again.
 */
#include "host/runtime/reader/reader-link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "core/base/data/shares.h"
#include "core/base/sandbox/sandbox.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"

enum {
        MAX_THERE = READER_MAX_LINKED + 32,     /* workers, with ended ones that are still there */
        MAX_DOUBLINGS = 6,
};

#define QUESTION_NS (400 * NS_PER_MS)
#define ALL_BUDGET_NS (600 * NS_PER_MS)
#define FREE_BUDGET_NS (400 * NS_PER_MS)        /* part of it for who has used more than others, too */
#define WISH_NS NS_PER_MS               /* time that counts as used where none was left */
#define IDLE_NS (10 * NS_PER_SEC)
#define QUIET_NS NS_PER_SEC             /* without a question: it may have to make room */
#define TURN_NS (4 * NS_PER_SEC)        /* the same, though it is asked */
#define WORKER_CPU_NS (SANDBOX_CPU_SECONDS * NS_PER_SEC / 2)
#define FORGIVE_NS (2 * NS_PER_SEC << MAX_DOUBLINGS)

struct ReaderLink {
        ReaderLinks *links;
        ReaderLink *next;
        const ReaderOps *ops;
        void *userdata;
        ReaderSubject subject;
        WorkerSession worker;
        Share *place;                   /* holder of the worker; NULL = it has none */
        Share *time;                    /* holder of used_ns; NULL = that is 0 */
        size_t used_ns;                 /* time spent for it: half of it is forgotten each second */
        uint64_t asked_ns;              /* the last question */
        uint64_t begin_ns;              /* begin of this worker */
        uint64_t failed_ns, retry_ns;   /* the last worker failed; the next may be made */
        unsigned n_failures;            /* in a row */
        uint64_t past_cpu_ns;           /* CPU time of the workers before this one */
        uint64_t cpu_ns;                /* CPU time of this one, when it was last looked at */
};

struct ReaderLinks {
        Zygotes *zygotes;
        ReaderLink *first;
        WorkerSessionCounts counts;
        uint64_t second_ns, spent_ns;   /* begin of this second, time spent waiting in it */
        Shares places, times;
        uint32_t n_linked;
        uint32_t ended[MAX_THERE];      /* serials of workers that were ended; 0 = none */
};

int reader_links_new(ReaderLinks **linksp, Zygotes *zygotes) {
        ReaderLinks *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        links->zygotes = zygotes;
        *linksp = links;
        return 0;
}

ReaderLinks *reader_links_free(ReaderLinks *links) {
        if (!links)
                return NULL;
        shares_deinit(&links->places);
        shares_deinit(&links->times);
        free(links);
        return NULL;
}

/* ---- one worker, from its beginning to its end ---- */

static bool has_worker(const ReaderLink *link) {
        return link->worker.socket >= 0;
}

/* Whether one more may be there. */
static bool has_room(ReaderLinks *links) {
        uint32_t n = links->n_linked;

        for (uint32_t i = 0; i < MAX_THERE; i++) {
                if (links->ended[i] && !zygotes_has(links->zygotes, links->ended[i]))
                        links->ended[i] = 0;
                n += links->ended[i] != 0;
        }
        return n < MAX_THERE;
}

static void remember_end(ReaderLinks *links, uint32_t serial) {
        for (uint32_t i = 0; i < MAX_THERE; i++)
                if (!links->ended[i]) {
                        links->ended[i] = serial;
                        return;
                }
}

/* The session has no worker (any more): its place is free once the worker is gone. */
static void note_end(ReaderLink *link) {
        link->past_cpu_ns += link->cpu_ns;
        link->cpu_ns = 0;
        link->links->n_linked--;
        share_release(&link->links->places, take(link->place), 1);
        remember_end(link->links, link->worker.serial);
}

static void end_worker(ReaderLink *link) {
        if (!has_worker(link))
                return;
        worker_session_end(&link->worker);
        note_end(link);
}

/* Takes note of a worker that has ended the session itself. */
static void note_failure(ReaderLink *link, uint64_t now_ns) {
        note_end(link);
        if (now_ns - link->failed_ns > FORGIVE_NS)
                link->n_failures = 0;
        link->failed_ns = now_ns;
        link->retry_ns = now_ns;
        if (link->n_failures)
                link->retry_ns += NS_PER_SEC << MIN(link->n_failures - 1, (unsigned)MAX_DOUBLINGS);
        link->n_failures++;
        log_write_target(LOG_LEVEL_DEBUG, (uint32_t)link->subject.pid,
                         "%s: the worker that reads it has ended (%u in a row)", link->ops->name,
                         link->n_failures);
}

static void count(ReaderLinks *links) {
        worker_session_count(&links->counts);
        links->counts = (WorkerSessionCounts){ 0 };
}

static bool may_go(const ReaderLink *link, uint64_t now_ns) {
        return now_ns > link->asked_ns + QUIET_NS || now_ns > link->begin_ns + TURN_NS;
}

static const ShareOwner *owner_of(ReaderLink *link) {
        ReaderSubject *subject = &link->subject;

        if (!subject->owner.group)
                subject->owner = identity_owner_of(subject->pid, subject->start_time_ns);
        return &subject->owner;
}

static bool is_same_user(const Share *a, const Share *b) {
        return share_owner(a)->group == share_owner(b)->group && share_owner(a)->user == share_owner(b)->user;
}

static bool has_less(const Share *a, const Share *b) {
        if (share_owner(a)->group != share_owner(b)->group)
                return share_held_by_group(a) < share_held_by_group(b);
        return share_held_by_user(a) < share_held_by_user(b);
}

/* The link that makes room for @asking, whose place is counted already; NULL = none does now. */
static ReaderLink *find_place(const ReaderLink *asking, uint64_t now_ns) {
        const Share *own = asking->place, *most = shares_victim(&asking->links->places, asking->place, 0);
        ReaderLink *best = NULL;

        for (ReaderLink *link = asking->links->first; link; link = link->next) {
                if (!has_worker(link) ||
                    !(most == own ? may_go(link, now_ns) && !has_less(link->place, own)
                                  : is_same_user(link->place, most)))
                        continue;
                if (!best || link->asked_ns < best->asked_ns)
                        best = link;
        }
        return best;
}

/* Return: whether there is room for its worker, whose place is counted. */
static bool make_room(const ReaderLink *link, uint64_t now_ns) {
        ReaderLink *old;

        if (link->links->n_linked < READER_MAX_LINKED)
                return true;
        old = find_place(link, now_ns);
        stat_add(old ? COUNTER_WORKERS_EVICTED : COUNTER_WORKERS_AWAITED, 1);
        if (old)
                end_worker(old);
        return old;
}

/* Return: whether it is there. */
static bool make_worker(ReaderLink *link, uint64_t now_ns) {
        ReaderLinks *links = link->links;

        if (shares_hold(&links->places, owner_of(link), 1, &link->place))
                return false;
        if (!make_room(link, now_ns) || worker_session_begin(&link->worker)) {
                share_release(&links->places, take(link->place), 1);
                return false;
        }
        link->begin_ns = now_ns;
        links->n_linked++;
        return true;
}

/* Return: what hear_opened() said, if the worker still is there. */
static int ask_first(ReaderLink *link, const ReaderHandle *handle) {
        const ReaderSubject *subject = &link->subject;
        const ReaderRequest request = { .magic = link->ops->question->magic, .size = subject->size,
                                        .bias = subject->bias };

        if (worker_session_request(&link->worker, link->ops->question, &request, subject->fd) ||
            reader_handle_send(handle, &link->worker))
                return READER_LINK_E_GONE;
        return link->ops->hear_opened(link->userdata, &link->worker);
}

/* A worker, which has read the process anew. Return: 0 with what hear_opened() said, READER_LINK_E_*. */
static int open_process(ReaderLink *link, uint64_t now_ns, int *resultp) {
        ReaderHandle handle = { -1, -1 };
        int r = READER_LINK_E_LATER;

        if (now_ns < link->retry_ns || !has_room(link->links) ||
            !reader_handle_open(&handle, link->subject.pid, link->subject.start_time_ns))
                return READER_LINK_E_LATER;
        link->worker.end_ns = now_ns + QUESTION_NS;
        if (make_worker(link, now_ns)) {
                *resultp = ask_first(link, &handle);
                r = has_worker(link) ? 0 : READER_LINK_E_GONE;
                if (r)
                        note_failure(link, clock_monotonic_ns());
                else if (*resultp)
                        end_worker(link);
        }
        reader_handle_close(&handle);
        return r;
}

static void forget_time(ReaderLink *link, size_t n_ns) {
        Share *share = link->time;

        if (!share)
                return;
        link->used_ns -= n_ns;
        if (!link->used_ns)
                link->time = NULL;
        share_release(&link->links->times, share, n_ns);
}

static void begin_second(ReaderLinks *links, uint64_t now_ns) {
        links->second_ns = now_ns;
        links->spent_ns = 0;
        for (ReaderLink *link = links->first; link; link = link->next)
                forget_time(link, link->used_ns - link->used_ns / 2);
}

/* Time that finds no memory counts for nobody. */
static void note_use(ReaderLink *link, uint64_t n_ns) {
        if (!n_ns || (!link->time && shares_hold(&link->links->times, owner_of(link), 0, &link->time)))
                return;
        share_hold_more(link->time, n_ns);
        link->used_ns += n_ns;
}

static bool has_time(ReaderLink *link, uint64_t now_ns) {
        ReaderLinks *links = link->links;
        bool has_some;

        if (now_ns - links->second_ns > NS_PER_SEC)
                begin_second(links, now_ns);
        has_some = links->spent_ns < (share_is_above_average(link->time) ? FREE_BUDGET_NS : ALL_BUDGET_NS);
        if (!has_some && !link->time)
                note_use(link, WISH_NS);
        return has_some;
}

/* ---- questions ---- */

/* After each: @begin_ns: when it began. */
static void settle(ReaderLink *link, uint64_t begin_ns) {
        uint64_t now_ns = clock_monotonic_ns();
        ReaderLinks *links = link->links;

        links->spent_ns += now_ns - begin_ns;
        note_use(link, now_ns - begin_ns);
        link->asked_ns = now_ns;
        if (has_worker(link)) {
                link->cpu_ns = MAX(link->cpu_ns, zygotes_worker_cpu_ns(links->zygotes, link->worker.serial));
                if (link->cpu_ns > WORKER_CPU_NS)
                        end_worker(link);
        }
        count(links);
}

int reader_link_open(ReaderLink *link, int *resultp) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = READER_LINK_E_LATER;

        end_worker(link);
        if (has_time(link, begin_ns))
                r = open_process(link, begin_ns, resultp);
        settle(link, begin_ns);
        return r;
}

int reader_link_ask(ReaderLink *link, ReaderQuestion question, void *userdata, int *resultp) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = 0, opened = 0;

        if (!has_time(link, begin_ns))
                return READER_LINK_E_LATER;
        if (!has_worker(link))
                r = open_process(link, begin_ns, &opened);
        if (!r && opened)
                r = READER_LINK_E_LATER;
        if (!r) {
                link->worker.end_ns = begin_ns + QUESTION_NS;
                *resultp = question(userdata, &link->worker);
                r = has_worker(link) ? 0 : READER_LINK_E_GONE;
                if (r)
                        note_failure(link, clock_monotonic_ns());
        }
        settle(link, begin_ns);
        return r;
}

uint64_t reader_link_cpu_ns(const ReaderLink *link) {
        return link->past_cpu_ns + link->cpu_ns;
}

/* ---- links ---- */

int reader_link_new(ReaderLink **linkp, ReaderLinks *links, const ReaderOps *ops, void *userdata,
                    const ReaderSubject *subject) {
        ReaderLink *link = calloc(1, sizeof(*link));

        if (!link)
                return error_origin(-ENOMEM);
        *link = (ReaderLink){ .links = links, .next = links->first, .ops = ops, .userdata = userdata,
                              .subject = *subject,
                              .worker = { .zygotes = links->zygotes, .counts = &links->counts,
                                          .socket = -1 } };
        links->first = link;
        *linkp = link;
        return 0;
}

ReaderLink *reader_link_free(ReaderLink *link) {
        ReaderLink **at;

        if (!link)
                return NULL;
        end_worker(link);
        forget_time(link, link->used_ns);
        for (at = &link->links->first; *at != link;)
                at = &(*at)->next;
        *at = link->next;
        closep(&link->subject.fd);
        free(link);
        return NULL;
}

/* A worker that was not asked has nothing to say: that its socket can be read is its end, or a lie. */
static void look_after(ReaderLink *link, uint64_t now_ns) {
        struct pollfd fd = { .fd = link->worker.socket, .events = POLLIN };

        if (now_ns > link->asked_ns && now_ns - link->asked_ns > IDLE_NS) {
                end_worker(link);
                return;
        }
        if (poll(&fd, 1, 0) <= 0)
                return;
        if (fd.revents & POLLIN && !(fd.revents & POLLHUP))
                worker_session_refuse(&link->worker);
        else {
                link->links->counts.n_died++;
                worker_session_end(&link->worker);
        }
        note_failure(link, now_ns);
}

void reader_links_tend(ReaderLinks *links, uint64_t now_ns) {
        for (ReaderLink *link = links->first; link; link = link->next)
                if (has_worker(link))
                        look_after(link, now_ns);
        count(links);
}
