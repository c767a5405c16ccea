/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Zygotes
 *
 * A process of ours that is started before we give up starting programs (base/sandbox/confine.h), with
 * nothing of our memory, our environment or our descriptors, and that has given up all rights (sandbox.h). It
 * forks workers on demand, which have as little, and does nothing else:
 *
 *     daemon ──a socket's other end──▶ zygotes ──fork──▶ worker, with that socket alone
 *        │                                                  ▲
 *        └──────────── request, descriptor of a file ───────┘
 *
 * Workers become our own children, not the zygotes's: so their ids stay theirs until we have taken note of
 * their end.
 *
 * There are two such processes, since no other could be started once we have given it up: whichever of them
 * is killed, the other forks the next one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/macro.h"

#define ZYGOTE_NAME "spanprof-zygote" /* argv[0] of the process */
#define ZYGOTE_COMM "spanprof-parser"  /* its name in /proc, and that of each worker */

typedef struct Zygotes Zygotes;

/* What it is asked for: a worker's serial, or another zygotes; a socket comes along. */
enum { ZYGOTE_HELLO = 0, ZYGOTE_SUCCESSOR = 0 };

typedef struct ZygoteReply {
        uint32_t serial;                /* of the worker; ZYGOTE_HELLO */
        int32_t pid;                    /* or -errno. HELLO: its own, or -errno */
} ZygoteReply;

enum {
        _ZYGOTE_E_SUCCESS,
        ZYGOTE_E_GONE,                 /* there is no zygotes any more */
        ZYGOTE_E_FULL,                 /* too many workers that were ended still are there */
        ZYGOTE_E_FAILED,               /* no descriptor, no socket: for now */
};

/* Starts it. Return: 0, -errno. */
int zygotes_new(Zygotes **zygotesp);

/* For a thread that may outlive whoever has started it. All below is for any thread. */
Zygotes *zygotes_ref(Zygotes *zygotes);
Zygotes *zygotes_unref(Zygotes *zygotes);
DEFINE_CLEANUP(Zygotes, zygotes_unref)

/* Ends all that are left, and gives back the first reference. */
Zygotes *zygotes_free(Zygotes *zygotes);
DEFINE_CLEANUP(Zygotes, zygotes_free)

/*
 * Waits until it says that it has given up all rights, and for the other one. Return: 0, -errno: it has not,
 * and must not be used.
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
 * Whether nothing was told of such a worker. That may still come, *is_openp, as long as who was asked for it
 * is there: what a dying process had open is closed in no order that could be relied on, so a worker's end
 * may be seen before its.
 */
bool zygotes_never_came(const Zygotes *zygotes, uint32_t serial, bool *is_openp);

/*
 * Takes note of what happened. Return: whether there are ended workers of which that is not done: call again
 * soon.
 */
bool zygotes_tend(Zygotes *zygotes);

/* Becomes readable when a zygotes is gone: call zygotes_tend(). */
int zygotes_fd(const Zygotes *zygotes);

/* Whether workers can be had: one of the two is left. */
bool zygotes_is_there(const Zygotes *zygotes);

/* How many took the place of one that was gone, since the last call. */
uint32_t zygotes_take_replaced(Zygotes *zygotes);

/* Id of a worker, 0 = not known (yet); with serial 0 that of the zygotes that is asked next. */
int32_t zygotes_pid(const Zygotes *zygotes, uint32_t serial);

/* Whether a process is, or was some seconds ago, a zygotes or a worker. @zygotes: a Zygotes. */
bool zygotes_is_ours(const void *zygotes, uint32_t pid);

/* CPU time of both and all workers, ns, dead ones included; memory of those that live, bytes. */
uint64_t zygotes_cpu_ns(const Zygotes *zygotes);
uint64_t zygotes_resident_bytes(const Zygotes *zygotes);

/* In the other process: does not return. @work: of a worker, with its socket, which may wait. */
_Noreturn void zygote_serve(void (*work)(int socket));
