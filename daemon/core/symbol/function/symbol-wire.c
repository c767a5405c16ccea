/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A conversation about libfoo.so, which was stripped and has its symbols in a debug file. Each line is one
 * message; [fd] is a descriptor that comes with it:
 *
 *     daemon   SymbolRequest { TABLE, size 81920, gnu "4a1b…" } [libfoo.so]
 *     worker   SymbolAnswer  { WANT, link "" }                      looks by build id
 *     daemon   SymbolOffer   { size 412000 } [/usr/lib/debug/.build-id/4a/1b….debug]
 *     worker   SymbolAnswer  { TABLE, base 0x1000, n 3, names_size 21 }
 *              { 0, 32 } { 32, 96 } { 128, 16 }                     start (relative to base) and size
 *              "main\0" "parse_line\0" "leave\0"
 *     daemon   SymbolRequest { READABLE, n 1, bytes 12 } { 8, "_Z3foov\0" }
 *     worker   { 5, "foo()" }                                       one answer a name
 *
 * The worker opens nothing: the daemon looks for files and passes them, and the worker says whether a file is
 * the right one. The daemon reads no symbols: it checks the table (symbol_wire_check(), symbol_table_put(),
 * symbol_table_finish()) and gives it up at the first wrong byte. Names are answered one by one, so that the
 * daemon knows over which name a worker has died.
 */
#include "core/symbol/function/symbol-wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/symbol/function/demangle.h"
#include "core/symbol/function/object-symbols.h"
#include "core/symbol/line/lines.h"

static bool is_plain(const char *link, size_t room) {
        return memchr(link, 0, room) && !strchr(link, '/') && strcmp(link, ".") != 0 &&
                strcmp(link, "..") != 0;
}

/* Each function has a name of at least one byte and a NUL. */
static bool check_table(const SymbolAnswer *answer) {
        uint64_t bytes = answer->n * (uint64_t)SYMBOL_FUNCTION_BYTES + answer->names_size;
        bool has_some = answer->state == SYMBOL_STATE_NAMED || answer->state == SYMBOL_STATE_DYNAMIC;

        return answer->state < SYMBOL_N_STATES && has_some == (answer->n > 0) &&
               answer->is_full == (answer->state == SYMBOL_STATE_NAMED) && bytes <= SYMBOL_WIRE_MAX_BYTES &&
               answer->names_size / 2 >= answer->n && (answer->n || !answer->names_size);
}

bool symbol_wire_check(const SymbolAnswer *answer) {
        if (answer->magic != SYMBOL_WIRE_MAGIC || answer->go >= SYMBOL_N_GO ||
            !is_plain(answer->link, sizeof(answer->link)))
                return false;
        if (answer->kind == SYMBOL_SAID_LINES)
                return answer->state == SYMBOL_STATE_NAMED || answer->state == SYMBOL_STATE_STRIPPED;
        return answer->kind == SYMBOL_SAID_WANT || (answer->kind == SYMBOL_SAID_TABLE && check_table(answer));
}

static bool is_sound(const void *answer, const void *request) {
        return symbol_wire_check(answer);
}

/* Time for one object: less than the caller's own time limit. A worker may be killed by accident. */
const WorkerQuestion symbol_question = {
        .magic = SYMBOL_WIRE_MAGIC,
        .request_size = sizeof(SymbolRequest),
        .answer_size = sizeof(SymbolAnswer),
        .n_tries = 2,
        .timeout_ns = 8 * NS_PER_SEC,
        .is_sound = is_sound,
};

int symbol_wire_table_new(SymbolTable **tablep, const SymbolAnswer *answer) {
        const SymbolExtent extent = { .base = answer->base, .n = answer->n, .names_size = answer->names_size,
                                      .n_left_out = answer->n_left_out, .is_full = answer->is_full };
        int r = symbol_table_new_empty(tablep, &extent);

        return r ? error_fold(r) : 0;
}

