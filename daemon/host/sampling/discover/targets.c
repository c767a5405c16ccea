/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three kinds of processes:
 *
 *     target     has a Target here and a row TARGET in the kernel's table
 *     rejected   was undecided, no selector chose it; has a row REJECTED for a while (its name may change,
 *                and with `publishers` it may publish)
 *     others     known here only while their memory is being searched for a ring
 *
 * A target is put together from three things, which do not know each other:
 *
 *     Member             why it was chosen, when it began and ended            membership.h
 *     Publication        what it publishes of its traces                       context/publication.h
 *     TrackedMappings    how well its mappings are known                       mapping-tracker.h
 *
 * Events come in here (notices, mappings, samples, time) and go to the part that they concern. What it makes
 * of them goes out by the callbacks: the row of the kernel's table above all.
 */
#include "host/sampling/discover/targets.h"

#include <errno.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/data/shares.h"
#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/adopt.h"
#include "host/sampling/context/ring-search.h"
#include "host/sampling/discover/admission.h"
#include "host/sampling/discover/coroutine-engine.h"
#include "host/sampling/discover/mapping-tracker.h"
#include "host/sampling/discover/membership.h"
#include "host/sampling/discover/starts.h"
#include "host/sampling/discover/sweep.h"
#include "host/sampling/process/program-names.h"

enum {
        /* 20,000 notices: two seconds of 2,000 small programs a second */
        NOTICE_HISTORY_BYTES = 4 << 20,
        TARGETS_PER_PASS = 64,                  /* targets looked at in one pass */
        CHARGES_A_TIME = 256,                   /* targets whose share is read at once; 50 µs each */
};

/* not quite a second: a caller that calls once a second calls in time */
#define WORK_INTERVAL_NS (900 * NS_PER_MS)
#define START_KEEP_NS NS_PER_SEC        /* a start whose sample does not come */
#define READ_INTERVAL_NS (5 * NS_PER_MS)        /* between two turns while maps are being read */

/* A program that is or was profiled. */
typedef struct Target {
        Process *process;               /* owned */
        Member member;
        Publication publication;
        TrackedMappings mappings;
        bool kind_is_told;              /* to the search */
        uint64_t sampled_ns;            /* time of the sample that made it a target, 0 = none did */
        bool is_unread;                 /* as its row says: no sample made it a target */
        bool is_boosted;                /* as its row says */
        Share *share;                   /* holder, while the target lives; NULL = not counted (yet) */
        struct abi_settled_name name;   /* as it was when its start was told; empty = it was not */
} Target;

struct Targets {
        TargetsConfig config;
        uint64_t keep_ns;               /* of programs that are gone */
        Membership membership;
        Shares shares;                  /* targets by holder, once they were too many */
        bool has_shares;
        MappingTracker mappings;
        NoticeHistory *notices;         /* NULL = only living processes become targets */
        Search *search;
        Sweep sweep;
        Starts starts;
        uint64_t told_ns;               /* execs before it were told */
        ProgramNames settled;
        uint64_t next_pass_ns;
        uint32_t pass_at;               /* where the next pass over the targets goes on */
        /* counts of the pass over /proc at the start */
        size_t n_all, n_excluded_pids;
        uint32_t missing_pid;
};

static Target *target_of_member(Member *member) {
        return member ? (Target *)((char *)member - offsetof(Target, member)) : NULL;
}

static Target *target_of_mappings(TrackedMappings *mappings) {
        return (Target *)((char *)mappings - offsetof(Target, mappings));
}

static Target *find_living(const Targets *targets, uint32_t tgid) {
        return target_of_member(membership_living(&targets->membership, tgid));
}

/* Walks the living targets; NULL = the end. */
static Target *next_living(const Targets *targets, uint32_t *atp) {
        Member *member;

        do
                member = membership_next(&targets->membership, atp);
        while (member && member->end_ns);
        return target_of_member(member);
}

/* A target is not counted for its share any more. */
static void release(Targets *targets, Target *target) {
        if (target->share)
                share_release(&targets->shares, take(target->share), 1);
}

static Target *free_target(Target *target) {
        if (!target)
                return NULL;
        process_reading_free(target->mappings.reading);
        publication_deinit(&target->publication);
        process_free(target->process);
        free(target);
        return NULL;
}
DEFINE_CLEANUP(Target, free_target)

static TrackedMappings *program_at(void *userdata, uint32_t pid, uint64_t time_ns) {
        Targets *targets = userdata;
        Target *target = target_of_member(membership_at(&targets->membership, pid, time_ns));

        return target ? &target->mappings : NULL;
}

static int on_mappings_changed(void *userdata, TrackedMappings *mappings);

static int make_parts(Targets *targets) {
        MappingTrackerConfig mappings = { .objects = targets->config.objects,
                                          .environment = targets->config.environment,
                                          .program_at = program_at,
                                          .changed = on_mappings_changed,
                                          .userdata = targets };
        int r = 0;

        if (selector_is_by_name(targets->config.selector))
                r = notice_history_new(&targets->notices, NOTICE_HISTORY_BYTES);
        mappings.notices = targets->notices;
        mapping_tracker_init(&targets->mappings, &mappings);
        if (!r)
                r = membership_init(&targets->membership, targets->config.selector, targets->notices);
        if (!r)
                r = search_new(&targets->search);
        if (!r)
                search_set_text(targets->search, &targets->mappings.text_left);
        return error_fold(r);
}

int targets_new(Targets **targetsp, const TargetsConfig *config) {
        _cleanup_(targets_freep) Targets *targets = calloc(1, sizeof(*targets));
        int r;

        if (!targets)
                return error_origin(-ENOMEM);
        targets->config = *config;
        targets->keep_ns = TARGETS_KEEP_NS;
        targets->told_ns = UINT64_MAX;
        if (!targets->config.max_targets)
                targets->config.max_targets = ABI_MAX_PROCESSES / 2;
        r = make_parts(targets);
        if (r)
                return r;
        *targetsp = take(targets);
        return 0;
}

Targets *targets_free(Targets *targets) {
        uint32_t at = 0;
        Member *member;

        if (!targets)
                return NULL;
        while ((member = membership_next(&targets->membership, &at)))
                for (Member *older; member; member = older) {
                        older = member->older;
                        release(targets, target_of_member(member));
                        free_target(target_of_member(member));
                }
        shares_deinit(&targets->shares);
        mapping_tracker_deinit(&targets->mappings);
        membership_deinit(&targets->membership);
        search_free(targets->search);
        sweep_deinit(&targets->sweep);
        starts_deinit(&targets->starts);
        notice_history_free(targets->notices);
        free(targets);
        return NULL;
}

/* ---- the kernel's table ---- */

static ShareOwner owner_of(uint32_t tgid) {
        return identity_owner_of((pid_t)tgid, 0);
}

/* Return: 0, < 0. */
static int tell_share(Targets *targets, uint32_t tgid) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        struct abi_adoption adoption = { .tgid = tgid, .slot = ABI_ADOPTION_SHARE };
        const ShareOwner owner = owner_of(tgid);

        adoption.tid = abi_adoption_share(owner.group, hash_number(owner.group ^ owner.user));
        return callbacks->adopt(callbacks->userdata, &adoption);
}

/* There is no room for the row of a process whose share was told. Return: 0, < 0. */
static int end_share(Targets *targets, uint32_t tgid) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        const struct abi_adoption ends = { .tgid = tgid, .slot = ABI_ADOPTION_ENDS };

        return callbacks->adopt(callbacks->userdata, &ends);
}

/*
 * The share goes first: whoever has none is not counted. Then the row: from then on the kernel half counts
 * births and deaths itself, and leaves the slots alone until all are known.
 */
