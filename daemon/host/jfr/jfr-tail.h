/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tail of a Chunk
 *
 * The conversation with a worker without rights (core/base/sandbox/worker-session.h) that reads what a JVM
 * has added to a chunk of its recording. The worker has the chunk's file alone. What it says is not trusted.
 *
 *     request   JfrTailRequest, descriptor of the chunk
 *     answer    JfrTailSaid, an OTLP request of `n_bytes`
 */

#include "core/base/sandbox/worker-session.h"
#include "core/jfr/chunk.h"

enum {
        JFR_TAIL_MAGIC = 0x4a465254,
        JFR_TAIL_MAX_BYTES = 4 << 20,   /* bytes of an answer; what is more is counted */
        JFR_TAIL_MAX_CHUNK = 256 << 20, /* longer ones are not read */
};

/* Why there is nothing. */
enum {
        _JFR_TAIL_E_SUCCESS,
        JFR_TAIL_E_DAMAGED,             /* the answer has what can be read of it */
        JFR_TAIL_E_EARLY,               /* the JVM has flushed nothing yet */
        JFR_TAIL_E_MOVING,              /* each read of the header met it being written */
        JFR_TAIL_E_NOT,                 /* no chunk, or of a version that is not known */
        JFR_TAIL_E_LARGE,
        JFR_TAIL_N,
};

typedef struct JfrTailRequest {
        uint32_t magic, zero;
        uint64_t from;                  /* place in the chunk up to which it was read; 0 = it was not */
        uint64_t start_ns;              /* REALTIME: events from before are left out */
} JfrTailRequest;

typedef struct JfrTailSaid {
        uint32_t magic;
        int32_t result;                 /* 0, JFR_TAIL_E_* */
        uint32_t is_complete;           /* nothing more will come in this chunk */
        uint32_t n_bytes;
        uint64_t from;                  /* for the next request */
        uint64_t start_ns, end_ns;      /* REALTIME: when the chunk began and ended, as it says */
        uint64_t n_events;              /* events in the answer, */
        uint64_t n_lost;                /* … and events without room in it */
} JfrTailSaid;

_Static_assert(sizeof(JfrTailRequest) == 24 && sizeof(JfrTailSaid) == 56, "no hidden bytes");

extern const WorkerQuestion jfr_tail_question;

/* Pure. Whether a worker may say so. @request: NULL = not known. */
bool jfr_tail_check(const JfrTailSaid *said, const JfrTailRequest *request);

/*
 * Reads the chunk at the begin of @file from request->from on. *datap: malloc()ed, said->n_bytes of an OTLP
 * request, or NULL. Return: 0 with *said, -ENOMEM.
 */
int jfr_tail_read(const JfrInput *file, const JfrTailRequest *request, JfrTailSaid *said, uint8_t **datap);

/* The worker's side. @fd: the chunk. */
void jfr_tail_serve(int socket, int fd, const JfrTailRequest *request);
