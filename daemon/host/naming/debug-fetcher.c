/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a list of wishes with a time for the next attempt of each, which a thread serves one after the
 * other; refusals are asked again later and later.
 *
 * A wish is that of the process whose file it is for (core/base/data/shares.h). Of the places each leaves as
 * much free as it has, and control groups, users and processes are served in turn. So who has many files, or
 * build ids that no server knows, waits behind its own. A wish of several is where it is served first. One
 * that failed is behind all others of its process.
 */

#include "host/naming/debug-fetcher.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/shares.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/identity.h"

#define AGAIN_NS (3600 * NS_PER_SEC)
#define RETRY_NS (5 * NS_PER_SEC)
#define LONGEST_RETRY_NS (600 * NS_PER_SEC)
#define END_NS (200 * NS_PER_MS)

enum {
        NICE = 19,
        STACK_BYTES = 512 << 10,
        MAX_ID = 136,                   /* bytes of a build id's text, with its NUL */
        MAX_WISHES = 1024,
        MAX_DOUBLINGS = 7,
        MAX_DROPPED = SHARES_MAX_USERS,
};

/* A build id that was looked for. */
typedef struct Wish {
        char id[MAX_ID];
        Share *share;                   /* holder while it waits for the thread; NULL = there was an answer */
        uint64_t rank;                  /* place in the line of those that wait */
        bool is_news;                   /* the file came, and the loop does not know yet */
        uint64_t next_ns;               /* time before which it is not asked for again */
} Wish;

/* Wishes of a user that were dropped. */
typedef struct Dropped {
        ShareOwner owner;               /* process of the last one */
        uint64_t n;
} Dropped;

typedef struct Report {
        uint64_t n_cached, n_bytes;
        Dropped dropped[MAX_DROPPED];   /* by user; the last: of all others, as IDENTITY_NOBODY's */
        uint32_t n_dropped;
        uint64_t n[DEBUGINFOD_E_FAILED + 1];    /* answers, by code */
} Report;

/* Each job of naming has a reference, the loop and the thread another. The mutex guards all below it. */
struct DebugFetcher {
        Debuginfod *client;             /* the thread's; others open what its cache has */
        Zygotes *zygotes;
        uint64_t again_ns, retry_ns;
        Thread *thread;                 /* the loop's, as the next */
        char told[DEBUGINFOD_MAX_PROBLEM];
        Shares told_shares;             /* holds nothing: when the log had a word on wishes without room */

        pthread_mutex_t mutex;
        pthread_cond_t changed;
        unsigned n_refs;
        bool quit;
        Wish wishes[MAX_WISHES];
        uint32_t n_wishes, n_news;
        Shares shares;                  /* holders of those that wait */
        uint64_t pause_ns;              /* no server is asked before that */
        unsigned n_failed;              /* in a row */
        Report report;
        char problem[DEBUGINFOD_MAX_PROBLEM];
};

/* ---- references ---- */

static void ref(void *userdata) {
        DebugFetcher *fetcher = userdata;

        pthread_mutex_lock(&fetcher->mutex);
        fetcher->n_refs++;
        pthread_mutex_unlock(&fetcher->mutex);
}

static void unref(void *userdata) {
        DebugFetcher *fetcher = userdata;
        unsigned n_left;

        pthread_mutex_lock(&fetcher->mutex);
        n_left = --fetcher->n_refs;
        pthread_mutex_unlock(&fetcher->mutex);
        if (n_left)
                return;
        debuginfod_free(fetcher->client);
        zygotes_unref(fetcher->zygotes);
        shares_deinit(&fetcher->shares);
        pthread_cond_destroy(&fetcher->changed);
        pthread_mutex_destroy(&fetcher->mutex);
        free(fetcher);
}

/* ---- wishes, with the lock held ---- */

static Wish *find_wish(DebugFetcher *fetcher, const char *id) {
        for (uint32_t i = 0; i < fetcher->n_wishes; i++)
                if (!strcmp(fetcher->wishes[i].id, id))
                        return &fetcher->wishes[i];
        return NULL;
}

