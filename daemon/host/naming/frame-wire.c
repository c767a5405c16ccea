/* SPDX-License-Identifier: Apache-2.0 */

/* Answers questions for registered frames on the worker's side, and checks answers on the daemon's side. */

#include "host/naming/frame-wire.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-handle.h"

bool frame_wire_check(const FrameAnswer *answer, GdbWireKind kind) {
        const FrameVariables *variables = &answer->variables;
        bool has_set = answer->n_clusters || answer->size || answer->n_functions || answer->n_malformed ||
                answer->n_over_cap;

        if (answer->magic != GDB_WIRE_MAGIC || answer->result < 0 || answer->zero)
                return false;
        if (kind == GDB_WIRE_FIND_FRAMES)
                return answer->result <= FRAME_VARIABLES_E_UNKNOWN && !has_set;
        return answer->result <= FRAME_REGISTRY_E_CHANGED && !variables->lock && !variables->unseen &&
                !variables->seen && !variables->begin && !variables->used &&
                answer->size <= FRAME_REGISTRY_MAX_BYTES &&
                answer->n_clusters <= FRAME_REGISTRY_MAX_CLUSTERS && !answer->size == !answer->n_clusters &&
                answer->n_functions <= FRAME_REGISTRY_MAX_BYTES &&
                answer->n_malformed <= FRAME_REGISTRY_MAX_BYTES &&
                answer->n_over_cap <= FRAME_REGISTRY_MAX_BYTES && (!answer->result || !has_set);
}

static bool is_sound(const void *answer, const void *request) {
        const GdbRequest *asked = request;

        return frame_wire_check(answer, asked->kind);
}

const WorkerQuestion frame_wire_question = {
        .magic = GDB_WIRE_MAGIC,
        .request_size = sizeof(GdbRequest),
        .answer_size = sizeof(FrameAnswer),
        .n_tries = 1,
        .timeout_ns = 8 * NS_PER_SEC,   /* as gdb_wire_question: it is the same session */
        .is_sound = is_sound,
};

/* ---- the worker's side ---- */

static int serve_find(int socket, int fd, uint64_t size) {
        FrameAnswer answer = { .magic = GDB_WIRE_MAGIC, .result = FRAME_VARIABLES_E_NONE };
        DynamicImage image;

        if (fd < 0)
                return 1;
        if (dynamic_image_open(&image, fd, NULL, size))
                answer.result = frame_variables_find(&image, &answer.variables);
        return channel_send(socket, &answer, sizeof(answer), -1);
}

static int serve_read(int socket, uint64_t n_named) {
        _cleanup_(freep) MadeRun *named = NULL;
        FrameAnswer answer = { .magic = GDB_WIRE_MAGIC };
        FrameVariables variables;
        ReaderHandle handle;
        const FrameMemory memory = { .read = reader_handle_read, .userdata = &handle };
        FrameSet set = { 0 };
        int r;

        if (n_named > FRAME_REGISTRY_MAX_NAMED)
                return 1;
        named = malloc(MAX(n_named, 1u) * sizeof(*named));
        if (!named)
                return error_origin(-ENOMEM);
        if (channel_receive_all(socket, &variables, sizeof(variables)) ||
            (n_named && channel_receive_all(socket, named, n_named * sizeof(*named))) ||
            !reader_handle_receive(&handle, socket))
                return 1;
        r = frame_registry_read(&memory, &variables, named, (uint32_t)n_named, &set);
        reader_handle_close(&handle);
        if (r < 0)
                return r;
        answer.result = r;
        answer.n_clusters = set.n_clusters;
        answer.size = set.size;
        answer.n_functions = set.n_functions;
        answer.n_malformed = set.n_malformed;
        answer.n_over_cap = set.n_over_cap;
        r = channel_send(socket, &answer, sizeof(answer), -1) ||
                (set.size && channel_send(socket, set.data, set.size, -1));
        frame_set_deinit(&set);
        return r;
}

int frame_wire_serve(int socket, int fd, const GdbRequest *request) {
        return request->kind == GDB_WIRE_FIND_FRAMES ? serve_find(socket, fd, request->value)
                                                     : serve_read(socket, request->value);
}
