/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notice History
 *
 * What processes that are no targets have mapped lately. While targets are chosen
 * by name, a process may be dead when its first sample is read: then this is all
 * that is left of it.
 *
 * One ring of bytes, the oldest notices make room for new ones; those of one
 * process are chained. Its memory never grows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/mapping.h"

typedef struct NoticeHistory NoticeHistory;

#define NOTICE_HISTORY_KEEP_NS UINT64_C(2000000000)

enum {
        _NOTICE_HISTORY_E_SUCCESS,
        /* the exec or fork has left the ring: the rest would be a part only */
        NOTICE_HISTORY_E_UNKNOWN,
        NOTICE_HISTORY_E_REPLACED,              /* the same, and it runs another program by now */
};

/* @size: bytes, a multiple of 8. Return: 0, -ENOMEM. */
int notice_history_new(NoticeHistory **historyp, size_t size);
NoticeHistory *notice_history_free(NoticeHistory *history);
DEFINE_CLEANUP(NoticeHistory, notice_history_free)

/*
 * Process @pid runs a new program from @time_ns on, which is called @comm; what it maps follows. Return: 0,
 * -ENOMEM.
 */
int notice_history_add_exec(NoticeHistory *history, uint32_t pid, const char comm[ABI_COMM_SIZE],
                            uint64_t time_ns);

/* From @time_ns on there is a process @pid, which has what @parent had then. Return: 0, -ENOMEM. */
int notice_history_add_fork(NoticeHistory *history, uint32_t pid, uint32_t parent, uint64_t time_ns);
int notice_history_add_mapping(NoticeHistory *history, const MappingNotice *notice);

/* Calls back for one notice; it lives until the call returns. Return: 0, or a code that ends the visit. */
typedef int (*NoticeHistoryVisit)(void *userdata, const MappingNotice *notice);

/* How a process came to the program that it ran. */
typedef struct NoticeHistoryOrigin {
        uint32_t parent;                /* forked from it at `time_ns`; 0 = by exec */
        uint64_t time_ns;
        bool may_lack;                  /* notices were lost since: of another exec, too */
        char comm[ABI_COMM_SIZE];       /* name of the program at its exec */
} NoticeHistoryOrigin;

/*
 * The mappings that @pid has made in the program that it ran at @time_ns, if it began it after @since_ns, the
 * oldest first; what came with a fork is not among them. Return: 0, NOTICE_HISTORY_E_*, the visit's code.
 */
int notice_history_visit(const NoticeHistory *history, uint32_t pid, uint64_t since_ns, uint64_t time_ns,
                         NoticeHistoryVisit visit, void *userdata);

/* The same question: how did it come to that program? Return: 0, NOTICE_HISTORY_E_*. */
int notice_history_find_origin(const NoticeHistory *history, uint32_t pid, uint64_t since_ns,
                               uint64_t time_ns, NoticeHistoryOrigin *originp);

/* The kernel has lost notices some time before @now_ns. */
void notice_history_lose(NoticeHistory *history, uint64_t now_ns);

/*
 * When the program that @pid runs now was begun by an exec, after @since_ns, if nothing that it has mapped
 * since then is missing here. Return: 0, NOTICE_HISTORY_E_*.
 */
int notice_history_find_whole(const NoticeHistory *history, uint32_t pid, uint64_t since_ns,
                              uint64_t *exec_nsp);

/*
 * An exec gives the new name a moment before the kernel tells of it. Of a process that was called @comm at
 * @time_ns: the time of an exec to that name that was under way then, or @time_ns.
 */
uint64_t notice_history_exec_under_way(const NoticeHistory *history, uint32_t pid,
                                       const char comm[ABI_COMM_SIZE], uint64_t time_ns);

/* When @pid ran another program first after @time_ns; 0 = never, or that is not known. */
uint64_t notice_history_next_exec(const NoticeHistory *history, uint32_t pid, uint64_t time_ns);

/* The process that forked @pid, 0 = unknown. */
uint32_t notice_history_parent(const NoticeHistory *history, uint32_t pid);

/* ---- the identity of an ended process ---- */

enum { NOTICE_HISTORY_DEPTH = 8 };              /* forks of forks that have all ended */

/*
 * User and groups come from the nearest ancestor that lives, the executable from notices. @what: IDENTITY_*.
 * *identityp stays as it is if the notices tell too little. Return: 0, -ENOMEM.
 */
int notice_history_identity(const NoticeHistory *history, uint32_t tgid, unsigned what,
                            Identity **identityp);

/*
 * The executable of the program that @tgid ran at @time_ns, if an exec began it. identity->exe stays NULL if
 * the notices tell too little. Return: 0, -ENOMEM.
 */
int notice_history_executable(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns,
                              Identity *identity);
