/* SPDX-License-Identifier: Apache-2.0 */

/* The two processes of a nursery that fork for us: who of them lives, and who takes the place of one that does not. */

#include <signal.h>
#include <sys/epoll.h>

#include "jail/nursery-private.h"

#define STALL_NS (5 * NS_PER_SEC)       /* one that has not answered for so long is as good as gone */
#define FIRST_PAUSE_NS (10 * NS_PER_MS) /* after the second one in a row; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC
#define LOG_NS (60 * NS_PER_SEC)

void raisers_watch(Nursery *nursery, const Raiser *raiser) {
        struct epoll_event event = { .events = 0 };     /* EPOLLHUP always is */

        epoll_ctl(nursery->epoll_fd, EPOLL_CTL_ADD, raiser->socket, &event);
}

Raiser *raisers_find(const Nursery *nursery) {
        const Raiser *best = NULL;

        for (int i = 0; i < N_RAISERS; i++) {
                const Raiser *raiser = &nursery->raisers[i];

                if (raiser->socket >= 0 && (!best || raiser->begin_ns < best->begin_ns))
                        best = raiser;
        }
        return (Raiser *)best;
}

bool raisers_have(const Nursery *nursery, pid_t pid) {
        for (int i = 0; i < N_RAISERS; i++)
                if (nursery->raisers[i].pid == pid)
                        return true;
        return false;
}

bool raisers_kill(Nursery *nursery) {
        bool were_there = false;

        for (int i = 0; i < N_RAISERS; i++) {
                were_there |= nursery->raisers[i].socket >= 0;
                if (nursery->raisers[i].pid > 0)
                        kill(nursery->raisers[i].pid, SIGKILL);
                raiser_close(&nursery->raisers[i]);
        }
        return were_there;
}

static void tell_of_loss(Nursery *nursery) {
        uint64_t n_skipped;

        if (!raisers_find(nursery))
                log_error("both processes that start those without rights are gone: none can be had any more");
        else if (log_limit(&nursery->limit, LOG_NS, &n_skipped))
                log_warning("a process that starts those without rights is gone: the other one takes its place");
}

/* The first one to be lost is replaced at once; those that are lost in a row, later and later. */
static void plan_successor(Nursery *nursery, uint64_t now_ns) {
        if (now_ns - nursery->lost_ns > STALL_NS)
                nursery->n_losses = 0;
        nursery->next_ns = now_ns;
        if (nursery->n_losses > 0)
                nursery->next_ns += MIN(FIRST_PAUSE_NS << MIN(nursery->n_losses - 1, 16U), LONGEST_PAUSE_NS);
        nursery->n_losses++;
        nursery->lost_ns = now_ns;
}

void raisers_lose(Nursery *nursery, Raiser *raiser) {
        uint64_t now_ns = clock_monotonic_ns();

        if (raiser->pid > 0)
                kill(raiser->pid, SIGKILL);
        workers_lose_raiser(nursery, raiser);
        raiser_close(raiser);
        plan_successor(nursery, now_ns);
        tell_of_loss(nursery);
}

static void read_replies(Nursery *nursery, Raiser *raiser) {
        bool was_up = raiser->is_up;
        NurseryReply reply;
        int r;

        while ((r = raiser_receive(raiser, &reply)) == 0)
                workers_note(nursery, &reply);
        if (!was_up && raiser->is_up)
                nursery->n_replaced += nursery->n_forked++ > 0;         /* the first one took nobody's place */
        if (r == RAISER_E_GONE)
                raisers_lose(nursery, raiser);
}

static bool has_other(const Nursery *nursery, const Raiser *raiser) {
        for (int i = 0; i < N_RAISERS; i++)
                if (&nursery->raisers[i] != raiser && nursery->raisers[i].is_up)
                        return true;
        return false;
}

/* Somebody may have stopped it, or the machine has no time for it: then the last one is not to be lost. */
static bool is_stalled(const Nursery *nursery, const Raiser *raiser, uint64_t now_ns) {
        if (!has_other(nursery, raiser))
                return false;
        if (!raiser->is_up)
                return now_ns - raiser->begin_ns > STALL_NS;
        return workers_wait_since(nursery, raiser, now_ns - STALL_NS);
}

/* Return: whether one is on its way. */
static bool raise_successor(Nursery *nursery, uint64_t now_ns) {
        Raiser *parent = raisers_find(nursery);
        bool is_coming = false;

        for (int i = 0; i < N_RAISERS && parent; i++) {
                Raiser *raiser = &nursery->raisers[i];

                is_coming |= !raiser->is_up;
                if (raiser->socket >= 0 || now_ns < nursery->next_ns)
                        continue;
                if (raiser_start_successor(raiser, parent) == 0)
                        raisers_watch(nursery, raiser);
                else
                        nursery->next_ns = now_ns + FIRST_PAUSE_NS;
        }
        return is_coming;
}

bool raisers_tend(Nursery *nursery) {
        uint64_t now_ns = clock_monotonic_ns();

        for (int i = 0; i < N_RAISERS; i++) {
                Raiser *raiser = &nursery->raisers[i];

                if (raiser->socket >= 0)
                        read_replies(nursery, raiser);
                if (raiser->socket >= 0 && is_stalled(nursery, raiser, now_ns))
                        raisers_lose(nursery, raiser);
        }
        return raise_successor(nursery, now_ns);
}
