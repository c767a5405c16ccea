/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernel knows the address of a futex, and not which lock it is of. The runtime's memory says that, while
 * the thread waits. So this looks from time to time, at threads that wait in futex():
 *
 *     threads ─▶ locks by their runtimes, words of mutexes ─▶ the same again ─▶ threads
 *        └──────────────── has left no CPU in between: it has waited all the time ───┘
 *
 *     begin ├────────────── wait, as the kernel half tells of it ──────────────┤ end
 *                     from ├─── a look ───┤ until
 *
 * What both reads say of a thread that stood still is kept, and a wait that has the whole look in it was for
 * that lock. Its owner is not known if it is another one by the second read; where one read alone has a lock,
 * the next look asks again. Nothing else is believed. So a wait between two looks has no lock, and is counted
 * without: looks meet waits by the time that they take, as ticks meet functions.
 *
 * Names of classes are kept by one pointer each: sets of attributes go by these while a window lasts. So when
 * a window ends in which a name had no room, the table is emptied, with all that was seen; who waits
 * on is asked for by the next look. Until then processes have shares of it.
 *
 * A thread is asked for once a wait. Looks that find nobody new become rarer, up to IDLE_NS, and all of them
 * take a twentieth of one CPU at most.
 */

#include "host/sampling/walks/wait-locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/base/data/intern.h"
#include "core/base/data/shares.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/memory.h"
#include "host/sampling/walks/thread-locks.h"

#define LEAST_NS (20 * NS_PER_MS)
#define IDLE_NS (500 * NS_PER_MS)

enum {
        SHARE = 20,                     /* part of a CPU that looks may take: the twentieth … */
        MOST_TIMES_CPU = 4,             /* … and time, four times as much: the loop stands still meanwhile */
        MAX_ASKED = 256,                /* threads of a look … */
        MAX_PROCESSES = 8,              /* … in so many processes: each with a runtime may need a worker */
        BUCKETS = 512,                  /* looks at threads, by their ids … */
        PLACES = 16,                    /* … and what was seen of those in one */
        MAX_NAMES = 4096,
        MUTEX_WAITED_FOR = 2,
        MUTEX_KINDS = 0x400,            /* its bits are below that one */
        MUTEX_OWNER_MASK = 0x3fffffff,  /* FUTEX_TID_MASK, of robust ones and those that inherit priority */
};

typedef struct Seen {
        WaitingThread thread;
        uint64_t seen_ns;               /* last look at which it still waited; 0 = a free place */
        SampleLock lock;                /* without a kind: none that is known */
} Seen;

struct WaitLocks {
        const WalkStages *stages;
        Intern names;                   /* with their NUL */
        Shares shares;                  /* holders of these: who named one first */
        ShareOwner owner;               /* process that named a new one last; 0 = none has */
        bool is_over;                   /* a name had no room */
        uint64_t after_ns;              /* to the next look */
        uint32_t last_tgid;             /* process of the last thread that was asked for */
        Seen seen[BUCKETS][PLACES];
};

/* A thread that is asked for. */
typedef struct Asked {
        const struct abi_thread *thread;
        uint32_t mutex_owners[2];       /* by each read; 0 = it waits for no mutex of glibc */
        bool has_lock;                  /* its runtime knows one by either of them */
} Asked;

typedef struct Work {
        WaitLocks *locks;
        ThreadsLook before, after;
        ThreadLocks told;               /* by runtimes */
        Asked asked[MAX_ASKED];
        size_t n, n_processes;
} Work;

/* ---- what was seen ---- */

static Seen *bucket_of(const WaitLocks *locks, uint32_t tgid, uint32_t tid) {
        return (Seen *)locks->seen[hash_number((uint64_t)tgid << 32 | tid) % BUCKETS];
}

static bool is_of(const Seen *seen, uint32_t tgid, uint32_t tid) {
        return seen->seen_ns && seen->thread.tgid == tgid && seen->thread.tid == tid;
}

/* That wait of the thread; NULL = it was not asked for yet. */
static Seen *find_wait(const WaitLocks *locks, uint32_t tgid, uint32_t tid, uint64_t n_switches) {
        Seen *bucket = bucket_of(locks, tgid, tid);

        for (size_t i = 0; i < PLACES; i++)
                if (is_of(&bucket[i], tgid, tid) && bucket[i].thread.n_switches == n_switches)
                        return &bucket[i];
        return NULL;
}

