/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Long Waits at the Border
 *
 * How wait-long.bpf.h tells of threads whose waits go on without a stack, and what the daemon answers.
 */

#include "border/offcpu_abi.h"
#include "border/threads_abi.h"

enum {
        WAIT_LONG_LISTED = 32,          /* waits of one look; others come with the next */
};

/* A thread that waits now. */
struct abi_wait_long {
        uint64_t task;                  /* the kernel's name for the thread */
        uint64_t begin_ns;              /* begin of the wait; with `task` the name of the wait */
        struct abi_span span;           /* as it left its CPU, like the next two */
        uint8_t context;                /* enum abi_context */
        uint8_t form;                   /* enum abi_form */
        uint8_t file;                   /* enum abi_wait_file */
        uint8_t reserved[5];
        struct abi_thread thread;       /* n_switches and arrival_ns are 0 */
};

struct abi_wait_longs {
        uint64_t n;
        uint64_t next_ns;               /* when the next one is due, UINT64_MAX = none that is known of */
        struct abi_wait_long waits[WAIT_LONG_LISTED];
};

/* Fate of a stack that the daemon has walked. */
enum abi_wait_given {
        WAIT_GIVEN,
        WAIT_GIVEN_TOO_LATE,            /* the thread has run: the stack is another one by now */
        WAIT_GIVEN_NO_ROOM,             /* WAIT_MAX_STACKS */
};

ABI_ASSERT(sizeof(struct abi_wait_long) == 496);