bool symbol_wire_put_functions(SymbolTable *table, uint32_t at, const SymbolWireFunction *functions,
                               uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (!symbol_table_put(table, at + i, functions[i].start, functions[i].size))
                        return false;
        return true;
}

/* ---- the worker's side ---- */

enum { NAMES_PIECE = 64 << 10 };

/* The daemon has closed the socket, or has sent something senseless. */
enum { SERVE_E_OVER = 1 };

typedef struct Serving {
        int socket;
        SymbolObject object;
        DebugUse use;                   /* purpose of a debug file */
        DemangleStyle style;
        bool has_answered;
} Serving;

/* *fdp: descriptor that came with the message, or -1. */
static int receive(int socket, void *data, size_t size, int *fdp) {
        ssize_t n = channel_receive(socket, data, size, fdp, 0);

        return n <= 0 ? SERVE_E_OVER : channel_receive_all(socket, (char *)data + n, size - (size_t)n);
}

/* ---- debug files ---- */

/* Asks for debug files until one is right. The end of the conversation counts as "there are no more". */
static int open_debug(void *userdata, const ElfImage *own, SymbolFile *file) {
        SymbolAnswer want = { .magic = SYMBOL_WIRE_MAGIC, .kind = SYMBOL_SAID_WANT };
        Serving *serving = userdata;
        DebugLink link = { 0 };
        SymbolState state;
        SymbolOffer offer;
        int fd, r = own ? debug_link_read(own, &link) : 1;

        if (r < 0)
                return r;
        if (!r)
                memcpy(want.link, link.name, sizeof(want.link));
        for (;;) {
                if (channel_send(serving->socket, &want, sizeof(want), -1) ||
                    receive(serving->socket, &offer, sizeof(offer), &fd) ||
                    offer.magic != SYMBOL_WIRE_MAGIC || !offer.has_file)
                        return 1;
                r = symbol_file_take(file, fd, offer.size, &state);
                if (!r)
                        r = debug_file_check(&serving->object, file, offer.by_link ? &link.crc : NULL,
                                             serving->use);
                if (r <= 0)
                        return r;
                symbol_file_deinit(file);
        }
}

/* ---- tables ---- */

static int send_functions(int socket, const SymbolList *list, const SymbolExtent *extent) {
        static SymbolWireFunction piece[SYMBOL_WIRE_PIECE];
        int r = 0;

        for (uint32_t at = 0; at < extent->n && !r; at += SYMBOL_WIRE_PIECE) {
                uint32_t n = MIN(extent->n - at, (uint32_t)SYMBOL_WIRE_PIECE);

                for (uint32_t i = 0; i < n; i++) {
                        const FileSymbol *symbol = &list->symbols[at + i];

                        piece[i] = (SymbolWireFunction){ (uint32_t)(symbol->start - extent->base),
                                                         (uint32_t)MIN(symbol->size, (uint64_t)UINT32_MAX) };
                }
                r = channel_send(socket, piece, n * sizeof(*piece), -1);
        }
        return r;
}

static int send_names(int socket, const SymbolList *list, const SymbolExtent *extent) {
        static char piece[NAMES_PIECE];
        size_t size = 0;
        int r = 0;

        for (uint32_t i = 0; i < extent->n && !r; i++) {
                const FileSymbol *symbol = &list->symbols[i];

                if (sizeof(piece) - size < symbol_name_size(symbol)) {
                        r = channel_send(socket, piece, size, -1);
                        size = 0;
                }
                symbol_put_name(symbol, piece + size);
                size += symbol_name_size(symbol);
        }
        return r ? r : channel_send(socket, piece, size, -1);
}