/* A place for a new one: a free one, or that of the answer that is the oldest. NULL = all wait. */
static Wish *make_room(DebugFetcher *fetcher) {
        Wish *oldest = NULL;

        if (fetcher->n_wishes < MAX_WISHES)
                return &fetcher->wishes[fetcher->n_wishes++];
        for (uint32_t i = 0; i < MAX_WISHES; i++) {
                Wish *wish = &fetcher->wishes[i];

                if (!wish->share && !wish->is_news && (!oldest || wish->next_ns < oldest->next_ns))
                        oldest = wish;
        }
        return oldest;
}

/* A place in the line. NULL = it has no room there. */
static Share *enter(DebugFetcher *fetcher, const ShareOwner *owner) {
        Share *share;

        if (!shares_leave_room(&fetcher->shares, owner, 1, MAX_WISHES) ||
            shares_hold(&fetcher->shares, owner, 1, &share))
                return NULL;
        return share;
}

/* It waits already: from now on for this process, if its turn comes earlier. */
static void join(DebugFetcher *fetcher, Wish *wish, const ShareOwner *owner) {
        Share *share = enter(fetcher, owner), *spare = share;
        uint64_t rank = share ? share_rank(&fetcher->shares, share) : UINT64_MAX;

        if (rank < wish->rank) {
                spare = wish->share;
                wish->share = share;
                wish->rank = rank;
        }
        share_release(&fetcher->shares, spare, 1);
}

static void count_dropped(Report *report, ShareOwner owner) {
        uint32_t i = 0;

        while (i < report->n_dropped && report->dropped[i].owner.user != owner.user)
                i++;
        if (i >= MAX_DROPPED - 1) {
                i = MAX_DROPPED - 1;
                owner.user = IDENTITY_NOBODY;
        }
        report->n_dropped = MAX(report->n_dropped, i + 1);
        report->dropped[i].owner = owner;
        report->dropped[i].n++;
}

static void wish_for(DebugFetcher *fetcher, const ShareOwner *owner, const char *id) {
        Wish *wish = find_wish(fetcher, id);
        Share *share;

        if (wish && wish->share)
                join(fetcher, wish, owner);
        if (wish && (wish->share || clock_monotonic_ns() < wish->next_ns))
                return;
        share = enter(fetcher, owner);
        if (share && !wish)
                wish = make_room(fetcher);
        if (!share || !wish) {
                count_dropped(&fetcher->report, *owner);
                share_release(&fetcher->shares, share, 1);
                return;
        }
        *wish = (Wish){ .share = share, .rank = share_rank(&fetcher->shares, share) };
        strcpy(wish->id, id);
        pthread_cond_broadcast(&fetcher->changed);
}

/* ---- in the thread of names ---- */

static int find(const SymbolRemote *remote, const char *id, int *fdp, uint64_t *sizep) {
        DebugFetcher *fetcher = remote->userdata;
        int r = debuginfod_get_cached(fetcher->client, id, fdp, sizep);

        if (strlen(id) >= MAX_ID)
                return 1;
        pthread_mutex_lock(&fetcher->mutex);
        if (r)
                wish_for(fetcher, &remote->owner, id);
        else
                fetcher->report.n_cached++;
        pthread_mutex_unlock(&fetcher->mutex);
        return r ? 1 : 0;
}

/* ---- in the fetcher's thread ---- */

static bool is_over(void *userdata) {
        DebugFetcher *fetcher = userdata;
        bool quit;

        pthread_mutex_lock(&fetcher->mutex);
        quit = fetcher->quit;
        pthread_mutex_unlock(&fetcher->mutex);
        return quit;
}

/* A file counts if it is in the cache: it has no other way to those who look for it. */
static int get(DebugFetcher *fetcher, const char *id, uint64_t *n_bytesp) {
        int fd = -1, r = debuginfod_get(fetcher->client, id, &fd, n_bytesp);

        if (r)
                return r;
        closep(&fd);
        fd = -1;
        r = debuginfod_get_cached(fetcher->client, id, &fd, n_bytesp) ? DEBUGINFOD_E_FAILED : 0;
        closep(&fd);
        return r;
}

