/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes a row for each thread, groups rows with equal stacks, and looks for cycles among threads that wait
 * for each other's lock. In a process stand first the threads of a cycle, then those of the program, and in
 * one line those of its runtime: collectors, compilers, pools that have no work.
 */

#include "desk/live/thread-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/terminal/terminal.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "desk/live/frame-list.h"
#include "desk/report/glossary.h"
#include "host/sampling/sample/kernel-threads.h"

enum {
        INDENT = FRAME_LIST_INDENT,
        NAMED_THREADS = 8,              /* of those that stand together */
        LOCK_FRAMES = 3,                /* beside inlined ones */
        LEAST_NAMELESS = 3,             /* threads with one name, of which it is said */
};

typedef enum Place {
        PLACE_DEADLOCK,
        PLACE_PROGRAM,
        PLACE_RUNTIME,
} Place;

/* A thread and what it does. Texts are the window's. */
typedef struct Row {
        int64_t pid, tid;
        const char *process, *name;     /* name of the thread */
        const char *state;              /* running, runnable, blocked */
        const char *reason;             /* "" = none */
        const char *end;                /* why the stack ends early; "" = it does not */
        uint64_t waited_ns;             /* at most; 0 = not known, or it runs */
        uint64_t n_samples;             /* of one that runs; 0 = none was taken */
        bool has_runtime;               /* functions of a program that a runtime runs are in its stack */
        bool is_native;                 /* all of its stack is in files of a runtime and of libc */
        bool is_idle_of_go;             /* all of its stack is Go's own scheduler */
        uint32_t stack, link;           /* 0 = none */
        const RuntimeLock *lock;        /* that its runtime says it waits for; NULL = none */
        int64_t holder;                 /* thread that has that, or a mutex that it wants; 0 = not known */
        bool is_deadlocked;             /* that one waits for it in turn */
        Place place;
} Row;

struct ThreadList {
        const Window *window;
        const ThreadWaits *threads;
        Row *rows;
        size_t n, room;
};

/* ---- what the window says ---- */

static Row *find_row(const ThreadList *list, int64_t pid, int64_t tid) {
        for (size_t i = 0; i < list->n; i++)
                if (list->rows[i].pid == pid && list->rows[i].tid == tid)
                        return &list->rows[i];
        return NULL;
}

static Row *add_row(ThreadList *list, const Row *row) {
        if (array_reserve(&list->rows, &list->room, list->n + 1, 64))
                return NULL;
        list->rows[list->n] = *row;
        return &list->rows[list->n++];
}

static bool has_runtime(const Window *window, uint32_t stack) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < n; i++) {
                WindowFrame frame = window_expand_frame(window, words[i]);
                const char *type = window_get_string(window, frame.type, NULL);

                if (!strcmp(type, "cpython") || !strcmp(type, "jvm") || !strcmp(type, "v8js") ||
                    !strcmp(type, "php") || !strcmp(type, "ruby"))
                        return true;
        }
        return false;
}

/* Files of runtimes that have threads of their own, and what is below them. */
static bool is_runtime_file(const char *path) {
        static const char *const names[] = { "libjvm.so", "node", "nodejs", "libc.so.6", "libpthread.so.0", "[vdso]" };
        const char *base = frame_list_base(path);

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(base, names[i]))
                        return true;
        return !strncmp(base, "libnode.so", 10) || !strncmp(base, "ld-musl-", 8);
}

static bool is_of_kernel(const Window *window, FrameWord word) {
        return !strcmp(window_get_string(window, window_expand_frame(window, word).type, NULL), "kernel");
}

/* A thread on which no goroutine runs: it waits for one, or looks after the others. */
static bool is_idle_of_go(const Window *window, uint32_t stack) {
        static const char *const packages[] = { "runtime.", "internal/runtime/" };
        size_t n, n_go = 0;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < n; i++) {
                const char *name = frame_list_texts(window, words[i]).name;

                if (is_of_kernel(window, words[i]))
                        continue;
                if (strncmp(name, packages[0], strlen(packages[0])) &&
                    strncmp(name, packages[1], strlen(packages[1])))
                        return false;
                n_go++;
        }
        return n_go;
}

