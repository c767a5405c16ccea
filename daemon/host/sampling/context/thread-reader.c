/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hands files to a worker, one at a time. The others wait in queues, one for each user whose processes have
 * them mapped:
 *
 *      user 1000       a.so ◀─ b.so ◀─ c.so ◀─ …         a worker gets a.so, then x.so, then b.so, then y.so:
 *      user 0          x.so ◀─ y.so                      users take turns, so that another's file waits for
 *                                                        one or two of many slow ones
 *
 * Each file that waits has a descriptor, so there is room for 4,096. When it is full, the user with most
 * files gives a place to one with fewer: its oldest file is refused. A refused file is no longer held, and is
 * asked for again through a process that still has it mapped.
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
        struct Wanted *next;
} Wanted;

/* A user some of whose files wait. */
typedef struct User {
        uint32_t uid;
        size_t n;
        struct {
                Wanted *first, *last;
        } waiting;
        struct User *next;
} User;

struct ThreadReader {
        Helper *helper;
        struct {
                User *first, *last;
        } users;                        /* in the order of their turns */
        size_t n_waiting;
        Wanted *asked;                  /* the file that a worker has; NULL = none */
        ThreadWireAnswer answer;
};

/* @look: what becomes of a file that nothing is known of. */
static void end(Wanted *wanted, enum object_look look) {
        if (!wanted)
                return;
        if (wanted->object->look == OBJECT_LOOK_ASKED)
                wanted->object->look = look;
        object_unref(wanted->object);
        closep(&wanted->fd);
        free(wanted);
}

/* The oldest file of the user whose turn it is, who goes to the end of the line. NULL = none waits. */
static Wanted *take_next(ThreadReader *reader) {
        User *user = fifo_pop(&reader->users);
        Wanted *wanted;

        if (!user)
                return NULL;
        wanted = fifo_pop(&user->waiting);
        reader->n_waiting--;
        if (--user->n)
                fifo_push(&reader->users, user);
        else
                free(user);
        return wanted;
}

ThreadReader *thread_reader_free(ThreadReader *reader) {
        Wanted *wanted;

        if (!reader)
                return NULL;
        helper_free(reader->helper);
        end(reader->asked, OBJECT_LOOK_FAILED);
        while ((wanted = take_next(reader)))
                end(wanted, OBJECT_LOOK_FAILED);
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
        return reader->asked || reader->users.first;
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

static User *find_user(const ThreadReader *reader, uint32_t uid) {
        User *user = reader->users.first;

        while (user && user->uid != uid)
                user = user->next;
        return user;
}

/* A full queue: a user with more files than this one gives a place. Return: whether there is one now. */
static bool make_room(ThreadReader *reader, const User *asking) {
        User *most = reader->users.first;

        for (User *user = most; user; user = user->next)
                if (user->n > most->n)
                        most = user;
        if (most->n <= (asking ? asking->n : 0) + 1)
                return false;
        /* the user has more files, and stays in the line */
        end(fifo_pop(&most->waiting), OBJECT_LOOK_REFUSED);
        most->n--;
        reader->n_waiting--;
        stat_add(COUNTER_THREAD_SYMBOLS_OVER_CAP, 1);
        return true;
}

/* Return: 0, -ENOMEM. */
static int wait_in_line(ThreadReader *reader, User *user, uint32_t uid, Wanted *wanted) {
        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return error_origin(-ENOMEM);
                user->uid = uid;
                fifo_push(&reader->users, user);
        }
        fifo_push(&user->waiting, wanted);
        user->n++;
        reader->n_waiting++;
        return 0;
}

int thread_reader_ask(void *userdata, Object *object, int fd, uint64_t size, uint32_t uid) {
        ThreadReader *reader = userdata;
        User *user = find_user(reader, uid);
        Wanted *wanted;
        int r;

        if (reader->n_waiting >= THREAD_READER_MAX_WAITING && !make_room(reader, user)) {
                closep(&fd);
                stat_add(COUNTER_THREAD_SYMBOLS_OVER_CAP, 1);
                object->look = OBJECT_LOOK_REFUSED;
                return 0;
        }
        wanted = calloc(1, sizeof(*wanted));
        if (!wanted) {
                closep(&fd);
                return error_origin(-ENOMEM);
        }
        *wanted = (Wanted){ .object = object_ref(object), .fd = fd, .size = size };
        object->look = OBJECT_LOOK_ASKED;
        r = wait_in_line(reader, user, uid, wanted);
        if (r) {
                end(wanted, OBJECT_LOOK_REFUSED);
                return r;
        }
        if (!reader->asked)
                ask_next(reader);
        return 0;
}

/* A file that is gone, or is another now, teaches nothing. Return: 0, -ENOMEM. */
static int ask_again(ThreadReader *reader, const Mapping *mapping, int proc_fd) {
        struct stat st;
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
        return thread_reader_ask(reader, mapping->object, fd, (uint64_t)st.st_size, identity_user(proc_fd));
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
                r = ask_again(reader, mapping, proc);
        }
        return r ? error_fold(r) : 0;
}

static void end_asked(ThreadReader *reader, enum counter how) {
        stat_add(how, 1);
        end(reader->asked, OBJECT_LOOK_FAILED);
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
