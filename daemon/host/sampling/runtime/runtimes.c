/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java process 4711, from its first mapping to a name:
 *
 *     exec       its name is `java`: the first such process has the kernel half's walk loaded, meanwhile
 *     maps       …/libjvm.so, 19 MiB of code: its .dynsym has gHotSpotVMStructs, so it is HotSpot's
 *     attach     nothing is in those variables yet: again in 10 ms, 10, 13 … a second, later half a minute
 *     attach     layout, code heaps → hotspot_processes[4711]: from now on the kernel half walks its frames
 *     sample     word 02|7f..5c1a3e7c, 412 << 32 | 0x26c, 7f..a08  → Main.work, inlined into Main.run
 *     sample     the same words: known
 *     exit       its entry goes; what is known stays for samples that are still on their way
 *
 * An object is looked into once, and keeps the answer. Where there are workers, one of them does it, so that
 * a slow file system delays no other process; the process has no runtime until then. Only files with a
 * megabyte of code count, since every virtual machine has more, and most libraries have less; and those with
 * a build id of Go, since a program of Go may be small.
 *
 * Names are kept by all words of the frame, which say object, position and cookie. Many places have the same
 * functions, and many processes run the same program: texts, and rows of functions, are kept once. At the cap
 * all are forgotten and asked for again.
 */
#include "host/sampling/runtime/runtimes.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/runtime/attach-budget.h"
#include "host/sampling/unwind/tables/bpfmap.h"

enum {
        MAX_OPS = 8,
        MAX_NAMES = 128 << 10,          /* 10 MiB */
        MAX_NAME_BYTES = 24 << 20,      /* bytes of texts and frames */
        MAX_TEXTS = 2 * MAX_NAMES,
        MAX_GONE = 64,                  /* processes that have ended and are still known */
        MAX_EXTENDS = 8,                /* files of one process that are read for more */
        MAX_AHEAD = 64,                 /* frames of a stack that are asked about together */
};

#define FIRST_RETRY_NS (50 * NS_PER_MS)
#define FIRST_ATTEMPT_NS (10 * NS_PER_MS)
#define LAST_RETRY_NS NS_PER_SEC
#define PATIENCE_NS (5 * NS_PER_SEC)    /* with one that is not ready, before that is told */
#define LAST_WAIT_NS (30 * NS_PER_SEC)  /* between attempts at one that stays so */
/*
 * CPU time and time of each second, for names of one process: what it shows us may be endless. There is more
 * time, since a busy machine would leave frames unnamed; but the loop stands still meanwhile.
 */
#define NAMES_BUDGET_NS (250 * NS_PER_MS)
#define NAMES_WAIT_NS (400 * NS_PER_MS)
/*
 * A program has most of its names looked up as it warms up. So each process may use MAX_DEBT_NS of CPU time
 * at that rate, and from then on OWN_SHARE_NS in a second, or its part of ALL_SHARE_NS if that is less.
 */
#define MAX_DEBT_NS (5 * NS_PER_SEC)
#define OWN_SHARE_NS (20 * NS_PER_MS)
#define ALL_SHARE_NS (100 * NS_PER_MS)
#define PAUSE_NS (5 * NS_PER_MS)        /* with a runtime that has had no answer for many frames */
#define KEEP_GONE_NS (5 * NS_PER_SEC)
#define ROOM_RETRY_NS (5 * NS_PER_SEC)  /* a process without room for its entry */
#define BUDGET_RETRY_NS NS_PER_SEC      /* a process whose user, group, or all have used their time */
#define CHEAP_NS NS_PER_MS              /* an attempt of less is nobody's */
#define MAX_TRUST_MS UINT32_C(64000)

typedef struct Registered {
        const RuntimeOps *ops;
        int map_fd;
        Shares shares;                  /* entries of the map, by holder */
        bool is_on;                     /* there was a process */
        void *userdata;
} Registered;

/* A file that could not be read yet. */
typedef struct Waiting {
        int fd;                         /* -1 = none */
        uint64_t size, bias;
        uint64_t retry_ns, next_ns;
} Waiting;

typedef struct Known {
        struct Known *next;
        uint64_t generation;
        uint32_t pid;
        Registered *runtime;
        void *state;                    /* the runtime's, from its first attempt on */
        bool is_attached;               /* there is an entry */
        bool is_counted;                /* there was one, which may have had to give way */
        Share *share;                   /* holder of the entry, while there is one and it lives */
        void *entry;                    /* kept while the map has no room for it; NULL = not so */
        AttachPayer payer;              /* in the budget of attempts, once it was asked for */
        bool has_payer;
        bool had_to_wait;               /* for that budget */
        bool is_refused;                /* there will be none */
        uint32_t extended;              /* kinds of other files that were read and tell more */
        uint8_t n_extends;              /* files that were read for it, most of them in vain */
        Waiting waiting[RUNTIMES_MAX_KINDS];
        RuntimeSubject subject;
        uint64_t begin_ns;              /* when it was met */
        uint64_t next_ns;               /* when to attach; 0 = not again */
        bool wants_spans;               /* until it was asked for them */
        uint64_t spans_asked_ns, spans_retry_ns;        /* when it was; until it may be again */
        uint64_t gone_ns;               /* 0 = it lives */
        uint64_t second_ns;             /* begin of the present second */
        uint64_t spent_ns, waited_ns;   /* CPU time and time of this second, looking names up */
        uint64_t ahead_ns;              /* when it may be asked for many frames again */
        uint64_t debt_ns;               /* CPU time for names beyond its share of all seconds so far */
        char says[OBJECT_MAX_SAYS];
        char text[RUNTIMES_MAX_TEXT];
} Known;

typedef struct NameKey {
        uint64_t generation;
        uint64_t words[RUNTIME_MAX_WORDS];
} NameKey;

typedef struct Names {
        uint32_t row;                   /* index in Runtimes.frames */
        uint32_t trust_ms;
        uint64_t end_ns;                /* to be asked again from then on, believed for trust_ms; 0 = never */
} Names;

_Static_assert(sizeof(RuntimeFrame) == 4 * sizeof(char *) + 2 * sizeof(uint32_t), "equal frames have equal bytes");

struct Runtimes {
        Registered registered[MAX_OPS];
        size_t n_registered;
        RuntimesSwitch on_switch;
        void *userdata;
        Known *first;
        Hashmap processes;              /* generation → Known */
        Intern keys;                    /* NameKey */
        Names *names;                   /* by index of the key */
        uint32_t names_size;
        Intern texts, frames;           /* texts that end with a NUL; rows of RuntimeFrame */
        uint32_t n_gone;
        enum runtimes_walk walk;
        bool has_signatures;
        AttachBudget budget;
};