static bool is_native(const Window *window, uint32_t stack) {
        size_t n;
        const FrameWord *words = window_get_stack(window, stack, &n);

        for (size_t i = 0; i < n; i++)
                if (!is_of_kernel(window, words[i]) &&
                    !is_runtime_file(frame_list_texts(window, words[i]).module))
                        return false;
        return n > 0;
}

static Row read_row(const ThreadList *list, const WindowProfile *profile, const WindowSample *sample) {
        const Window *window = list->window;
        bool is_wait = profile->type == PROFILE_OFF_CPU;
        int64_t pid = 0;
        size_t n;
        const uint32_t *set = window_get_attribute_set(window, sample->attributes, &n);

        window_get_resource_integer(window, profile->resource, "process.pid", &pid);
        return (Row){ .pid = pid,
                      .tid = frame_list_number(window, set, n, "thread.id"),
                      .process = window_get_resource_text(window, profile->resource,
                                                          "process.executable.name"),
                      .name = frame_list_text(window, set, n, "thread.name"),
                      .state = is_wait ? frame_list_text(window, set, n, "wait.state") : "running",
                      .reason = is_wait ? frame_list_text(window, set, n, "wait.reason") : "",
                      .end = frame_list_text(window, set, n, "profile.stack.truncated"),
                      .waited_ns = is_wait && sample->value > 1 ? (uint64_t)sample->value : 0,
                      .n_samples = is_wait ? 0 : (uint64_t)sample->value,
                      .has_runtime = has_runtime(window, sample->stack),
                      .is_native = is_wait && is_native(window, sample->stack),
                      .is_idle_of_go = is_wait && is_idle_of_go(window, sample->stack),
                      .stack = sample->stack,
                      .link = sample->link };
}

/*
 * Whether @row stands for a thread that runs rather than @known. The stack with the most samples does. But
 * the first ones of a program with a runtime lack its functions, until its memory has been looked at; they
 * are few stacks, while each function and line that runs later is a stack of its own.
 */
static bool is_better(const Row *row, const Row *known) {
        if (row->has_runtime != known->has_runtime)
                return row->has_runtime;
        return row->n_samples > known->n_samples;
}

static int take_sample(ThreadList *list, const WindowProfile *profile, const WindowSample *sample) {
        Row row = read_row(list, profile, sample), *known = find_row(list, row.pid, row.tid);

        if (!known)
                return add_row(list, &row) ? 0 : error_origin(-ENOMEM);
        if (profile_is_cpu(profile->type) && !strcmp(known->state, "running") && is_better(&row, known))
                *known = row;
        return 0;
}

static int take_profiles(ThreadList *list, ProfileType type) {
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(list->window); i++) {
                const WindowProfile *profile = window_get_profile(list->window, i);

                for (uint32_t j = 0; profile->type == type && j < profile->n_samples && !r; j++) {
                        WindowSample sample;

                        window_get_sample(list->window, i, j, &sample);
                        r = take_sample(list, profile, &sample);
                }
        }
        return r;
}

/* Threads that were met, and of which neither a wait nor a sample is there. */
static int take_unseen(ThreadList *list) {
        for (size_t i = 0; i < list->threads->n; i++) {
                const ThreadWait *thread = &list->threads->threads[i];
                const Row row = { .pid = thread->tgid,
                                  .tid = thread->tid,
                                  .process = "",
                                  .name = thread->comm,
                                  .state = "running",
                                  .reason = "",
                                  .end = "" };

                if (!find_row(list, row.pid, row.tid) && !add_row(list, &row))
                        return error_origin(-ENOMEM);
        }
        return 0;
}

/* ---- who has what it waits for ---- */

/*
 * The daemon has read the word that is the owner where the futex is in a mutex of glibc (pthread_mutex_t).
 * Whether it is one, the innermost functions tell.
 */
static bool waits_for_mutex(const ThreadList *list, const Row *row) {
        size_t n, n_frames = 0;
        const FrameWord *words = window_get_stack(list->window, row->stack, &n);

        for (size_t i = 0; i < n && n_frames < LOCK_FRAMES; i++) {
                FrameTexts frame = frame_list_texts(list->window, words[i]);
                const char *library = frame_list_base(frame.module);

                n_frames += !window_expand_frame(list->window, words[i]).is_inlined;
                if (strstr(frame.name, "pthread_mutex_") &&
                    (!strcmp(library, "libc.so.6") || !strncmp(library, "libc-2.", 7) ||
                     !strncmp(library, "libpthread", 10)))
                        return true;
        }
        return false;
}

