/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All programs that a pid ran hang on one chain, newest first: the current one, then those that exec has
 * replaced or that have exited, for as long as samples of theirs may arrive:
 *
 *     812 ──▶ cat, since 17 s ──▶ sh, 3 s to 17 s
 *
 * A sample of 812 taken at 16 s is of sh, whenever it comes.
 */
#include "host/sampling/discover/membership.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        /* over it the oldest is forgotten early; no counter: a sample that finds no target is counted */
        MAX_DEAD = 4096,
        /* over it rejected processes are decided again at each sample, and counted each time */
        MAX_REJECTED = ABI_MAX_PROCESSES / 2,
};

#define REJECTED_KEEP_NS (10 * NS_PER_SEC)      /* then its name is looked at again */

/* ---- processes that no selector chose ---- */

struct Reject {
        Reject *previous, *next;
        uint64_t until_ns;
        uint32_t tgid;
};

void rejects_deinit(Rejects *rejects) {
        for (Reject *reject = rejects->first, *next; reject; reject = next) {
                next = reject->next;
                free(reject);
        }
        hashmap_deinit(&rejects->map);
        *rejects = (Rejects){ .max = rejects->max };
}

int rejects_add(Rejects *rejects, uint32_t tgid, uint64_t until_ns) {
        Reject *reject;
        int r;

        if (hashmap_get(&rejects->map, tgid))
                return REJECTS_E_KNOWN;
        if (rejects->map.n_entries >= rejects->max)
                return REJECTS_E_FULL;
        reject = calloc(1, sizeof(*reject));
        if (!reject)
                return error_origin(-ENOMEM);
        r = hashmap_put(&rejects->map, tgid, reject);
        if (r) {
                free(reject);
                return error_fold(r);
        }
        *reject = (Reject){ .until_ns = until_ns, .tgid = tgid };
        list_append(rejects, reject);
        return 0;
}

bool rejects_contains(const Rejects *rejects, uint32_t tgid) {
        return hashmap_get(&rejects->map, tgid);
}

bool rejects_remove(Rejects *rejects, uint32_t tgid) {
        Reject *reject = hashmap_remove(&rejects->map, tgid);

        if (!reject)
                return false;
        list_remove(rejects, reject);
        free(reject);
        return true;
}

uint32_t rejects_expired(const Rejects *rejects, uint64_t now_ns) {
        return rejects->first && rejects->first->until_ns <= now_ns ? rejects->first->tgid : 0;
}

/* ---- members ---- */

int membership_init(Membership *membership, const Selector *selector, const NoticeHistory *notices) {
        *membership = (Membership){ .selector = selector,
                                    .notices = notices,
                                    .start_ticks_ns = clock_read_ns(CLOCK_BOOTTIME) };
        membership->last_deadp = &membership->first_dead;
        rejects_init(&membership->rejects, MAX_REJECTED);
        return selector->n_trees ? tree_new(&membership->tree, selector->trees, selector->n_trees) : 0;
}

void membership_deinit(Membership *membership) {
        hashmap_deinit(&membership->chains);
        rejects_deinit(&membership->rejects);
        membership->tree = tree_free(membership->tree);
}

/* ---- decisions ---- */

int membership_decide(const Membership *membership, const SelectorFacts *facts, uint64_t time_ns,
                      SelectorReason *reasonp) {
        unsigned what = selector_needs(membership->selector);
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int fd = -1;
        SelectorFacts more = *facts;
        int r = 0;

        if (what && process_open_living((pid_t)facts->pid, 0, &fd, NULL) == 0) {
                r = identity_new(&identity, fd, time_ns ? what & ~(unsigned)IDENTITY_EXE : what);
                if (!r && time_ns && what & IDENTITY_EXE)
                        r = notice_history_executable(membership->notices, facts->pid, time_ns, identity);
                more.is_inherited = time_ns && what & IDENTITY_EXE && !(identity && identity->exe);
        } else if (what) {
                r = notice_history_identity(membership->notices, facts->pid, what, &identity);
                more.is_inherited = true;
        }
        if (r)
                return r;
        more.identity = identity;
        more.in_tree = tree_contains(membership->tree, facts->pid);
        *reasonp = selector_decide(membership->selector, &more);
        return 0;
}

void membership_note_exit(Membership *membership, uint32_t tgid, uint64_t start_time_ns) {
        membership->exits[tgid % MEMBERSHIP_EXITS] = (struct MembershipExit){ start_time_ns, tgid };
}

