/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Zygotes
 *
 * Processes that have given up all rights and do nothing but fork workers, which have as little (zygotes.c
 * says why and how). They are started before we give up starting programs (confine.h), and have nothing of
 * our memory, our environment or our descriptors:
 *
 *     daemon ──a socket's other end──▶ zygote ──fork──▶ worker, with that socket alone
 *        │                                                 ▲
 *        └──────────── request, descriptor of a file ──────┘
 *
 * There are two of them: when one is killed, the other forks the next.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

#define ZYGOTE_NAME "spanprof-zygote" /* argv[0] of the process */
#define ZYGOTE_COMM "spanprof-parser"  /* name of the process in /proc, and of each worker */

typedef struct Zygotes Zygotes;

/* A request to a zygote asks for a worker, by its serial, or for another zygote; a socket comes along. */
enum { ZYGOTE_HELLO = 0, ZYGOTE_SUCCESSOR = 0 };

typedef struct ZygoteReply {
        uint32_t serial;                /* the worker's; ZYGOTE_HELLO */
        int32_t pid;                    /* the worker's, or -errno. HELLO: the zygote's own, or -errno */
} ZygoteReply;

enum {
        _ZYGOTE_E_SUCCESS,
        ZYGOTE_E_GONE,                 /* there is no zygote any more */
        ZYGOTE_E_FULL,                 /* ended workers that are still there take all places */
        ZYGOTE_E_FAILED,               /* no descriptor, no socket: for now */
};

/* Starts the first one, which starts the second. Return: 0, -errno. */
int zygotes_new(Zygotes **zygotesp);

/* For a thread that may outlive its starter. All below is for any thread. */
Zygotes *zygotes_ref(Zygotes *zygotes);
Zygotes *zygotes_unref(Zygotes *zygotes);
DEFINE_CLEANUP(Zygotes, zygotes_unref)

/* Ends all processes that are left, and gives back the first reference. */
Zygotes *zygotes_free(Zygotes *zygotes);
DEFINE_CLEANUP(Zygotes, zygotes_free)

/*
 * Waits until the first zygote says that it has given up all rights, and until the second is up. Return: 0,
 * -errno: it has not given them up, and must not be used.
 */
int zygotes_wait(Zygotes *zygotes, int timeout_ms);

/*
 * A new worker. Return: 0 with *socketp (a stream, never waits, owned by the caller) and *serialp,
 * ZYGOTE_E_*.
 */
int zygotes_spawn(Zygotes *zygotes, int *socketp, uint32_t *serialp);

/* The worker is not wanted any more, or has ended. */
void zygotes_end(Zygotes *zygotes, uint32_t serial);

/*
 * Whether nothing was told of such a worker. *is_openp: that may still come, since the zygote that was
 * asked for it lives. What a dying process had open is closed in any order: so the end of a worker's socket
 * may be seen before that of its zygote.
 */
bool zygotes_never_came(const Zygotes *zygotes, uint32_t serial, bool *is_openp);

/*
 * Takes note of what happened. Return: whether there are ended workers of which that is not done: call again
 * soon.
 */
bool zygotes_tend(Zygotes *zygotes);

/* Becomes readable when a zygote is gone: call zygotes_tend(). */
int zygotes_fd(const Zygotes *zygotes);

/* Whether workers can be had: one of the two is left. */
bool zygotes_is_there(const Zygotes *zygotes);

/* How many zygotes have replaced one that was gone, since the last call. */
uint32_t zygotes_take_replaced(Zygotes *zygotes);

/* Id of a worker, 0 = not known (yet); with serial 0 that of the zygote that is asked next. */
int32_t zygotes_pid(const Zygotes *zygotes, uint32_t serial);

/* Whether a worker is there, wanted or not: its place is free again only when we took note of its end. */
bool zygotes_has(const Zygotes *zygotes, uint32_t serial);

/* CPU time of a worker, ns; 0 = its id is not known (yet). */
uint64_t zygotes_worker_cpu_ns(const Zygotes *zygotes, uint32_t serial);

/*
 * Whether a process is, or was some seconds ago, a zygote or a worker. @zygotes: a Zygotes. @comm: its name;
 * NULL = not known, and the kernel is asked whether it is a child of ours.
 */
bool zygotes_is_ours(const void *zygotes, uint32_t pid, const char *comm);

/* CPU time of both and all workers, ns, dead ones included; memory of those that live, bytes. */
uint64_t zygotes_cpu_ns(const Zygotes *zygotes);
uint64_t zygotes_resident_bytes(const Zygotes *zygotes);

/* In a zygote: does not return. @work: what a worker does, with its socket, which may wait. */
_Noreturn void zygote_serve(void (*work)(int socket));