static void find_holders(ThreadList *list) {
        for (size_t i = 0; i < list->threads->n; i++) {
                const ThreadWait *thread = &list->threads->threads[i];
                bool is_told = thread->holder || thread->lock || thread->name;
                Row *row = is_told ? find_row(list, thread->tgid, thread->tid) : NULL;

                if (row)
                        row->lock = thread->lock;
                if (row && thread->name)
                        row->name = thread->name;
                if (row && (thread->lock || waits_for_mutex(list, row)))
                        row->holder = thread->holder;
        }
}

/* A way from holder to holder that comes back is a deadlock. */
static void find_deadlocks(ThreadList *list) {
        for (size_t i = 0; i < list->n; i++) {
                Row *row = &list->rows[i], *at = row;

                for (size_t n = 0; at && at->holder && n < list->n && !row->is_deadlocked; n++) {
                        at = find_row(list, at->pid, at->holder);
                        row->is_deadlocked = at == row;
                }
        }
}

/* ---- whose thread it is ---- */

static bool any_has_runtime(const ThreadList *list, int64_t pid) {
        for (size_t i = 0; i < list->n; i++)
                if (list->rows[i].pid == pid && list->rows[i].has_runtime)
                        return true;
        return false;
}

/* A thread that works is shown, whoever's it is; so is one in a span, and one that waits for a lock. */
static void find_places(ThreadList *list) {
        bool is_managed = false;

        for (size_t i = 0; i < list->n; i++) {
                Row *row = &list->rows[i];
                bool is_idle = !row->link && !row->holder && !strcmp(row->state, "blocked");

                if (!i || row->pid != list->rows[i - 1].pid)
                        is_managed = any_has_runtime(list, row->pid);
                row->place = row->is_deadlocked ? PLACE_DEADLOCK
                        : is_idle && (row->is_idle_of_go || (is_managed && row->is_native)) ? PLACE_RUNTIME
                                                                                            : PLACE_PROGRAM;
        }
}

/* ---- order: by process and place, running first, then those that do the same, the longest wait last ---- */

static int compare_numbers(int64_t a, int64_t b) {
        return (a > b) - (a < b);
}

/* By what is shown of them. */
static int compare_locks(const RuntimeLock *a, const RuntimeLock *b) {
        int order = compare_numbers(!!a, !!b);

        if (!order && a)
                order = compare_numbers(a->kind, b->kind);
        return order || !a ? order : strcmp(a->name, b->name);
}

static int compare_groups(const Row *a, const Row *b) {
        int order = compare_numbers(a->pid, b->pid);

        if (!order)
                order = compare_numbers(a->place, b->place);
        if (!order && a->place == PLACE_RUNTIME)
                return 0;
        if (!order)
                order = -strcmp(a->state, b->state);    /* running, runnable, blocked */
        if (!order)
                order = strcmp(a->reason, b->reason);
        if (!order)
                order = compare_numbers(a->stack, b->stack);
        if (!order)
                order = compare_numbers(a->link, b->link);
        if (!order)
                order = compare_numbers(a->holder, b->holder);
        if (!order)
                order = compare_locks(a->lock, b->lock);
        return order ? order : b->is_deadlocked - a->is_deadlocked;
}

static int compare_rows(const void *left, const void *right) {
        const Row *a = left, *b = right;
        int order = compare_groups(a, b);

        return order ? order : compare_numbers(a->tid, b->tid);
}

int thread_list_new(ThreadList **listp, const Window *window, const ThreadWaits *threads) {
        _cleanup_(thread_list_freep) ThreadList *list = calloc(1, sizeof(*list));
        int r;

        if (!list)
                return error_origin(-ENOMEM);
        list->window = window;
        list->threads = threads;
        r = take_profiles(list, PROFILE_OFF_CPU);
        if (!r)
                r = take_profiles(list, PROFILE_CPU);
        if (!r)
                r = take_profiles(list, PROFILE_BOOST);
        if (!r)
                r = take_unseen(list);
        if (r)
                return r;
        find_holders(list);
        find_deadlocks(list);
        if (list->n)
                qsort(list->rows, list->n, sizeof(*list->rows), compare_rows);
        find_places(list);
        if (list->n)
                qsort(list->rows, list->n, sizeof(*list->rows), compare_rows);
        *listp = take(list);
        return 0;
}

