/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Talks with the worker: a request with a descriptor, offers of other files, then the functions and their
 * names in pieces, each checked before its size is believed.
 */

#include "core/symbol/function/symbol-session.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/symbol/function/symbol-wire.h"

enum { MAX_DEATHS = 4 };                /* over the names of one session */

typedef struct Work {
        WorkerSession session;
        Symbolizer *symbolizer;
        const SymbolObject *object;
        int fd;                         /* file of the object, -1 = not here */
        uint64_t size;
        SymbolState state;              /* why there is no file */
} Work;

/* ---- debug files ---- */

static bool is_elf(int fd) {
        char magic[SELFMAG];

        return file_pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
                !memcmp(magic, ELFMAG, sizeof(magic));
}

/*
 * Offers the next file that may be right, or none. A worker gets only files that can be debug files. Return:
 * 0, WORKER_SESSION_E_*.
 */
static int offer_next(Work *work, DebugSearch *search, bool *is_endp) {
        SymbolOffer offer = { .magic = SYMBOL_WIRE_MAGIC };
        _cleanup_(closep) int fd = -1;

        while (!offer.has_file) {
                closep(&fd);
                fd = -1;
                if (debug_search_next(search, &fd, &offer.size))
                        break;
                offer.has_file = is_elf(fd);
                offer.by_link = search->by_link;
        }
        *is_endp = !offer.has_file;
        return worker_session_send(&work->session, &offer, sizeof(offer), offer.has_file ? fd : -1);
}

/* Offers files until the worker says something else than that it wants another one. */
static int converse(Work *work, SymbolAnswer *answer) {
        DebugSearch search = { .object = work->object,
                               .directory = symbolizer_debug_directory(work->symbolizer),
                               .remote = symbolizer_remote(work->symbolizer) };
        DebugLink link = { 0 };
        bool is_end = false;

        for (;;) {
                int r = worker_session_hear(&work->session, &symbol_question, NULL, answer);

                if (r || answer->kind != SYMBOL_SAID_WANT)
                        return r;
                if (is_end)
                        return worker_session_refuse(&work->session);
                if (!search.link && answer->link[0]) {
                        memcpy(link.name, answer->link, sizeof(link.name));
                        search.link = &link;
                }
                r = offer_next(work, &search, &is_end);
                if (r)
                        return r;
        }
}

/* ---- tables ---- */

static int receive_functions(Work *work, SymbolTable *table) {
        SymbolWireFunction piece[512];
        uint32_t n = symbol_table_n_symbols(table), n_here;
        int r;

        for (uint32_t at = 0; at < n; at += n_here) {
                n_here = MIN(n - at, (uint32_t)ARRAY_SIZE(piece));
                r = worker_session_receive(&work->session, piece, n_here * sizeof(*piece));
                r = r ?: worker_session_judge(&work->session,
                                              symbol_wire_put_functions(table, at, piece, n_here));
                if (r)
                        return r;
        }
        return 0;
}

/* Return: 0 with *tablep (NULL = it has none), WORKER_SESSION_E_*, -ENOMEM. */
static int receive_table(Work *work, const SymbolAnswer *answer, SymbolTable **tablep) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        int r;

        if (!answer->n)
                return 0;
        r = symbol_wire_table_new(&table, answer);
        if (r)
                return error_fold(r);
        r = receive_functions(work, table);
        r = r ?: worker_session_receive(&work->session, symbol_table_names(table), answer->names_size);
        r = r ?: worker_session_judge(&work->session, symbol_table_finish(table));
        if (r)
                return r;
        *tablep = take(table);
        return 0;
}

/* The ids fit: can_be_known(). */
static void put_ids(SymbolRequest *request, const SymbolObject *object) {
        strcpy(request->gnu, object->build_id_gnu);
        strcpy(request->go, object->build_id_go);
}