int runtimes_new(Runtimes **runtimesp, RuntimesSwitch on_switch, void *userdata) {
        Runtimes *runtimes = calloc(1, sizeof(*runtimes));

        if (!runtimes)
                return error_origin(-ENOMEM);
        runtimes->on_switch = on_switch;
        runtimes->userdata = userdata;
        intern_init(&runtimes->keys, MAX_NAMES);
        intern_init(&runtimes->texts, MAX_TEXTS);
        intern_init(&runtimes->frames, MAX_NAMES);
        *runtimesp = runtimes;
        return 0;
}

void runtimes_show_signatures(Runtimes *runtimes) {
        runtimes->has_signatures = true;
}

/* Takes the process' entry, if it has one, out of the map. */
static void take_entry(Known *known) {
        if (!known->share)
                return;
        bpfmap_delete(known->runtime->map_fd, &known->pid);
        share_release(&known->runtime->shares, take(known->share), 1);
}

static void detach(Known *known) {
        take_entry(known);
        if (known->state && known->runtime->ops->detach)
                known->runtime->ops->detach(take(known->state));
}

static void close_waiting(Known *known) {
        for (size_t i = 0; i < RUNTIMES_MAX_KINDS; i++) {
                closep(&known->waiting[i].fd);
                known->waiting[i].fd = -1;
        }
}

/* No file is read for it any more. */
static void refuse(Known *known) {
        known->is_refused = true;
        freep(&known->entry);
        known->entry = NULL;
        close_waiting(known);
}

static void free_known(Runtimes *runtimes, Known *known) {
        hashmap_remove(&runtimes->processes, known->generation);
        detach(known);
        free(known->entry);
        closep(&known->subject.fd);
        close_waiting(known);
        free(known);
}

Runtimes *runtimes_free(Runtimes *runtimes) {
        if (!runtimes)
                return NULL;
        for (Known *known = runtimes->first, *next; known; known = next) {
                next = known->next;
                free_known(runtimes, known);
        }
        for (size_t i = 0; i < runtimes->n_registered; i++)
                shares_deinit(&runtimes->registered[i].shares);
        hashmap_deinit(&runtimes->processes);
        intern_deinit(&runtimes->keys);
        intern_deinit(&runtimes->texts);
        intern_deinit(&runtimes->frames);
        free(runtimes->names);
        free(runtimes);
        return NULL;
}

int runtimes_register(Runtimes *runtimes, const RuntimeOps *ops, int map_fd, void *userdata) {
        if (runtimes->n_registered == MAX_OPS)
                return error_origin(-ENOMEM);
        runtimes->registered[runtimes->n_registered++] =
                (Registered){ .ops = ops, .map_fd = map_fd, .userdata = userdata };
        return 0;
}

/* ---- which runtime ---- */

static int open_object(const Process *process, const Mapping *mapping, int *fdp, uint64_t *sizep) {
        _cleanup_(closep) int proc = -1, fd = -1;
        struct stat stat;
        int r = process_open((pid_t)process->pid, process->start_time_ns, &proc);

        if (!r)
                r = object_reopen(mapping->object, proc, mapping->start, mapping->end, mapping->path, &fd);
        if (r || fstat(fd, &stat))
                return r < 0 ? r : 1;
        *sizep = (uint64_t)stat.st_size;
        *fdp = take_fd(fd);
        return 0;
}

void runtimes_look(const RuntimeOps *ops, int fd, uint64_t size, ObjectRuntimes *found) {
        char says[OBJECT_MAX_SAYS] = "";

        if (!ops->recognises(fd, size, says))
                return;
        found->bits |= ops->bit;
        if (*says)
                memcpy(found->says, says, sizeof(found->says));
}

/* In this process: there are no workers. Return: 0, -errno. */
static int look_here(Runtimes *runtimes, const Process *process, const Mapping *mapping) {
        _cleanup_(closep) int fd = -1;
        uint64_t size;
        int r = open_object(process, mapping, &fd, &size);

        for (size_t i = 0; !r && i < runtimes->n_registered; i++)
                runtimes_look(runtimes->registered[i].ops, fd, size, &mapping->object->runtimes);
        if (!r)
                mapping->object->look = OBJECT_LOOK_KNOWN;
        return MIN(r, 0);
}

/* *runtimep: NULL = none's, or not known yet. Return: 0, -errno. */
static int runtime_of(Runtimes *runtimes, const Process *process, const Mapping *mapping,
                      Registered **runtimep) {
        const Object *object = mapping->object;
        int r = 0;

        *runtimep = NULL;
        if (!object_may_be_runtime(object))
                return 0;
        if (object->look == OBJECT_LOOK_NONE)
                r = look_here(runtimes, process, mapping);
        if (r || object->look != OBJECT_LOOK_KNOWN)
                return r;
        for (size_t i = 0; i < runtimes->n_registered && !*runtimep; i++)
                if (object->runtimes.bits & runtimes->registered[i].ops->bit)
                        *runtimep = &runtimes->registered[i];
        return 0;
}

/* ---- attach ---- */

static const char unwalked_text[] = ": not walked, ";

static void say_unwalked(Known *known, const char *reason) {
        size_t length = strlen(known->text);

        snprintf(known->text + length, sizeof(known->text) - length, "%s%s", unwalked_text, reason);
}

static const char refused[] = "the walk could not be loaded here";

static ShareOwner owner_of(const Known *known) {
        return identity_owner_of((pid_t)known->pid, known->subject.start_time_ns);
}

/* Keeps an entry that has no room, until it is given again. @was_said: the text says so already. */
static void postpone_entry(Known *known, void *entry, bool was_said) {
        const ShareOwner owner = owner_of(known);
        uint64_t now_ns = clock_monotonic_ns();

        known->entry = entry;
        known->is_attached = false;
        known->next_ns = now_ns + ROOM_RETRY_NS;
        if (was_said)
                return;
        stat_add(COUNTER_RUNTIMES_OVER_CAP, 1);
        say_unwalked(known, "there are too many such processes");
        shares_tell(&known->runtime->shares, "processes with a runtime", &owner, now_ns);
}

/* The entry of the greatest holder gives way to @asking's. Return: whether one did. */
static bool make_room(Runtimes *runtimes, const Known *asking) {
        const Share *victim = shares_victim(&asking->runtime->shares, asking->share, 0);
        Known *holder = runtimes->first;
        void *entry;

        while (holder && (holder == asking || !holder->share || holder->share != victim))
                holder = holder->next;
        entry = holder ? malloc(holder->runtime->ops->entry_size) : NULL;
        if (!entry)
                return false;
        if (bpfmap_lookup(holder->runtime->map_fd, &holder->pid, entry)) {
                free(entry);
                return false;
        }
        take_entry(holder);
        postpone_entry(holder, entry, false);
        return true;
}