ThreadList *thread_list_free(ThreadList *list) {
        if (!list)
                return NULL;
        free(list->rows);
        free(list);
        return NULL;
}

/* ---- for people ---- */

static void print_stack(const ThreadList *list, const Row *row, FILE *out) {
        size_t n = frame_list_print(list->window, row->stack, out);

        if (*row->end)
                fprintf(out, "%*s(ends here: %s)\n", INDENT, "", glossary_end(row->end));
        else if (!n && !strcmp(row->state, "running"))
                fprintf(out, "%*s(no sample of it was taken)\n", INDENT, "");
}

static void print_time(uint64_t ns, FILE *out) {
        double seconds = (double)ns / (double)NS_PER_SEC;

        if (seconds < 1)
                fprintf(out, "%.3g ms", seconds * 1000);
        else if (seconds < 120)
                fprintf(out, "%.1f s", seconds);
        else if (seconds < 7200)
                fprintf(out, "%.0f min", seconds / 60);
        else
                fprintf(out, "%.1f h", seconds / 3600);
}

/* `waits for the monitor of a java.lang.Object` and the like. */
static void print_lock(const RuntimeLock *lock, FILE *out) {
        static const char *const texts[RUNTIME_N_LOCK_KINDS] = {
                [RUNTIME_LOCK_MONITOR] = "waits for the monitor of",
                [RUNTIME_LOCK_NOTIFY] = "waits for notify() of",
                [RUNTIME_LOCK_PARKED] = "parked for",
                [RUNTIME_LOCK_OWNED] = "waits for",
                [RUNTIME_LOCK_OWNERLESS] = "waits for",
                [RUNTIME_LOCK_NONE] = "",
        };

        fprintf(out, "%*s%s ", INDENT, "", texts[lock->kind]);
        if (*lock->name) {
                fputs("a ", out);
                text_print(lock->name, strlen(lock->name), out);
        } else {
                fputs("an object whose class is not known", out);
        }
        if (lock->kind == RUNTIME_LOCK_OWNERLESS)
                fputs(", which does not know who has it", out);
        fputc('\n', out);
}

static void print_holder(const ThreadList *list, const Row *row, FILE *out) {
        const Row *holder = find_row(list, row->pid, row->holder);

        fprintf(out, "%*sthread %" PRId64 " ", INDENT, "", row->holder);
        if (holder)
                text_print(holder->name, strlen(holder->name), out);
        fprintf(out, " has the %s%s\n", row->lock ? "lock" : "mutex", row->is_deadlocked ? ", and waits for this one: a DEADLOCK" : "");
}

/* Lock of a kind that knows no owner; NULL = none, or the runtime says what it waits for. */
static const char *ownerless_lock(const ThreadList *list, const Row *row) {
        if (row->lock || row->holder || strcmp(row->reason, "futex"))
                return NULL;
        return frame_list_lock(list->window, row->stack);
}

static bool is_ownerless(const ThreadList *list, const Row *row) {
        return ownerless_lock(list, row) || (row->lock && row->lock->kind == RUNTIME_LOCK_OWNERLESS);
}

static void print_threads(const Row *rows, size_t n, FILE *out) {
        for (size_t i = 0; i < MIN(n, (size_t)NAMED_THREADS); i++) {
                fprintf(out, "%s %" PRId64 " ", i ? "," : "", rows[i].tid);
                text_print(rows[i].name, strlen(rows[i].name), out);
        }
        if (n > NAMED_THREADS)
                fprintf(out, ", and %zu more", n - NAMED_THREADS);
        fputc('\n', out);
}

