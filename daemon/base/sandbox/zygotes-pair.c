/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The two processes of a zygotes that fork for us: who of them lives, and who takes the place of one that
 * does not.
 */

#include <signal.h>
#include <sys/epoll.h>

#include "base/sandbox/zygotes-private.h"

#define STALL_NS (5 * NS_PER_SEC)       /* one that has not answered for so long is as good as gone */
#define FIRST_PAUSE_NS (10 * NS_PER_MS) /* after the second one in a row; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC
#define LOG_NS (60 * NS_PER_SEC)

void pair_watch(Zygotes *zygotes, const Zygote *zygote) {
        struct epoll_event event = { .events = 0 };     /* EPOLLHUP always is */

        epoll_ctl(zygotes->epoll_fd, EPOLL_CTL_ADD, zygote->socket, &event);
}

Zygote *pair_find(const Zygotes *zygotes) {
        const Zygote *best = NULL;

        for (int i = 0; i < N_ZYGOTES; i++) {
                const Zygote *zygote = &zygotes->zygotes[i];

                if (zygote->socket >= 0 && (!best || zygote->begin_ns < best->begin_ns))
                        best = zygote;
        }
        return (Zygote *)best;
}

bool pair_have(const Zygotes *zygotes, pid_t pid) {
        for (int i = 0; i < N_ZYGOTES; i++)
                if (zygotes->zygotes[i].pid == pid)
                        return true;
        return false;
}

bool pair_kill(Zygotes *zygotes) {
        bool were_there = false;

        for (int i = 0; i < N_ZYGOTES; i++) {
                were_there |= zygotes->zygotes[i].socket >= 0;
                if (zygotes->zygotes[i].pid > 0)
                        kill(zygotes->zygotes[i].pid, SIGKILL);
                zygote_close(&zygotes->zygotes[i]);
        }
        return were_there;
}

static void tell_of_loss(Zygotes *zygotes) {
        uint64_t n_skipped;

        if (!pair_find(zygotes))
                log_error(
                        "both processes that start those without rights are gone: none can be had any more");
        else if (log_limit(&zygotes->limit, LOG_NS, &n_skipped))
                log_warning(
                        "a process that starts those without rights is gone: the other one takes its place");
}

/* The first one to be lost is replaced at once; those that are lost in a row, later and later. */
static void plan_successor(Zygotes *zygotes, uint64_t now_ns) {
        if (now_ns - zygotes->lost_ns > STALL_NS)
                zygotes->n_losses = 0;
        zygotes->next_ns = now_ns;
        if (zygotes->n_losses > 0)
                zygotes->next_ns += MIN(FIRST_PAUSE_NS << MIN(zygotes->n_losses - 1, 16U), LONGEST_PAUSE_NS);
        zygotes->n_losses++;
        zygotes->lost_ns = now_ns;
}

void pair_lose(Zygotes *zygotes, Zygote *zygote) {
        uint64_t now_ns = clock_monotonic_ns();

        if (zygote->pid > 0)
                kill(zygote->pid, SIGKILL);
        workers_lose_zygote(zygotes, zygote);
        zygote_close(zygote);
        plan_successor(zygotes, now_ns);
        tell_of_loss(zygotes);
}

static void read_replies(Zygotes *zygotes, Zygote *zygote) {
        bool was_up = zygote->is_up;
        ZygoteReply reply;
        int r;

        while ((r = zygote_receive(zygote, &reply)) == 0)
                workers_note(zygotes, &reply);
        if (!was_up && zygote->is_up)
                /* the first one took nobody's place */
                zygotes->n_replaced += zygotes->n_forked++ > 0;
        if (r == ZYGOTE_SOCKET_E_GONE)
                pair_lose(zygotes, zygote);
}

static bool has_other(const Zygotes *zygotes, const Zygote *zygote) {
        for (int i = 0; i < N_ZYGOTES; i++)
                if (&zygotes->zygotes[i] != zygote && zygotes->zygotes[i].is_up)
                        return true;
        return false;
}

/* Somebody may have stopped it, or the machine has no time for it: then the last one is not to be lost. */
static bool is_stalled(const Zygotes *zygotes, const Zygote *zygote, uint64_t now_ns) {
        if (!has_other(zygotes, zygote))
                return false;
        if (!zygote->is_up)
                return now_ns - zygote->begin_ns > STALL_NS;
        return workers_wait_since(zygotes, zygote, now_ns - STALL_NS);
}

/* Return: whether one is on its way. */
static bool raise_successor(Zygotes *zygotes, uint64_t now_ns) {
        Zygote *parent = pair_find(zygotes);
        bool is_coming = false;

        for (int i = 0; i < N_ZYGOTES && parent; i++) {
                Zygote *zygote = &zygotes->zygotes[i];

                is_coming |= !zygote->is_up;
                if (zygote->socket >= 0 || now_ns < zygotes->next_ns)
                        continue;
                if (zygote_start_successor(zygote, parent) == 0)
                        pair_watch(zygotes, zygote);
                else
                        zygotes->next_ns = now_ns + FIRST_PAUSE_NS;
        }
        return is_coming;
}

bool pair_tend(Zygotes *zygotes) {
        uint64_t now_ns = clock_monotonic_ns();

        for (int i = 0; i < N_ZYGOTES; i++) {
                Zygote *zygote = &zygotes->zygotes[i];

                if (zygote->socket >= 0)
                        read_replies(zygotes, zygote);
                if (zygote->socket >= 0 && is_stalled(zygotes, zygote, now_ns))
                        pair_lose(zygotes, zygote);
        }
        return raise_successor(zygotes, now_ns);
}