static int adopt(Targets *targets, Target *target, struct abi_process *row) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        Publication *publication = &target->publication;
        uint32_t tgid = target->process->pid;
        int r;

        if (!callbacks->adopt || !row->ring_address ||
            (publication->adopted_ring == row->ring_address &&
             publication->adopted_capacity == row->ring_capacity))
                return 0;
        r = tell_share(targets, tgid);
        row->flags |= ABI_PROCESS_ADOPTING;
        if (!r)
                r = callbacks->row_set(callbacks->userdata, tgid, row);
        row->flags &= (uint8_t)~ABI_PROCESS_ADOPTING;
        if (r > 0 && !publication->adopted_ring)
                return end_share(targets, tgid) ?: r;
        if (!r)
                r = adopt_threads(tgid, row->ring_capacity, callbacks->adopt, callbacks->userdata);
        if (r)
                return r;
        publication->adopted_ring = row->ring_address;
        publication->adopted_capacity = row->ring_capacity;
        return 0;
}

static bool wants_boost(const Targets *targets, const Process *process) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;

        return callbacks->is_boosted && callbacks->is_boosted(callbacks->userdata, process);
}

/* Return: as the callback. */
static int set_row(Targets *targets, Target *target) {
        const bool is_boosted = wants_boost(targets, target->process);
        const Publication *publication = &target->publication;
        const Process *process = target->process;
        struct abi_process row = {
                .generation = process->generation,
                .start_time_ns = process->start_time_ns,
                .ring_address = publication->ring_address,
                .ring_capacity = publication->ring_capacity,
                .state = ABI_STATE_TARGET,
                .thread_offset = publication->thread.offset,
                .thread_module = publication->thread.module,
                .thread_model = publication->thread.model,
                .thread_form = publication->thread.form,
                .node = publication->context ? publication->context->node : (struct node_layout){ 0 },
                .flags = (uint8_t)((publication->context ? ABI_PROCESS_PUBLISHES : 0) |
                                   (target->is_unread ? ABI_PROCESS_UNREAD : 0) |
                                   (is_boosted ? ABI_PROCESS_BOOSTED : 0)),
        };
        int r = adopt(targets, target, &row);

        target->is_boosted = is_boosted;
        return r ? r
                 : targets->config.callbacks.row_set(targets->config.callbacks.userdata, process->pid, &row);
}

/* Writes a changed row. A table that is full keeps the old one. */
static int renew_row(Targets *targets, Target *target) {
        int r = set_row(targets, target);

        return r > 0 ? 0 : r;
}

static int follow_boost(Targets *targets, Target *target) {
        return target->is_boosted == wants_boost(targets, target->process) ? 0 : renew_row(targets, target);
}

int targets_boost(Targets *targets) {
        Target *target;
        uint32_t at = 0;
        int r = 0;

        while (!r && (target = next_living(targets, &at)))
                r = follow_boost(targets, target);
        return r;
}

static int remove_row(Targets *targets, uint32_t tgid) {
        return targets->config.callbacks.row_remove(targets->config.callbacks.userdata, tgid);
}

/* ---- in and out ---- */

/* A rejected process loses its row, and may be decided again. */
static int unreject(Targets *targets, uint32_t tgid) {
        return membership_unreject(&targets->membership, tgid) ? remove_row(targets, tgid) : 0;
}

/* A rejected process has a row too, until it may be decided again. */
static int reject(Targets *targets, uint32_t tgid, uint64_t start_time_ns) {
        struct abi_process row = { .start_time_ns = start_time_ns, .state = ABI_STATE_REJECTED };
        int r;

        stat_add(COUNTER_TARGETS_REJECTED, 1);
        r = membership_reject(&targets->membership, tgid, &row.generation);
        if (r)
                return r < 0 ? r : 0;
        r = targets->config.callbacks.row_set(targets->config.callbacks.userdata, tgid, &row);
        return r < 0 ? r : 0;
}

static bool read_user(uint32_t tgid, uint32_t *uidp) {
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int fd = -1;

        if (process_open_living((pid_t)tgid, 0, &fd, NULL) || identity_new(&identity, fd, IDENTITY_USER) ||
            !identity->has_uid)
                return false;
        *uidp = identity->uid;
        return true;
}

/*
 * Whether no process of a name can be chosen: only where name and user decide alone. @uidp: the user of
 * @tgid, NULL = it is read if that decides.
 */
static bool rejects_name(const Targets *targets, uint32_t tgid, const char *comm, const uint32_t *uidp,
                         struct abi_name *namep) {
        struct abi_name name = { 0 };

        if (targets->config.names == ABI_NAMES_NONE || !*comm)
                return false;
        memcpy(name.comm, comm, strnlen(comm, sizeof(name.comm) - 1));
        if (targets->config.names == ABI_NAMES_COMM_USER && uidp)
                name.uid = *uidp;
        else if (targets->config.names == ABI_NAMES_COMM_USER && !read_user(tgid, &name.uid))
                return false;
        *namep = name;
        return selector_rejects_name(targets->config.selector, &name);
}

static int expire_rejects(Targets *targets, uint64_t now_ns) {
        uint32_t tgid;
        int r = 0;

        while (!r && (tgid = rejects_expired(&targets->membership.rejects, now_ns)))
                r = unreject(targets, tgid);
        return r;
}

/* Frees dead targets whose keep time is over; @now_ns = 0: only those over the cap. */
static void forget_dead(Targets *targets, uint64_t now_ns) {
        Member *dead;

        while ((dead = membership_take_dead(&targets->membership, now_ns, targets->keep_ns)))
                free_target(target_of_member(dead));
}

static void end_member(Targets *targets, Target *target, enum counter event, uint64_t end_ns,
                       uint64_t cpu_total_ns) {
        stat_add(event, 1);
        log_write_target(LOG_LEVEL_DEBUG, target->process->pid, "%s is gone", target->process->comm);
        release(targets, target);
        membership_end(&targets->membership, &target->member, end_ns, cpu_total_ns);
        mapping_tracker_end(&targets->mappings, &target->mappings, target->member.end_ns);
        forget_dead(targets, 0);
}

/*
 * The end of a living target: its row goes, it waits for its last samples.
 * @event: COUNTER_TARGETS_GONE, _EXEC or _OVER_CAP. @cpu_total_ns: all its CPU time, or 0 = what was read
 * last.
 */
static int end_target(Targets *targets, Target *target, enum counter event, uint64_t end_ns,
                      uint64_t cpu_total_ns) {
        uint32_t tgid = target->process->pid;

        end_member(targets, target, event, end_ns, cpu_total_ns);
        return remove_row(targets, tgid);
}

/* An id that is used again while the notice of its former owner's exit was lost; or one that was rejected. */
static int clear_id(Targets *targets, uint32_t tgid) {
        Target *former = find_living(targets, tgid);

        if (former)
                return end_target(targets, former, COUNTER_TARGETS_GONE, clock_monotonic_ns(), 0);
        return unreject(targets, tgid);
}

static int refuse_over_cap(Targets *targets, uint32_t tgid) {
        const ShareOwner owner = owner_of(tgid);

        stat_add(COUNTER_TARGETS_OVER_CAP, 1);
        shares_tell(&targets->shares, "targets", &owner, clock_monotonic_ns());
        return TARGETS_E_REJECTED;
}

/* ---- shares of the set ---- */

/* Return: 0, -ENOMEM. */
static int charge(Targets *targets, Target *target) {
        const ShareOwner owner = owner_of(target->process->pid);

        return shares_hold(&targets->shares, &owner, 1, &target->share);
}

/* Counts targets that came while there was room for all. Return: 0, -ENOMEM. */
static int charge_others(Targets *targets) {
        uint32_t at = 0, n = 0;
        Target *target;
        int r = 0;

        while (!r && n < CHARGES_A_TIME && (target = next_living(targets, &at))) {
                if (target->share)
                        continue;
                r = charge(targets, target);
                n++;
        }
        return r;
}

