/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How each form is followed:
 *
 *     ring               its header is checked about once a second
 *     process context    its time of publication is compared about once a second, and at once when a thread
 *                        uses a key that it does not name
 *     thread contexts    looked up whenever mappings have changed, since ids of modules change with them
 *
 * The word that leads to a thread's variable is written some time after its library was mapped: when the
 * library is relocated, or, of a lazy TLS descriptor, when its code runs for the first time. No notice tells
 * of that, so such a library is looked at again after 1, 2, 4 … 32 s.
 */
#include "host/sampling/context/publication.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/ring.h"

enum {
        CONTEXT_TRIES = 5,              /* looks at a context that is always being updated, one a second */
        LOOK_AGAIN_MAX = 32,            /* seconds between two looks */
};

void publication_deinit(Publication *publication) {
        process_context_free(publication->context);
        *publication = (Publication){ 0 };
}

bool publication_may_differ(Publication *publication, uint64_t cpu_ns) {
        bool has_run = cpu_ns != publication->looked_cpu_ns;

        publication->looked_cpu_ns = cpu_ns;
        return has_run;
}

static void look_again_after(LookAgain *again, uint64_t now_ns) {
        again->interval_s = again->interval_s ? MIN(2 * again->interval_s, LOOK_AGAIN_MAX) : 1;
        again->at_ns = now_ns + again->interval_s * NS_PER_SEC;
}

/*
 * A program that publishes in one form may publish in another one later. The kernel half does not watch it
 * any more; the size of its memory does, ever less often.
 */
bool publication_is_form_due(Publication *publication, uint64_t now_ns) {
        if (!publication->ring_address == !publication->context || now_ns < publication->form.at_ns)
                return false;
        look_again_after(&publication->form, now_ns);
        return true;
}

/* ---- ring ---- */

void publication_set_ring(Publication *publication, uint64_t address, uint32_t capacity) {
        if (address && address != publication->ring_address)
                stat_add(COUNTER_RING_FOUND, 1);
        publication->ring_address = address;
        publication->ring_capacity = capacity;
        publication->lost_address = 0;
}

PublicationRing publication_check_ring(Publication *publication, const Process *process) {
        uint64_t address = publication->ring_address, lost = publication->lost_address;
        uint32_t capacity = publication->ring_capacity;
        pid_t pid = (pid_t)process->pid;

        if (!address && lost && ring_check(pid, lost, publication->lost_capacity) == 0) {
                publication_set_ring(publication, lost, publication->lost_capacity);
                return PUBLICATION_RING_BACK;
        }
        if (!address || ring_check(pid, address, capacity) != RING_E_NONE)
                return PUBLICATION_RING_SAME;
        stat_add(COUNTER_RING_LOST, 1);
        log_write_target(LOG_LEVEL_DEBUG, process->pid, "its context ring is gone");
        publication_set_ring(publication, 0, 0);
        publication->lost_address = address;
        publication->lost_capacity = capacity;
        return PUBLICATION_RING_LOST;
}

/* ---- process context ---- */

static void explain(Publication *publication, uint32_t pid, uint64_t address, int r, uint32_t version) {
        if ((r == PROCESS_CONTEXT_E_BUSY && publication->context_tries) ||
            (publication->refused_address == address && publication->refused == r))
                return;
        publication->refused_address = address;
        publication->refused = r;

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

int publication_set_context(Publication *publication, const Process *process, uint64_t address,
                            bool *changedp) {
        _cleanup_(process_context_freep) ProcessContext *context = NULL;
        uint32_t version;
        int r = process_context_read((pid_t)process->pid, address, &version, &context);

        if (r < 0)
                return error_fold(r);
        publication->context_tries =
                r == PROCESS_CONTEXT_E_BUSY && publication->context_tries < CONTEXT_TRIES
                ? publication->context_tries + 1U
                : 0;
        publication->context_address = publication->context_tries ? address : 0;
        if (r) {
                explain(publication, process->pid, address, r, version);
                return 0;
        }
        stat_add(publication->context ? COUNTER_PROCESS_CONTEXTS_UPDATED : COUNTER_PROCESS_CONTEXTS_FOUND, 1);
        process_context_free(publication->context);
        publication->context = take(context);
        publication->wants_context = false;
        *changedp = true;
        return 0;
}

int publication_poll_context(Publication *publication, const Process *process, bool *changedp) {
        int r;

        publication->wants_context = false;
        if (!publication->context)
                return publication->context_address
                        ? publication_set_context(publication, process, publication->context_address,
                                                  changedp)
                        : 0;
        r = process_context_check((pid_t)process->pid, publication->context);
        if (r == PROCESS_CONTEXT_E_BUSY)
                return publication_set_context(publication, process, publication->context->address, changedp);
        if (r != PROCESS_CONTEXT_E_NONE)
                return 0;
        stat_add(COUNTER_PROCESS_CONTEXTS_LOST, 1);
        publication->context = process_context_free(publication->context);
        *changedp = true;
        return 0;
}

/* ---- thread contexts ---- */

void publication_count_early(Publication *publication, uint64_t time_ns) {
        if (publication->waits_for_symbols)
                publication->n_early++;
        else if (time_ns < publication->threads_ns)
                stat_add(COUNTER_CONTEXTS_EARLY, 1);
}

bool publication_is_link_due(const Publication *publication, uint64_t now_ns) {
        return publication->link.interval_s && now_ns >= publication->link.at_ns;
}

/* A form is there, and no word of the process leads to it yet. */
static void note_unread(Publication *publication, uint32_t pid, const char *unread) {
        look_again_after(&publication->link, clock_monotonic_ns());
        if (publication->told_unread)
                return;
        publication->told_unread = true;
        stat_add(COUNTER_THREAD_CONTEXTS_UNREAD, 1);
        log_write_target(LOG_LEVEL_INFO, pid, "its thread contexts are not read: %s", unread);
}

static bool is_same_way(const ThreadContext *a, const ThreadContext *b) {
        return a->form == b->form && a->model == b->model && a->module == b->module && a->offset == b->offset;
}

bool publication_resolve_threads(Publication *publication, const Process *process) {
        bool waited = publication->waits_for_symbols, is_first;
        const char *unread;
        ThreadContext found = thread_context_find(process, &unread);

        publication->waits_for_symbols = thread_context_waits(process);
        if (unread && !found.form && !publication->waits_for_symbols)
                note_unread(publication, process->pid, unread);
        else
                publication->link.interval_s = 0;
        if (is_same_way(&found, &publication->thread))
                return false;
        is_first = found.form && !publication->thread.form;
        stat_add(COUNTER_THREAD_CONTEXTS_FOUND, is_first);
        if (waited && is_first) {
                stat_add(COUNTER_CONTEXTS_EARLY, publication->n_early);
                publication->threads_ns = clock_monotonic_ns();
        }
        publication->thread = found;
        return true;
}
