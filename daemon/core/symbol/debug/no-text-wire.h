/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ELF Without Text, by a Worker
 *
 * How a worker without rights is asked for the build id of a file, or for the file without its text:
 *
 *     ask     NoTextRequest, with the file
 *     answer  NoTextAnswer; of NO_TEXT_ASK_FILE with state MADE, `size` bytes follow
 *
 * The answer comes from headers alone. Its bytes are made while they are taken, so that a caller may first
 * decide whether it wants that many.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "core/symbol/function/symbol-wire.h"

enum { NO_TEXT_WIRE_MAGIC = 0x4e545831 };

typedef enum NoTextAsk { NO_TEXT_ASK_ID, NO_TEXT_ASK_FILE } NoTextAsk;

typedef enum NoTextState {
        NO_TEXT_STATE_MADE,             /* for ASK_ID: the file is ELF, and `gnu` its build id */
        NO_TEXT_STATE_OTHER,            /* the file has another build id than the one that was asked for */
        NO_TEXT_STATE_NAMELESS,         /* the file has no symbols and no lines */
        NO_TEXT_STATE_MALFORMED,        /* no sound ELF file */
        NO_TEXT_N_STATES,
} NoTextState;

typedef struct NoTextRequest {
        uint32_t magic, ask;
        uint64_t size;                  /* bytes of the file */
        char gnu[SYMBOL_WIRE_ID];       /* the build id that it must have */
} NoTextRequest;

typedef struct NoTextAnswer {
        uint32_t magic, state;
        uint64_t size;                  /* bytes that follow */
        uint32_t has_symbols, has_lines;
        char gnu[SYMBOL_WIRE_ID];       /* the file's build id; "" = none */
} NoTextAnswer;

extern const WorkerQuestion no_text_questions[];        /* by NoTextAsk */

/* Pure. Whether @answer, to @request, is sound. */
bool no_text_wire_check(const NoTextAnswer *answer, const NoTextRequest *request);

/*
 * Asks a worker of @session about @fd, which is borrowed, as a process of the lowest priority. Return: 0,
 * WORKER_SESSION_E_*.
 */
int no_text_ask(WorkerSession *session, NoTextAsk ask, int fd, uint64_t size, const char *gnu,
                NoTextAnswer *answer);

/* Takes the bytes that @answer announces into @to_fd. Return: 0, WORKER_SESSION_E_*, -errno of the write. */
int no_text_take(WorkerSession *session, const NoTextAnswer *answer, int to_fd);

/* The worker's side. @fd: came with @request; owned. */
void no_text_serve(int socket, int fd, const NoTextRequest *request);