/* `blocked: futex, since at most 1.2 s …  thread 4712 worker` and the like. */
static void print_head(const ThreadList *list, const Row *rows, size_t n, FILE *out) {
        uint64_t least = UINT64_MAX, most = 0;

        for (size_t i = 0; i < n; i++) {
                least = MIN(least, rows[i].waited_ns);
                most = MAX(most, rows[i].waited_ns);
        }
        fputs(rows->state, out);
        if (*rows->reason && strcmp(rows->reason, "preempted"))
                fprintf(out, " on %s", rows->reason);
        if (most) {
                fputs(", for at most ", out);
                if (n > 1 && least && least < most / 2) {
                        print_time(least, out);
                        fputs(" to ", out);
                }
                print_time(most, out);
        }
        if (n > 1)
                fprintf(out, ", %zu threads", n);
        fputs(":", out);
        print_threads(rows, n, out);
        if (rows->lock)
                print_lock(rows->lock, out);
        else
                frame_list_print_lock(ownerless_lock(list, rows), out);
        if (rows->holder)
                print_holder(list, rows, out);
        frame_list_print_link(list->window, rows->link, out);
}

/* `deadlock: 4711 left → 4712 right → 4711`, once a circle: by its thread with the least id. */
static void print_circle(const ThreadList *list, const Row *row, FILE *out) {
        const Row *at = row;

        for (size_t n = 0; n < list->n && (at = find_row(list, at->pid, at->holder)) && at != row; n++)
                if (at->tid < row->tid)
                        return;
        fputs("deadlock:", out);
        at = row;
        do {
                fprintf(out, " %" PRId64 " ", at->tid);
                text_print(at->name, strlen(at->name), out);
                fputs(" →", out);
                at = find_row(list, at->pid, at->holder);
        } while (at && at != row);
        fprintf(out, " %" PRId64 "\n", row->tid);
}

/* What is known of locks, before the threads: a cycle, or that there is none, or that none can be found. */
static void print_circles(const ThreadList *list, const Row *rows, size_t n, FILE *out) {
        size_t n_held = 0, n_deadlocked = 0, n_ownerless = 0;

        for (size_t i = 0; i < n; i++) {
                n_held += rows[i].holder != 0;
                n_deadlocked += rows[i].is_deadlocked;
                n_ownerless += is_ownerless(list, &rows[i]);
                if (rows[i].is_deadlocked)
                        print_circle(list, &rows[i], out);
        }
        if (n_held && !n_deadlocked)
                fprintf(out, "no deadlock among the %zu thread%s that wait%s for a lock whose holder is known\n",
                        n_held, n_held == 1 ? "" : "s", n_held == 1 ? "s" : "");
        if (!n_deadlocked)
                frame_list_print_untold("thread", n_ownerless, out);
}

static size_t count_until(const ThreadList *list, size_t from, int (*differs)(const Row *, const Row *)) {
        size_t n = 1;

        while (from + n < list->n && !differs(&list->rows[from], &list->rows[from + n]))
                n++;
        return n;
}

static int other_process(const Row *a, const Row *b) {
        return a->pid != b->pid;
}

/* What is not known of the locks of this runtime. */
static void print_unread(const ThreadList *list, int64_t pid, FILE *out) {
        const RuntimeLocks *locks = thread_locks_find(&list->threads->locks, (uint32_t)pid);

        if (locks && *locks->text)
                fprintf(out, "%s\n", locks->text);
        if (locks && locks->n_over_cap)
                fprintf(out, "locks of %" PRIu32 " more threads were not read (%d at most)\n", locks->n_over_cap,
                        RUNTIME_MAX_LOCKS);
}

/* Threads of one name cannot be told apart; those of Go are its scheduler's, whatever their names are. */
static void print_nameless(const Row *rows, size_t n, FILE *out) {
        bool is_python = false;

        for (size_t i = 0; i < n; i++) {
                if (strcmp(rows[i].name, rows[0].name) || rows[i].is_idle_of_go)
                        return;
                is_python |= rows[i].has_runtime;
        }
        if (n < LEAST_NAMELESS)
                return;
        cli_print_wrapped(is_python ? "all threads have one name: those of threading are read of Python 3.11 to 3.13, and "
                                      "the kernel has them from 3.14 on\n"
                                    : "all threads have one name: pthread_setname_np() gives each its own, for a "
                                      "std::thread with its native_handle()\n",
                          cli_output_width(), INDENT, out);
}

