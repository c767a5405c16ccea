/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over /proc once, decides each process by the selectors, and searches its publication within a budget
 * of reads.
 */

#include "host/sampling/discover/survey.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/symbol/object/remote-files.h"
#include "host/sampling/context/ring.h"
#include "host/sampling/discover/coroutine-engine.h"
#include "host/sampling/process/object.h"

/*
 * Caps of the search for one ring, so that no process can keep us: 64 GiB of addresses, 4 GiB of memory that
 * is present.
 */
enum {
        MAX_ENTRIES = 1 << 24,
        MAX_READS = 1 << 20,
        MAX_OBJECTS = 256,              /* files that several processes have mapped are read once */
};

#define COPIES_NS (20 * NS_PER_SEC)     /* time that copies of one process' files may take */

/* Return: 0 and what was found in @publication, 1 = we may not look, -ENOMEM. */
static int find_ring(const Process *process, Publication *publication) {
        RingBudget budget = { .n_entries = MAX_ENTRIES, .n_reads = MAX_READS };
        RingSearch search = { 0 };
        uint32_t capacity, version;
        uint64_t address;
        int r;

        r = ring_find((pid_t)process->pid, process->start_time_ns, false, &search, &budget, &address,
                      &capacity);
        if (r == RING_E_DENIED)
                return 1;
        publication->invalid_ring = search.invalid_address;
        publication->invalid_fault = search.invalid_fault;
        if (search.stations_address && !engine_is((pid_t)process->pid))
                publication->stations_address = search.stations_address;
        if (search.context_address &&
            process_context_read((pid_t)process->pid, search.context_address, &version,
                                 &publication->context) < 0)
                return error_origin(-ENOMEM);
        if (r)
                return r < 0 ? r : 0;
        publication->ring_address = address;
        publication->ring_capacity = capacity;
        return 0;
}

/* The daemon searches where it would change something; so do we. */
static bool is_searched(SelectorReason reason) {
        return selector_is_chosen(reason) || reason == SELECTOR_SILENT;
}

/*
 * How threads publish theirs: only of processes that would be profiled, since it means a look into each file
 * that is mapped.
 */
static int find_threads(Process *process, Publication *publication, ObjectCache *objects) {
        uint64_t until_ns = clock_monotonic_ns() + COPIES_NS;
        const char *unread;
        int r = process_read_mappings(process, objects);

        while (!r && process->awaits_files && clock_monotonic_ns() < until_ns && remote_files_wait())
                r = process_read_mappings(process, objects);
        if (!r)
                publication->thread = thread_context_find(process, &unread);
        return MIN(r, 0);
}

static int look(const Selector *selector, unsigned what, ObjectCache *objects, const Program *program,
                SurveyEntry *entry) {
        Publication *publication = program->publication;
        Process *process = program->process;
        SelectorFacts facts = { .pid = process->pid, .comm = process->comm, .is_kernel = process->is_kernel };
        int r = process_read_identity(process, what | selector_needs(selector), true);

        if (r < 0)
                return r;
        facts.identity = process->identity;
        *entry = (SurveyEntry){ .process = process,
                                .publication = publication,
                                .reason = selector_decide(selector, &facts) };
        if (process->is_kernel) {
                if (entry->reason == SELECTOR_ALL)
                        entry->reason = SELECTOR_UNCHOSEN;
                return 0;
        }
        if (!is_searched(entry->reason))
                return 0;
        r = find_ring(process, publication);
        if (r < 0)
                return r;
        entry->hidden = r;
        facts.publishes = publication->ring_address || publication->context || publication->stations_address;
        entry->reason = selector_decide(selector, &facts);
        if (!selector_is_chosen(entry->reason) || entry->hidden)
                return 0;
        return find_threads(process, publication, objects);
}

static int visit_pid(const Selector *selector, unsigned what, ObjectCache *objects, pid_t pid,
                     SurveyVisit visit, void *userdata) {
        _cleanup_(publication_deinit) Publication publication = { 0 };
        _cleanup_(process_freep) Process *process = NULL;
        SurveyEntry entry;
        int r = process_new(&process, pid);

        if (r)
                return r < 0 ? r : 0;
        r = look(selector, what, objects, &(Program){ process, &publication }, &entry);
        return r ? r : visit(userdata, &entry);
}

/* Whether the process is among the first @n that are asked for. */
static bool is_named(const Selector *selector, size_t n, uint32_t pid) {
        for (size_t i = 0; i < n; i++)
                if (selector->pids[i] == pid)
                        return true;
        return false;
}

/* Processes that are asked for by their numbers, each once: others may be hundreds. */
static int visit_named(const Selector *selector, unsigned what, ObjectCache *objects, SurveyVisit visit,
                       void *userdata) {
        int r = 0;

        for (size_t i = 0; i < selector->n_pids && !r; i++)
                if (!is_named(selector, i, selector->pids[i]))
                        r = visit_pid(selector, what, objects, (pid_t)selector->pids[i], visit,
                                      userdata);
        return r;
}

/* procfs lists ids in ascending order. */
int survey_processes(const Selector *selector, unsigned what, SurveyVisit visit, void *userdata) {
        _cleanup_(object_cache_freep) ObjectCache *objects = NULL;
        _cleanup_(closedirp) DIR *dir = opendir("/proc");
        uint32_t pid;
        int r;

        if (!dir)
                return error_origin(-errno);
        r = object_cache_new(&objects, MAX_OBJECTS);
        if (r)
                return error_fold(r);
        r = visit_named(selector, what, objects, visit, userdata);
        while (!r && directory_next_number(dir, &pid))
                if (!is_named(selector, selector->n_pids, pid))
                        r = visit_pid(selector, what, objects, (pid_t)pid, visit, userdata);
        return r;
}
