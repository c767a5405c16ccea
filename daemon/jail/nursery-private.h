/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of nursery.h share: who is there, and who was until a short time ago.
 *
 *     nursery.c           begins and ends it all
 *     nursery-raisers.c   the two processes that fork (raiser.c: one of them), and who takes whose place
 *     nursery-workers.c   what they have forked
 *     nursery-account.c   who of the machine's processes are ours, and what they take
 *     nursery-serve.c     the other side: what such a process does
 */

#include <pthread.h>

#include "jail/nursery.h"
#include "jail/raiser.h"
#include "util/clock.h"
#include "util/log.h"

enum {
        MAX_WORKERS = 32,               /* those that were ended and are still there included */
        N_RAISERS = 2,
        MAX_PAST = 2048,                /* those that read what compilers at run time write come and go ten times a second */
};

typedef struct Worker {
        uint32_t serial;                /* 0 = none here */
        int32_t pid;                    /* 0 = not told yet */
        uint64_t begin_ns;
        Raiser *raiser;                 /* that was asked for it; NULL = gone: of its id nothing more will be known */
        bool is_ended;
} Worker;

typedef struct Past {
        pid_t pid;
        uint64_t end_ns;
} Past;

struct Nursery {
        pthread_mutex_t mutex;          /* held by all that is in the header, for some system calls at most */
        uint32_t n_refs;
        Raiser raisers[N_RAISERS];
        int epoll_fd;                   /* of their ends, which nobody else looks for */
        uint64_t next_ns, lost_ns;      /* no new one before that; when one was lost last */
        unsigned n_losses;              /* in a row */
        uint32_t n_forked, n_replaced;  /* in all; of them those that were not told of yet */
        LogLimit limit;
        uint32_t last_serial;
        Worker workers[MAX_WORKERS];
        Past past[MAX_PAST];            /* a ring: whose end we took note of */
        uint32_t n_past;
};

static inline void nursery_unlock(pthread_mutex_t **mutexp) {
        pthread_mutex_unlock(*mutexp);
}

/* Until the end of the function. */
#define LOCKED(_nursery)                                                                                       \
        _unused_ _cleanup_(nursery_unlock) pthread_mutex_t *_mutex = (pthread_mutex_t *)&(_nursery)->mutex;           \
        pthread_mutex_lock(_mutex)

/* All below is for those who hold the lock. */
bool nursery_tend_locked(Nursery *nursery);

/* Nothing but its end. */
void raisers_watch(Nursery *nursery, const Raiser *raiser);

/* Whoever has lived longest: it is up, if any is. NULL = there is none. */
Raiser *raisers_find(const Nursery *nursery);
bool raisers_have(const Nursery *nursery, pid_t pid);

/* Takes note of what they say; loses those that are gone or stalled, and has others forked. Return: whether one is on its way. */
bool raisers_tend(Nursery *nursery);
void raisers_lose(Nursery *nursery, Raiser *raiser);

/* Return: whether there was any. */
bool raisers_kill(Nursery *nursery);

void workers_note(Nursery *nursery, const NurseryReply *reply);

/* Nothing more will be told by @raiser, whose own end is taken note of as that of a worker. */
void workers_lose_raiser(Nursery *nursery, const Raiser *raiser);

/* Whether @raiser was asked for one before @time_ns and has not answered. */
bool workers_wait_since(const Nursery *nursery, const Raiser *raiser, uint64_t time_ns);

/* Return: whether there is one whose end is not seen yet. */
bool workers_reap(Nursery *nursery);
void workers_kill(Nursery *nursery);