static int ask_table(Work *work, SymbolTable **tablep, SymbolState *statep, SymbolGo *gop) {
        SymbolRequest request = { .magic = SYMBOL_WIRE_MAGIC,
                                  .kind = SYMBOL_ASK_TABLE,
                                  .size = work->size,
                                  .has_file = work->fd >= 0,
                                  .state = work->state,
                                  .is_itself = work->object->file != 0 };
        SymbolAnswer answer;
        int r;

        put_ids(&request, work->object);
        r = worker_session_request(&work->session, &symbol_question, &request, work->fd);
        r = r ?: converse(work, &answer);
        r = r ?: worker_session_judge(&work->session, answer.kind == SYMBOL_SAID_TABLE);
        r = r ?: receive_table(work, &answer, tablep);
        if (!r) {
                *statep = answer.state;
                *gop = answer.go;
        }
        return r;
}

static void open_own(Work *work) {
        if (symbol_object_open(work->object, &work->fd, &work->size, &work->state))
                work->fd = -1;
}

/* An unknown file without a build id, or with one that is longer than any, is not worth reading. */
static bool can_be_known(const SymbolObject *object) {
        return (object->file || object->build_id_gnu[0] || object->build_id_go[0]) &&
                strlen(object->build_id_gnu) < SYMBOL_WIRE_ID && strlen(object->build_id_go) < SYMBOL_WIRE_ID;
}

/* Return: 0, SYMBOL_SESSION_E_FAILED, -ENOMEM. */
static int read_object(Work *work) {
        SymbolState state = SYMBOL_STATE_NO_ID;
        SymbolGo go = SYMBOL_GO_NONE;
        SymbolTable *table = NULL;
        int r = 0;

        if (can_be_known(work->object)) {
                open_own(work);
                r = WORKER_SESSION_E_DIED;
        }
        for (unsigned i = 0; i < symbol_question.n_tries && r == WORKER_SESSION_E_DIED; i++)
                r = ask_table(work, &table, &state, &go);
        if (r)
                return r < 0 ? error_fold(r) : SYMBOL_SESSION_E_FAILED;
        r = symbolizer_put(work->symbolizer, work->object, table, state, go);
        return r ? error_fold(r) : 0;
}

/* ---- names ---- */

typedef struct Names {
        const char *names[SYMBOL_WIRE_MAX_NAMES];
        uint32_t n, n_done;
        bool one_by_one;                /* a worker died over one of many */
} Names;

static int by_place(const void *a, const void *b) {
        uintptr_t x = (uintptr_t)*(const char *const *)a, y = (uintptr_t)*(const char *const *)b;

        return x < y ? -1 : x > y;
}

/* Many addresses have one name: each stays once. */
static void leave_each_once(Names *names) {
        uint32_t n = 0;

        qsort(names->names, names->n, sizeof(names->names[0]), by_place);
        for (uint32_t i = 0; i < names->n; i++)
                if (!n || names->names[n - 1] != names->names[i])
                        names->names[n++] = names->names[i];
        names->n = n;
}

static int send_names(Work *work, const Names *names) {
        SymbolRequest request = { .magic = SYMBOL_WIRE_MAGIC,
                                  .kind = SYMBOL_ASK_READABLE,
                                  .n = names->n - names->n_done,
                                  .style = symbolizer_style(work->symbolizer),
                                  .one_by_one = names->one_by_one };
        _cleanup_(freep) char *all = NULL;
        size_t size = 0;
        int r;

        for (uint32_t i = names->n_done; i < names->n; i++)
                size += sizeof(uint32_t) + strlen(names->names[i]);
        all = malloc(size);
        if (!all)
                return error_origin(-ENOMEM);
        put_ids(&request, work->object);
        for (uint32_t i = names->n_done; i < names->n; i++) {
                uint32_t n = (uint32_t)strlen(names->names[i]);

                memcpy(all + request.bytes, &n, sizeof(n));
                memcpy(all + request.bytes + sizeof(n), names->names[i], n);
                request.bytes += (uint32_t)sizeof(n) + n;
        }
        r = worker_session_request(&work->session, &symbol_question, &request, -1);
        return r ?: worker_session_send(&work->session, all, request.bytes, -1);
}

