/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Wire
 *
 * The format in which pieces of perf-maps and jitdumps go to a worker without rights
 * (core/base/sandbox/worker-session.h), and code ranges come back. The rest that belongs to the next piece
 * comes back as well, as a state, and goes along with that piece. So any worker can go on where another one
 * ended. The daemon does not look into the state.
 *
 *     request   CodeRequest, state, piece
 *     answer    CodeAnswer, state, { CodeWireRecord, name }…
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/worker-session.h"
#include "core/symbol/jit/code.h"
#include "core/symbol/jit/jitdump.h"
#include "core/symbol/jit/perf-map.h"

enum {
        CODE_WIRE_MAGIC = 0x434f4431,
        CODE_WIRE_PIECE = 16 << 10,     /* taken in with a lock held: some 0.1 ms */
        CODE_WIRE_MAX_ANSWER = 256 << 10,       /* bytes of records: the shortest line has 6 bytes */
};

typedef enum CodeForm { CODE_FORM_MAP, CODE_FORM_DUMP, CODE_N_FORMS } CodeForm;

typedef union CodeState {
        PerfMap map;
        JitdumpReader dump;
} CodeState;

typedef struct CodeRequest {
        uint32_t magic;
        uint32_t form;
        uint32_t size;                  /* bytes of the piece */
        uint32_t zero;
} CodeRequest;

typedef struct CodeAnswer {
        uint32_t magic;
        int32_t result;                 /* 0; of a dump also JITDUMP_E_* */
        uint64_t skip;                  /* bytes after the piece that need not be read */
        uint32_t n_malformed;
        uint32_t n_records, size;       /* records that follow, and their bytes */
        uint32_t zero;
} CodeAnswer;

typedef struct CodeWireRecord {
        uint64_t start, size, time_ns, index, from;
        uint32_t name_size;
        uint32_t is_move;
} CodeWireRecord;

extern const WorkerQuestion code_question;

/* Bytes of the state of a form. */
size_t code_wire_state_size(CodeForm form);

/* Pure. Whether the answer to a piece of @piece bytes is sound. */
bool code_wire_check_answer(const CodeAnswer *answer, CodeForm form, size_t piece);

/* Pure. Whether the records are @n sound ones and nothing else. */
bool code_wire_check_records(const uint8_t *data, size_t size, uint32_t n, CodeForm form);

/* Writes a record into the @room bytes at @to. Return: bytes of it; 0 = there is no room. */
size_t code_wire_put(uint8_t *to, size_t room, const CodeRecord *record);

/* Hands on records that were found sound. Return: 0, what @sink returned. */
int code_wire_records(const uint8_t *data, size_t size, CodeRecordSink sink, void *userdata);

/* The worker's side: reads pieces, beginning with that of @first, until the daemon closes the socket. */
void code_serve(int socket, const CodeRequest *first);