static int take_list(void *userdata, const SymbolList *list) {
        SymbolAnswer answer = { .magic = SYMBOL_WIRE_MAGIC, .kind = SYMBOL_SAID_TABLE };
        Serving *serving = userdata;
        SymbolExtent extent;

        symbol_list_measure(list, SYMBOL_WIRE_MAX_BYTES, &extent);
        answer.base = extent.base;
        answer.state = extent.is_full ? SYMBOL_STATE_NAMED : SYMBOL_STATE_DYNAMIC;
        answer.is_full = extent.is_full;
        answer.n = extent.n;
        answer.names_size = extent.names_size;
        answer.n_left_out = extent.n_left_out;
        answer.go = list->go_state;
        serving->has_answered = true;
        if (channel_send(serving->socket, &answer, sizeof(answer), -1) ||
            send_functions(serving->socket, list, &extent) || send_names(serving->socket, list, &extent))
                return -EPIPE;
        return 0;
}

/* Return: whether the object itself came along, and is of the right build. */
static bool open_own(SymbolFile *own, const Serving *serving, const SymbolRequest *request, int fd,
                     SymbolState *statep) {
        *statep = request->state;
        if (!request->has_file || symbol_file_take(own, fd, request->size, statep))
                return false;
        *statep = SYMBOL_STATE_OTHER;
        return symbol_file_check(&serving->object, own) == 0;
}

static Serving serving_of(int socket, const SymbolRequest *request, DebugUse use) {
        return (Serving){ .socket = socket,
                          .use = use,
                          .style = request->style,
                          .object = { .path = "",
                                      .build_id_gnu = request->gnu,
                                      .build_id_go = request->go,
                                      .file = request->is_itself } };
}

/* Whether the file can be told to be the object's. */
static bool is_servable(const Serving *serving, const SymbolRequest *request) {
        return (symbol_object_has_id(&serving->object) || request->is_itself) &&
               request->state < SYMBOL_N_STATES;
}

static int serve_table(int socket, const SymbolRequest *request, int fd) {
        const SymbolLimits limits = { .max_symbols = symbol_default_limits.max_symbols,
                                      .max_string_bytes = symbol_default_limits.max_string_bytes,
                                      .may_map = true };
        Serving serving = serving_of(socket, request, DEBUG_FOR_SYMBOLS);
        const ObjectSymbols to = {
                .limits = &limits, .open_debug = open_debug, .sink = take_list, .userdata = &serving
        };
        _cleanup_(symbol_file_deinit) SymbolFile own = SYMBOL_FILE_NULL;
        SymbolAnswer none = { .magic = SYMBOL_WIRE_MAGIC, .kind = SYMBOL_SAID_TABLE };
        SymbolState state;
        SymbolGo go;
        int r;

        if (!is_servable(&serving, request))
                return SERVE_E_OVER;
        r = object_symbols_read(&to, open_own(&own, &serving, request, fd, &state) ? &own : NULL, &state,
                                &go);
        if (serving.has_answered)
                return r;
        none.state = r ? SYMBOL_STATE_LARGE : state;
        none.go = r ? SYMBOL_GO_NONE : go;
        return channel_send(socket, &none, sizeof(none), -1);
}

/* ---- lines ---- */

static int send_lines(void *userdata, const void *data, size_t size) {
        const Serving *serving = userdata;

        return channel_send(serving->socket, data, size, -1) ? -EPIPE : 0;
}

static size_t make_readable(void *userdata, const char *name, char *to, size_t room) {
        const Serving *serving = userdata;

        return demangle(name, serving->style, to, room);
}

/* Takes the file of @own, or the debug file that has its lines. Return: NULL = there is none. */
static const SymbolFile *find_lines(Serving *serving, bool is_here, const SymbolFile *own,
                                    SymbolFile *split) {
        if (is_here && elf_image_has_lines(&own->image))
                return own;
        return open_debug(serving, is_here ? &own->image : NULL, split) ? NULL : split;
}