/* The place that was seen least lately. */
static Seen *oldest_of(Seen *bucket) {
        Seen *oldest = bucket;

        for (size_t i = 1; i < PLACES; i++)
                if (bucket[i].seen_ns < oldest->seen_ns)
                        oldest = &bucket[i];
        return oldest;
}

/* Whether process @tgid may add a name. */
static bool may_name(WaitLocks *locks, uint32_t tgid) {
        if (locks->owner.process != tgid) {
                locks->owner = identity_owner_of((pid_t)tgid, 0);
                locks->owner.process = tgid;
        }
        if (shares_leave_room(&locks->shares, &locks->owner, 1, MAX_NAMES))
                return true;
        locks->is_over = true;
        shares_tell(&locks->shares, "classes of locks", &locks->owner, clock_monotonic_ns());
        return false;
}

/* *textp: the same pointer for the same text, or NULL: none, or too many others. */
static int keep_name(WaitLocks *locks, uint32_t tgid, const char *name, const char **textp) {
        size_t size = strlen(name) + 1;
        uint32_t index;
        Share *share;
        int r;

        *textp = NULL;
        if (!*name)
                return 0;
        if (intern_find(&locks->names, name, size, &index)) {
                if (!may_name(locks, tgid))
                        return 0;
                r = shares_hold(&locks->shares, &locks->owner, 1, &share);
                if (!r)
                        r = intern_add(&locks->names, name, size, &index);
                if (r)
                        return error_fold(r);
        }
        *textp = intern_get(&locks->names, index)->data;
        return 0;
}

void wait_locks_end_window(WaitLocks *locks) {
        if (!locks->is_over)
                return;
        memset(locks->seen, 0, sizeof(locks->seen));
        intern_reset(&locks->names);
        shares_reset(&locks->shares);
        locks->is_over = false;
}

int wait_locks_note(WaitLocks *locks, const WaitingThread *thread, const char *kind, const char *name,
                    uint32_t owner) {
        Seen *to = oldest_of(bucket_of(locks, thread->tgid, thread->tid));
        const char *text;
        int r = keep_name(locks, thread->tgid, name, &text);

        if (r)
                return r;
        *to = (Seen){ .thread = *thread, .seen_ns = thread->until_ns, .lock = { kind, text, owner } };
        return 0;
}

const SampleLock *wait_locks_find(const WaitLocks *locks, uint32_t tgid, uint32_t tid, uint64_t begin_ns,
                                  uint64_t end_ns) {
        const Seen *bucket = bucket_of(locks, tgid, tid), *found = NULL;

        for (size_t i = 0; i < PLACES; i++) {
                const WaitingThread *thread = &bucket[i].thread;

                if (is_of(&bucket[i], tgid, tid) && thread->from_ns >= begin_ns &&
                    thread->until_ns <= end_ns && (!found || found->thread.from_ns < thread->from_ns))
                        found = &bucket[i];
        }
        return found && found->lock.kind ? &found->lock : NULL;
}

/* ---- who is asked for ---- */

/* The lock of an interpreter is found by the kernel half: such a wait has another reason. */
static bool waits_in_futex(const struct abi_thread *thread) {
        const uint8_t others = WAIT_PREEMPTED | WAIT_STOPPED | WAIT_UNINTERRUPTIBLE;

        return thread->call == SYS_futex && !(thread->flags & (THREAD_ON_CPU | THREAD_RUNNABLE)) &&
                !(thread->wait_flags & others);
}

static bool is_new(const WaitLocks *locks, const struct abi_thread *thread) {
        Seen *seen = find_wait(locks, thread->tgid, thread->tid, thread->n_switches);

        if (seen)
                seen->seen_ns = thread->time_ns;
        return !seen;
}

static bool has_room(const Work *work, uint32_t tgid) {
        bool is_same_process = work->n && work->asked[work->n - 1].thread->tgid == tgid;

        return work->n < MAX_ASKED && (is_same_process || work->n_processes < MAX_PROCESSES);
}

static void add(Work *work, const struct abi_thread *thread) {
        if (!work->n || work->asked[work->n - 1].thread->tgid != thread->tgid)
                work->n_processes++;
        work->asked[work->n++].thread = thread;
        work->locks->last_tgid = thread->tgid;
}

