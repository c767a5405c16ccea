/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A table of addresses for each process. An allocation is put into it as it is told, and gets its record, a
 * copy of the sample, when its stack is known, which may be later:
 *
 *     alloc 0x7f…10 ─▶ added ─▶ known: stack, span ─▶ shipped with each window, until
 *     free  0x7f…10 ─────────────────────────────────▶ freed
 *
 * What is said to be alive is alive. So a process loses all it has here where a free may be missing:
 *
 *     the kernel half has lost one         what was told before the loss was read is not believed
 *     an address comes again, not freed    its free was not told, so others may not have been
 *     nothing was told for a while         a pause
 *
 * A child of fork() begins with nothing: what it frees of its parent's is unknown here, and the parent's
 * stays.
 *
 * The table is full at LIVE_MAX_BLOCKS, which records have as they need them. Then the process that holds
 * most is thinned: each of its allocations stays by the toss of a coin, for twice as much, and so do those
 * that come. Sums stay right in the mean.
 *
 * A record has the frames in files, up to the first other one. Code of a file lies where it lay, or the
 * mappings say that it has gone (mapping-history.h); what a runtime has made may be something else by the
 * time at which it is named.
 */

#include "host/sampling/aggregate/live-set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"

enum { MAX_THINNINGS = 20 };

typedef struct Entry {
        uint64_t time_ns;
        int64_t bytes, objects;
        uint32_t n_blocks;
        bool is_known;
        SampleCoroutine coroutine;
        uint64_t local_root;
        uint32_t n_task_name, n_task_id;        /* bytes with their NUL; 0 = there is none */
        /* header with user words, then attributes, name and id of the task */
        struct abi_sample header;
} Entry;

typedef struct LiveProcess {
        uint32_t pid;
        uint64_t generation, start_time_ns;
        Hashmap entries;                /* address → Entry */
        Share *share;                   /* blocks of its entries, and one for itself */
        uint64_t n_losses;              /* losses that were seen */
        uint64_t believed_ns;           /* nothing that is told of times before is kept */
        unsigned n_thinnings;
        bool has_ended;
} LiveProcess;

struct LiveSet {
        Hashmap processes;              /* generation → LiveProcess */
        Shares shares;
        uint64_t believed_ns;
        uint64_t n_draws;
};

int live_set_new(LiveSet **setp) {
        LiveSet *set = calloc(1, sizeof(*set));

        if (!set)
                return error_origin(-ENOMEM);
        *setp = set;
        return 0;
}

static void release(LiveSet *set, LiveProcess *process, Entry *entry) {
        share_release(&set->shares, process->share, entry->n_blocks);
        free(entry);
}

static void clear(LiveSet *set, LiveProcess *process, enum counter why) {
        HashmapEntry *item;
        uint32_t at = 0;

        stat_add(why, process->entries.n_entries);
        while ((item = hashmap_next(&process->entries, &at)))
                release(set, process, item->value);
        hashmap_deinit(&process->entries);
        process->n_thinnings = 0;
}

static void process_end(LiveSet *set, LiveProcess *process) {
        clear(set, process, COUNTER_LIVE_ENDED);
        share_release(&set->shares, process->share, 1);
        free(process);
}

LiveSet *live_set_free(LiveSet *set) {
        HashmapEntry *item;
        uint32_t at = 0;

        if (!set)
                return NULL;
        while ((item = hashmap_next(&set->processes, &at)))
                process_end(set, item->value);
        hashmap_deinit(&set->processes);
        shares_deinit(&set->shares);
        free(set);
        return NULL;
}

/* ---- room ---- */

/* A coin, for which allocations it matters alone: nobody can know its side before. */
static bool toss(LiveSet *set) {
        return hash_number(++set->n_draws) & 1;
}

