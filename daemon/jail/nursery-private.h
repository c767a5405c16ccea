/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of nursery.h share: who is there, and who was until a short time ago. */

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

bool nursery_is_raiser(const Nursery *nursery, pid_t pid);