/* Return: 0, > 0 = there is no room in its share, -ENOMEM. */
static int put_entry(Runtimes *runtimes, Known *known, const void *entry) {
        const ShareOwner owner = owner_of(known);
        int r = shares_hold(&known->runtime->shares, &owner, 1, &known->share);

        if (r)
                return error_fold(r);
        do
                r = bpfmap_update(known->runtime->map_fd, &known->pid, entry);
        while (r == -E2BIG && make_room(runtimes, known));
        if (!r)
                return 0;
        share_release(&known->runtime->shares, take(known->share), 1);
        return 1;
}

/* Takes *entryp over where there is no room for it. Return: 0, -ENOMEM. */
static int give_entry(Runtimes *runtimes, Known *known, void **entryp) {
        char *unwalked = strstr(known->text, unwalked_text);
        int r;

        if (unwalked)
                *unwalked = '\0';
        if (runtimes->walk == RUNTIMES_WALK_REFUSED) {
                refuse(known);
                say_unwalked(known, refused);
                log_write_target(LOG_LEVEL_INFO, known->pid, "runs %s", known->text);
                return 0;
        }
        r = put_entry(runtimes, known, *entryp);
        if (r > 0) {
                if (unwalked)
                        *unwalked = *unwalked_text;
                postpone_entry(known, take(*entryp), unwalked);
        }
        if (r)
                return MIN(r, 0);
        known->is_attached = true;
        if (!known->is_counted)
                stat_add(COUNTER_RUNTIMES_ATTACHED, 1);
        known->is_counted = true;
        log_write_target(LOG_LEVEL_DEBUG, known->pid, "runs %s", known->text);
        return 0;
}

/* The same of an entry that had no room before. */
static int give_again(Runtimes *runtimes, Known *known) {
        _cleanup_(freep) void *entry = take(known->entry);

        known->next_ns = 0;
        return give_entry(runtimes, known, &entry);
}

static void set_retry(uint64_t *retry_ns, uint64_t *next_ns, uint64_t now_ns) {
        *retry_ns = MIN(MAX(2 * *retry_ns, (uint64_t)FIRST_RETRY_NS), (uint64_t)LAST_RETRY_NS);
        *next_ns = now_ns + *retry_ns;
}

/* Where the runtime has no words for it. */
static void say_later(const RuntimeOps *ops, char text[RUNTIMES_MAX_TEXT]) {
        if (!*text)
                snprintf(text, RUNTIMES_MAX_TEXT, "%s: not ready, or not readable for us", ops->name);
}

/*
 * A runtime that has just begun is not ready, which is nothing to tell; if it stays so, the log says it once.
 * Its first functions run as soon as it is, so the time until the next attempt is two thirds of the time
 * that it has had. It may never be ready, and each attempt costs a worker: after PATIENCE_NS it is a quarter.
 */
static void wait_for(Known *known, bool was_told, uint64_t now_ns) {
        uint64_t age_ns = now_ns - known->begin_ns;
        size_t length;

        if (age_ns < PATIENCE_NS) {
                known->next_ns = now_ns + MIN(MAX(age_ns / 3 * 2, (uint64_t)FIRST_ATTEMPT_NS),
                                              (uint64_t)LAST_RETRY_NS);
                *known->text = '\0';
                return;
        }
        known->next_ns = now_ns + MIN(MAX(age_ns / 4, (uint64_t)LAST_RETRY_NS), (uint64_t)LAST_WAIT_NS);
        say_later(known->runtime->ops, known->text);
        length = strlen(known->text);
        snprintf(known->text + length, sizeof(known->text) - length,
                 "; asked again, `spanprof targets --verbose --pid %u` asks at once", known->pid);
        if (!was_told)
                log_write_target(LOG_LEVEL_INFO, known->pid, "%s", known->text);
}

static const AttachPayer *payer_of(Known *known) {
        ShareOwner owner;

        if (!known->has_payer) {
                owner = owner_of(known);
                known->payer = attach_budget_payer(&owner);
                known->has_payer = true;
        }
        return &known->payer;
}

/* Whether attempts of its user, its group, or all have used their time: then it is tried later. */
static bool has_to_wait(Runtimes *runtimes, Known *known, uint64_t now_ns) {
        static const char *const whose[] = { [ATTACH_BUDGET_USER] = "its user's programs",
                                             [ATTACH_BUDGET_GROUP] = "programs of its control group",
                                             [ATTACH_BUDGET_ALL] = "programs of all" };
        AttachLevel level = ATTACH_BUDGET_LEVELS;
        ShareOwner owner;

        if (attach_budget_is_overdrawn(&runtimes->budget, now_ns))
                level = attach_budget_waits(&runtimes->budget, payer_of(known));
        if (level == ATTACH_BUDGET_LEVELS)
                return false;
        known->next_ns = now_ns + BUDGET_RETRY_NS;
        snprintf(known->text, sizeof(known->text), "%s: read later, since %s took long to read",
                 known->runtime->ops->name, whose[level]);
        if (known->had_to_wait)
                return true;
        known->had_to_wait = true;
        stat_add(COUNTER_RUNTIMES_OVER_CAP, 1);
        if (level == ATTACH_BUDGET_ALL)         /* this one's share is not what was used up */
                return true;
        owner = owner_of(known);
        shares_tell(&runtimes->budget.told, "time to read programs with a runtime", &owner, now_ns);
        return true;
}

/*
 * Attempts once, and counts its CPU time for the group and user: who they are is asked first, since a process
 * that has ended has neither. Return: as the runtime's.
 */
static int attempt(Runtimes *runtimes, Known *known, void *entry) {
        const AttachPayer *payer = payer_of(known);
        uint64_t begin_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID), ns;
        int r = known->runtime->ops->attach(&known->subject, &known->state, entry, known->text);

        ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
        if (ns > CHEAP_NS)
                attach_budget_spend(&runtimes->budget, payer, ns);
        return r;
}