static int serve_lines(int socket, const SymbolRequest *request, int fd) {
        _cleanup_(symbol_file_deinit) SymbolFile own = SYMBOL_FILE_NULL, split = SYMBOL_FILE_NULL;
        Serving serving = serving_of(socket, request, DEBUG_FOR_LINES);
        const LinesAnswering to = { .send = send_lines, .userdata = &serving, .demangle = make_readable };
        SymbolAnswer answer = { .magic = SYMBOL_WIRE_MAGIC, .kind = SYMBOL_SAID_LINES };
        uint64_t addresses[SYMBOL_WIRE_MAX_NAMES];
        const SymbolFile *file;
        SymbolState state;

        if (!is_servable(&serving, request) || !request->n || request->n > SYMBOL_WIRE_MAX_NAMES ||
            channel_receive_all(socket, addresses, request->n * sizeof(addresses[0])))
                return SERVE_E_OVER;
        file = find_lines(&serving, open_own(&own, &serving, request, fd, &state), &own, &split);
        answer.state = file ? SYMBOL_STATE_NAMED : SYMBOL_STATE_STRIPPED;
        if (channel_send(socket, &answer, sizeof(answer), -1))
                return SERVE_E_OVER;
        if (file)
                lines_answer(file->fd, file->image.size, addresses, request->n, &to);
        return 0;
}

/* ---- names ---- */

/* Answers that have not been sent: each message wakes its reader, who may have to wait for a CPU. */
typedef struct Answers {
        char bytes[64 << 10];
        size_t n;
} Answers;

static int send_answers(int socket, Answers *answers) {
        size_t n = answers->n;

        answers->n = 0;
        return channel_send(socket, answers->bytes, n, -1);
}

static int answer_readable(int socket, const SymbolRequest *request, const char *name, Answers *answers) {
        char *to = answers->bytes + answers->n;
        uint32_t size = (uint32_t)demangle(name, request->style, to + sizeof(size), DEMANGLE_MAX_OUTPUT);

        memcpy(to, &size, sizeof(size));
        answers->n += sizeof(size) + size;
        if (!request->one_by_one && sizeof(answers->bytes) - answers->n >= sizeof(size) + DEMANGLE_MAX_OUTPUT)
                return 0;
        return send_answers(socket, answers);
}

static int serve_readable(int socket, const SymbolRequest *request) {
        static char names[SYMBOL_WIRE_MAX_NAMES * (sizeof(uint32_t) + SYMBOL_MAX_NAME)],
                name[SYMBOL_MAX_NAME + 1];
        static Answers answers;
        size_t at = 0;

        if (request->n > SYMBOL_WIRE_MAX_NAMES || request->bytes > sizeof(names) ||
            channel_receive_all(socket, names, request->bytes))
                return SERVE_E_OVER;
        for (uint32_t i = 0; i < request->n; i++) {
                uint32_t size;

                if (request->bytes - at < sizeof(size))
                        return SERVE_E_OVER;
                memcpy(&size, names + at, sizeof(size));
                at += sizeof(size);
                if (size > SYMBOL_MAX_NAME || size > request->bytes - at)
                        return SERVE_E_OVER;
                memcpy(name, names + at, size);
                name[size] = 0;
                at += size;
                if (answer_readable(socket, request, name, &answers))
                        return SERVE_E_OVER;
        }
        return send_answers(socket, &answers) ? SERVE_E_OVER : 0;
}

void symbol_serve(int socket, int fd, const SymbolRequest *first) {
        SymbolRequest request = *first;
        int r = 0;

        while (!r && request.magic == SYMBOL_WIRE_MAGIC) {
                request.gnu[sizeof(request.gnu) - 1] = request.go[sizeof(request.go) - 1] = 0;
                r = request.kind == SYMBOL_ASK_TABLE       ? serve_table(socket, &request, fd)
                        : request.kind == SYMBOL_ASK_LINES ? serve_lines(socket, &request, fd)
                                                           : serve_readable(socket, &request);
                if (!r)
                        r = receive(socket, &request, sizeof(request), &fd);
        }
}