/* With the lock held. */
static void settle(DebugFetcher *fetcher, const char *id, int said, uint64_t n_bytes) {
        Wish *wish = find_wish(fetcher, id);
        uint64_t now_ns = clock_monotonic_ns();

        fetcher->report.n[said]++;
        fetcher->report.n_bytes += said ? 0 : n_bytes;
        strcpy(fetcher->problem, debuginfod_problem(fetcher->client));
        shares_note_served(&fetcher->shares, wish->rank);
        if (said == DEBUGINFOD_E_FAILED) {
                uint64_t wait_ns = fetcher->retry_ns << MIN(fetcher->n_failed, (unsigned)MAX_DOUBLINGS);

                fetcher->n_failed++;
                wish->rank = share_rank(&fetcher->shares, wish->share);
                fetcher->pause_ns = wish->next_ns = now_ns + MIN(wait_ns, LONGEST_RETRY_NS);
                if (!*fetcher->problem)
                        strcpy(fetcher->problem, "what came could not be kept in the cache");
                return;
        }
        fetcher->n_failed = 0;
        share_release(&fetcher->shares, take(wish->share), 1);
        fetcher->n_news += !said;
        wish->is_news = !said;
        wish->next_ns = now_ns + fetcher->again_ns;
}

/* With the lock held, which is given up meanwhile. */
static void serve(DebugFetcher *fetcher, const Wish *wish) {
        uint64_t n_bytes = 0;
        char id[MAX_ID];
        int said;

        strcpy(id, wish->id);
        pthread_mutex_unlock(&fetcher->mutex);
        said = get(fetcher, id, &n_bytes);
        pthread_mutex_lock(&fetcher->mutex);
        if (!fetcher->quit)
                settle(fetcher, id, said, n_bytes);
}

static bool is_before(const Wish *a, const Wish *b) {
        return a->rank < b->rank || (a->rank == b->rank && a->next_ns < b->next_ns);
}

/* The first in the line; no wish is put off for longer than all are. NULL = none; *next_nsp: when one is. */
static const Wish *next_due(const DebugFetcher *fetcher, uint64_t *next_nsp) {
        uint64_t now_ns = clock_monotonic_ns();
        const Wish *first = NULL;

        for (uint32_t i = 0; i < fetcher->n_wishes; i++) {
                const Wish *wish = &fetcher->wishes[i];

                if (wish->share && (!first || is_before(wish, first)))
                        first = wish;
        }
        *next_nsp = first ? MAX(first->next_ns, fetcher->pause_ns) : UINT64_MAX;
        return first && *next_nsp <= now_ns ? first : NULL;
}

static void run(void *userdata) {
        DebugFetcher *fetcher = userdata;

        pthread_mutex_lock(&fetcher->mutex);
        while (!fetcher->quit) {
                uint64_t next_ns;
                const Wish *wish = next_due(fetcher, &next_ns);

                if (wish)
                        serve(fetcher, wish);
                else if (next_ns == UINT64_MAX)
                        pthread_cond_wait(&fetcher->changed, &fetcher->mutex);
                else
                        thread_condition_wait(&fetcher->changed, &fetcher->mutex, next_ns);
        }
        pthread_mutex_unlock(&fetcher->mutex);
}

/* ---- in the loop ---- */

static int start(DebugFetcher *fetcher) {
        const ThreadConfig thread = { .name = "debuginfod", .nice = NICE, .stack_bytes = STACK_BYTES,
                                      .run = run, .destroy = unref, .userdata = fetcher };
        int r;

        ref(fetcher);
        r = thread_new(&fetcher->thread, &thread);
        if (!r)
                return 0;
        unref(fetcher);
        if (r > 0)
                log_error("debuginfod: no thread can be had for it");
        return r < 0 ? error_fold(r) : DEBUGINFOD_E_UNUSABLE;
}