static int attach(Runtimes *runtimes, Known *known, uint64_t now_ns) {
        const RuntimeOps *ops = known->runtime->ops;
        _cleanup_(freep) void *entry = calloc(1, MAX(ops->entry_size, (size_t)1));
        bool was_told = *known->text;
        int r;

        if (!entry)
                return error_origin(-ENOMEM);
        if (has_to_wait(runtimes, known, now_ns))
                return 0;
        *known->text = '\0';
        r = attempt(runtimes, known, entry);
        if (r < 0)
                return error_fold(r);
        if (r == RUNTIME_E_LATER) {
                wait_for(known, was_told, now_ns);
                return 0;
        }
        known->next_ns = 0;
        /* A runtime that reads the file later has taken it over. */
        closep(&known->subject.fd);
        known->subject.fd = -1;
        if (!r)
                return give_entry(runtimes, known, &entry);
        refuse(known);
        stat_add(r == RUNTIME_E_NATIVE ? COUNTER_RUNTIMES_NATIVE : COUNTER_RUNTIMES_UNKNOWN, 1);
        log_write_target(LOG_LEVEL_INFO, known->pid, "%s", known->text);
        return 0;
}

/* The kernel half's walk will not be there for them: what has been attached is walked natively. */
static void take_entries(Runtimes *runtimes) {
        for (Known *known = runtimes->first; known; known = known->next)
                if (known->is_attached && !known->gone_ns) {
                        take_entry(known);
                        known->is_attached = false;
                        refuse(known);
                        say_unwalked(known, refused);
                        log_write_target(LOG_LEVEL_INFO, known->pid, "runs %s", known->text);
                }
}

/* Says that there is a process of @runtime, and how it is with the walk. */
static void ask_for_walk(Runtimes *runtimes, Registered *runtime) {
        bool was_refused = runtimes->walk == RUNTIMES_WALK_REFUSED;

        if (!runtimes->on_switch || !runtime->ops->entry_size ||
            (runtimes->walk == RUNTIMES_WALK_ON && runtime->is_on))
                return;
        runtime->is_on = true;
        runtimes->walk = runtimes->on_switch(runtimes->userdata, runtime->ops);
        if (runtimes->walk == RUNTIMES_WALK_REFUSED && !was_refused)
                take_entries(runtimes);
}

/* The runtime whose walk is being loaded is asked for again; others without a walk may have come since. */
static void ask_again(Runtimes *runtimes) {
        for (size_t i = 0; i < runtimes->n_registered && runtimes->walk == RUNTIMES_WALK_LOADING; i++)
                if (runtimes->registered[i].is_on)
                        ask_for_walk(runtimes, &runtimes->registered[i]);
}

void runtimes_expect(Runtimes *runtimes, const char *name) {
        for (size_t i = 0; i < runtimes->n_registered; i++) {
                Registered *runtime = &runtimes->registered[i];
                const char *const *pattern = runtime->ops->programs;

                while (pattern && *pattern && fnmatch(*pattern, name, 0))
                        pattern++;
                if (pattern && *pattern)
                        ask_for_walk(runtimes, runtime);
        }
}

/* Where the object is loaded. */
static bool find_bias(const Mapping *mapping, uint64_t *biasp) {
        uint64_t address;
        uint32_t segment;

        if (object_address(mapping->object, mapping->offset, &address, &segment))
                return false;
        *biasp = mapping->start - address;
        return true;
}

static int add(Runtimes *runtimes, const Process *process, const Mapping *mapping,
               Registered *runtime) {
        Known *known = calloc(1, sizeof(*known));
        int r;

        if (!known)
                return error_origin(-ENOMEM);
        *known = (Known){ .next = runtimes->first, .generation = process->generation, .pid = process->pid,
                          .begin_ns = clock_monotonic_ns(),
                          .runtime = runtime, .subject = { .pid = (pid_t)process->pid,
                                                           .start_time_ns = process->start_time_ns,
                                                           .generation = process->generation,
                                                           .object = mapping->object->id, .fd = -1,
                                                           .says = known->says,
                                                           .userdata = runtime->userdata } };
        for (size_t i = 0; i < RUNTIMES_MAX_KINDS; i++)
                known->waiting[i].fd = -1;
        memcpy(known->says, mapping->object->runtimes.says, sizeof(known->says));
        r = open_object(process, mapping, &known->subject.fd, &known->subject.size);
        if (!r && !find_bias(mapping, &known->subject.bias))
                r = 1;
        if (!r)
                r = hashmap_put(&runtimes->processes, known->generation, known);
        if (r) {
                closep(&known->subject.fd);
                free(known);
                return r < 0 ? r : 0;
        }
        runtimes->first = known;
        ask_for_walk(runtimes, runtime);
        return attach(runtimes, known, clock_monotonic_ns());
}

static bool yields(const Registered *runtime, const Mapping *mapping) {
        return runtime->ops->yields && runtime->ops->yields(mapping->object->runtimes.says);
}

static bool is_awaited(const Mapping *mapping) {
        return mapping->kind == MAPPING_FILE && object_is_awaited(mapping->object) &&
               object_may_be_runtime(mapping->object);
}

/* *runtimep: NULL = none that is known (yet); else *mappingp is of its object. */
static int find_runtime(Runtimes *runtimes, const Process *process, Registered **runtimep,
                        const Mapping **mappingp) {
        *runtimep = NULL;
        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];
                Registered *runtime;
                int r;

                if (mapping->kind != MAPPING_FILE)
                        continue;
                /* The first one that has a runtime decides, so those behind it wait, too. */
                if (is_awaited(mapping)) {
                        *runtimep = NULL;
                        return 0;
                }
                r = runtime_of(runtimes, process, mapping, &runtime);
                if (r)
                        return error_fold(r);
                if (!runtime || (*runtimep && yields(runtime, mapping)))
                        continue;
                *runtimep = runtime;
                *mappingp = mapping;
                if (!yields(runtime, mapping))
                        return 0;
        }
        return 0;
}

/* Reads what waits at @i. Return: 0, -ENOMEM. */
static int extend_by(Known *known, size_t i, uint64_t now_ns) {
        const RuntimeOps *ops = known->runtime->ops;
        _cleanup_(freep) void *entry = calloc(1, ops->entry_size);
        Waiting *waiting = &known->waiting[i];
        uint32_t kind = UINT32_C(1) << i;
        int r;

        if (!entry)
                return error_origin(-ENOMEM);
        r = ops->extend(known->state, kind, waiting->fd, waiting->size, waiting->bias, entry);
        if (r == RUNTIME_E_LATER) {
                set_retry(&waiting->retry_ns, &waiting->next_ns, now_ns);
                return 0;
        }
        closep(&waiting->fd);
        waiting->fd = -1;
        if (!r && !bpfmap_update(known->runtime->map_fd, &known->pid, entry))
                known->extended |= kind;
        return 0;
}

/*
 * Reads a file that tells more of the runtime, if the process has it mapped by now. One that is not attached
 * yet has it read then. Return: 0, -ENOMEM.
 */