/* A target that lives is none any more. It is rejected, as all for whom there is no room, and asked again. */
static int give_way(Targets *targets, Target *target) {
        const ShareOwner owner = *share_owner(target->share);
        uint32_t tgid = target->process->pid;
        uint64_t start_time_ns = target->process->start_time_ns, now_ns = clock_monotonic_ns(), cpu_ns = 0;
        int r;

        process_cpu_time(target->process, &cpu_ns);
        search_remove(targets->search, tgid, now_ns);
        r = end_target(targets, target, COUNTER_TARGETS_OVER_CAP, now_ns, cpu_ns);
        shares_tell(&targets->shares, "targets", &owner, now_ns);
        return r ? r : reject(targets, tgid, start_time_ns);
}

/* A target of the greatest holder makes room for @tgid. Return: 0, TARGETS_E_REJECTED = none does, -errno. */
static int make_room(Targets *targets, uint32_t tgid) {
        const ShareOwner owner = owner_of(tgid);
        Share *asking, *victim;
        Target *holder;
        int r;

        targets->has_shares = true;
        r = charge_others(targets);
        if (!r)
                r = shares_hold(&targets->shares, &owner, 1, &asking);
        if (r)
                return error_fold(r);
        victim = shares_victim(&targets->shares, asking, 0);
        holder = victim == asking ? NULL : find_living(targets, (uint32_t)share_owner(victim)->process);
        r = holder && holder->share == victim ? give_way(targets, holder) : TARGETS_E_REJECTED;
        share_release(&targets->shares, asking, 1);
        return r;
}

/* A target of a process that is none yet; it has no row. Takes *processp over on success. */
static int push(Targets *targets, Process **processp, SelectorReason reason, Target **targetp) {
        _cleanup_(free_targetp) Target *target = calloc(1, sizeof(*target));
        int r;

        if (!target)
                return error_origin(-ENOMEM);
        target->member.process = *processp;
        mapping_tracker_begin(&target->mappings, *processp);
        r = membership_add(&targets->membership, &target->member, reason);
        if (r)
                return r;
        target->process = take(*processp);
        *targetp = take(target);
        return 0;
}

/* The kernel's table has no room for it. */
static int refuse(Targets *targets, Target *target) {
        int r = refuse_over_cap(targets, target->process->pid);

        release(targets, target);
        membership_withdraw(&targets->membership, &target->member);
        free_target(target);
        return r;
}

static void tell_found(const Targets *targets, const Target *target, SelectorReason reason) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;

        stat_add(COUNTER_TARGETS_FOUND, 1);
        if (callbacks->found)
                callbacks->found(callbacks->userdata, target->process);
        log_write_target(LOG_LEVEL_DEBUG, target->process->pid, "%s is a target: %s", target->process->comm,
                         selector_reason_text(reason));
}

/* A target that the kernel's table has no row of (yet). Return: as add(). */
static int add_member(Targets *targets, Process **processp, SelectorReason reason, Target **targetp) {
        int r = clear_id(targets, (*processp)->pid);

        if (r)
                return r;
        if (targets->membership.n_alive >= targets->config.max_targets)
                r = make_room(targets, (*processp)->pid);
        if (r)
                return r > 0 ? refuse_over_cap(targets, (*processp)->pid) : r;
        r = push(targets, processp, reason, targetp);
        return r || !targets->has_shares ? r : charge(targets, *targetp);
}

/* Writes the first row of a target. Return: as add(). */
static int enter(Targets *targets, Target *target, SelectorReason reason) {
        int r = set_row(targets, target);

        if (r > 0)
                return refuse(targets, target);
        if (r)
                return r;
        membership_start(&targets->membership, &target->member, reason != SELECTOR_PUBLISHER);
        tell_found(targets, target, reason);
        return 0;
}

/*
 * Makes a target of a process that is none. Takes *processp over where the set has room for it. @finding:
 * what a search has found in it.
 * Return: 0, TARGETS_E_REJECTED = the table is full (counted), -errno.
 */
static int add(Targets *targets, Process **processp, SelectorReason reason, const SearchFinding *finding,
               Target **targetp) {
        int r = add_member(targets, processp, reason, targetp);

        if (r)
                return r;
        publication_set_ring(&(*targetp)->publication, finding->ring_address, finding->ring_capacity);
        return enter(targets, *targetp, reason);
}

/*
 * Adds a target that was gone when its first sample came: the kernel half needs no row of it, and has none.
 * The notice of its exit has been here before its sample: nothing else would end it. @until_ns: its process
 * runs another program since then; 0 = it is gone. Return: as add().
 */
static int add_gone(Targets *targets, Process **processp, SelectorReason reason, uint64_t until_ns,
                    Target **targetp) {
        int r = add_member(targets, processp, reason, targetp);

        if (r)
                return r;
        membership_start(&targets->membership, &(*targetp)->member, true);
        tell_found(targets, *targetp, reason);
        (*targetp)->member.until_ns = until_ns;
        end_member(targets, *targetp, until_ns ? COUNTER_TARGETS_EXEC : COUNTER_TARGETS_GONE,
                   until_ns ? until_ns : clock_monotonic_ns(), 0);
        return 0;
}

/*
 * Adds a target that is chosen by pid, name or --all: with mappings and, if it is there, its ring.
 * @is_sampled: it is read with the sample that it was found by. Return: as add().
 */
static int add_chosen(Targets *targets, Process **processp, SelectorReason reason, bool is_sampled,
                      Target **targetp) {
        Target *target;
        int r = add_member(targets, processp, reason, &target);

        if (r)
                return r;
        /* Under --all most processes are never on a CPU: they are read at their first sample. */
        target->is_unread = reason == SELECTOR_ALL && !is_sampled && !target->process->is_kernel;
        r = enter(targets, target, reason);
        if (r)
                return r;
        *targetp = target;
        if (reason != SELECTOR_ALL) {
                r = mapping_tracker_read(&targets->mappings, &target->mappings);
                if (r)
                        return r;
        }
        if (target->process->is_kernel)
                return 0;
        return search_add(targets->search, target->process->pid, target->process->start_time_ns,
                          clock_monotonic_ns());
}

/* ---- names of programs with nothing new ---- */

static void change_settled(Targets *targets, const ProgramNamesChange *change) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;

        if (*change->removed.comm)
                callbacks->settle_name(callbacks->userdata, &change->removed, false);
        if (*change->added.comm)
                callbacks->settle_name(callbacks->userdata, &change->added, true);
}

/* Judges what was new of a program that has just been met, whose mappings no read of its maps has shown. */
static void judge_name(Targets *targets, Target *target, const Start *start) {
        ProgramNamesChange change;

        if (!targets->config.callbacks.settle_name)
                return;
        target->name = (struct abi_settled_name){ .mount_namespace = start->told.mount_namespace };
        memcpy(target->name.comm, target->process->comm,
               strnlen(target->process->comm, sizeof(target->name.comm) - 1));
        if ((target->member.end_ns || target->mappings.is_told) &&
            program_names_judge(&targets->settled, &target->name,
                                mapping_tracker_is_plain(&target->mappings), &change))
                change_settled(targets, &change);
}

/* Samples of the next one of this name call us at once. */
static void unsettle_name(Targets *targets, const Target *target) {
        ProgramNamesChange change;

        if (program_names_note_publication(&targets->settled, &target->name, &change))
                change_settled(targets, &change);
}

/* ---- what targets publish ---- */

static int set_context(Targets *targets, Target *target, uint64_t address) {
        bool is_changed = false;
        int r = publication_set_context(&target->publication, target->process, address, &is_changed);

        return !r && is_changed ? renew_row(targets, target) : r;
}

static int poll_context(Targets *targets, Target *target) {
        bool is_changed = false;
        int r = publication_poll_context(&target->publication, target->process, &is_changed);

        return !r && is_changed ? renew_row(targets, target) : r;
}

static int resolve_threads(Targets *targets, Target *target) {
        return publication_resolve_threads(&target->publication, target->process) ? renew_row(targets, target)
                                                                                  : 0;
}