bool membership_has_exited(const Membership *membership, uint32_t tgid, uint64_t start_time_ns) {
        const struct MembershipExit *exit = &membership->exits[tgid % MEMBERSHIP_EXITS];

        return exit->tgid == tgid && exit->start_time_ns == start_time_ns;
}

/* A fork has the name of its parent. */
void membership_recall_comm(const Membership *membership, uint32_t tgid, uint64_t time_ns,
                            char comm[ABI_COMM_SIZE]) {
        for (unsigned i = 0; i < NOTICE_HISTORY_DEPTH && membership->notices; i++) {
                NoticeHistoryOrigin origin;
                ProcessStat stat;
                const Member *parent;

                if (notice_history_find_origin(membership->notices, tgid, 0, time_ns, &origin)) {
                        if (i)
                                process_identify((pid_t)tgid, &stat, comm);
                        return;
                }
                if (!origin.parent) {
                        memcpy(comm, origin.comm, ABI_COMM_SIZE);
                        return;
                }
                parent = membership_at(membership, origin.parent, origin.time_ns);
                if (parent) {
                        memcpy(comm, parent->process->comm, ABI_COMM_SIZE);
                        return;
                }
                tgid = origin.parent;
                time_ns = origin.time_ns;
        }
}

int membership_reject(Membership *membership, uint32_t tgid, uint64_t *generationp) {
        int r = rejects_add(&membership->rejects, tgid, clock_monotonic_ns() + REJECTED_KEEP_NS);

        if (r)
                return r < 0 ? r : MEMBERSHIP_E_REJECTED;
        *generationp = ++membership->last_generation;
        return 0;
}

bool membership_unreject(Membership *membership, uint32_t tgid) {
        return rejects_remove(&membership->rejects, tgid);
}

/* ---- programs ---- */

Member *membership_newest(const Membership *membership, uint32_t pid) {
        return hashmap_get(&membership->chains, pid);
}

Member *membership_living(const Membership *membership, uint32_t pid) {
        Member *member = membership_newest(membership, pid);

        return member && !member->end_ns ? member : NULL;
}

Member *membership_at(const Membership *membership, uint32_t pid, uint64_t time_ns) {
        Member *member = membership_newest(membership, pid);

        while (member && time_ns < member->begin_ns)
                member = member->older;
        return member && (!member->end_ns || time_ns <= member->end_ns) ? member : NULL;
}

Member *membership_find(const Membership *membership, uint32_t pid, uint64_t start_time_ns,
                        uint64_t time_ns) {
        Member *member = membership_newest(membership, pid);

        while (member && (member->process->start_time_ns != start_time_ns || time_ns < member->begin_ns ||
                          (member->until_ns && time_ns >= member->until_ns)))
                member = member->older;
        return member;
}

Member *membership_find_generation(const Membership *membership, uint32_t pid, uint64_t generation) {
        Member *member = membership_newest(membership, pid);

        while (member && member->process->generation != generation)
                member = member->older;
        return member;
}

Member *membership_next(const Membership *membership, uint32_t *atp) {
        HashmapEntry *entry = hashmap_next(&membership->chains, atp);

        return entry ? entry->value : NULL;
}

int membership_add(Membership *membership, Member *member, SelectorReason reason) {
        Process *process = member->process;
        int r;

        member->older = membership_newest(membership, process->pid);
        r = hashmap_put(&membership->chains, process->pid, member);
        if (r)
                return error_fold(r);
        process->generation = ++membership->last_generation;
        member->reason = reason;
        membership->n_alive++;
        return 0;
}

/* Takes a member off its chain. */
static void unlink_member(Membership *membership, Member *member) {
        uint32_t pid = member->process->pid;
        Member *newer = membership_newest(membership, pid);

        if (newer != member) {
                while (newer->older != member)
                        newer = newer->older;
                newer->older = member->older;
        } else if (member->older) {
                hashmap_put(&membership->chains, pid, member->older);
        } else {
                hashmap_remove(&membership->chains, pid);
        }
}

void membership_withdraw(Membership *membership, Member *member) {
        membership->n_alive--;
        unlink_member(membership, member);
}

/*
 * A process that was born after us was a target (or undecided) from its first instant on; but not one that
 * publishing alone has chosen, which was rejected until it did.
 */