static int extend(Known *known, const Process *process, const Mapping *mapping, uint32_t kind) {
        Waiting *waiting;
        size_t i = 0;

        while (kind >> i > 1)
                i++;
        if (i >= RUNTIMES_MAX_KINDS)
                return 0;
        waiting = &known->waiting[i];
        if (waiting->fd >= 0)           /* a question of this kind is on its way */
                return 0;
        known->n_extends++;
        *waiting = (Waiting){ .fd = -1 };
        if (open_object(process, mapping, &waiting->fd, &waiting->size))
                return 0;
        if (!find_bias(mapping, &waiting->bias)) {
                closep(&waiting->fd);
                waiting->fd = -1;
                return 0;
        }
        return known->is_attached ? extend_by(known, i, clock_monotonic_ns()) : 0;
}

/* Tries again what could not be read. Return: 0, -ENOMEM. */
static int extend_late(Known *known, uint64_t now_ns) {
        int r = 0;

        if (!known->is_attached || known->gone_ns)
                return 0;
        for (size_t i = 0; i < RUNTIMES_MAX_KINDS && !r; i++)
                if (known->waiting[i].fd >= 0 && known->waiting[i].next_ns <= now_ns)
                        r = extend_by(known, i, now_ns);
        return r;
}

static uint64_t spans_due_ns(const Known *known) {
        return known->spans_asked_ns + known->spans_retry_ns;
}

/*
 * A process that is about to have spans is asked each second. Others may have variables of their own all the
 * time, and are asked ever more seldom.
 */
static void wait_for_spans(Known *known, int r) {
        uint64_t now_ns = clock_monotonic_ns(), age_ns = now_ns - known->begin_ns;

        known->spans_asked_ns = now_ns;
        known->spans_retry_ns = r == RUNTIME_E_LATER
                ? MIN(MAX(2 * known->spans_retry_ns, (uint64_t)FIRST_RETRY_NS), (uint64_t)LAST_RETRY_NS)
                : MIN(MAX(age_ns / 4, (uint64_t)FIRST_RETRY_NS), (uint64_t)LAST_WAIT_NS);
}

/*
 * Asks where the spans are that samples have met. Once a process has been asked, further samples have to want
 * it. Return: 0, -ENOMEM.
 */
static int learn_spans(Known *known, uint64_t now_ns) {
        const RuntimeOps *ops = known->runtime->ops;
        _cleanup_(freep) void *entry = NULL;
        int r;

        if (!known->wants_spans || spans_due_ns(known) > now_ns || known->gone_ns || !known->is_attached)
                return 0;
        entry = calloc(1, ops->entry_size);
        if (!entry)
                return error_origin(-ENOMEM);
        known->wants_spans = false;
        r = ops->spans(known->state, entry);
        if (!r && !bpfmap_update(known->runtime->map_fd, &known->pid, entry))
                log_write_target(LOG_LEVEL_DEBUG, known->pid, "its spans are read");
        wait_for_spans(known, r);
        return 0;
}

static int extend_known(Known *known, const Process *process) {
        const RuntimeOps *ops = known->runtime->ops;
        int r = 0;

        if (!ops->wants || known->is_refused || known->gone_ns)
                return 0;
        for (size_t i = 0; i < process->n_mappings && !r && known->n_extends < MAX_EXTENDS; i++) {
                const Mapping *mapping = &process->mappings[i];
                const char *slash = mapping->path ? strrchr(mapping->path, '/') : NULL;
                uint32_t kind = mapping->kind == MAPPING_FILE && slash ? ops->wants(slash + 1) : 0;

                if (kind & ~known->extended)
                        r = extend(known, process, mapping, kind);
        }
        return r;
}

int runtimes_process(Runtimes *runtimes, const Process *process) {
        const Mapping *mapping;
        Registered *runtime;
        Known *known;
        int r;

        if (!runtimes->n_registered || !process->generation)
                return 0;
        known = hashmap_get(&runtimes->processes, process->generation);
        if (known)
                return extend_known(known, process);
        r = find_runtime(runtimes, process, &runtime, &mapping);
        r = r || !runtime ? r : add(runtimes, process, mapping, runtime);
        known = hashmap_get(&runtimes->processes, process->generation);
        return r || !known ? r : extend_known(known, process);
}

void runtimes_forget(Runtimes *runtimes, uint32_t pid) {
        for (Known *known = runtimes->first; known; known = known->next)
                if (known->pid == pid && !known->gone_ns) {
                        take_entry(known);
                        runtimes->n_gone++;
                        known->gone_ns = clock_monotonic_ns();
                        known->next_ns = 0;
                }
}

int runtimes_work(Runtimes *runtimes, uint64_t now_ns) {
        int r = 0;

        for (size_t i = 0; i < runtimes->n_registered; i++)
                if (runtimes->registered[i].ops->tend)
                        runtimes->registered[i].ops->tend(runtimes->registered[i].userdata, now_ns);
        ask_again(runtimes);
        for (Known **at = &runtimes->first; !r && *at;) {
                Known *known = *at;

                if (known->gone_ns &&
                    (runtimes->n_gone > MAX_GONE || now_ns - known->gone_ns > KEEP_GONE_NS)) {
                        *at = known->next;
                        runtimes->n_gone--;
                        free_known(runtimes, known);
                        continue;
                }
                if (known->next_ns && known->next_ns <= now_ns)
                        r = known->entry ? give_again(runtimes, known) : attach(runtimes, known, now_ns);
                if (!r)
                        r = extend_late(known, now_ns);
                if (!r)
                        r = learn_spans(known, now_ns);
                at = &known->next;
        }
        return r;
}

uint64_t runtimes_due_ns(const Runtimes *runtimes) {
        uint64_t due_ns = UINT64_MAX;

        if (runtimes->walk == RUNTIMES_WALK_LOADING)
                return 0;
        for (const Known *known = runtimes->first; known; known = known->next) {
                if (known->gone_ns)
                        continue;
                if (known->next_ns)
                        due_ns = MIN(due_ns, known->next_ns);
                if (known->wants_spans)
                        due_ns = MIN(due_ns, spans_due_ns(known));
                for (size_t i = 0; i < ARRAY_SIZE(known->waiting); i++)
                        if (known->is_attached && known->waiting[i].fd >= 0)
                                due_ns = MIN(due_ns, known->waiting[i].next_ns);
        }
        return due_ns;
}

/* ---- names ---- */

static void forget_names(Runtimes *runtimes) {
        stat_add(COUNTER_RUNTIME_NAMES_FORGOTTEN, 1);
        intern_reset(&runtimes->keys);
        intern_reset(&runtimes->texts);
        intern_reset(&runtimes->frames);
}

