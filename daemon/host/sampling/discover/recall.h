/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recall
 *
 * Who a process was that is gone, by the notices that it left behind (notice-history.h).
 */

#include "host/sampling/discover/notice-history.h"
#include "host/sampling/process/identity.h"

enum { RECALL_DEPTH = 8 };              /* forks of forks that are all gone */

/*
 * User and groups were its parent's, or that one's parent's; its executable is known from notices. @what:
 * IDENTITY_*. *identityp stays as it is if the notices tell too little. Return: 0, -ENOMEM.
 */
int recall_identity(const NoticeHistory *history, uint32_t tgid, unsigned what, Identity **identityp);

/*
 * The executable of the program that @tgid ran at @time_ns, if it began that by an exec. identity->exe stays
 * NULL if the notices tell too little. Return: 0, -ENOMEM.
 */
int recall_executable(const NoticeHistory *history, uint32_t tgid, uint64_t time_ns, Identity *identity);