static int resolve_waiting(Targets *targets, Target *target) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        int r = resolve_threads(targets, target);

        if (!r && target->publication.waits_for_symbols && callbacks->waits)
                return callbacks->waits(callbacks->userdata, target->process);
        if (r || target->publication.waits_for_symbols || !callbacks->looked)
                return r;
        return callbacks->looked(callbacks->userdata, target->process);
}

int targets_resolve_waiting(Targets *targets) {
        uint32_t at = 0;
        Target *target;
        int r = 0;

        while (!r && (target = next_living(targets, &at)))
                if (target->publication.waits_for_symbols)
                        r = resolve_waiting(targets, target);
        return error_fold(r);
}

int targets_reread_awaiting(Targets *targets) {
        uint32_t at = 0;
        Target *target;
        int r = 0;

        while (!r && (target = next_living(targets, &at)))
                /* A reading that goes on may have come by the file while it was awaited. */
                if (target->mappings.reading)
                        mapping_tracker_outdate(&target->mappings);
                else if (target->process->awaits_files)
                        r = mapping_tracker_read(&targets->mappings, &target->mappings);
        return error_fold(r);
}

/*
 * Programs of one file in one control group are of one kind to the search. A program that was asked for is
 * searched as soon as the first of its kind.
 */
static void tell_kind(Targets *targets, Target *target) {
        const Process *process = target->process;
        const Identity *identity = process->identity;
        const Mapping *executable;
        uint64_t parts[2];

        if (target->kind_is_told || target->member.reason != SELECTOR_ALL || !identity || !identity->cgroup)
                return;
        executable = process_executable(process);
        if (!executable)
                return;
        target->kind_is_told = true;
        parts[0] = executable->object->file;
        parts[1] = hash_bytes(identity->cgroup, strlen(identity->cgroup));
        search_set_kind(targets->search, process->pid, process->start_time_ns,
                        hash_bytes(parts, sizeof(parts)) | 1);
}

/* From then on stacks are walked by them. */
static int on_mappings_changed(void *userdata, TrackedMappings *mappings) {
        Target *target = target_of_mappings(mappings);
        Targets *targets = userdata;
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        int r = callbacks->mapped ? callbacks->mapped(callbacks->userdata, target->process) : 0;

        if (r || target->member.end_ns)
                return r;
        tell_kind(targets, target);
        /* its unit is known by now */
        r = follow_boost(targets, target);
        return r ? r : resolve_threads(targets, target);
}

/*
 * A reader of stations has them open from then on, so that it does not matter if they are mapped elsewhere
 * later.
 */
static int take_stations(Targets *targets, Target *target, uint64_t address) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        const Process *process = target->process;

        if (!address || address == target->publication.stations_address || engine_is((pid_t)process->pid))
                return 0;
        target->publication.stations_address = address;
        return callbacks->stations ? callbacks->stations(callbacks->userdata, process) : 0;
}

static void note_find(Targets *targets, uint32_t tgid, const SearchFinding *finding) {
        if (finding->is_swept)
                sweep_results_add(&targets->sweep.results, tgid, SWEEP_PUBLICATION, clock_monotonic_ns());
}

static int take_finding(Targets *targets, Target *target, const SearchFinding *finding) {
        int r = 0;

        unsettle_name(targets, target);
        if (finding->ring_address) {
                publication_set_ring(&target->publication, finding->ring_address, finding->ring_capacity);
                r = renew_row(targets, target);
                note_find(targets, target->process->pid, finding);
        }
        if (!r)
                r = take_stations(targets, target, finding->stations_address);
        if (r || !finding->context_address || target->publication.context)
                return r;
        return set_context(targets, target, finding->context_address);
}

/* Whether what was found is what it looks like. A ring's header has been checked. */
static bool is_publication(uint32_t tgid, const SearchFinding *finding) {
        _cleanup_(process_context_freep) ProcessContext *context = NULL;
        uint32_t version;
        int r;

        if (finding->ring_address || (finding->stations_address && !engine_is((pid_t)tgid)))
                return true;
        if (!finding->context_address)
                return false;
        r = process_context_read((pid_t)tgid, finding->context_address, &version, &context);
        return r == 0 || r == PROCESS_CONTEXT_E_BUSY;
}

/*
 * A search has found a ring, a process context or stations: in a target, or in a non-target that becomes one.
 */
static int on_found(void *userdata, uint32_t tgid, uint64_t start_time_ns, const SearchFinding *finding) {
        _cleanup_(process_freep) Process *process = NULL;
        Targets *targets = userdata;
        Target *target = find_living(targets, tgid);
        SelectorReason reason;
        int r;

        if (target && target->process->start_time_ns != start_time_ns)
                return 0;
        if (target)
                return take_finding(targets, target, finding);
        if (!is_publication(tgid, finding))
                return 0;
        r = process_new(&process, (pid_t)tgid);
        if (r || process->start_time_ns != start_time_ns) {
                stat_add(COUNTER_TARGETS_VANISHED, 1);
                return r < 0 ? r : 0;
        }
        r = membership_decide(&targets->membership,
                              &(SelectorFacts){ .pid = tgid, .comm = process->comm, .publishes = true }, 0,
                              &reason);
        if (r || !selector_is_chosen(reason))
                return r;
        r = add(targets, &process, reason, finding, &target);
        if (r)
                return r < 0 ? r : 0;
        note_find(targets, tgid, finding);
        if (finding->context_address)
                r = set_context(targets, target, finding->context_address);
        if (!r)
                r = take_stations(targets, target, finding->stations_address);
        return r ? r : mapping_tracker_read(&targets->mappings, &target->mappings);
}

/* ---- the pass over /proc ---- */

/* Decides on one process of the pass over /proc. */
static int scan_process(Targets *targets, pid_t pid) {
        _cleanup_(process_freep) Process *process = NULL;
        char comm[ABI_COMM_SIZE];
        SelectorReason reason;
        ProcessStat stat;
        Target *target;
        int r;

        r = process_identify(pid, &stat, comm);
        if (r) {
                stat_add(COUNTER_TARGETS_VANISHED, r == PROCESS_E_GONE);
                return 0;
        }
        r = membership_decide(
                &targets->membership,
                &(SelectorFacts){ .pid = (uint32_t)pid, .comm = comm, .is_kernel = stat.is_kernel }, 0,
                &reason);
        if (r)
                return r;
        targets->n_all += !stat.is_kernel && reason != SELECTOR_EXCLUDED;
        if (find_living(targets, (uint32_t)pid))
                return 0;
        if (reason == SELECTOR_SILENT && !stat.is_kernel)
                return search_add(targets->search, (uint32_t)pid, stat.start_time_ns, clock_monotonic_ns());
        if (!selector_is_chosen(reason) || (reason == SELECTOR_ALL && stat.is_kernel))
                return 0;
        r = process_new(&process, pid);
        if (r) {
                stat_add(COUNTER_TARGETS_VANISHED, r > 0);
                return r < 0 ? r : 0;
        }
        r = add_chosen(targets, &process, reason, false, &target);
        return r < 0 ? r : 0;
}

static bool is_excluded(const Targets *targets, uint32_t pid) {
        char comm[ABI_COMM_SIZE];
        SelectorReason reason;
        ProcessStat stat;

        return process_identify((pid_t)pid, &stat, comm) == 0 &&
                membership_decide(&targets->membership,
                               &(SelectorFacts){ .pid = pid, .comm = comm, .is_kernel = stat.is_kernel }, 0,
                               &reason) == 0 &&
                reason == SELECTOR_EXCLUDED;
}

/* A pid that an exclude takes away again is not missing. */
static void find_missing_pid(Targets *targets) {
        const Selector *selector = targets->config.selector;

        targets->missing_pid = 0;
        targets->n_excluded_pids = 0;
        for (size_t i = 0; i < selector->n_pids && !targets->missing_pid; i++)
                if (!find_living(targets, selector->pids[i])) {
                        if (is_excluded(targets, selector->pids[i]))
                                targets->n_excluded_pids++;
                        else
                                targets->missing_pid = selector->pids[i];
                }
}