static bool is_full(const Runtimes *runtimes) {
        return runtimes->keys.n_items >= MAX_NAMES ||
               runtimes->texts.n_items > MAX_TEXTS - 2 * RUNTIMES_MAX_FRAMES ||
               runtimes->texts.arena.total + runtimes->frames.arena.total > MAX_NAME_BYTES;
}

/* Bytes of @key: a frame has as many words as its kind says. */
static size_t key_size(const NameKey *key) {
        return offsetof(NameKey, words) + runtime_frame_words(key->words[0]) * sizeof(*key->words);
}

/* @size: of @text with its NUL. Return: 0, -ENOMEM. */
static int keep_text(Runtimes *runtimes, const char *text, size_t size, const char **textp) {
        uint32_t index;
        int r = intern_add(&runtimes->texts, text, size, &index);

        if (r && r != INTERN_E_FOUND)
                return error_origin(-ENOMEM);
        *textp = intern_get(&runtimes->texts, index)->data;
        return 0;
}

/* `name(int, java.lang.String)` for overloads, if they are asked for. */
static int keep_function(Runtimes *runtimes, const RuntimeFrame *frame, const char **textp) {
        _cleanup_(freep) char *whole = NULL;
        size_t n_name = strlen(frame->function), n_signature;

        if (!runtimes->has_signatures || !frame->signature)
                return keep_text(runtimes, frame->function, n_name + 1, textp);
        n_signature = strlen(frame->signature);
        whole = malloc(n_name + n_signature + 1);
        if (!whole)
                return error_origin(-ENOMEM);
        memcpy(whole, frame->function, n_name);
        memcpy(whole + n_name, frame->signature, n_signature + 1);
        return keep_text(runtimes, whole, n_name + n_signature + 1, textp);
}

/* The innermost function's frame comes first. */
static int keep_frames(Runtimes *runtimes, RuntimeFrame *frames, size_t n, Names *namesp) {
        uint32_t index;
        int r = 0;

        for (size_t i = 0; !r && i < n; i++) {
                if (frames[i].function)
                        r = keep_function(runtimes, &frames[i], &frames[i].function);
                frames[i].signature = NULL;
                if (!r && frames[i].file)
                        r = keep_text(runtimes, frames[i].file, strlen(frames[i].file) + 1, &frames[i].file);
        }
        if (r)
                return error_fold(r);
        r = intern_add(&runtimes->frames, frames, n * sizeof(*frames), &index);
        if (r && r != INTERN_E_FOUND)
                return error_origin(-ENOMEM);
        namesp->row = index;
        return 0;
}

static int keep(Runtimes *runtimes, const NameKey *key, RuntimeFrame *frames, size_t n, Names *names) {
        uint32_t index;
        int r = keep_frames(runtimes, frames, n, names);

        if (r)
                return error_fold(r);
        r = intern_add(&runtimes->keys, key, key_size(key), &index);
        if (r && r != INTERN_E_FOUND)
                return r < 0 ? error_origin(r) : 0;
        if (index >= runtimes->names_size) {
                uint32_t size = runtimes->names_size + MAX(runtimes->names_size / 8, 128);
                Names *larger = realloc(runtimes->names, size * sizeof(*larger));

                if (!larger)
                        return error_origin(-ENOMEM);
                runtimes->names = larger;
                runtimes->names_size = size;
        }
        runtimes->names[index] = *names;
        return 0;
}

/* CPU time of all threads, and of other processes: a part of the work is done by them. */
static uint64_t cpu_ns(const Known *known) {
        const RuntimeOps *ops = known->runtime->ops;
        struct timespec now = { 0 };

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec +
                (ops->cpu_ns ? ops->cpu_ns(known->state) : 0);
}

/* @ns: time since its last second began. */
static void begin_second(const Runtimes *runtimes, Known *known, uint64_t ns) {
        uint32_t n = MAX(runtimes->processes.n_entries, 1U);
        uint64_t share_ns = MIN((uint64_t)OWN_SHARE_NS, ALL_SHARE_NS / n);

        known->second_ns += ns;
        known->spent_ns = 0;
        known->waited_ns = 0;
        known->debt_ns -= MIN(known->debt_ns, ns / NS_PER_MS * share_ns / (NS_PER_SEC / NS_PER_MS));
}

static bool has_time(const Runtimes *runtimes, Known *known) {
        uint64_t ns = clock_monotonic_ns() - known->second_ns;

        if (ns > NS_PER_SEC)
                begin_second(runtimes, known, ns);
        if (known->debt_ns >= MAX_DEBT_NS)
                return false;
        return known->spent_ns < NAMES_BUDGET_NS && known->waited_ns < NAMES_WAIT_NS;
}

/* Time that questions take. */
typedef struct Spent {
        uint64_t begin_ns, cpu_ns;
} Spent;

static Spent begin_spending(const Known *known) {
        return (Spent){ clock_monotonic_ns(), cpu_ns(known) };
}

static void end_spending(Known *known, const Spent *begin) {
        uint64_t spent_ns = cpu_ns(known) - begin->cpu_ns;

        known->spent_ns += spent_ns;
        known->debt_ns += spent_ns;
        known->waited_ns += clock_monotonic_ns() - begin->begin_ns;
        stat_add(COUNTER_STAGE_NAMING_NS, spent_ns);
}

/* Keeps what the runtime @said, but LATER. Return: 0 with names->row, RUNTIME_E_UNNAMED, -ENOMEM. */
static int take_answer(Runtimes *runtimes, const NameKey *key, int said, RuntimeFrame *frames, size_t n,
                       Names *names) {
        if (said < 0)
                return error_fold(said);
        if (said == RUNTIME_E_UNLOADED) {
                stat_add(COUNTER_RUNTIME_FRAMES_UNLOADED, 1);
                return keep(runtimes, key, frames, n, names);
        }
        if (said == RUNTIME_E_SHORT && n) {
                stat_add(COUNTER_RUNTIME_FRAMES_SHORT, 1);
                return keep(runtimes, key, frames, n, names);
        }
        if (said || !n) {
                stat_add(COUNTER_RUNTIME_FRAMES_UNNAMED, 1);
                return RUNTIME_E_UNNAMED;
        }
        stat_add(COUNTER_RUNTIME_FRAMES_NAMED, 1);
        return keep(runtimes, key, frames, n, names);
}

