/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of zygotes.h share: who is there, and who was until a short time ago.
 *
 *     zygotes.c           begins and ends it all
 *     zygotes-zygotes.c   the two processes that fork (zygote.c: one of them), and who takes whose place
 *     zygotes-workers.c   what they have forked
 *     zygotes-account.c   who of the machine's processes are ours, and what they take
 *     zygotes-serve.c     the other side: what such a process does
 */

#include <pthread.h>

#include "base/sandbox/zygote.h"
#include "base/sandbox/zygotes.h"
#include "base/util/clock.h"
#include "base/util/log.h"

enum {
        MAX_WORKERS = 32,               /* those that were ended and are still there included */
        N_ZYGOTES = 2,
        /* those that read what compilers at run time write come and go ten times a second */
        MAX_PAST = 2048,
};

typedef struct Worker {
        uint32_t serial;                /* 0 = none here */
        int32_t pid;                    /* 0 = not told yet */
        uint64_t begin_ns;
        /* that was asked for it; NULL = gone: of its id nothing more will be known */
        Zygote *zygote;
        bool is_ended;
} Worker;

typedef struct Past {
        pid_t pid;
        uint64_t end_ns;
} Past;

struct Zygotes {
        pthread_mutex_t mutex;          /* held by all that is in the header, for some system calls at most */
        uint32_t n_refs;
        Zygote zygotes[N_ZYGOTES];
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

static inline void zygotes_unlock(pthread_mutex_t **mutexp) {
        pthread_mutex_unlock(*mutexp);
}

/* Until the end of the function. */
#define LOCKED(_zygotes) \
        _unused_ _cleanup_(zygotes_unlock) pthread_mutex_t *_mutex = (pthread_mutex_t *)&(_zygotes)->mutex; \
        pthread_mutex_lock(_mutex)

/* All below is for those who hold the lock. */
bool zygotes_tend_locked(Zygotes *zygotes);

/* Nothing but its end. */
void pair_watch(Zygotes *zygotes, const Zygote *zygote);

/* Whoever has lived longest: it is up, if any is. NULL = there is none. */
Zygote *pair_find(const Zygotes *zygotes);
bool pair_have(const Zygotes *zygotes, pid_t pid);

/*
 * Takes note of what they say; loses those that are gone or stalled, and has others forked. Return: whether
 * one is on its way.
 */
bool pair_tend(Zygotes *zygotes);
void pair_lose(Zygotes *zygotes, Zygote *zygote);

/* Return: whether there was any. */
bool pair_kill(Zygotes *zygotes);

void workers_note(Zygotes *zygotes, const ZygoteReply *reply);

/* Nothing more will be told by @zygote, whose own end is taken note of as that of a worker. */
void workers_lose_zygote(Zygotes *zygotes, const Zygote *zygote);

/* Whether @zygote was asked for one before @time_ns and has not answered. */
bool workers_wait_since(const Zygotes *zygotes, const Zygote *zygote, uint64_t time_ns);

/* Return: whether there is one whose end is not seen yet. */
bool workers_reap(Zygotes *zygotes);
void workers_kill(Zygotes *zygotes);