static void print_process(const ThreadList *list, size_t from, size_t n, FILE *out) {
        const char *name = "";
        size_t n_waiting = 0;

        for (size_t i = from; i < from + n; i++) {
                n_waiting += strcmp(list->rows[i].state, "running") != 0;
                name = *name ? name : list->rows[i].process;
        }
        fprintf(out, "%spid %" PRId64, from ? "\n" : "", list->rows[from].pid);
        if (*name) {
                fputs(" (", out);
                text_print(name, strlen(name), out);
                fputs(")", out);
        }
        fprintf(out, ": %zu thread%s, %zu running, %zu waiting\n", n, n == 1 ? "" : "s", n - n_waiting,
                n_waiting);
        print_circles(list, list->rows + from, n, out);
        print_unread(list, list->rows[from].pid, out);
        print_nameless(list->rows + from, n, out);
        for (size_t i = from; i < from + n;) {
                size_t same = count_until(list, i, compare_groups);

                fputc('\n', out);
                if (list->rows[i].place == PLACE_RUNTIME) {
                        fprintf(out, "blocked, %zu thread%s of the runtime (--json has their stacks):", same,
                                same == 1 ? "" : "s");
                        print_threads(&list->rows[i], same, out);
                        i += same;
                        continue;
                }
                print_head(list, &list->rows[i], same, out);
                print_stack(list, &list->rows[i], out);
                i += same;
        }
}

void thread_list_print(const ThreadList *list, FILE *out) {
        for (size_t i = 0; i < list->n;) {
                size_t n = count_until(list, i, other_process);

                print_process(list, i, n, out);
                i += n;
        }
        if (list->threads->n_over_cap)
                fprintf(out, "\n%" PRIu64 " more threads were not looked at (%d at most)\n",
                        list->threads->n_over_cap, KERNEL_THREADS_MAX);
        if (list->threads->lacks_rights)
                fprintf(out, "\nMemory of some processes may not be read, so their threads look as if they ran: run it as root\n");
        if (list->threads->n && !list->threads->knows_times)
                fprintf(out, "\nHow long threads wait is not known: this kernel has no CONFIG_SCHED_INFO\n");
}

/* ---- for programs ---- */

static void json_row(const ThreadList *list, const Row *row, JsonWriter *json) {
        json_open(json, NULL, '{');
        json_number(json, "pid", (uint64_t)row->pid);
        json_text(json, "process", row->process);
        json_number(json, "tid", (uint64_t)row->tid);
        json_text(json, "name", row->name);
        json_text(json, "state", row->state);
        if (*row->reason)
                json_text(json, "reason", row->reason);
        if (row->waited_ns)
                json_number(json, "waits_at_most_ns", row->waited_ns);
        if (row->lock) {
                json_text(json, "lock", thread_locks_word(row->lock->kind));
                if (*row->lock->name)
                        json_text(json, "lock_class", row->lock->name);
        }
        frame_list_json_lock(ownerless_lock(list, row), json);
        if (row->holder) {
                json_number(json, "holder_tid", (uint64_t)row->holder);
                json_bool(json, "deadlock", row->is_deadlocked);
        }
        if (row->n_samples)
                json_number(json, "samples", row->n_samples);
        frame_list_json_link(list->window, row->link, json);
        if (*row->end)
                json_text(json, "truncated", row->end);
        frame_list_json(list->window, row->stack, json);
        json_close(json, '}');
}

int thread_list_json(const ThreadList *list, const GoroutineList *goroutines, FILE *out) {
        Text text = { 0 };
        JsonWriter json = { .text = &text, .is_spaced = true };
        int r;

        json_open(&json, NULL, '{');
        json_open(&json, "threads", '[');
        for (size_t i = 0; i < list->n; i++)
                json_row(list, &list->rows[i], &json);
        json_close(&json, ']');
        goroutine_list_json(goroutines, &json);
        json_number(&json, "over_cap", list->threads->n_over_cap);
        json_bool(&json, "lacks_rights", list->threads->lacks_rights);
        json_close(&json, '}');
        json_end(&json);
        r = text.failed ? error_origin(-ENOMEM) : 0;
        if (!r)
                fputs(text.data, out);
        text_deinit(&text);
        return r;
}
