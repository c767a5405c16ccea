/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shares
 *
 * Who holds how much of something that has a cap: processes, in users, in control groups. A group with a
 * thousand processes has one share, as one with a single process. The table that has the cap keeps a Share
 * beside each of its entries, and asks here who has to give way when it is full.
 *
 *     an entry comes            shares_hold()
 *     … the table is full       shares_victim(): whose entry goes instead
 *     … must not displace any   shares_leave_room(): a holder leaves as much as it has
 *     an entry goes             share_release()
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"

/* Numbers that tell holders apart; what they are is the caller's. `group` 0 = not known yet. */
typedef struct ShareOwner {
        uint64_t group;                 /* control group of a pod or unit */
        uint32_t user;
        uint64_t process;               /* process of a user in a group */
} ShareOwner;

/* Holding of a process; lives as long as it holds anything. */
typedef struct Share Share;

typedef struct Shares {
        Share *root;                    /* NULL = nothing is held */
        Hashmap nodes;                  /* hash of a path → Share */
        uint64_t n_turns;               /* turns that were given so far (share_take_turn()) */
        uint64_t served;                /* greatest rank that was served (shares_note_served()) */
        uint64_t told_ns;               /* MONOTONIC time of the last word in the log; 0 = none was said */
        uint64_t n_untold;              /* entries that gave way or were refused since then */
} Shares;

/* All zeros is an empty one. What is still held is given back, and no Share is there any more. */
void shares_deinit(Shares *shares);

/* The same, but what the log has said, and has still to say, is known on. */
void shares_reset(Shares *shares);

/*
 * @owner holds @n more. With 0 that keeps nothing alive: the Share ends with the last of what others hold by
 * it. Return: 0 and *sharep, -ENOMEM.
 */
int shares_hold(Shares *shares, const ShareOwner *owner, size_t n, Share **sharep);

/* The same holder holds @n more. */
void share_hold_more(Share *share, size_t n);

/* The holder gives @n back; with the last of it, the Share ends. NULL is allowed. */
void share_release(Shares *shares, Share *share, size_t n);

/* The process that holds it; for logs and tests. */
const ShareOwner *share_owner(const Share *share);

/* Holdings of the process, its user in the group, and the group. */
size_t share_held(const Share *share);
size_t share_held_by_user(const Share *share);
size_t share_held_by_group(const Share *share);

/*
 * Whether it holds more than others do on average: its group than other groups, its user than others in the
 * group, or the process than others of the user. NULL holds nothing.
 */
bool share_is_above_average(const Share *share);

/* Entries that all hold. */
size_t shares_held(const Shares *shares);

/*
 * The holder whose entry gives way for @n of @asking's in a table that is full: of the greatest control group
 * its greatest user, of that its greatest process; `asking` itself where none would have more than it.
 */
Share *shares_victim(const Shares *shares, Share *asking, size_t n);

/*
 * Whether @owner may hold @n more of @max: a group leaves as much free as it holds, a user in it as much of
 * the rest, a process as much of what that leaves.
 */
bool shares_leave_room(const Shares *shares, const ShareOwner *owner, size_t n, size_t max);

/* Whether @a's turn comes before @b's: groups take turns, and users in them. Return: < 0, 0 = one user, > 0. */
int share_compare_turns(const Share *a, const Share *b);

/* The same of two processes of one user. */
int share_compare_process_turns(const Share *a, const Share *b);

/*
 * The place in a line that is filled one by one, with what waits there as what is held: groups take turns,
 * users in them, and their processes. It is behind what was served, so who waits is not passed for ever.
 */
uint64_t share_rank(const Shares *shares, const Share *share);

/* Takes what had @rank out of the line. */
void shares_note_served(Shares *shares, uint64_t rank);

/* Serves it now: its next turn comes after all others. */
void share_take_turn(Shares *shares, Share *share);

/*
 * An entry of @owner gave way, or was refused. Says so in the log, at once and then once an hour at the most.
 * @what: the table, for people. Return: whether it was said.
 */
bool shares_tell(Shares *shares, const char *what, const ShareOwner *owner, uint64_t now_ns);

/* The same of @n entries. */
bool shares_tell_of(Shares *shares, const char *what, const ShareOwner *owner, uint64_t n, uint64_t now_ns);

enum { SHARES_MAX_USERS = 32 };

/* A user whose entries gave way or were refused, in whatever table. */
typedef struct ShareUser {
        uint32_t user;
        uint64_t n;                     /* times: an entry that is refused again counts again */
} ShareUser;

/*
 * Users that the process has told of, in one thread, *np of them: the first ones, and since then who came to
 * have more than the least of them. @othersp: times of all others.
 */
const ShareUser *shares_users(size_t *np, uint64_t *othersp);