int targets_scan(Targets *targets) {
        _cleanup_(closedirp) DIR *dir = opendir("/proc");
        uint32_t pid;
        int r;

        if (!dir)
                return error_origin(-errno);
        targets->n_all = 0;
        while (directory_next_number(dir, &pid)) {
                r = scan_process(targets, (pid_t)pid);
                if (r)
                        return r;
        }
        find_missing_pid(targets);
        return search_quick(targets->search, clock_monotonic_ns(), on_found, targets);
}

/* ---- notices of the kernel half ---- */

/* The kernel half tells the exact start, /proc the tick before it. */
static uint64_t start_tick(uint64_t start_time_ns) {
        return start_time_ns - start_time_ns % ABI_START_TICK_NS;
}

/*
 * Decides on the new program of an exec. *processp = NULL: no target (yet): under --all a program that was no
 * target before costs nothing until its first sample.
 */
static int decide_exec(Targets *targets, const struct abi_notice *notice, bool was_target, Process **processp,
                       SelectorReason *reasonp) {
        const uint32_t uid = (uint32_t)notice->value;
        char comm[ABI_COMM_SIZE] = { 0 };
        struct abi_name name;
        int r;

        memcpy(comm, notice->comm, sizeof(comm) - 1);
        *processp = NULL;
        if (rejects_name(targets, notice->tgid, comm, &uid, &name))
                return targets->config.callbacks.reject_name(targets->config.callbacks.userdata, &name);
        if (!was_target && selector_is_all_alone(targets->config.selector))
                return 0;
        r = membership_decide(&targets->membership, &(SelectorFacts){ .pid = notice->tgid, .comm = comm }, 0,
                              reasonp);
        if (r)
                return r;
        if (!selector_is_chosen(*reasonp) || (*reasonp == SELECTOR_ALL && !was_target))
                return 0;
        r = process_new(processp, (pid_t)notice->tgid);
        if (r >= 0 && *processp && (*processp)->start_time_ns != notice->start_time_ns) {
                *processp = process_free(*processp);
                r = PROCESS_E_GONE;
        }
        if (r > 0) {
                stat_add(COUNTER_TARGETS_VANISHED, 1);
                r = process_new_gone(processp, (pid_t)notice->tgid, notice->start_time_ns, comm);
        }
        return r;
}

/* The program that was there until now. */
static int end_old_program(Targets *targets, Target *old, const struct abi_notice *notice) {
        bool same = old->process->start_time_ns == notice->start_time_ns;
        uint64_t cpu_ns = 0;

        if (same)
                process_cpu_time(old->process, &cpu_ns);
        return end_target(targets, old, same ? COUNTER_TARGETS_EXEC : COUNTER_TARGETS_GONE, notice->time_ns,
                           cpu_ns);
}

/*
 * When the new program began. The notice is posted at the end of an exec. The kernel's record of the new name
 * comes some 100 µs before, and a tick between them has that name: it is the new program's.
 */
static uint64_t exec_begin_ns(const Targets *targets, const struct abi_notice *notice, const Target *old) {
        NoticeHistoryOrigin origin;

        if (!targets->notices ||
            notice_history_find_origin(targets->notices, notice->tgid, old ? old->member.begin_ns : 0,
                                       notice->time_ns, &origin) ||
            origin.parent || origin.may_lack)
                return notice->time_ns;
        return origin.time_ns;
}

static int notice_exec(Targets *targets, const struct abi_notice *notice) {
        _cleanup_(process_freep) Process *process = NULL;
        Target *old = find_living(targets, notice->tgid), *target = NULL;
        SelectorReason reason;
        int r;

        /*
         * The target may have been found with the new program already, before the notice of it came: but not
         * by a sample of the old one.
         */
        if (old && old->process->start_time_ns == notice->start_time_ns &&
            old->process->read_ns > notice->time_ns &&
            (!old->sampled_ns || old->sampled_ns >= exec_begin_ns(targets, notice, old)))
                return 0;
        search_remove(targets->search, notice->tgid, clock_monotonic_ns());
        r = old ? end_old_program(targets, old, notice) : unreject(targets, notice->tgid);
        if (!r)
                r = decide_exec(targets, notice, old, &process, &reason);
        if (r || !process)
                return r;
        r = add_chosen(targets, &process, reason, false, &target);
        if (r)
                return r < 0 ? r : 0;
        target->member.begin_ns = exec_begin_ns(targets, notice, old);
        return old ? mapping_tracker_inherit(&target->mappings, &old->mappings) : 0;
}

static int notice_exit(Targets *targets, const struct abi_notice *notice) {
        Target *target = find_living(targets, notice->tgid);

        membership_note_exit(&targets->membership, notice->tgid, notice->start_time_ns);
        search_remove(targets->search, notice->tgid, clock_monotonic_ns());
        if (target && target->process->start_time_ns == notice->start_time_ns)
                return end_target(targets, target, COUNTER_TARGETS_GONE, notice->time_ns, notice->value);
        membership_settle(&targets->membership, notice);
        return unreject(targets, notice->tgid);
}

static int notice_mappings(Targets *targets, const struct abi_notice *notice) {
        const Target *target = find_living(targets, notice->tgid);
        const Selector *selector = targets->config.selector;

        if (target ? target->publication.ring_address : !selector_takes_publishers(selector))
                return 0;
        if (selector_excludes_pid(selector, notice->tgid))
                return 0;
        return search_add(targets->search, notice->tgid, notice->start_time_ns, clock_monotonic_ns());
}

/* Takes a notice, also one that the kernel half has not posted. */
static int take_notice(Targets *targets, const struct abi_notice *notice) {
        struct abi_notice copy = *notice;

        copy.start_time_ns = start_tick(notice->start_time_ns);
        switch (copy.kind) {
        case ABI_NOTICE_EXEC:
                return notice_exec(targets, &copy);
        case ABI_NOTICE_EXIT:
                return notice_exit(targets, &copy);
        case ABI_NOTICE_SETTLED:
                membership_settle(&targets->membership, &copy);
                return 0;
        case ABI_NOTICE_MAPPINGS:
                return notice_mappings(targets, &copy);
        default:
                return 0;
        }
}

int targets_notice(Targets *targets, const struct abi_notice *notice) {
        sweep_results_told(&targets->sweep.results, notice);
        return take_notice(targets, notice);
}

uint64_t targets_asked_ns(const Targets *targets) {
        return search_asked_ns(targets->search);
}

void targets_noticed(Targets *targets, uint64_t until_ns) {
        sweep_results_settle(&targets->sweep.results, until_ns);
}

/* ---- what the kernel tells of mappings ---- */

int targets_mapping(Targets *targets, const MappingNotice *notice) {
        Target *target = target_of_member(membership_newest(&targets->membership, notice->pid));
        int r = targets->notices ? notice_history_add_mapping(targets->notices, notice) : 0;

        return r || !target ? r : mapping_tracker_notice(&targets->mappings, &target->mappings, notice);
}

/*
 * Whether the exec at @time_ns, of which the history knows, ends a program that was sampled before that was
 * told, and gone when it was to be read: what its process ran afterwards is not it. The exec may also be its
 * own, which was under way at its sample.
 */
static bool ends_unread(const Targets *targets, const Target *target, uint64_t time_ns) {
        const Process *process = target->process;

        return targets->notices && !process->read_ns && !target->member.until_ns &&
                target->member.end_ns > time_ns &&
                time_ns > MAX(target->member.begin_ns, target->sampled_ns) &&
                notice_history_exec_under_way(targets->notices, process->pid, process->comm,
                                              target->sampled_ns) != time_ns;
}

