/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Puts what a list tells into records on the worker's side, as many as the daemon takes; checks the head of
 * an answer on the daemon's side. The records are those of perf maps, and checked by the same code.
 */
#include "host/naming/gdb-wire.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/symbol/jit/code-wire.h"
#include "host/naming/frame-wire.h"
#include "host/runtime/reader/reader-handle.h"

bool gdb_wire_check(const GdbAnswer *answer, GdbWireKind kind) {
        const GdbListCounts *counts = &answer->counts;

        if (answer->magic != GDB_WIRE_MAGIC || answer->result < 0 || answer->zero)
                return false;
        if (kind == GDB_WIRE_FIND)
                return answer->result <= GDB_LIST_E_NONE && !answer->size && !answer->n_records &&
                        !counts->n_images && !counts->n_malformed && !counts->n_over_cap;
        return answer->result <= GDB_LIST_E_CHANGED && !answer->address &&
                counts->n_images <= GDB_LIST_MAX_IMAGES && counts->n_malformed <= GDB_LIST_MAX_BYTES &&
                counts->n_over_cap <= GDB_LIST_MAX_BYTES && answer->size <= GDB_WIRE_MAX_BYTES &&
                answer->n_records <= answer->size / sizeof(CodeWireRecord) &&
                (!answer->result || !answer->n_records);
}

static bool is_sound(const void *answer, const void *request) {
        const GdbRequest *asked = request;

        return gdb_wire_check(answer, asked->kind);
}

const WorkerQuestion gdb_wire_question = {
        .magic = GDB_WIRE_MAGIC,
        .request_size = sizeof(GdbRequest),
        .answer_size = sizeof(GdbAnswer),
        .n_tries = 1,
        .timeout_ns = 8 * NS_PER_SEC,   /* at most: a look that has read other files has less left */
        .is_sound = is_sound,
};

typedef struct Records {
        GdbAnswer *answer;
        uint8_t *data;
} Records;

/* Return: 0, 1 = there is no room. */
static int put(void *userdata, const CodeRange *range) {
        const CodeRecord record = { .range = *range };
        Records *records = userdata;
        GdbAnswer *answer = records->answer;
        size_t n = code_wire_put(records->data + answer->size, GDB_WIRE_MAX_BYTES - answer->size, &record);

        answer->size += (uint32_t)n;
        answer->n_records += n > 0;
        return !n;
}

int gdb_wire_read(const GdbMemory *memory, uint64_t address, GdbAnswer *answer, uint8_t **recordsp) {
        Records records = { .answer = answer, .data = malloc(GDB_WIRE_MAX_BYTES) };
        int r;

        *answer = (GdbAnswer){ .magic = GDB_WIRE_MAGIC };
        if (!records.data)
                return error_origin(-ENOMEM);
        r = gdb_list_read(memory, address, put, &records, &answer->counts);
        if (r < 0) {
                free(records.data);
                return error_fold(r);
        }
        answer->result = r;
        if (r)
                answer->n_records = answer->size = 0;
        *recordsp = records.data;
        return 0;
}

/* ---- the worker's side ---- */

/* Return: 0, or anything else: the conversation is over. */
static int serve_find(int socket, int fd, uint64_t size) {
        GdbAnswer answer = { .magic = GDB_WIRE_MAGIC };

        if (fd < 0)
                return 1;
        answer.result = gdb_list_find(fd, size, &answer.address) ? 0 : GDB_LIST_E_NONE;
        return channel_send(socket, &answer, sizeof(answer), -1);
}

static int serve_read(int socket, uint64_t address) {
        ReaderHandle handle;
        const GdbMemory memory = { .read = reader_handle_read, .userdata = &handle };
        _cleanup_(freep) uint8_t *records = NULL;
        GdbAnswer answer;
        int r;

        if (!reader_handle_receive(&handle, socket))
                return 1;
        r = gdb_wire_read(&memory, address, &answer, &records);
        reader_handle_close(&handle);
        return r || channel_send(socket, &answer, sizeof(answer), -1) ||
                (answer.size && channel_send(socket, records, answer.size, -1));
}

static int serve_one(int socket, int fd, const GdbRequest *request) {
        if (request->magic != GDB_WIRE_MAGIC)
                return 1;
        if (request->kind == GDB_WIRE_FIND)
                return serve_find(socket, fd, request->value);
        if (request->kind == GDB_WIRE_FIND_FRAMES || request->kind == GDB_WIRE_READ_FRAMES)
                return frame_wire_serve(socket, fd, request);
        return request->kind == GDB_WIRE_READ ? serve_read(socket, request->value) : 1;
}

/* A descriptor comes with the first byte. Return: whether there is one more request. */
static bool receive(int socket, GdbRequest *request, int *fdp) {
        char *to = (char *)request;

        return channel_receive(socket, to, 1, fdp, 0) == 1 &&
                !channel_receive_all(socket, to + 1, sizeof(*request) - 1);
}

void gdb_wire_serve(int socket, int fd, const GdbRequest *first) {
        GdbRequest request = *first;
        int next = -1, r = serve_one(socket, fd, &request);

        while (!r && receive(socket, &request, &next)) {
                r = serve_one(socket, next, &request);
                closep(&next);
                next = -1;
        }
        closep(&next);
}
