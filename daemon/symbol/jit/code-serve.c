/* SPDX-License-Identifier: Apache-2.0 */

/* The worker's half of code-wire.h: the only one that reads what a target says of its code. */

#include <string.h>

#include "base/sandbox/channel.h"
#include "base/util/macro.h"
#include "symbol/jit/code-wire.h"

typedef struct Answer {
        CodeAnswer head;
        uint8_t data[CODE_WIRE_MAX_ANSWER];
} Answer;

/* Two records more than fit cannot come of one piece; if they do, that is our end, and theirs. */
static int put(void *userdata, const CodeRecord *record) {
        const CodeRange *range = &record->range;
        const CodeWireRecord wire = { range->start, range->size, range->time_ns, record->index, record->from,
                                      (uint32_t)range->name_size, record->is_move };
        Answer *answer = userdata;

        if (sizeof(answer->data) - answer->head.size < sizeof(wire) + range->name_size)
                return -1;
        memcpy(answer->data + answer->head.size, &wire, sizeof(wire));
        if (range->name_size)
                memcpy(answer->data + answer->head.size + sizeof(wire), range->name, range->name_size);
        answer->head.size += (uint32_t)(sizeof(wire) + range->name_size);
        answer->head.n_records++;
        return 0;
}

static int put_range(void *userdata, const CodeRange *range) {
        return put(userdata, &(CodeRecord){ .range = *range });
}

static int read_piece(CodeForm form, CodeState *state, const char *piece, size_t size, Answer *answer) {
        uint64_t n_before;
        int r;

        if (form == CODE_FORM_MAP) {
                if (state->map.size > sizeof(state->map.line))
                        return -1;
                n_before = state->map.n_malformed;
                r = perf_map_feed(&state->map, piece, size, put_range, answer);
                answer->head.n_malformed = (uint32_t)(state->map.n_malformed - n_before);
                return r;
        }
        if (state->dump.size > sizeof(state->dump.record))
                return -1;
        n_before = state->dump.n_malformed;
        r = jitdump_read(&state->dump, piece, size, put, answer);
        answer->head.n_malformed = (uint32_t)(state->dump.n_malformed - n_before);
        answer->head.skip = jitdump_skip(&state->dump);
        return r;
}

/* Return: 0, anything else = there is nothing more to do. */
static int serve_one(int socket, const CodeRequest *request) {
        static char piece[CODE_WIRE_PIECE];
        static CodeState state;
        static Answer answer;
        size_t state_size;

        if (request->magic != CODE_WIRE_MAGIC || request->form >= CODE_N_FORMS ||
            request->size > sizeof(piece))
                return 1;
        state_size = code_wire_state_size(request->form);
        if (channel_receive_all(socket, &state, state_size) ||
            channel_receive_all(socket, piece, request->size))
                return 1;
        answer.head = (CodeAnswer){ .magic = CODE_WIRE_MAGIC };
        answer.head.result = read_piece(request->form, &state, piece, request->size, &answer);
        return answer.head.result < 0 || channel_send(socket, &answer.head, sizeof(answer.head), -1) ||
                channel_send(socket, &state, state_size, -1) ||
                channel_send(socket, answer.data, answer.head.size, -1);
}

void code_serve(int socket, const CodeRequest *first) {
        CodeRequest request = *first;
        int r = 0;

        while (!r && !serve_one(socket, &request))
                r = channel_receive_all(socket, &request, sizeof(request));
}
