/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a target says of itself and its threads beside the ring. A process context is found by the same search
 * as a ring; from then on its time is looked at about once a second, and at once when a thread uses a key
 * that it does not name. How threads are reached is looked up whenever mappings have changed, since ids of
 * modules change with them.
 */
#include "sampling/discover/targets-private.h"


#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"

enum {
        CONTEXT_TRIES = 5,              /* looks at a context that is always being updated, one a second */
        LOOK_AGAIN_MAX = 32,            /* seconds between two looks */
};

/* The row says what has changed. A table that is full keeps the old one. */
static int renew_row(Targets *targets, Target *target) {
        int r = targets_set_row(targets, target);

        return r > 0 ? 0 : r;
}

static void explain(Target *target, uint64_t address, int r, uint32_t version) {
        uint32_t pid = target->process->pid;

        if ((r == PROCESS_CONTEXT_E_BUSY && target->context_tries) ||
            (target->refused_address == address && target->refused == r))
                return;
        target->refused_address = address;
        target->refused = r;

        if (r == PROCESS_CONTEXT_E_VERSION) {
                stat_add(COUNTER_PROCESS_CONTEXTS_UNSUPPORTED, 1);
                log_write_target(LOG_LEVEL_INFO, pid,
                                 "its process context has version %u: only version 2 is read", version);
        } else if (r == PROCESS_CONTEXT_E_MALFORMED) {
                stat_add(COUNTER_PROCESS_CONTEXTS_MALFORMED, 1);
                log_write_target(LOG_LEVEL_INFO, pid, "its process context is malformed, and is not read");
        } else if (r == PROCESS_CONTEXT_E_BUSY) {
                stat_add(COUNTER_PROCESS_CONTEXTS_BUSY, 1);
                log_write_target(LOG_LEVEL_INFO, pid,
                                 "its process context is always being updated, and is not read");
        }
}

int targets_set_context(Targets *targets, Target *target, uint64_t address) {
        _cleanup_(process_context_freep) ProcessContext *context = NULL;
        Process *process = target->process;
        uint32_t version;
        int r = process_context_read((pid_t)process->pid, address, &version, &context);

        if (r < 0)
                return error_fold(r);
        target->context_tries = r == PROCESS_CONTEXT_E_BUSY && target->context_tries < CONTEXT_TRIES
                ? target->context_tries + 1U
                : 0;
        target->context_address = target->context_tries ? address : 0;
        if (r) {
                explain(target, address, r, version);
                return 0;
        }
        stat_add(process->context ? COUNTER_PROCESS_CONTEXTS_UPDATED : COUNTER_PROCESS_CONTEXTS_FOUND, 1);
        process_context_free(process->context);
        process->context = take(context);
        process->wants_context = false;
        return renew_row(targets, target);
}

static int lose_context(Targets *targets, Target *target) {
        stat_add(COUNTER_PROCESS_CONTEXTS_LOST, 1);
        target->process->context = process_context_free(target->process->context);
        return renew_row(targets, target);
}

int targets_poll_context(Targets *targets, Target *target) {
        Process *process = target->process;
        int r;

        process->wants_context = false;
        if (!process->context)
                return target->context_address ? targets_set_context(targets, target, target->context_address)
                                               : 0;
        r = process_context_check((pid_t)process->pid, process->context);
        if (r == PROCESS_CONTEXT_E_BUSY)
                return targets_set_context(targets, target, process->context->address);
        return r == PROCESS_CONTEXT_E_NONE ? lose_context(targets, target) : 0;
}

static void look_again_after(LookAgain *again, uint64_t now_ns) {
        again->interval_s = again->interval_s ? MIN(2 * again->interval_s, LOOK_AGAIN_MAX) : 1;
        again->at_ns = now_ns + again->interval_s * NS_PER_SEC;
}

/*
 * Who publishes in one form may publish in another one later. The kernel half does not watch it any more; the
 * size of its memory does, ever less often.
 */
int targets_look_again(Targets *targets, Target *target, uint64_t now_ns) {
        Process *process = target->process;

        if (!process->ring_address == !process->context || now_ns < target->form.at_ns)
                return 0;
        look_again_after(&target->form, now_ns);
        return search_look(targets->search, process->pid, process->start_time_ns, false, now_ns);
}

int targets_resolve_waiting(Targets *targets) {
        HashmapEntry *entry;
        uint32_t at = 0;
        int r = 0;

        while (!r && (entry = hashmap_next(&targets->chains, &at))) {
                Target *target = entry->value;

                if (!target->end_ns && target->process->waits_for_symbols)
                        r = targets_resolve_threads(targets, target);
        }
        return error_fold(r);
}

/*
 * Samples from before the daemon knew how to reach the context of their threads: their number tells what
 * asking costs.
 */
void targets_count_early(Process *process, uint64_t time_ns) {
        if (process->waits_for_symbols)
                process->n_early++;
        else if (time_ns < process->threads_ns)
                stat_add(COUNTER_CONTEXTS_EARLY, 1);
}

int targets_link_again(Targets *targets, Target *target, uint64_t now_ns) {
        return target->link.interval_s && now_ns >= target->link.at_ns
                ? targets_resolve_threads(targets, target)
                : 0;
}

int targets_resolve_threads(Targets *targets, Target *target) {
        Process *process = target->process;
        bool waited = process->waits_for_symbols;
        const char *unread;
        ThreadContext found = thread_context_find(process, &unread);

        process->waits_for_symbols = thread_context_waits(process);
        /*
         * The word that leads to the variable is written some time after the library was mapped: when it is
         * relocated, or, of a lazy TLS descriptor, when its code runs for the first time. No notice tells of
         * that.
         */
        if (unread && !found.form && !process->waits_for_symbols)
                look_again_after(&target->link, clock_monotonic_ns());
        else
                target->link.interval_s = 0;
        if (unread && !target->told_unread && !found.form && !process->waits_for_symbols) {
                target->told_unread = true;
                stat_add(COUNTER_THREAD_CONTEXTS_UNREAD, 1);
                log_write_target(LOG_LEVEL_INFO, process->pid, "its thread contexts are not read: %s",
                                 unread);
        }
        if (found.form == process->thread.form && found.model == process->thread.model &&
            found.module == process->thread.module && found.offset == process->thread.offset)
                return 0;
        stat_add(COUNTER_THREAD_CONTEXTS_FOUND, found.form && !process->thread.form);
        if (waited && found.form && !process->thread.form) {
                stat_add(COUNTER_CONTEXTS_EARLY, process->n_early);
                process->threads_ns = clock_monotonic_ns();
        }
        process->thread = found;
        return renew_row(targets, target);
}