int targets_exec_begins(Targets *targets, uint32_t tgid, const char comm[ABI_COMM_SIZE], uint64_t time_ns) {
        Member *member = membership_newest(&targets->membership, tgid);
        Target *target = target_of_member(member);
        int r;

        if (target && !member->end_ns && time_ns > MAX(member->begin_ns, target->process->read_ns))
                mapping_tracker_exec_begins(&target->mappings, time_ns);
        /* the exec was seen before it was told, so its time was not known */
        if (member && member->until_ns > time_ns && time_ns > member->begin_ns)
                member->until_ns = time_ns;
        r = targets->notices ? notice_history_add_exec(targets->notices, tgid, comm, time_ns) : 0;
        if (!r && target && ends_unread(targets, target, time_ns))
                member->until_ns = time_ns;
        return r;
}

/* A child that lives is read when it is sampled; the notice is for those that will be gone by then. */
int targets_fork(Targets *targets, uint32_t tgid, uint32_t parent, uint64_t time_ns) {
        if (targets->membership.tree)
                tree_fork(targets->membership.tree, tgid, parent);
        return targets->notices ? notice_history_add_fork(targets->notices, tgid, parent, time_ns) : 0;
}

void targets_resync(Targets *targets) {
        uint32_t at = 0;
        Member *member;

        if (targets->notices)
                notice_history_lose(targets->notices, clock_monotonic_ns());
        while ((member = membership_next(&targets->membership, &at)))
                mapping_tracker_outdate(&target_of_member(member)->mappings);
}

int targets_flush_mappings(Targets *targets) {
        return mapping_tracker_flush(&targets->mappings);
}

int targets_made(Targets *targets, Process *process) {
        Target *target = find_living(targets, process->pid);

        return target && target->process == process
                       ? mapping_tracker_tell(&targets->mappings, &target->mappings)
                       : 0;
}

int targets_refresh(Targets *targets, Process *process) {
        Target *target = find_living(targets, process->pid);
        int r = TARGETS_E_NOT_NOW;

        if (target && target->process == process)
                r = mapping_tracker_refresh(&targets->mappings, &target->mappings);
        return r > 0 ? TARGETS_E_NOT_NOW : r;
}

/* ---- samples ---- */

/* When the process began the program that was sampled, by an exec, and when the next one. 0 = not known. */
static void find_program(const Targets *targets, const struct abi_sample *sample, uint64_t *begin_nsp,
                         uint64_t *until_nsp) {
        NoticeHistoryOrigin origin;
        uint64_t time_ns;

        *begin_nsp = *until_nsp = 0;
        if (!targets->notices)
                return;
        time_ns = notice_history_exec_under_way(targets->notices, sample->tgid, sample->comm,
                                                sample->time_ns);
        *until_nsp = notice_history_next_exec(targets->notices, sample->tgid, time_ns);
        if (!notice_history_find_origin(targets->notices, sample->tgid, 0, time_ns, &origin) &&
            !origin.parent)
                *begin_nsp = MIN(origin.time_ns, sample->time_ns);
}

/*
 * Whether the sample is of a program that the process has begun since, as its name tells, and the notice of
 * that is still to come: an exec may take long between its record in the side-band and its end.
 */
static bool is_behind_exec(const Targets *targets, const struct abi_sample *sample, const Member *member,
                           uint64_t exec_ns) {
        uint64_t since_ns = MAX(member->begin_ns, member->process->read_ns);
        NoticeHistoryOrigin origin;

        return !member->end_ns && sample->tid == sample->tgid &&
                !notice_history_find_origin(targets->notices, sample->tgid, since_ns, exec_ns, &origin) &&
                !origin.parent && origin.time_ns > since_ns &&
                !strncmp(origin.comm, sample->comm, ABI_COMM_SIZE);
}

/* The program that it is of. One that a process begins just now is called by its name already. */
static Target *find_sampled(const Targets *targets, const struct abi_sample *sample, uint64_t start_time_ns) {
        Member *member = membership_find(&targets->membership, sample->tgid, start_time_ns, sample->time_ns);
        uint64_t exec_ns;

        if (!member || !targets->notices || !strncmp(sample->comm, member->process->comm, ABI_COMM_SIZE))
                return target_of_member(member);
        exec_ns = notice_history_exec_under_way(targets->notices, sample->tgid, sample->comm,
                                                sample->time_ns);
        member = membership_find(&targets->membership, sample->tgid, start_time_ns, exec_ns);
        return member && is_behind_exec(targets, sample, member, exec_ns) ? NULL : target_of_member(member);
}

/* A process that has another name than at its sample runs another program by now, or is about to tell so. */
static bool is_called_as_sampled(const Process *process, const struct abi_sample *sample) {
        return process->is_kernel || sample->tid != sample->tgid ||
               !strncmp(sample->comm, process->comm, ABI_COMM_SIZE);
}

/*
 * Identifies the sampled process, as far as that is still possible: one that is gone may have no name any
 * more. *until_nsp: when the process began another program, 0 = not known; then it is set if that is seen.
 * Return: 0, -errno.
 */
static int identify_sampled(const Targets *targets, const struct abi_sample *sample, uint64_t start_time_ns,
                            uint64_t *until_nsp, Process **processp) {
        char comm[ABI_COMM_SIZE] = { 0 };
        int r = *until_nsp || membership_has_exited(&targets->membership, sample->tgid, start_time_ns)
                ? PROCESS_E_GONE
                : process_new_open(processp, (pid_t)sample->tgid);

        if (r < 0)
                return r;
        if (!r && (*processp)->start_time_ns == start_time_ns) {
                if (is_called_as_sampled(*processp, sample))
                        return 0;
                *until_nsp = (*processp)->read_ns;
        }
        *processp = process_free(*processp);
        stat_add(COUNTER_TARGETS_VANISHED, !*until_nsp);
        /* The leader's name is what selectors go by; another thread may have its own. */
        if (sample->tid == sample->tgid)
                memcpy(comm, sample->comm, sizeof(comm));
        else
                membership_recall_comm(&targets->membership, sample->tgid, sample->time_ns, comm);
        return process_new_gone(processp, (pid_t)sample->tgid, start_time_ns, comm);
}

/* A forked child, whose mappings were read just now, was walked by its parent's rows until then. */
static int inherit_from_parent(Targets *targets, Target *child, uint64_t time_ns) {
        NoticeHistoryOrigin origin;
        Target *parent;

        if (!targets->notices || child->member.end_ns ||
            notice_history_find_origin(targets->notices, child->process->pid, 0, time_ns, &origin) ||
            !origin.parent)
                return 0;
        parent = target_of_member(membership_at(&targets->membership, origin.parent, origin.time_ns));
        return parent ? mapping_tracker_fork(&child->mappings, &parent->mappings, origin.time_ns) : 0;
}

/*
 * Takes the start that was sent with the sample, or with a later one before @until_ns: an exec that is under
 * way has no texts yet. Nothing else tells who an ended process was. Starts may be read before the exec that
 * they are of is told: one that is so late may be of the next program.
 */
static int know(Targets *targets, Target *target, const struct abi_sample *sample, const Start *own,
                uint64_t until_ns) {
        uint64_t end_ns = until_ns ? MIN(until_ns, targets->told_ns) : targets->told_ns;
        const Start *start = own ?: starts_find(&targets->starts, sample->tgid, sample->time_ns, end_ns);

        if (!start)
                return 0;
        if (target->member.end_ns)
                stat_add(COUNTER_STARTS_USED, 1);
        return mapping_tracker_know(&targets->mappings, target->process, &start->told);
}

/* ---- admission of samples ---- */

/* A sample on its way to its program. */
typedef struct Admission {
        const struct abi_sample *sample;
        const Start *start;             /* came with the sample; NULL = nothing */
        uint64_t start_time_ns;         /* start of the process, as /proc tells it */
        AdmissionFacts facts;
        SelectorReason reason;          /* why the sampled program is chosen */
        struct abi_name name;           /* has_rejected_name: what is rejected */
        uint64_t begin_ns, until_ns;    /* when the program began, and the next one; 0 = not known */
        bool is_until_told;             /* a notice tells of the next program, which was not only seen */
        Process *process;               /* owned until it is a target's; NULL = not identified */
        Target *target;                 /* borrowed; NULL = none yet */
        bool is_new;                    /* the target was made by this sample */
} Admission;