/* Halves what the process has. Return: 0, -ENOMEM. */
static int thin(LiveSet *set, LiveProcess *process) {
        Hashmap left = { 0 };
        HashmapEntry *item;
        uint32_t at = 0;
        int r = 0;

        while ((item = hashmap_next(&process->entries, &at))) {
                Entry *entry = item->value;

                if (!r && toss(set)) {
                        entry->bytes *= 2;
                        entry->objects *= 2;
                        r = hashmap_put(&left, item->key, entry);
                        if (!r)
                                continue;
                }
                stat_add(COUNTER_LIVE_EVICTED, 1);
                release(set, process, entry);
        }
        hashmap_deinit(&process->entries);
        process->entries = left;
        process->n_thinnings++;
        return error_fold(r);
}

/* The program of a process that has most. NULL = nothing can give way there. */
static LiveProcess *find_holder(const LiveSet *set, const Share *share) {
        LiveProcess *most = NULL;
        HashmapEntry *item;
        uint32_t at = 0;

        while ((item = hashmap_next(&set->processes, &at))) {
                LiveProcess *process = item->value;

                if (process->share == share && process->entries.n_entries &&
                    process->n_thinnings < MAX_THINNINGS &&
                    (!most || most->entries.n_entries < process->entries.n_entries))
                        most = process;
        }
        return most;
}