/* Bytes of answers that a worker has sent, ahead of those that were taken. */
typedef struct Pieces {
        char bytes[16 << 10];
        size_t n, n_taken;
} Pieces;

/* Return: as worker_session_receive(). */
static int take_bytes(Work *work, Pieces *pieces, void *to, size_t size) {
        for (size_t at = 0, n; at < size; at += n) {
                if (pieces->n_taken == pieces->n) {
                        int r = worker_session_receive_some(&work->session, pieces->bytes,
                                                            sizeof(pieces->bytes), &pieces->n);

                        if (r)
                                return r;
                        pieces->n_taken = 0;
                }
                n = MIN(size - at, pieces->n - pieces->n_taken);
                memcpy((char *)to + at, pieces->bytes + pieces->n_taken, n);
                pieces->n_taken += n;
        }
        return 0;
}

/* Return: 0, WORKER_SESSION_E_*, -ENOMEM; finished names are kept. */
static int ask_names(Work *work, Names *names) {
        char text[DEMANGLE_MAX_OUTPUT];
        Pieces pieces = { .n = 0 };
        int r = send_names(work, names);

        while (!r && names->n_done < names->n) {
                uint32_t size;

                r = take_bytes(work, &pieces, &size, sizeof(size));
                r = r ?: worker_session_judge(&work->session, size < sizeof(text));
                r = r ?: take_bytes(work, &pieces, text, size);
                r = r ?: worker_session_judge(&work->session, !memchr(text, 0, size));
                if (r)
                        return r;
                r = symbolizer_put_readable(work->symbolizer, work->object, names->names[names->n_done], text,
                                            size);
                if (r)
                        return error_fold(r);
                names->n_done++;
        }
        return r;
}

/*
 * A name over which two workers died stays as it is in the file; the others are asked for again. Answers that
 * come together do not say which name it was, so then they come one by one.
 */
static int read_names(Work *work, Names *names) {
        const char *suspect = NULL;
        unsigned n_died = 0;
        int r = 0;

        while (!r && names->n_done < names->n) {
                bool is_sure = names->one_by_one || names->n - names->n_done == 1;

                r = ask_names(work, names);
                if (r != WORKER_SESSION_E_DIED || (is_sure && ++n_died > MAX_DEATHS))
                        break;
                r = 0;
                names->one_by_one = true;
                if (!is_sure)
                        continue;
                if (names->names[names->n_done] == suspect)
                        r = symbolizer_put_readable(work->symbolizer, work->object,
                                                    names->names[names->n_done++], "", 0);
                else
                        suspect = names->names[names->n_done];
        }
        return r > 0 ? SYMBOL_SESSION_E_FAILED : r < 0 ? error_fold(r) : 0;
}

int symbol_session_run(Zygotes *zygotes, Symbolizer *symbolizer, const SymbolObject *object,
                       const uint64_t *addresses, uint32_t n, WorkerSessionCounts *counts) {
        Work work = { .session = worker_session_make(zygotes, &symbol_question, counts),
                      .symbolizer = symbolizer,
                      .object = object,
                      .fd = -1 };
        Names names = { 0 };
        int r = symbolizer_knows(symbolizer, object) ? 0 : read_object(&work);

        for (uint32_t i = 0; i < n && !r && names.n < SYMBOL_WIRE_MAX_NAMES; i++) {
                const char *name = symbolizer_unread(symbolizer, object, addresses[i]);

                if (name)
                        names.names[names.n++] = name;
        }
        leave_each_once(&names);
        if (!r)
                r = read_names(&work, &names);
        worker_session_end(&work.session);
        closep(&work.fd);
        return r < 0 ? error_fold(r) : r;
}

/* ---- lines ---- */

enum { LINES_ROOM = 1 << 20 };          /* bytes: the longest answer, and what comes with it */

