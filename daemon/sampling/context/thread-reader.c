/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/context/thread-reader.h"

#include <errno.h>
#include <stdlib.h>

#include "base/sandbox/helper.h"
#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/list.h"
#include "base/util/stat.h"
#include "sampling/context/thread-wire.h"

enum {
        MAX_WAITING = 4096,             /* each with a descriptor */
        MAX_TRIES = 2,
};

#define TIMEOUT_NS (10 * NS_PER_SEC)    /* as for rows: on a machine with forty that want a processor */

typedef struct Wanted {
        Object *object;                 /* a reference */
        int fd;
        uint64_t size;
        unsigned n_tries;
        struct Wanted *next;
} Wanted;

struct ThreadReader {
        Helper *helper;
        struct {
                Wanted *first, *last;
        } waiting;
        size_t n_waiting;
        Wanted *asked;                  /* of a worker; NULL = nothing is */
        ThreadWireAnswer answer;
        size_t n_answer;                /* bytes of it that have come */
};

static void end(Wanted *wanted) {
        if (!wanted)
                return;
        wanted->object->thread_symbol_waits = false;
        object_unref(wanted->object);
        closep(&wanted->fd);
        free(wanted);
}

ThreadReader *thread_reader_free(ThreadReader *reader) {
        Wanted *wanted;

        if (!reader)
                return NULL;
        helper_free(reader->helper);
        end(reader->asked);
        while ((wanted = fifo_pop(&reader->waiting)))
                end(wanted);
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
        return reader->asked || reader->waiting.first;
}

static void ask(ThreadReader *reader) {
        const ThreadWireRequest request = { .magic = THREAD_WIRE_MAGIC, .size = reader->asked->size };

        reader->asked->n_tries++;
        reader->n_answer = 0;
        helper_ask(reader->helper, &request, sizeof(request), reader->asked->fd, TIMEOUT_NS);
}

static void ask_next(ThreadReader *reader) {
        reader->asked = fifo_pop(&reader->waiting);
        if (!reader->asked)
                return;
        reader->n_waiting--;
        ask(reader);
}

int thread_reader_ask(void *userdata, Object *object, int fd, uint64_t size) {
        ThreadReader *reader = userdata;
        Wanted *wanted = reader->n_waiting < MAX_WAITING ? calloc(1, sizeof(*wanted)) : NULL;

        if (!wanted) {
                closep(&fd);
                if (reader->n_waiting < MAX_WAITING)
                        return error_origin(-ENOMEM);
                stat_add(COUNTER_THREAD_SYMBOLS_OVER_CAP, 1);
                return 0;
        }
        *wanted = (Wanted){ .object = object_ref(object), .fd = fd, .size = size };
        object->thread_symbol_waits = true;
        fifo_push(&reader->waiting, wanted);
        reader->n_waiting++;
        if (!reader->asked)
                ask_next(reader);
        return 0;
}

static void end_asked(ThreadReader *reader, enum counter how) {
        stat_add(how, 1);
        end(reader->asked);
        ask_next(reader);
}

/* All of it is there. Return: whether it was an answer. */
static bool take_answer(ThreadReader *reader) {
        bool is_good = thread_wire_check(&reader->answer, &reader->asked->object->thread_symbol);

        if (!is_good)
                stat_add(COUNTER_WORKERS_MALFORMED, 1);
        helper_done(reader->helper, !is_good);
        return is_good;
}

/* Return: whether it was in vain: nothing will become known. */
static bool try_again(ThreadReader *reader, int r) {
        if (r != HELPER_E_GONE && reader->asked->n_tries < MAX_TRIES) {
                ask(reader);
                return false;
        }
        end_asked(reader, COUNTER_THREAD_SYMBOLS_FAILED);
        return true;
}

bool thread_reader_step(ThreadReader *reader) {
        bool is_known = false;

        if (!reader->asked)
                helper_tend(reader->helper);
        while (reader->asked) {
                size_t left = sizeof(reader->answer) - reader->n_answer, n = 0;
                int r = helper_read(reader->helper, (uint8_t *)&reader->answer + reader->n_answer, left, &n);

                if (r == HELPER_E_WAIT)
                        break;
                reader->n_answer += n;
                if (!r && n < left)
                        continue;
                if (r || !take_answer(reader)) {
                        is_known |= try_again(reader, r);
                        continue;
                }
                is_known = true;
                end_asked(reader, COUNTER_THREAD_SYMBOLS_READ);
        }
        return is_known;
}