static void deinit_admission(Admission *admission) {
        process_free(admission->process);
}

/* Collects the facts that need no look at the process. */
static void begin_admission(const Targets *targets, Admission *admission) {
        const struct abi_sample *sample = admission->sample;
        const Target *now = find_living(targets, sample->tgid);

        admission->start_time_ns = start_tick(sample->start_time_ns);
        admission->target = find_sampled(targets, sample, admission->start_time_ns);
        admission->facts = (AdmissionFacts){
                .is_known = admission->target,
                .is_targets_only = !selector_is_by_name(targets->config.selector),
                .is_before_target = now && now->process->start_time_ns == admission->start_time_ns,
                .is_unread = true,
        };
}

/* Looks at the process and collects the other facts. */
static int identify(Targets *targets, Admission *admission) {
        const struct abi_sample *sample = admission->sample;
        AdmissionFacts *facts = &admission->facts;
        SelectorFacts selected = { .pid = sample->tgid };
        const Process *process;
        bool is_here;
        int r;

        find_program(targets, sample, &admission->begin_ns, &admission->until_ns);
        admission->is_until_told = admission->until_ns;
        r = identify_sampled(targets, sample, admission->start_time_ns, &admission->until_ns,
                             &admission->process);
        if (r)
                return r;
        process = admission->process;
        is_here = process->read_ns;
        selected.comm = is_here || *process->comm ? process->comm : NULL;
        selected.is_kernel = process->is_kernel;
        r = membership_decide(&targets->membership, &selected, admission->until_ns ? sample->time_ns : 0,
                              &admission->reason);
        if (r)
                return r;
        facts->is_unread = false;
        facts->is_replaced = admission->until_ns;
        facts->is_gone = !is_here && !facts->is_replaced;
        facts->is_kernel = process->is_kernel;
        facts->is_chosen = selector_is_chosen(admission->reason);
        facts->is_silent = admission->reason == SELECTOR_SILENT;
        facts->has_rejected_name = !facts->is_chosen && !facts->is_replaced &&
                rejects_name(targets, sample->tgid, process->comm, NULL, &admission->name);
        return 0;
}

/* Where the next program was only seen, a later start may be that one's. */
static int know_new(Targets *targets, const Admission *admission) {
        uint64_t until_ns = admission->until_ns && !admission->is_until_told ? admission->sample->time_ns
                                                                             : admission->until_ns;

        return admission->target->process->is_kernel
                ? 0
                : know(targets, admission->target, admission->sample, admission->start, until_ns);
}

static int add_sampled(Targets *targets, Admission *admission, bool is_living) {
        int r = is_living ? add_chosen(targets, &admission->process, admission->reason, true,
                                       &admission->target)
                          : add_gone(targets, &admission->process, admission->reason, admission->until_ns,
                                     &admission->target);

        if (r) {
                admission->facts.is_refused = true;
                return MIN(r, 0);
        }
        admission->facts.is_known = admission->is_new = true;
        admission->target->member.begin_ns = admission->begin_ns;
        admission->target->sampled_ns = admission->sample->time_ns;
        return know_new(targets, admission);
}

static int reject_sampled_name(Targets *targets, const Admission *admission) {
        const TargetsCallbacks *callbacks = &targets->config.callbacks;
        int r = callbacks->reject_name(callbacks->userdata, &admission->name);

        stat_add(COUNTER_TARGETS_REJECTED, !r);
        return r;
}

static int await_publication(Targets *targets, const Admission *admission) {
        uint32_t tgid = admission->sample->tgid;
        int r = search_add(targets->search, tgid, admission->start_time_ns, clock_monotonic_ns());

        return r ? error_fold(r) : reject(targets, tgid, admission->start_time_ns);
}

/* Does what admission.c says until that is final. Return: 0 and the target, TARGETS_E_REJECTED, -errno. */
static int decide_admission(Targets *targets, Admission *admission) {
        uint32_t tgid = admission->sample->tgid;
        int r = 0;

        while (!r) {
                switch (admission_find(&admission->facts)->outcome) {
                case ADMISSION_TAKE:
                        return 0;
                case ADMISSION_IDENTIFY:
                        r = identify(targets, admission);
                        break;
                case ADMISSION_ADD_LIVING:
                        r = add_sampled(targets, admission, true);
                        break;
                case ADMISSION_ADD_ENDED:
                        r = add_sampled(targets, admission, false);
                        break;
                case ADMISSION_AWAIT_PUBLICATION:
                        r = await_publication(targets, admission);
                        return r ? r : TARGETS_E_REJECTED;
                case ADMISSION_REJECT_PROCESS:
                        r = reject(targets, tgid, admission->start_time_ns);
                        return r ? r : TARGETS_E_REJECTED;
                case ADMISSION_REJECT_NAME:
                        r = reject_sampled_name(targets, admission);
                        return r ? r : TARGETS_E_REJECTED;
                default:
                        return TARGETS_E_REJECTED;
                }
        }
        return r;
}

/* Whether neither a name nor mappings of the program are known any more. */
static bool is_unattributed(const Process *process) {
        return (!*process->comm && !process->exe) || (!process->maps_serial && !process->is_kernel);
}

int targets_program(Targets *targets, uint32_t pid, uint64_t generation, Program *programp) {
        Target *target = target_of_member(
                membership_find_generation(&targets->membership, pid, generation));
        uint64_t end_ns = target ? target->member.end_ns : 0;
        int r;

        if (!target)
                return TARGETS_E_REJECTED;
        r = mapping_tracker_ensure(&targets->mappings, &target->mappings,
                                   end_ns ? end_ns : clock_monotonic_ns(), false);
        *programp = (Program){ target->process, &target->publication, target->member.end_ns };
        return r;
}

uint64_t targets_end_ns(const Targets *targets, uint32_t pid) {
        const Member *member = membership_newest(&targets->membership, pid);

        return member && member->end_ns ? member->end_ns : UINT64_MAX;
}

void targets_start(Targets *targets, const struct abi_start *start) {
        starts_add(&targets->starts, start);
}

void targets_keep(Targets *targets, uint64_t keep_ns) {
        targets->keep_ns = keep_ns;
}

bool targets_is_crowded(const Targets *targets) {
        return membership_is_crowded(&targets->membership);
}

/* A target that was there before this sample may learn from it who it is. */
static int know_old(Targets *targets, const Admission *admission) {
        Target *target = admission->target;
        uint64_t begin_ns, until_ns;

        if (target->mappings.has_lent && admission->start)
                target->mappings.has_lent = false;
        else if (target->process->identity || (!admission->start && !target->is_unread))
                return 0;
        find_program(targets, admission->sample, &begin_ns, &until_ns);
        return know(targets, target, admission->sample, admission->start, until_ns);
}

/* Makes the mappings of the sampled program known, as they were at the sample. */
static int ensure_mappings(Targets *targets, const Admission *admission) {
        uint64_t time_ns = admission->sample->time_ns;
        Target *target = admission->target;
        int r = mapping_tracker_ensure(&targets->mappings, &target->mappings, time_ns, true);

        if (!r && target->is_unread && target->process->identity) {
                target->is_unread = false;
                r = target->member.end_ns ? 0 : renew_row(targets, target);
        }
        if (!r && admission->is_new)
                r = inherit_from_parent(targets, target, time_ns);
        process_close(target->process);
        return r;
}

