/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: functions, scripts and code of a V8 that nobody has made. The input is a byte (which shape of Code),
 * a byte (interpreted or compiled), places of pc and SharedFunctionInfo in the memory, the mark of a frame
 * without a function, the rest of the last word, then memory. Whatever it holds: names have an end, and a
 * line is none or positive. Recipe of the corpus: make-v8-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/v8/v8-code.h"
#include "v8-constants.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 0x20000000 };

typedef struct Head {
        uint8_t shape, is_compiled;
        uint16_t pc, info;
        uint16_t mark;                  /* of the frame, where there is no function */
        uint32_t rest;
} Head;

typedef struct Memory {
        const uint8_t *data;
        size_t size;
} Memory;

static bool read_here(void *userdata, uint64_t address, void *to, size_t size) {
        const Memory *memory = userdata;

        if (size > 64 << 10)
                abort();
        if (address < BASE || address - BASE > memory->size || size > memory->size - (address - BASE))
                return false;
        memcpy(to, memory->data + (address - BASE), size);
        return true;
}

/* The layout of node 22, or with the code of older ones. */
static V8Layout layout_of(uint8_t shape) {
        V8Layout layout = v8_constants_of_12();
        char reason[V8_MAX_REASON];

        if (shape)
                layout.values[V8_CODE_STREAM] = layout.values[V8_CODE_START] = 0;
        if (shape == 2) {
                layout.values[V8_TYPE_STREAM] = 0;
                layout.values[V8_CODE_BEGIN] = 128;
        }
        if (shape == 3)
                layout.version[0] = 14;
        v8_layout_finish(&layout, NULL, reason);
        return layout;
}

static void check(const V8Answer *answer) {
        if (!answer->n || answer->n > V8_MAX_FUNCTIONS)
                abort();
        for (uint32_t i = 0; i < answer->n; i++) {
                const V8Function *function = &answer->functions[i];

                if (!*function->name || strnlen(function->name, V8_MAX_TEXT) == V8_MAX_TEXT ||
                    strnlen(function->file, V8_MAX_TEXT) == V8_MAX_TEXT || function->line > INT32_MAX ||
                    function->first_line > INT32_MAX)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t numbers[3] = { 0 }, cookie, info;
        static V8Learnt learnt;
        static V8Answer answer;
        V8Layout layout;
        Memory memory;
        Head head;

        if (size < sizeof(head))
                return 0;
        memcpy(&head, data, sizeof(head));
        memory = (Memory){ data + sizeof(head), size - sizeof(head) };
        layout = layout_of(head.shape & 3);
        info = head.info ? BASE + (uint64_t)head.info : 0;
        /* the cookie of what is there, so that names are reached */
        read_here(&memory, info + 40, numbers, sizeof(numbers));
        cookie = info ? v8_cookie(numbers, layout.values[V8_HAS_UNIQUE_ID]) : head.mark;
        learnt.lines = v8_lines_new();
        learnt.fd = -1;
        memset(learnt.votes, 0, sizeof(learnt.votes));
        learnt.regexp_kind = 0;
        learnt.header = 0;
        if (v8_code_name(
                    &(V8Reader){ read_here, &memory, &layout, NULL }, &learnt,
                    (uint64_t[]){ (head.is_compiled ? (uint64_t)RUNTIME_V8_COMPILED : RUNTIME_V8_INTERPRETED)
                                                  << RUNTIME_KIND_SHIFT |
                                          (BASE + (uint64_t)head.pc),
                                  info | cookie << V8_COOKIE_SHIFT, (cookie >> 16) << 32 | head.rest },
                    &answer) != V8_CODE_E_GONE)
                check(&answer);
        v8_lines_free(learnt.lines);
        return 0;
}
