/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hands files to a worker, one at a time. The others wait in one queue, from which groups take turns, and
 * users in them:
 *
 *      shop.service, user 1000       libjvm.so, a.so, b.so       a worker gets libjvm.so, then x, then a.so,
 *      user.slice, user 0            x, y                        then y: so another's file waits for one or
 *                                                                two of many slow ones
 *
 * Of one user's files those go first that have as much code as a runtime, then processes take turns. A build
 * id of Go alone, which anybody can write, puts no file before others.
 *
 * Each file that waits has a descriptor, so there is room for 4,096. When it is full, the greatest holder
 * gives a place to one with less: its oldest file is refused. A refused file is no longer held, and is asked
 * for again through a process that still has it mapped.
 */

#include "host/sampling/context/thread-reader.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/data/list.h"
#include "core/base/sandbox/helper.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/sampling/context/thread-wire.h"
#include "host/sampling/process/identity.h"

enum { MAX_AGAIN = 16 };                /* files of a process that are asked for again at once */

typedef struct Wanted {
        Object *object;                 /* a reference */
        int fd;
        uint64_t size;
        unsigned n_tries;
        Share *share;                   /* holder of its place, who has a turn when it is asked */
        bool is_large;
        struct Wanted *previous, *next; /* neighbours in order of arrival */
} Wanted;

struct ThreadReader {
        Helper *helper;
        Shares shares;                  /* holders of all that wait, and of the asked one */
        Wanted *first, *last;
        size_t n_waiting;
        Wanted *asked;                  /* the file that a worker has; NULL = none */
        ThreadWireAnswer answer;
};

/* @look: what becomes of a file that nothing is known of. */
static void end(ThreadReader *reader, Wanted *wanted, enum object_look look) {
        if (!wanted)
                return;
        if (wanted->object->look == OBJECT_LOOK_ASKED)
                wanted->object->look = look;
        share_release(&reader->shares, wanted->share, 1);
        object_unref(wanted->object);
        closep(&wanted->fd);
        free(wanted);
}

static void take_out(ThreadReader *reader, Wanted *wanted) {
        list_remove(reader, wanted);
        reader->n_waiting--;
}

/* Whether @a is asked before @b, which came earlier. */
static bool goes_before(const Wanted *a, const Wanted *b) {
        int turns = share_compare_turns(a->share, b->share);

        if (turns)
                return turns < 0;
        if (a->is_large != b->is_large)
                return a->is_large;
        return share_compare_process_turns(a->share, b->share) < 0;
}

/* The file whose turn it is; NULL = none waits. */
static Wanted *take_next(ThreadReader *reader) {
        Wanted *best = reader->first;

        for (Wanted *wanted = best; wanted; wanted = wanted->next)
                if (goes_before(wanted, best))
                        best = wanted;
        if (!best)
                return NULL;
        take_out(reader, best);
        share_take_turn(&reader->shares, best->share);
        return best;
}

ThreadReader *thread_reader_free(ThreadReader *reader) {
        if (!reader)
                return NULL;
        helper_free(reader->helper);
        end(reader, reader->asked, OBJECT_LOOK_FAILED);
        for (Wanted *wanted; (wanted = reader->first);) {
                take_out(reader, wanted);
                end(reader, wanted, OBJECT_LOOK_FAILED);
        }
        shares_deinit(&reader->shares);
        free(reader);
        return NULL;
}

int thread_reader_new(ThreadReader **readerp, Zygotes *zygotes) {
        _cleanup_(thread_reader_freep) ThreadReader *reader = calloc(1, sizeof(*reader));
        int r;

        if (!reader)
                return error_origin(-ENOMEM);
        r = helper_new(&reader->helper, zygotes);
        if (r)
                return error_fold(r);
        *readerp = take(reader);
        return 0;
}

int thread_reader_fd(const ThreadReader *reader) {
        return helper_fd(reader->helper);
}

bool thread_reader_is_busy(const ThreadReader *reader) {
        return reader->asked || reader->first;
}

static void ask(ThreadReader *reader) {
        const ThreadWireRequest request = { .magic = THREAD_WIRE_MAGIC, .size = reader->asked->size };

        reader->asked->n_tries++;
        helper_ask(reader->helper, &request, sizeof(request), reader->asked->fd,
                   thread_wire_question.timeout_ns);
}

static void ask_next(ThreadReader *reader) {
        reader->asked = take_next(reader);
        if (reader->asked)
                ask(reader);
}