int targets_admit(Targets *targets, const struct abi_sample *sample, Program *programp) {
        _cleanup_(start_freep) Start *start =
                sample->has_start ? starts_take(&targets->starts, sample) : NULL;
        _cleanup_(deinit_admission) Admission admission = { .sample = sample, .start = start };
        Target *target;
        int r;

        begin_admission(targets, &admission);
        r = decide_admission(targets, &admission);
        if (r)
                return r;
        target = admission.target;
        r = admission.is_new ? 0 : know_old(targets, &admission);
        if (!r)
                r = ensure_mappings(targets, &admission);
        if (r)
                return r;
        if (admission.is_new && start)
                judge_name(targets, target, start);
        stat_add(COUNTER_SAMPLES_UNATTRIBUTED,
                 sample->kind != ABI_KIND_FINE && is_unattributed(target->process));
        /* Once, since it says so again with the next sample if that was in vain. */
        if (target->publication.wants_context && !target->member.end_ns)
                r = poll_context(targets, target);
        *programp = (Program){ target->process, &target->publication, target->member.end_ns };
        return r;
}

/* ---- the sweep ---- */

/* Makes the notice that the kernel half would have posted, and takes it. */
static int notice_for(Targets *targets, const Process *process, const ProcessStat *stat, const char *comm) {
        struct abi_notice notice = {
                .time_ns = clock_monotonic_ns(),
                .start_time_ns = stat->start_time_ns,
                .tgid = process->pid,
                .kind = ABI_NOTICE_EXEC,
        };
        uint32_t uid;

        memcpy(notice.comm, comm, sizeof(notice.comm));
        if (targets->config.names == ABI_NAMES_COMM_USER && read_user(notice.tgid, &uid))
                notice.value = uid;
        sweep_results_add(&targets->sweep.results, notice.tgid, SWEEP_PROGRAM, notice.time_ns);
        return take_notice(targets, &notice);
}

/* Whether it is the program that we know. Where we may not see the stack there is nothing to compare. */
static bool is_same_program(const Process *process, const ProcessStat *stat) {
        return process->start_time_ns == stat->start_time_ns &&
               (!process->stack_start || !stat->stack_start || process->stack_start == stat->stack_start);
}

/* While processes are chosen by name alone, non-targets are left to their first sample. */
static int look(void *userdata, uint32_t pid) {
        Targets *targets = userdata;
        const Target *target = find_living(targets, pid);
        SelectorReason reason;
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;
        int r;

        stat_add(COUNTER_SWEEP_LOOKED, 1);
        if (!target && selector_is_by_name(targets->config.selector) &&
            !selector_takes_publishers(targets->config.selector))
                return 0;
        if (process_identify((pid_t)pid, &stat, comm) || stat.is_kernel)
                return 0;
        if (target && !is_same_program(target->process, &stat))
                return notice_for(targets, target->process, &stat, comm);
        if (target && target->publication.ring_address)
                return 0;
        r = membership_decide(&targets->membership, &(SelectorFacts){ .pid = pid, .comm = comm }, 0, &reason);
        if (r || (!target && reason != SELECTOR_SILENT))
                return r;
        return search_sweep(targets->search, pid, stat.start_time_ns, targets->sweep.is_resync,
                            clock_monotonic_ns());
}

void targets_resync_notices(Targets *targets) {
        sweep_resync(&targets->sweep);
}

/* ---- work ---- */

static int work_ring(Targets *targets, Target *target, uint64_t now_ns) {
        const Process *process = target->process;
        PublicationRing ring = publication_check_ring(&target->publication, process);
        int r = ring == PUBLICATION_RING_SAME ? 0 : renew_row(targets, target);

        if (r || ring != PUBLICATION_RING_LOST)
                return r;
        return search_add(targets->search, process->pid, process->start_time_ns, now_ns);
}

/* Looks again at what the target publishes, if that may have changed. */
static int work_publication(Targets *targets, Target *target, uint64_t cpu_ns, uint64_t now_ns) {
        Publication *publication = &target->publication;
        const Process *process = target->process;
        int r;

        if (!publication_may_differ(publication, cpu_ns))
                return 0;
        r = work_ring(targets, target, now_ns);
        if (!r)
                r = poll_context(targets, target);
        if (!r && publication_is_link_due(publication, now_ns))
                r = resolve_threads(targets, target);
        if (r || !publication_is_form_due(publication, now_ns))
                return r;
        return search_look(targets->search, process->pid, process->start_time_ns, false, now_ns);
}

/* Is this target still there; and its ring? */
static int work_target(Targets *targets, Target *target, uint64_t now_ns) {
        uint64_t cpu_ns;

        if (!process_cpu_time(target->process, &cpu_ns)) {
                target->member.cpu_passed_ns = cpu_ns;
                return work_publication(targets, target, cpu_ns, now_ns);
        }
        /*
         * The notice of an exit may be lost; it may also still be on its way, and it knows the CPU time
         * better.
         */
        if (target->member.missed_ns)
                return end_target(targets, target, COUNTER_TARGETS_GONE, target->member.missed_ns, 0);
        target->member.missed_ns = now_ns;
        return 0;
}

/* A few targets each time, in the order of the table, so that a thousand of them cost no more than 64. */
static int work_targets(Targets *targets, uint64_t now_ns) {
        for (unsigned n = 0; n < TARGETS_PER_PASS; n++) {
                Member *member = membership_next(&targets->membership, &targets->pass_at);
                int r;

                if (!member) {
                        targets->pass_at = 0;
                        return 0;
                }
                if (member->end_ns)
                        continue;
                r = work_target(targets, target_of_member(member), now_ns);
                if (r)
                        return r;
        }
        return 0;
}

void targets_execs_told(Targets *targets, uint64_t until_ns) {
        targets->told_ns = until_ns;
}

void targets_begin_turn(Targets *targets) {
        mapping_tracker_begin_turn(&targets->mappings);
}

bool targets_is_reading(const Targets *targets) {
        return targets->mappings.first_reading;
}

int targets_work(Targets *targets, uint64_t now_ns, uint64_t *next_nsp) {
        uint64_t next_ns, sweep_ns;
        int r;

        targets_begin_turn(targets);
        forget_dead(targets, now_ns);
        starts_expire(&targets->starts, now_ns - START_KEEP_NS);
        r = expire_rejects(targets, now_ns);
        if (!r && now_ns >= targets->next_pass_ns) {
                targets->next_pass_ns = now_ns + WORK_INTERVAL_NS;
                r = work_targets(targets, now_ns);
        }
        if (!r)
                r = sweep_work(&targets->sweep, now_ns, look, targets, &sweep_ns);
        if (!r)
                r = mapping_tracker_work(&targets->mappings);
        if (r)
                return r;
        r = search_work(targets->search, now_ns, on_found, targets, &next_ns);
        *next_nsp = MIN(MIN(next_ns, sweep_ns), targets->next_pass_ns);
        if (targets_is_reading(targets))
                *next_nsp = MIN(*next_nsp, now_ns + READ_INTERVAL_NS);
        return r;
}

/* ---- sums ---- */

void targets_begin_cpu_time(Targets *targets) {
        membership_begin_cpu_time(&targets->membership);
}

uint64_t targets_cpu_time_seen(Targets *targets) {
        return membership_cpu_time_seen(&targets->membership);
}

uint64_t targets_cpu_time(Targets *targets) {
        return membership_cpu_time(&targets->membership);
}

uint64_t targets_cpu_time_passed(Targets *targets) {
        return membership_cpu_time_passed(&targets->membership);
}

size_t targets_count(const Targets *targets) {
        return targets->membership.n_alive;
}

size_t targets_count_all(const Targets *targets) {
        return targets->n_all;
}

uint32_t targets_missing_pid(const Targets *targets) {
        return targets->missing_pid;
}

size_t targets_n_excluded_pids(const Targets *targets) {
        return targets->n_excluded_pids;
}

void targets_each(Targets *targets,
                  void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                  void *userdata) {
        const Target *target;
        uint32_t at = 0;

        while ((target = next_living(targets, &at)))
                visit(userdata, target->process, target->member.reason);
}
