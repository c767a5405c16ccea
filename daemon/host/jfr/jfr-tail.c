/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From JDK 14 on a JVM that records flushes each second: it writes events and new constants behind what the
 * chunk has, and then says in the header up to where all is whole. So a chunk is read while it grows:
 *
 *     header ─▶ size S, last constants, metadata        a count of flushes in it: 255 = it is being written
 *     0 ──────────── from ──────────── S ── (not whole)
 *     settings       events of this answer               next from: S
 *
 * Constants lead back to the chunk's begin, and so do settings. So all of it is gone through each time, and
 * events before `from` are passed over. Older JVMs write the header when the chunk ends: it is read then.
 *
 * Profiles of time are left out. The daemon samples the CPU and waits itself, and the same twice is no sum.
 */
#include "host/jfr/jfr-tail.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/jfr/jfr.h"
#include "core/otlp/encode.h"

#define TIMEOUT_NS (10 * NS_PER_SEC)

enum {
        MAX_TRIES = 20,                 /* to read the header */
        REST_MS = 1,
};

/* ---- both sides ---- */

bool jfr_tail_check(const JfrTailSaid *said, const JfrTailRequest *request) {
        bool has_bytes = said->n_bytes;

        return said->magic == JFR_TAIL_MAGIC && said->result >= 0 && said->result < JFR_TAIL_N &&
                said->is_complete <= 1 && said->n_bytes <= JFR_TAIL_MAX_BYTES &&
                said->from <= JFR_TAIL_MAX_CHUNK && (!request || said->from >= request->from) &&
                said->end_ns >= said->start_ns && has_bytes == (said->n_events > 0) &&
                (!has_bytes || said->result <= JFR_TAIL_E_DAMAGED);
}

static bool is_said(const void *answer, const void *request) {
        return jfr_tail_check(answer, request);
}

const WorkerQuestion jfr_tail_question = {
        .magic = JFR_TAIL_MAGIC,
        .request_size = sizeof(JfrTailRequest),
        .answer_size = sizeof(JfrTailSaid),
        .needs_file = true,
        .timeout_ns = TIMEOUT_NS,
        .is_sound = is_said,
};

/* ---- the worker ---- */

static bool is_same(const JfrChunk *a, const JfrChunk *b) {
        return a->size == b->size && a->checkpoint == b->checkpoint && a->metadata == b->metadata &&
                a->start_ns == b->start_ns && a->duration_ns == b->duration_ns &&
                a->start_ticks == b->start_ticks && a->generation == b->generation && a->cut == b->cut;
}

/* A header that is of one moment: the same twice, and not being written. Return: 0, JFR_TAIL_E_*. */
static int read_header(const JfrInput *file, JfrChunk *chunk) {
        for (unsigned i = 0; i < MAX_TRIES; i++) {
                JfrChunk again;

                if (jfr_chunk_open(file, 0, chunk) || jfr_chunk_open(file, 0, &again))
                        return JFR_TAIL_E_NOT;
                if (is_same(chunk, &again) && chunk->generation != JFR_GENERATION_MOVING)
                        return 0;
                poll(NULL, 0, REST_MS);
        }
        return JFR_TAIL_E_MOVING;
}

/* The first request is the answer; of the others there are the numbers. */
typedef struct Answer {
        JfrTailSaid *said;
        uint8_t *data;
} Answer;

static int take_request(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                        void *userdata) {
        Answer *answer = userdata;

        if (answer->data || size > JFR_TAIL_MAX_BYTES || !size) {
                answer->said->n_lost += n_events;
                return 0;
        }
        answer->data = malloc(size);
        if (!answer->data)
                return error_origin(-ENOMEM);
        memcpy(answer->data, data, size);
        answer->said->n_bytes = (uint32_t)size;
        answer->said->n_events = n_events;
        return 0;
}

static int encode(Window *window, Answer *answer) {
        const OtlpOptions options = { .max_bytes = JFR_TAIL_MAX_BYTES };
        uint64_t n_lost = 0;
        int r = otlp_encode(window, &options, take_request, answer, &n_lost);

        answer->said->n_lost += n_lost;
        return error_fold(r);
}

/* @input: the chunk, as far as it is whole. */
static int read_events(const JfrInput *input, const JfrTailRequest *request, Answer *answer) {
        const JfrOptions options = { .start_ns = request->start_ns, .end_ns = UINT64_MAX,
                                     .from = request->from, .no_time = true };
        _cleanup_(window_freep) Window *window = NULL;
        _cleanup_(text_deinit) Text problem = { 0 };
        JfrResult result;
        int r = window_new(&window, answer->said->start_ns, 0, NULL);

        if (!r)
                r = jfr_read(input, &options, window, &result, NULL, &problem);
        if (r < 0)
                return error_fold(r);
        if (r)
                answer->said->result = JFR_TAIL_E_DAMAGED;
        if (!window_n_events(window))
                return 0;
        window_move_start(window, result.first_ns);
        r = window_close(window, result.last_ns + 1);
        return r ? error_fold(r) : encode(window, answer);
}

int jfr_tail_read(const JfrInput *file, const JfrTailRequest *request, JfrTailSaid *said, uint8_t **datap) {
        Answer answer = { .said = said };
        JfrInput input = *file;
        JfrChunk chunk;
        int r;

        *datap = NULL;
        *said = (JfrTailSaid){ .magic = JFR_TAIL_MAGIC, .from = request->from };
        said->result = read_header(file, &chunk);
        if (said->result)
                return 0;
        if (!chunk.metadata || !chunk.checkpoint)
                said->result = JFR_TAIL_E_EARLY;
        else if (chunk.cut)
                said->result = JFR_TAIL_E_LARGE;
        if (said->result)
                return 0;
        said->is_complete = chunk.generation == JFR_GENERATION_COMPLETE;
        said->start_ns = chunk.start_ns;
        if (__builtin_add_overflow(chunk.start_ns, chunk.duration_ns, &said->end_ns))
                said->end_ns = chunk.start_ns;
        if (chunk.size <= request->from)
                return 0;
        said->from = chunk.size;
        input.size = chunk.size;
        r = read_events(&input, request, &answer);
        if (r) {
                free(answer.data);
                return error_fold(r);
        }
        *datap = answer.data;
        return 0;
}

static size_t read_file(void *userdata, void *to, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = pread(*(const int *)userdata, (uint8_t *)to + done, size - done,
                                  (off_t)(offset + done));

                if (n <= 0)
                        break;
                done += (size_t)n;
        }
        return done;
}

void jfr_tail_serve(int socket, int fd, const JfrTailRequest *request) {
        _cleanup_(freep) uint8_t *data = NULL;
        /* a worker may not ask for the file's size, which grows: a read that ends early says as much */
        const JfrInput file = { read_file, &fd, JFR_TAIL_MAX_CHUNK };
        JfrTailSaid said;

        if (jfr_tail_read(&file, request, &said, &data))
                return;
        if (!channel_send(socket, &said, sizeof(said), -1) && said.n_bytes)
                channel_send(socket, data, said.n_bytes, -1);
}
