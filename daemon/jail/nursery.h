/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Nursery
 *
 * A process of ours that is started before we give up starting programs (jail/confine.h), with nothing of our memory, our
 * environment or our descriptors, and that has given up all rights (jail.h). It forks workers on demand, which have as
 * little, and does nothing else:
 *
 *     daemon ──a socket's other end──▶ nursery ──fork──▶ worker, with that socket alone
 *        │                                                  ▲
 *        └──────────── request, descriptor of a file ───────┘
 *
 * Workers become our own children, not the nursery's: so their ids stay theirs until we have taken note of their end.
 *
 * There are two such processes, since no other could be started once we have given it up: whichever of them is killed, the
 * other forks the next one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "util/macro.h"

#define NURSERY_NAME "spanprof-nursery" /* argv[0] of the process */
#define NURSERY_COMM "spanprof-parser"  /* its name in /proc, and that of each worker */

typedef struct Nursery Nursery;

/* What it is asked for: a worker's serial, or another nursery; a socket comes along. */
enum { NURSERY_HELLO = 0, NURSERY_SUCCESSOR = 0 };

typedef struct NurseryReply {
        uint32_t serial;                /* of the worker; NURSERY_HELLO */
        int32_t pid;                    /* or -errno. HELLO: its own, or -errno */
} NurseryReply;

enum {
        _NURSERY_E_SUCCESS,
        NURSERY_E_GONE,                 /* there is no nursery any more */
        NURSERY_E_FULL,                 /* too many workers that were ended still are there */
        NURSERY_E_FAILED,               /* no descriptor, no socket: for now */
};

/* Starts it. Return: 0, -errno. */
int nursery_new(Nursery **nurseryp);

/* For a thread that may outlive whoever has started it. All below is for any thread. */
Nursery *nursery_ref(Nursery *nursery);
Nursery *nursery_unref(Nursery *nursery);
DEFINE_CLEANUP(Nursery, nursery_unref)

/* Ends all that are left, and gives back the first reference. */
Nursery *nursery_free(Nursery *nursery);
DEFINE_CLEANUP(Nursery, nursery_free)

/* Waits until it says that it has given up all rights, and for the other one. Return: 0, -errno: it has not, and must not be used. */
int nursery_wait(Nursery *nursery, int timeout_ms);

/* A new worker. Return: 0 with *socketp (a stream, never waits, owned by the caller) and *serialp, NURSERY_E_*. */
int nursery_spawn(Nursery *nursery, int *socketp, uint32_t *serialp);

/* The worker is not wanted any more, or has ended. */
void nursery_end(Nursery *nursery, uint32_t serial);

/*
 * Whether nothing was told of such a worker. That may still come, *is_openp, as long as who was asked for it is there: what
 * a dying process had open is closed in no order that could be relied on, so a worker's end may be seen before its.
 */
bool nursery_never_came(const Nursery *nursery, uint32_t serial, bool *is_openp);

/* Takes note of what happened. Return: whether there are ended workers of which that is not done: call again soon. */
bool nursery_tend(Nursery *nursery);

/* Becomes readable when a nursery is gone: call nursery_tend(). */
int nursery_fd(const Nursery *nursery);

/* Whether workers can be had: one of the two is left. */
bool nursery_is_there(const Nursery *nursery);

/* How many took the place of one that was gone, since the last call. */
uint32_t nursery_take_replaced(Nursery *nursery);

/* Id of a worker, 0 = not known (yet); with serial 0 that of the nursery that is asked next. */
int32_t nursery_pid(const Nursery *nursery, uint32_t serial);

/* Whether a process is, or was some seconds ago, a nursery or a worker. @nursery: a Nursery. */
bool nursery_is_ours(const void *nursery, uint32_t pid);

/* CPU time of both and all workers, ns, dead ones included; memory of those that live, bytes. */
uint64_t nursery_cpu_ns(const Nursery *nursery);
uint64_t nursery_resident_bytes(const Nursery *nursery);

/* In the other process: does not return. @work: of a worker, with its socket, which may wait. */
_Noreturn void nursery_serve(void (*work)(int socket));