/* From the process behind the last one that was asked for on: none is left out for ever. */
static void choose(Work *work) {
        const ThreadsLook *look = &work->before;
        WaitLocks *locks = work->locks;
        size_t from = 0;

        while (from < look->n && look->threads[from].tgid <= locks->last_tgid)
                from++;
        for (size_t i = 0; i < look->n; i++) {
                const struct abi_thread *thread = &look->threads[(from + i) % look->n];

                if (waits_in_futex(thread) && is_new(locks, thread) && has_room(work, thread->tgid))
                        add(work, thread);
        }
}

/* ---- what they wait for ---- */

uint32_t wait_locks_mutex_owner(const uint32_t words[static WAIT_LOCKS_MUTEX_WORDS]) {
        uint32_t lock = words[0], owner = words[2], n_users = words[3], kind = words[4];
        bool is_waited_for = lock == MUTEX_WAITED_FOR || (lock & MUTEX_OWNER_MASK) == owner;

        return is_waited_for && n_users && kind < MUTEX_KINDS ? owner : 0;
}

enum wait_locks_mutex wait_locks_judge_mutex(uint32_t first, uint32_t second, uint32_t *ownerp) {
        *ownerp = first == second ? first : 0;
        if (!first != !second)
                return WAIT_LOCKS_UNSURE;
        return first ? WAIT_LOCKS_MUTEX : WAIT_LOCKS_NO_MUTEX;
}

/* Memory of the thread's process; -1 = it is gone, or may not be read. */
static int open_memory(const Work *work, const struct abi_thread *thread) {
        Program program;
        int r = targets_program(work->locks->stages->targets, thread->tgid, thread->generation, &program);

        return r ? -1 : memory_open((pid_t)thread->tgid, program.process->start_time_ns);
}

static uint32_t read_owner(const struct abi_thread *thread, int memory) {
        uint32_t words[WAIT_LOCKS_MUTEX_WORDS];
        bool is_read = memory >= 0 &&
                !memory_read_opened((pid_t)thread->tgid, memory, thread->argument, words, sizeof(words));

        return is_read ? wait_locks_mutex_owner(words) : 0;
}

/* @read: which of the two. */
static void read_mutexes(Work *work, unsigned read) {
        int memory = -1;

        for (size_t i = 0; i < work->n; i++) {
                Asked *asked = &work->asked[i];

                if (!i || asked->thread->tgid != asked[-1].thread->tgid) {
                        closep(&memory);
                        memory = open_memory(work, asked->thread);
                }
                asked->mutex_owners[read] = read_owner(asked->thread, memory);
        }
        closep(&memory);
}

/* A thread of each process that is asked for: its runtime tells of all. */
static int read_runtimes(const Work *work, ThreadLocks *told) {
        struct abi_thread *threads = calloc(MAX(work->n, (size_t)1), sizeof(*threads));
        ThreadsLook look = { .threads = threads };
        int r;

        *told = (ThreadLocks){ 0 };
        if (!threads)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < work->n; i++)
                if (!look.n || threads[look.n - 1].tgid != work->asked[i].thread->tgid)
                        threads[look.n++] = *work->asked[i].thread;
        r = thread_locks_read(told, work->locks->stages, &look);
        free(threads);
        return error_fold(r);
}

static const RuntimeLock *find_told(const RuntimeLocks *told, const struct abi_thread *thread) {
        for (uint32_t i = 0; told && i < told->n; i++) {
                const RuntimeLock *lock = &told->locks[i];

                if (lock->tid == thread->ns_tid && thread_locks_word(lock->kind) &&
                    (!lock->futex || lock->futex == thread->argument))
                        return lock;
        }
        return NULL;
}

static void compare_runtimes(Work *work, const ThreadLocks *again) {
        for (size_t i = 0; i < work->n; i++) {
                const struct abi_thread *thread = work->asked[i].thread;

                work->asked[i].has_lock = find_told(thread_locks_find(&work->told, thread->tgid), thread) ||
                        find_told(thread_locks_find(again, thread->tgid), thread);
        }
        thread_locks_keep_same(&work->told, again);
}

static int read_twice(Work *work) {
        ThreadLocks again = { 0 };
        int r = read_runtimes(work, &work->told);

        read_mutexes(work, 0);
        if (!r)
                r = read_runtimes(work, &again);
        read_mutexes(work, 1);
        if (!r)
                compare_runtimes(work, &again);
        thread_locks_deinit(&again);
        return r;
}

/* ---- what is kept ---- */

