/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A perf-map of two lines, read in two pieces of 20 bytes. The second line lies in both:
 *
 *     daemon   CodeRequest { MAP, size 20 }, state {}           "1000 10 Foo.bar\n1010"
 *     worker   CodeAnswer  { n_records 1, size 55 }, state { line "1010" }
 *              CodeWireRecord { start 0x1000, size 0x10, name_size 7 } "Foo.bar"
 *     daemon   CodeRequest { MAP, size 9 }, state { line "1010" }   " 20 baz\n…"
 *     worker   CodeAnswer  { n_records 1, … }, state {}, …
 *
 * The state travels with each piece, so the next worker can go on where the last one died. To the daemon the
 * state is bytes that it returns; it checks the answer's head and each record.
 */
#include "core/symbol/jit/code-wire.h"

#include <string.h>

#include "core/base/data/cursor.h"
#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

size_t code_wire_state_size(CodeForm form) {
        return form == CODE_FORM_MAP ? sizeof(PerfMap) : sizeof(JitdumpReader);
}

/* `skip` is at most the size of a record of a jitdump, which has 32 bits. */
bool code_wire_check_answer(const CodeAnswer *answer, CodeForm form, size_t piece) {
        int most = form == CODE_FORM_DUMP ? JITDUMP_E_CLOSED : 0;

        return answer->magic == CODE_WIRE_MAGIC && answer->result >= 0 && answer->result <= most &&
                answer->skip <= (form == CODE_FORM_DUMP ? UINT32_MAX : 0) &&
                answer->n_malformed <= piece + 1 && answer->n_records <= piece &&
                answer->size <= CODE_WIRE_MAX_ANSWER && !answer->zero;
}

static bool is_answer(const void *answer, const void *request) {
        const CodeRequest *asked = request;

        return code_wire_check_answer(answer, asked->form, asked->size);
}

const WorkerQuestion code_question = {
        .magic = CODE_WIRE_MAGIC,
        .request_size = sizeof(CodeRequest),
        .answer_size = sizeof(CodeAnswer),
        .n_tries = 2,                   /* a worker may be killed by accident */
        .timeout_ns = 8 * NS_PER_SEC,   /* all pieces of one look; less than the time limit of the look */
        .is_sound = is_answer,
};

/* Takes the next record. Return: whether there is a whole one. */
static bool next(Cursor *cursor, CodeRecord *record) {
        const void *data = cursor_take(cursor, sizeof(CodeWireRecord));
        CodeWireRecord wire;

        if (!data)
                return false;
        memcpy(&wire, data, sizeof(wire));
        *record = (CodeRecord){ .index = wire.index, .from = wire.from, .is_move = wire.is_move,
                                .range = { .start = wire.start, .size = wire.size, .time_ns = wire.time_ns,
                                           .name_size = wire.name_size } };
        record->range.name = (const char *)cursor_take(cursor, wire.name_size);
        return !cursor->failed && wire.is_move <= 1;
}

static bool is_sound(const CodeRecord *record, CodeForm form) {
        const CodeRange *range = &record->range;

        if (!range->size || range->start + range->size < range->start)
                return false;
        if (record->is_move)
                return form == CODE_FORM_DUMP && !range->name_size;
        return range->name_size && range->name_size <= CODE_MAX_NAME &&
                !memchr(range->name, 0, range->name_size);
}

bool code_wire_check_records(const uint8_t *data, size_t size, uint32_t n, CodeForm form) {
        Cursor cursor = cursor_make(data, size);

        for (uint32_t i = 0; i < n; i++) {
                CodeRecord record;

                if (!next(&cursor, &record) || !is_sound(&record, form))
                        return false;
        }
        return cursor.at == size;
}

int code_wire_records(const uint8_t *data, size_t size, CodeRecordSink sink, void *userdata) {
        Cursor cursor = cursor_make(data, size);
        CodeRecord record;
        int r = 0;

        while (!r && cursor_left(&cursor) && next(&cursor, &record))
                r = sink(userdata, &record);
        return r;
}

size_t code_wire_put(uint8_t *to, size_t room, const CodeRecord *record) {
        const CodeRange *range = &record->range;
        const CodeWireRecord wire = { range->start, range->size, range->time_ns, record->index, record->from,
                                      (uint32_t)range->name_size, record->is_move };

        if (room < sizeof(wire) + range->name_size)
                return 0;
        memcpy(to, &wire, sizeof(wire));
        if (range->name_size)
                memcpy(to + sizeof(wire), range->name, range->name_size);
        return sizeof(wire) + range->name_size;
}

/* ---- the worker's side: the only code that reads what a target says of its code ---- */

typedef struct Answer {
        CodeAnswer head;
        uint8_t data[CODE_WIRE_MAX_ANSWER];
} Answer;

/* A piece cannot make more records than fit; if it does, the worker ends. */
static int put(void *userdata, const CodeRecord *record) {
        Answer *answer = userdata;
        size_t n = code_wire_put(answer->data + answer->head.size, sizeof(answer->data) - answer->head.size,
                                 record);

        answer->head.size += (uint32_t)n;
        answer->head.n_records++;
        return n ? 0 : -1;
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

/* Return: 0; anything else = the conversation is over. */
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