static int look_up(Runtimes *runtimes, Known *known, const NameKey *key, Names *names) {
        RuntimeFrame frames[RUNTIMES_MAX_FRAMES];
        int r = RUNTIME_E_LATER;
        size_t n = 0;

        if (has_time(runtimes, known)) {
                Spent begin = begin_spending(known);

                r = known->runtime->ops->frames(known->state, key->words, frames, RUNTIMES_MAX_FRAMES, &n);
                end_spending(known, &begin);
        }
        if (r != RUNTIME_E_LATER)
                return take_answer(runtimes, key, r, frames, n, names);
        stat_add(COUNTER_RUNTIME_FRAMES_LATE, 1);
        /* who owes seconds is not asked again for long */
        return known->debt_ns < MAX_DEBT_NS ? RUNTIME_E_LATER : RUNTIME_E_UNNAMED;
}

/* An answer that was given again is believed for twice as long. */
static void trust(const Known *known, const NameKey *key, const Names *before, Names *names) {
        uint32_t first_ms = known->runtime->ops->trust_ms ? known->runtime->ops->trust_ms(key->words) : 0;
        bool is_again = before && before->row == names->row;

        names->trust_ms = is_again ? MIN(before->trust_ms * 2, MAX_TRUST_MS) : first_ms;
        names->end_ns = names->trust_ms ? clock_monotonic_ns() + names->trust_ms * NS_PER_MS : 0;
}

/* Asks about a frame that was not met yet, or whose answer is old. @index: of the old answer. */
static int ask(Runtimes *runtimes, Known *known, const NameKey *key, const uint32_t *index, Names *names) {
        Names before = index ? runtimes->names[*index] : (Names){ 0 };
        uint32_t at;
        int r;

        if (index && !has_time(runtimes, known)) {
                *names = before;
                return 0;
        }
        if (is_full(runtimes)) {
                forget_names(runtimes);
                index = NULL;
        }
        r = look_up(runtimes, known, key, names);
        if (r)
                return r;
        trust(known, key, index ? &before : NULL, names);
        if (!intern_find(&runtimes->keys, key, key_size(key), &at))
                runtimes->names[at] = *names;
        return 0;
}

/* Frames of one stack that are asked about together. */
typedef struct Ahead {
        Runtimes *runtimes;
        Known *known;
        NameKey keys[MAX_AHEAD];
        const uint64_t *words[MAX_AHEAD];
        size_t n, n_answered;
        int said;                       /* of the first of them, if it has no name */
} Ahead;

static bool is_wanted(const Ahead *ahead, const NameKey *key) {
        uint32_t index;

        for (size_t i = 0; i < ahead->n; i++)
                if (!memcmp(&ahead->keys[i], key, sizeof(*key)))
                        return false;
        return intern_find(&ahead->runtimes->keys, key, key_size(key), &index);
}

/* Finds frames among @n words of a stack that were not met yet. */
static void gather(Ahead *ahead, const uint64_t *words, size_t n) {
        for (size_t at = 0, n_frame; at < n && ahead->n < MAX_AHEAD; at += n_frame) {
                NameKey key = { .generation = ahead->known->generation };

                n_frame = runtime_frame_words(words[at]);
                if (!n_frame || n_frame > n - at)
                        return;
                memcpy(key.words, words + at, n_frame * sizeof(*words));
                if (words[at] >> RUNTIME_KIND_SHIFT == RUNTIME_NATIVE || !is_wanted(ahead, &key))
                        continue;
                ahead->words[ahead->n] = words + at;
                ahead->keys[ahead->n++] = key;
        }
}

static int on_answer(void *userdata, size_t i, int said, RuntimeFrame *frames, size_t n) {
        Ahead *ahead = userdata;
        Runtimes *runtimes = ahead->runtimes;
        uint32_t index;
        Names names;
        int r;

        ahead->n_answered++;
        if (is_full(runtimes))
                return 0;
        if (said == RUNTIME_E_LATER) {
                stat_add(COUNTER_RUNTIME_FRAMES_LATE, 1);
                r = said;
        } else {
                r = take_answer(runtimes, &ahead->keys[i], said, frames, n, &names);
        }
        if (!i && r > 0)
                ahead->said = r;
        if (r)
                return MIN(r, 0);
        trust(ahead->known, &ahead->keys[i], NULL, &names);
        if (!intern_find(&runtimes->keys, &ahead->keys[i], key_size(&ahead->keys[i]), &index))
                runtimes->names[index] = names;
        return 0;
}

/*
 * Asks about a frame that was not met yet, and about others of its stack. Return: 0: it may be known now,
 * RUNTIME_E_UNNAMED, RUNTIME_E_LATER, -ENOMEM.
 */
static int look_ahead(Runtimes *runtimes, Known *known, const uint64_t *words, size_t n_words) {
        Ahead ahead = { .runtimes = runtimes, .known = known };
        Spent begin;
        int r;

        if (!known->runtime->ops->many || is_full(runtimes) || !has_time(runtimes, known) ||
            clock_monotonic_ns() < known->ahead_ns)
                return 0;
        gather(&ahead, words, n_words);
        if (ahead.n < 2)
                return 0;
        begin = begin_spending(known);
        r = known->runtime->ops->many(known->state, ahead.words, ahead.n, on_answer, &ahead);
        end_spending(known, &begin);
        if (!ahead.n_answered)
                known->ahead_ns = clock_monotonic_ns() + PAUSE_NS;
        return r ? error_fold(r) : ahead.said;
}

int runtimes_frames(Runtimes *runtimes, const Process *process, const uint64_t *words, size_t n_words,
                    const RuntimeFrame **framesp, size_t *np, const char **typep) {
        Known *known = hashmap_get(&runtimes->processes, process->generation);
        NameKey key = { .generation = process->generation };
        const InternItem *row;
        bool is_known;
        Names names;
        uint32_t index;
        int r = 0;

        *np = 0;
        if (!known || !known->is_attached || !known->runtime->ops->frames) {
                stat_add(COUNTER_RUNTIME_FRAMES_UNNAMED, 1);
                return RUNTIME_E_UNNAMED;
        }
        memcpy(key.words, words, runtime_frame_words(words[0]) * sizeof(*words));
        *typep = known->runtime->ops->frame_type;
        is_known = !intern_find(&runtimes->keys, &key, key_size(&key), &index);
        if (!is_known) {
                r = look_ahead(runtimes, known, words, n_words);
                is_known = !r && !intern_find(&runtimes->keys, &key, key_size(&key), &index);
        }
        if (r)
                return r;
        if (!is_known)
                r = ask(runtimes, known, &key, NULL, &names);
        else if (runtimes->names[index].end_ns && clock_monotonic_ns() >= runtimes->names[index].end_ns)
                r = ask(runtimes, known, &key, &index, &names);
        else
                names = runtimes->names[index];
        if (r)
                return r;
        row = intern_get(&runtimes->frames, names.row);
        *framesp = row->data;
        *np = row->size / sizeof(RuntimeFrame);
        return 0;
}