/* A full queue: the oldest file of who has most gives a place. Return: whether there is one now. */
static bool make_room(ThreadReader *reader, const Wanted *asking) {
        const Share *victim = shares_victim(&reader->shares, asking->share, 0);
        Wanted *oldest = victim == asking->share ? NULL : reader->first;

        stat_add(COUNTER_THREAD_SYMBOLS_OVER_CAP, 1);
        shares_tell(&reader->shares, "files that wait for a look", share_owner(victim), clock_monotonic_ns());
        while (oldest && oldest->share != victim)
                oldest = oldest->next;
        if (!oldest)
                return false;
        take_out(reader, oldest);
        end(reader, oldest, OBJECT_LOOK_REFUSED);
        return true;
}

int thread_reader_ask(void *userdata, Object *object, int fd, uint64_t size, const ShareOwner *owner) {
        ThreadReader *reader = userdata;
        Wanted *wanted = calloc(1, sizeof(*wanted));
        int r = wanted ? shares_hold(&reader->shares, owner, 1, &wanted->share) : -ENOMEM;

        object->look = OBJECT_LOOK_REFUSED;
        if (r) {
                free(wanted);
                closep(&fd);
                return error_origin(r);
        }
        wanted->object = object_ref(object);
        wanted->fd = fd;
        wanted->size = size;
        wanted->is_large = object_is_large(object);
        if (reader->n_waiting >= THREAD_READER_MAX_WAITING && !make_room(reader, wanted)) {
                end(reader, wanted, OBJECT_LOOK_REFUSED);
                return 0;
        }
        object->look = OBJECT_LOOK_ASKED;
        list_append(reader, wanted);
        reader->n_waiting++;
        if (!reader->asked)
                ask_next(reader);
        return 0;
}

/* A file that is gone, or is another now, teaches nothing. Return: 0, -ENOMEM. */
static int ask_again(ThreadReader *reader, const Process *process, const Mapping *mapping, int proc_fd) {
        struct stat st;
        ShareOwner owner;
        int fd, r = object_reopen(mapping->object, proc_fd, mapping->start, mapping->end, mapping->path, &fd);

        if (!r && fstat(fd, &st)) {
                closep(&fd);
                r = OBJECT_E_UNREADABLE;
        }
        if (r) {
                mapping->object->look = OBJECT_LOOK_FAILED;
                stat_add(COUNTER_THREAD_SYMBOLS_FAILED, 1);
                return MIN(r, 0);
        }
        stat_add(COUNTER_THREAD_SYMBOLS_AGAIN, 1);
        owner = identity_owner(proc_fd, process->pid);
        return thread_reader_ask(reader, mapping->object, fd, (uint64_t)st.st_size, &owner);
}

int thread_reader_ask_again(ThreadReader *reader, const Process *process) {
        _cleanup_(closep) int proc = -1;
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < process->n_mappings && n < MAX_AGAIN && !r; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (mapping->kind != MAPPING_FILE || mapping->object->look != OBJECT_LOOK_REFUSED)
                        continue;
                if (reader->n_waiting >= THREAD_READER_MAX_WAITING ||
                    (proc < 0 && process_open((pid_t)process->pid, process->start_time_ns, &proc)))
                        return 0;
                n++;
                r = ask_again(reader, process, mapping, proc);
        }
        return r ? error_fold(r) : 0;
}

static void end_asked(ThreadReader *reader, enum counter how) {
        stat_add(how, 1);
        end(reader, reader->asked, OBJECT_LOOK_FAILED);
        ask_next(reader);
}

/* Return: whether it was in vain: nothing will become known. */
static bool try_again(ThreadReader *reader, int r) {
        if (r != HELPER_E_GONE && reader->asked->n_tries < thread_wire_question.n_tries) {
                ask(reader);
                return false;
        }
        end_asked(reader, COUNTER_THREAD_SYMBOLS_FAILED);
        return true;
}

static void take_answer(ThreadReader *reader) {
        Object *object = reader->asked->object;

        (void)thread_wire_check(&reader->answer, &object->thread_symbol, &object->runtimes);
        object->look = OBJECT_LOOK_KNOWN;
        helper_done(reader->helper, false);
        end_asked(reader, COUNTER_THREAD_SYMBOLS_READ);
}

bool thread_reader_step(ThreadReader *reader) {
        bool is_known = false;

        if (!reader->asked)
                helper_tend(reader->helper);
        while (reader->asked) {
                int r = helper_hear(reader->helper, &thread_wire_question, &reader->answer);

                if (r == HELPER_E_WAIT)
                        break;
                if (r) {
                        is_known |= try_again(reader, r);
                        continue;
                }
                take_answer(reader);
                is_known = true;
        }
        return is_known;
}