int debug_fetcher_new(DebugFetcher **fetcherp, const DebugFetcherConfig *config) {
        _cleanup_(debug_fetcher_freep) DebugFetcher *fetcher = calloc(1, sizeof(*fetcher));
        DebuginfodConfig client = config->client;
        int r;

        if (!fetcher)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&fetcher->mutex, NULL);
        thread_condition_init(&fetcher->changed);
        fetcher->n_refs = 1;
        fetcher->again_ns = config->again_ns ?: AGAIN_NS;
        fetcher->retry_ns = config->retry_ns ?: RETRY_NS;
        fetcher->zygotes = zygotes_ref(client.zygotes);
        client.is_quiet = true;
        client.is_over = is_over;
        client.userdata = fetcher;
        client.retry_ns = fetcher->retry_ns;
        r = debuginfod_new(&fetcher->client, &client);
        if (!r)
                r = start(fetcher);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *fetcherp = take(fetcher);
        return 0;
}

DebugFetcher *debug_fetcher_free(DebugFetcher *fetcher) {
        if (!fetcher)
                return NULL;
        if (fetcher->thread) {
                debug_fetcher_collect(fetcher);
                pthread_mutex_lock(&fetcher->mutex);
                fetcher->quit = true;
                pthread_cond_broadcast(&fetcher->changed);
                pthread_mutex_unlock(&fetcher->mutex);
                if (!thread_end(fetcher->thread, clock_monotonic_ns() + END_NS))
                        unref(fetcher);
        }
        unref(fetcher);
        return NULL;
}

/* Takes a build id whose file came since. Return: whether there is one. */
static bool next_news(void *userdata, char *id, size_t size) {
        DebugFetcher *fetcher = userdata;
        bool is_there = false;

        pthread_mutex_lock(&fetcher->mutex);
        for (uint32_t i = 0; fetcher->n_news && i < fetcher->n_wishes && !is_there; i++) {
                Wish *wish = &fetcher->wishes[i];

                if (!wish->is_news)
                        continue;
                snprintf(id, size, "%s", wish->id);
                wish->is_news = false;
                fetcher->n_news--;
                is_there = true;
        }
        pthread_mutex_unlock(&fetcher->mutex);
        return is_there;
}

NameRemote debug_fetcher_remote(DebugFetcher *fetcher) {
        return (NameRemote){ .remote = { .fetch = find, .userdata = fetcher },
                             .ref = ref, .unref = unref, .next = next_news };
}

void debug_fetcher_collect(DebugFetcher *fetcher) {
        char problem[DEBUGINFOD_MAX_PROBLEM];
        Report report;

        pthread_mutex_lock(&fetcher->mutex);
        report = fetcher->report;
        fetcher->report = (Report){ 0 };
        memcpy(problem, fetcher->problem, sizeof(problem));
        pthread_mutex_unlock(&fetcher->mutex);
        stat_add(COUNTER_DEBUGINFOD_CACHED, report.n_cached);
        stat_add(COUNTER_DEBUGINFOD_FETCHED, report.n[0]);
        stat_add(COUNTER_DEBUGINFOD_NONE, report.n[DEBUGINFOD_E_NONE]);
        stat_add(COUNTER_DEBUGINFOD_REFUSED, report.n[DEBUGINFOD_E_REFUSED]);
        stat_add(COUNTER_DEBUGINFOD_FAILED, report.n[DEBUGINFOD_E_FAILED]);
        stat_add(COUNTER_DEBUGINFOD_BYTES, report.n_bytes);
        for (uint32_t i = 0; i < report.n_dropped; i++) {
                stat_add(COUNTER_DEBUGINFOD_DROPPED, report.dropped[i].n);
                shares_tell_of(&fetcher->told_shares, "debug files that servers are asked for",
                               &report.dropped[i].owner, report.dropped[i].n, clock_monotonic_ns());
        }
        if (*problem && strcmp(problem, fetcher->told) != 0)
                log_warning("debuginfod: %s", problem);
        memcpy(fetcher->told, problem, sizeof(fetcher->told));
}

void debug_fetcher_state(DebugFetcher *fetcher, DebugFetcherState *state) {
        pthread_mutex_lock(&fetcher->mutex);
        *state = (DebugFetcherState){ .n_waiting = (uint32_t)shares_held(&fetcher->shares) };
        memcpy(state->problem, fetcher->problem, sizeof(state->problem));
        pthread_mutex_unlock(&fetcher->mutex);
}