typedef struct LinesReading {
        Work *work;
        uint8_t *data, *seen;
        size_t size;
        uint32_t n;
        LinesSink sink;
        void *userdata;
        bool is_over;                   /* the last answer came */
} LinesReading;

/* Hands whole answers on, and keeps the rest. Return: 0, WORKER_SESSION_E_DIED, the sink's code. */
static int take_lines(LinesReading *reading) {
        const LinesAnswer end = { .index = reading->n };
        size_t used;
        int r = lines_parse(reading->data, reading->size, reading->n, reading->seen, reading->sink,
                            reading->userdata, &used);

        if (r && r != LINES_E_FAILED)
                return r;
        reading->size -= used;
        memmove(reading->data, reading->data + used, reading->size);
        reading->is_over = reading->size == sizeof(end) && !memcmp(reading->data, &end, sizeof(end));
        return worker_session_judge(&reading->work->session,
                                    reading->is_over || (!r && reading->size < LINES_ROOM));
}

/* Return: 0, WORKER_SESSION_E_*, the sink's negative code. */
static int receive_lines(LinesReading *reading) {
        int r = 0;

        while (!r && !reading->is_over) {
                size_t n;

                r = worker_session_receive_some(&reading->work->session, reading->data + reading->size,
                                                LINES_ROOM - reading->size, &n);
                if (r)
                        return r;
                reading->size += n;
                r = take_lines(reading);
        }
        return r;
}

/* Return: 0, WORKER_SESSION_E_*, the sink's negative code. */
static int ask_lines(LinesReading *reading, const uint64_t *addresses, bool *has_linesp) {
        Work *work = reading->work;
        SymbolRequest request = { .magic = SYMBOL_WIRE_MAGIC,
                                  .kind = SYMBOL_ASK_LINES,
                                  .size = work->size,
                                  .has_file = work->fd >= 0,
                                  .state = work->state,
                                  .n = reading->n,
                                  .style = symbolizer_style(work->symbolizer),
                                  .is_itself = work->object->file != 0 };
        SymbolAnswer answer;
        int r;

        put_ids(&request, work->object);
        r = worker_session_request(&work->session, &symbol_question, &request, work->fd);
        r = r ?: worker_session_send(&work->session, addresses, reading->n * sizeof(*addresses), -1);
        r = r ?: converse(work, &answer);
        r = r ?: worker_session_judge(&work->session, answer.kind == SYMBOL_SAID_LINES);
        *has_linesp = !r && answer.state == SYMBOL_STATE_NAMED;
        return r || !*has_linesp ? r : receive_lines(reading);
}

int symbol_session_lines(Zygotes *zygotes, Symbolizer *symbolizer, const SymbolObject *object,
                         const uint64_t *addresses, uint32_t n, LinesSink sink, void *userdata,
                         WorkerSessionCounts *counts, LinesState *statep) {
        Work work = { .session = worker_session_make(zygotes, &symbol_question, counts),
                      .symbolizer = symbolizer,
                      .object = object,
                      .fd = -1 };
        _cleanup_(freep) uint8_t *data = malloc(LINES_ROOM), *seen = calloc(1, n);
        LinesReading reading = {
                .work = &work, .data = data, .seen = seen, .n = n, .sink = sink, .userdata = userdata
        };
        bool has_lines = false;
        int r = 0;

        if (!data || !seen)
                return error_origin(-ENOMEM);
        if (can_be_known(object)) {
                open_own(&work);
                r = ask_lines(&reading, addresses, &has_lines);
        }
        worker_session_end(&work.session);
        closep(&work.fd);
        *statep = r == WORKER_SESSION_E_LATE ? LINES_STATE_TIMEOUT
                : r                          ? LINES_STATE_FAILED
                : has_lines                  ? LINES_STATE_READ
                                             : LINES_STATE_ABSENT;
        return r < 0 ? error_fold(r) : 0;
}