int runtimes_locks(Runtimes *runtimes, const Process *process, RuntimeLocks *locks) {
        const Known *known = hashmap_get(&runtimes->processes, process->generation);

        locks->n = locks->n_over_cap = 0;
        if (!known || known->is_refused || !known->runtime->ops->locks)
                return RUNTIME_E_UNKNOWN;
        return known->is_attached && !known->gone_ns ? known->runtime->ops->locks(known->state, locks)
                                                     : RUNTIME_E_LATER;
}

const char *runtimes_task_name(Runtimes *runtimes, const Process *process, const uint8_t *task, size_t size) {
        Known *known = hashmap_get(&runtimes->processes, process->generation);
        const char *text = NULL;
        Spent begin;
        int r;

        if (!known || !known->state || !known->runtime->ops->task_name)
                return NULL;
        r = known->runtime->ops->task_name(known->state, task, size, false, &text);
        if (r == RUNTIME_E_LATER && has_time(runtimes, known)) {
                begin = begin_spending(known);
                r = known->runtime->ops->task_name(known->state, task, size, true, &text);
                end_spending(known, &begin);
        }
        return r ? NULL : text;
}

const char *runtimes_task_id(Runtimes *runtimes, const Process *process, const uint8_t *task, size_t size) {
        const Known *known = hashmap_get(&runtimes->processes, process->generation);

        if (!known || !known->state || !known->runtime->ops->task_id)
                return NULL;
        return known->runtime->ops->task_id(known->state, task, size);
}

const char *runtimes_span_name(Runtimes *runtimes, const Process *process, const uint8_t *object,
                               size_t size) {
        const Known *known = hashmap_get(&runtimes->processes, process->generation);

        if (!known || !known->state || !known->runtime->ops->span_name)
                return NULL;
        return known->runtime->ops->span_name(known->state, object, size);
}

void runtimes_want_spans(Runtimes *runtimes, uint64_t generation, uint64_t time_ns) {
        Known *known = hashmap_get(&runtimes->processes, generation);

        if (known && known->is_attached && known->runtime->ops->spans && time_ns > known->spans_asked_ns)
                known->wants_spans = true;
}

/* ---- what is told ---- */

bool runtimes_has(const Runtimes *runtimes, uint64_t generation) {
        const Known *known = hashmap_get(&runtimes->processes, generation);

        return known && known->runtime->ops->frames;
}

RuntimesLack runtimes_lack(const Runtimes *runtimes, const Process *process) {
        const Known *known = hashmap_get(&runtimes->processes, process->generation);

        if (known)
                return known->is_attached  ? RUNTIMES_LACK_NOTHING
                        : known->is_refused ? RUNTIMES_LACK_SUPPORT
                        : known->entry      ? RUNTIMES_LACK_ROOM
                                            : RUNTIMES_LACK_TIME;
        for (size_t i = 0; i < process->n_mappings; i++)
                if (is_awaited(&process->mappings[i]))
                        return RUNTIMES_LACK_TIME;
        return RUNTIMES_LACK_NONE;
}

bool runtimes_is_idle(const Runtimes *runtimes, uint64_t generation, bool polls, const uint64_t *words,
                      size_t n) {
        const Known *known = hashmap_get(&runtimes->processes, generation);

        return known && known->is_attached && known->runtime->ops->is_idle &&
                known->runtime->ops->is_idle(known->state, polls, words, n);
}

const char *runtimes_text(const Runtimes *runtimes, uint64_t generation) {
        const Known *known = hashmap_get(&runtimes->processes, generation);

        return known && *known->text ? known->text : NULL;
}

static int describe(const Registered *runtime, const Process *process, const Mapping *mapping,
                    RuntimeDescription *description) {
        _cleanup_(freep) void *entry = calloc(1, MAX(runtime->ops->entry_size, (size_t)1));
        RuntimeSubject subject = { .pid = (pid_t)process->pid, .start_time_ns = process->start_time_ns,
                                   .object = mapping->object->id, .fd = -1,
                                   .says = mapping->object->runtimes.says,
                                   .userdata = runtime->userdata };
        void *state = NULL;
        int r;

        if (!entry)
                return error_origin(-ENOMEM);
        description->ops = runtime->ops;
        r = open_object(process, mapping, &subject.fd, &subject.size);
        if (!r && find_bias(mapping, &subject.bias))
                r = runtime->ops->attach(&subject, &state, entry, description->text);
        if (!r && state && runtime->ops->spans)
                description->has_spans = !runtime->ops->spans(state, entry);
        if (state && runtime->ops->detach)
                runtime->ops->detach(state);
        closep(&subject.fd);
        if (r == RUNTIME_E_LATER)
                say_later(runtime->ops, description->text);
        return MIN(r, 0);
}

int runtimes_describe(Runtimes *runtimes, const Process *process, RuntimeDescription *description) {
        Registered *runtime;
        const Mapping *mapping;
        int r = find_runtime(runtimes, process, &runtime, &mapping);

        *description = (RuntimeDescription){ 0 };
        return r || !runtime ? r : describe(runtime, process, mapping, description);
}

const void *runtimes_state_of(const Runtimes *runtimes, uint64_t generation, const RuntimeOps *ops) {
        const Known *known = hashmap_get(&runtimes->processes, generation);

        return known && !known->gone_ns && known->runtime->ops == ops ? known->state : NULL;
}

void runtimes_each(const Runtimes *runtimes,
                   void (*visit)(void *userdata, uint32_t pid, const char *text, bool is_walked),
                   void *userdata) {
        for (const Known *known = runtimes->first; known; known = known->next)
                if (!known->gone_ns && *known->text)
                        visit(userdata, known->pid, known->text, known->is_attached);
}

static size_t memory_of(const Intern *intern) {
        return intern->arena.total + intern->n_slots * sizeof(uint32_t) +
               intern->items_size * sizeof(InternItem);
}

RuntimesState runtimes_state(const Runtimes *runtimes) {
        RuntimesState state = {
                .memory = sizeof(*runtimes) + memory_of(&runtimes->keys) + memory_of(&runtimes->texts) +
                          memory_of(&runtimes->frames) + runtimes->names_size * sizeof(Names),
        };

        for (const Known *known = runtimes->first; known; known = known->next) {
                /* A runtime without an entry has frames, which nothing walks. */
                bool has_frames = known->runtime->ops->frames || !known->runtime->ops->entry_size;

                if (known->gone_ns)
                        continue;
                state.n_processes += has_frames;
                state.n_walked += has_frames && known->is_attached;
                state.n_read += !has_frames && known->is_attached;
        }
        return state;
}