/* The thread of process @tgid that it knows as @ns_tid, as the daemon counts; 0 = none. */
static uint32_t find_own(const ThreadsLook *look, uint32_t tgid, uint32_t ns_tid) {
        for (size_t i = 0; ns_tid && i < look->n; i++)
                if (look->threads[i].tgid == tgid && look->threads[i].ns_tid == ns_tid)
                        return look->threads[i].tid;
        return 0;
}

static const struct abi_thread *find_again(const ThreadsLook *look, const struct abi_thread *thread) {
        for (size_t i = 0; i < look->n; i++)
                if (look->threads[i].tgid == thread->tgid && look->threads[i].tid == thread->tid)
                        return &look->threads[i];
        return NULL;
}

static bool has_stood(const struct abi_thread *before, const struct abi_thread *after) {
        return after && waits_in_futex(after) && after->n_switches == before->n_switches &&
                after->generation == before->generation && after->start_time_ns == before->start_time_ns;
}

/* An owner that is no thread of the process is other memory that looks like a mutex. */
static enum wait_locks_mutex judge_mutex(const Work *work, const Asked *asked, uint32_t *ownerp) {
        const uint32_t tgid = asked->thread->tgid;

        return wait_locks_judge_mutex(find_own(&work->after, tgid, asked->mutex_owners[0]),
                                      find_own(&work->after, tgid, asked->mutex_owners[1]), ownerp);
}

/* What is not sure, and a runtime that did not answer, may be known at the next look. */
static int note_asked(const Work *work, const Asked *asked) {
        const struct abi_thread *thread = asked->thread, *after = find_again(&work->after, thread);
        const RuntimeLocks *told = thread_locks_find(&work->told, thread->tgid);
        const RuntimeLock *lock = find_told(told, thread);
        uint32_t owner;
        enum wait_locks_mutex mutex = judge_mutex(work, asked, &owner);
        const char *kind = lock ? thread_locks_word(lock->kind) : mutex == WAIT_LOCKS_MUTEX ? "mutex" : NULL;
        bool is_sure = lock || (!asked->has_lock && mutex != WAIT_LOCKS_UNSURE);

        if (lock)
                owner = find_own(&work->after, thread->tgid, lock->owner);
        if (!is_sure || !has_stood(thread, after) || (!kind && told && !told->n && *told->text))
                return 0;
        return wait_locks_note(work->locks,
                               &(WaitingThread){ thread->tgid, thread->tid, thread->n_switches,
                                                 thread->time_ns, after->time_ns },
                               kind, lock ? lock->name : "", owner);
}

/* ---- a look ---- */

static int ask(Work *work) {
        Sampler *sampler = work->locks->stages->sampler;
        int r = read_twice(work);

        if (!r)
                r = sampler_look_at_threads(sampler, &work->after);
        for (size_t i = 0; i < work->n && !r; i++)
                r = note_asked(work, &work->asked[i]);
        return r;
}

static int look(Work *work) {
        int r = sampler_look_at_threads(work->locks->stages->sampler, &work->before);

        if (!r)
                choose(work);
        if (!r && work->n)
                r = ask(work);
        work->locks->after_ns = work->n ? LEAST_NS : MIN(2 * MAX(work->locks->after_ns, LEAST_NS), IDLE_NS);
        return r;
}

static void work_deinit(Work *work) {
        thread_locks_deinit(&work->told);
        free(work->before.threads);
        free(work->after.threads);
}

int wait_locks_look(WaitLocks *locks, uint64_t *after_nsp) {
        uint64_t begin_ns = clock_monotonic_ns(), took_ns,
                 begin_cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
        Work work = { .locks = locks };
        int r = look(&work);

        work_deinit(&work);
        took_ns = MAX(clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu_ns,
                      (clock_monotonic_ns() - begin_ns) / MOST_TIMES_CPU);
        *after_nsp = r > 0 ? UINT64_MAX : MAX(locks->after_ns, (SHARE - 1) * took_ns);
        return MIN(r, 0);
}

int wait_locks_new(WaitLocks **locksp, const WalkStages *stages) {
        WaitLocks *locks = calloc(1, sizeof(*locks));

        if (!locks)
                return error_origin(-ENOMEM);
        locks->stages = stages;
        intern_init(&locks->names, MAX_NAMES);
        *locksp = locks;
        return 0;
}

WaitLocks *wait_locks_free(WaitLocks *locks) {
        if (!locks)
                return NULL;
        intern_deinit(&locks->names);
        shares_deinit(&locks->shares);
        free(locks);
        return NULL;
}