/* Room for @n blocks of @share. Return: 0, 1 = there is none, -ENOMEM. */
static int make_room(LiveSet *set, Share *share, size_t n) {
        while (shares_held(&set->shares) + n > LIVE_MAX_BLOCKS) {
                Share *victim = shares_victim(&set->shares, share, n);
                LiveProcess *process = find_holder(set, victim);
                int r;

                if (!process)
                        return 1;
                shares_tell(&set->shares, "allocations that are alive", share_owner(victim),
                            clock_monotonic_ns());
                r = thin(set, process);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

/* ---- processes ---- */

static int make_process(LiveSet *set, const Process *of, const struct abi_sample *header,
                        LiveProcess **processp) {
        const ShareOwner owner = identity_owner_of((pid_t)of->pid, of->start_time_ns);
        LiveProcess *process = calloc(1, sizeof(*process));
        int r;

        if (!process)
                return error_origin(-ENOMEM);
        live_set_forget(set, header->tgid);     /* forgets the program before */
        process->pid = header->tgid;
        process->generation = header->generation;
        process->start_time_ns = header->start_time_ns;
        r = shares_hold(&set->shares, &owner, 1, &process->share);
        if (!r)
                r = make_room(set, process->share, 0);
        if (!r)
                r = hashmap_put(&set->processes, process->generation, process);
        if (!r) {
                *processp = process;
                return 0;
        }
        share_release(&set->shares, process->share, 1);
        free(process);
        return r < 0 ? error_fold(r) : r;
}

/* Removes those that @is_one says; a map must not change while it is walked. */
static void remove_all(LiveSet *set, bool (*is_one)(const LiveProcess *process, uint32_t pid), uint32_t pid) {
        LiveProcess *found;
        HashmapEntry *item;
        uint32_t at;

        do {
                found = NULL;
                at = 0;
                while (!found && (item = hashmap_next(&set->processes, &at)))
                        found = is_one(item->value, pid) ? item->value : NULL;
                if (found) {
                        hashmap_remove(&set->processes, found->generation);
                        process_end(set, found);
                }
        } while (found);
}

static bool has_pid(const LiveProcess *process, uint32_t pid) {
        return process->pid == pid;
}

static bool has_ended(const LiveProcess *process, uint32_t pid) {
        return process->has_ended;
}

void live_set_forget(LiveSet *set, uint32_t pid) {
        remove_all(set, has_pid, pid);
}

void live_set_begin(LiveSet *set, uint64_t now_ns) {
        HashmapEntry *item;
        uint32_t at = 0;

        set->believed_ns = now_ns;
        while ((item = hashmap_next(&set->processes, &at)))
                clear(set, item->value, COUNTER_LIVE_ENDED);
}

void live_set_check(LiveSet *set, LiveLosses losses, void *userdata, bool of_any) {
        HashmapEntry *item;
        uint32_t at = 0;

        while ((item = hashmap_next(&set->processes, &at))) {
                LiveProcess *process = item->value;
                uint64_t n = losses(userdata, process->pid, process->start_time_ns);

                if (n == process->n_losses && !of_any)
                        continue;
                /* the time is later than that of the loss: what is in the ring by now is from before, too */
                process->n_losses = n;
                process->believed_ns = clock_monotonic_ns();
                clear(set, process, COUNTER_LIVE_FREE_LOST);
        }
}

/* ---- allocations ---- */

/* @entry: taken over. Return: 0, 1 = there is no room, -ENOMEM. */
static int put_entry(LiveSet *set, LiveProcess *process, uint64_t address, Entry *entry) {
        int r = make_room(set, process->share, entry->n_blocks);

        if (!r)
                r = hashmap_put(&process->entries, address, entry);
        if (r) {
                free(entry);
                return r < 0 ? error_fold(r) : r;
        }
        share_hold_more(process->share, entry->n_blocks);
        return 0;
}

int live_set_add(LiveSet *set, const Process *of, const Sample *sample) {
        const struct abi_sample *header = sample->header;
        LiveProcess *process = hashmap_get(&set->processes, header->generation);
        Entry *entry;
        int r = 0;

        if (!sample->allocation->has_free)
                return 0;
        if (header->time_ns < set->believed_ns || (process && header->time_ns < process->believed_ns)) {
                stat_add(COUNTER_LIVE_LEFT_OUT, 1);
                return 0;
        }
        if (!process)
                r = make_process(set, of, header, &process);
        if (r) {
                stat_add(COUNTER_LIVE_LEFT_OUT, 1);
                return r < 0 ? error_fold(r) : 0;
        }
        /* an address that comes again: its free was not told */
        if (hashmap_get(&process->entries, sample->allocation->address))
                clear(set, process, COUNTER_LIVE_AGAIN);
        for (unsigned i = 0; i < process->n_thinnings; i++)
                if (!toss(set)) {
                        stat_add(COUNTER_LIVE_LEFT_OUT, 1);
                        return 0;
                }
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return error_origin(-ENOMEM);
        entry->time_ns = header->time_ns;
        entry->bytes = (int64_t)(header->value << process->n_thinnings);
        entry->n_blocks = 1;
        /* room may be made by thinning this very process: it stands for no more than it does now */
        r = put_entry(set, process, sample->allocation->address, entry);
        stat_add(r ? COUNTER_LIVE_LEFT_OUT : COUNTER_LIVE_ADDED, 1);
        return MIN(r, 0);
}

void live_set_remove(LiveSet *set, const struct abi_free *freed) {
        LiveProcess *process = hashmap_get(&set->processes, freed->generation);
        Entry *entry = process ? hashmap_remove(&process->entries, freed->address) : NULL;

        stat_add(entry ? COUNTER_LIVE_FREED : COUNTER_FREES_UNKNOWN, 1);
        if (entry)
                release(set, process, entry);
}

/* Words of @sample's stack up to the first one that is in no file. A caller is behind its call. */
static uint16_t words_in_files(const Process *process, const Sample *sample) {
        uint16_t n = 0;

        for (; n < sample->header->n_user; n++) {
                ProcessAnswer answer;

                if (runtime_frame_words(sample->user[n]) != 1)
                        break;
                process_resolve(process, (sample->user[n] & ~ABI_FRAME_UNPROVED) - !!n,
                                sample->header->time_ns, &answer);
                if (!answer.mapping || answer.mapping->kind == MAPPING_ANONYMOUS || answer.is_stale)
                        break;
        }
        return n;
}

static uint32_t text_size(const char *text) {
        return text ? (uint32_t)strlen(text) + 1 : 0;
}

/* A copy of @sample in the place of @pending, which it was until now. NULL = no memory. */
static Entry *make_record(const Entry *pending, const Process *process, const Sample *sample,
                          int64_t n_objects) {
        const struct abi_sample *header = sample->header;
        const uint16_t n_user = words_in_files(process, sample);
        const uint32_t n_name = text_size(sample->task_name), n_id = text_size(sample->task_id);
        const size_t size = sizeof(Entry) + n_user * sizeof(uint64_t) + header->attributes_size + n_name +
                n_id;
        const uint64_t weight = header->value ?: 1;
        Entry *entry = malloc(size);
        char *to;

        if (!entry)
                return NULL;
        *entry = *pending;
        /* by as much as its bytes are more than they were told to be */
        entry->objects = n_objects * (int64_t)((uint64_t)pending->bytes / weight);
        entry->is_known = true;
        entry->n_blocks = (uint32_t)((size + LIVE_BLOCK_BYTES - 1) / LIVE_BLOCK_BYTES);
        entry->coroutine = sample->coroutine;
        entry->local_root = sample->local_root;
        entry->n_task_name = n_name;
        entry->n_task_id = n_id;
        entry->header = *header;
        entry->header.n_kernel = 0;
        entry->header.n_user = n_user;
        if (n_user < header->n_user)
                entry->header.stack_end = ABI_STACK_STALE;
        to = (char *)(entry->header.frames + n_user);
        if (n_user)
                memcpy(entry->header.frames, sample->user, n_user * sizeof(uint64_t));
        if (header->attributes_size)
                memcpy(to, sample->attributes, header->attributes_size);
        memcpy(to + header->attributes_size, sample->task_name ?: "", n_name);
        memcpy(to + header->attributes_size + n_name, sample->task_id ?: "", n_id);
        return entry;
}

int live_set_know(LiveSet *set, const Process *of, const Sample *sample, int64_t n_objects) {
        LiveProcess *process = hashmap_get(&set->processes, sample->header->generation);
        const uint64_t address = sample->allocation->address;
        Entry *pending = process ? hashmap_get(&process->entries, address) : NULL, *entry;
        int r;

        if (!pending || pending->is_known || pending->time_ns != sample->header->time_ns)
                return 0;
        entry = make_record(pending, of, sample, n_objects);
        if (!entry)
                return error_origin(-ENOMEM);
        hashmap_remove(&process->entries, address);
        release(set, process, pending);
        r = put_entry(set, process, address, entry);
        stat_add(COUNTER_LIVE_EVICTED, r > 0);
        return MIN(r, 0);
}

static LiveAllocation read_entry(const Entry *entry) {
        const uint8_t *behind = (const uint8_t *)(entry->header.frames + entry->header.n_user);
        const char *texts = (const char *)behind + entry->header.attributes_size;
        LiveAllocation allocation = { .bytes = entry->bytes, .objects = entry->objects };

        allocation.sample = (Sample){ .header = &entry->header,
                                      .user = entry->header.frames,
                                      .attributes = behind,
                                      .task_name = entry->n_task_name ? texts : NULL,
                                      .task_id = entry->n_task_id ? texts + entry->n_task_name : NULL,
                                      .coroutine = entry->coroutine,
                                      .local_root = entry->local_root };
        return allocation;
}

static int visit_process(const LiveProcess *process, const LiveVisit *visit) {
        HashmapEntry *item;
        uint32_t at = 0;
        int r = visit->process(visit->userdata, process->pid, process->generation);

        while (!r && (item = hashmap_next(&process->entries, &at))) {
                const Entry *entry = item->value;
                LiveAllocation allocation;

                if (!entry->is_known)
                        continue;
                allocation = read_entry(entry);
                r = visit->allocation(visit->userdata, &allocation);
        }
        return r;
}

int live_set_visit(LiveSet *set, const LiveVisit *visit) {
        HashmapEntry *item;
        uint32_t at = 0;
        int r = 0;

        while (r >= 0 && (item = hashmap_next(&set->processes, &at))) {
                LiveProcess *process = item->value;

                r = visit_process(process, visit);
                process->has_ended = r > 0;
        }
        if (r < 0)
                return error_fold(r);
        remove_all(set, has_ended, 0);
        return 0;
}