void membership_start(Membership *membership, Member *member, bool from_birth) {
        uint64_t now_ns;

        if ((from_birth && selector_is_by_name(membership->selector) &&
             member->process->start_time_ns > membership->start_ticks_ns) ||
            process_cpu_time(member->process, &now_ns))
                now_ns = 0;
        member->cpu_base_ns = member->cpu_last_ns = now_ns;
}

void membership_end(Membership *membership, Member *member, uint64_t end_ns, uint64_t cpu_total_ns) {
        uint64_t last_ns = MAX(cpu_total_ns, member->cpu_last_ns);

        membership->cpu_done_ns += last_ns - MIN(last_ns, member->cpu_base_ns);
        member->end_ns = MAX(end_ns, UINT64_C(1));
        *membership->last_deadp = member;
        membership->last_deadp = &member->next_dead;
        membership->n_alive--;
        membership->n_dead++;
}

Member *membership_take_dead(Membership *membership, uint64_t now_ns, uint64_t keep_ns) {
        Member *dead = membership->first_dead;

        if (!dead || (membership->n_dead <= MAX_DEAD && dead->end_ns + keep_ns > now_ns))
                return NULL;
        membership->first_dead = dead->next_dead;
        if (!membership->first_dead)
                membership->last_deadp = &membership->first_dead;
        membership->n_dead--;
        unlink_member(membership, dead);
        return dead;
}

bool membership_is_crowded(const Membership *membership) {
        return membership->n_dead > MAX_DEAD / 4 * 3;
}

/* ---- CPU time ---- */

/*
 * CPU time of a process that came and went between two ticks belongs to the time that we stand for. Where
 * more than its name decides, it is too late to find out whether it would have been a target: it is left out.
 */
static void settle_unseen(Membership *membership, const struct abi_notice *notice) {
        const Selector *selector = membership->selector;
        char comm[ABI_COMM_SIZE] = { 0 };
        SelectorFacts facts = { .pid = notice->tgid,
                                .comm = comm,
                                .in_tree = tree_contains(membership->tree, notice->tgid) };

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        if (selector_is_by_name(selector) && !selector_needs(selector) &&
            notice->start_time_ns > membership->start_ticks_ns &&
            selector_is_chosen(selector_decide(selector, &facts)))
                membership->cpu_done_ns += notice->value;
}

void membership_settle(Membership *membership, const struct abi_notice *notice) {
        const Member *member = membership_newest(membership, notice->tgid);
        bool is_known = member && member->process->start_time_ns == notice->start_time_ns;

        /* a member's exit told its time up to there; this is the rest */
        if (is_known && notice->kind == ABI_NOTICE_SETTLED && member->end_ns)
                membership->cpu_done_ns += notice->value;
        else if (!is_known && !rejects_contains(&membership->rejects, notice->tgid))
                settle_unseen(membership, notice);
}

void membership_begin_cpu_time(Membership *membership) {
        uint32_t at = 0;
        Member *member;

        while ((member = membership_next(membership, &at)))
                if (!member->end_ns && process_cpu_time(member->process, &member->cpu_base_ns) == 0)
                        member->cpu_last_ns = member->cpu_base_ns;
}

uint64_t membership_cpu_time_seen(Membership *membership) {
        uint64_t sum_ns = membership->cpu_done_ns;
        const Member *member;
        uint32_t at = 0;

        while ((member = membership_next(membership, &at)))
                if (!member->end_ns)
                        sum_ns += member->cpu_last_ns - MIN(member->cpu_last_ns, member->cpu_base_ns);
        membership->cpu_reported_ns = MAX(membership->cpu_reported_ns, sum_ns);
        return membership->cpu_reported_ns;
}

uint64_t membership_cpu_time_passed(Membership *membership) {
        uint64_t sum_ns = membership->cpu_done_ns;
        const Member *member;
        uint32_t at = 0;

        while ((member = membership_next(membership, &at))) {
                uint64_t last_ns = MAX(member->cpu_last_ns, member->cpu_passed_ns);

                if (!member->end_ns)
                        sum_ns += last_ns - MIN(last_ns, member->cpu_base_ns);
        }
        membership->cpu_passed_ns = MAX(membership->cpu_passed_ns, sum_ns);
        return membership->cpu_passed_ns;
}

uint64_t membership_cpu_time(Membership *membership) {
        uint32_t at = 0;
        uint64_t now_ns;
        Member *member;

        while ((member = membership_next(membership, &at)))
                if (!member->end_ns && process_cpu_time(member->process, &now_ns) == 0)
                        member->cpu_last_ns = now_ns;
        return membership_cpu_time_seen(membership);
}
