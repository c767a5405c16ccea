/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for the functions of a frame: the head of the answer says how many functions
 * and bytes follow. All links share the room for them, since the loop asks one question at a time.
 */
#include "host/runtime/v8/v8-link.h"

static bool check_opened(void *opened, int result) {
        return v8_wire_check_opened(opened, result);
}

const FileLinkOps v8_link_ops = { .name = "v8",
                                  .question = &v8_open_question,
                                  .size = sizeof(V8Opened),
                                  .check = check_opened };

typedef struct Asked {
        V8Question question;
        V8Answer *answer;
} Asked;

static int ask_name(void *userdata, WorkerSession *worker) {
        static V8WireFunction functions[V8_MAX_FUNCTIONS];
        static char texts[V8_WIRE_MAX_TEXTS];
        const Asked *asked = userdata;
        V8Said said;

        if (worker_session_ask(worker, &v8_question, &asked->question, -1, &said) ||
            said.result == V8_CODE_E_GONE ||
            worker_session_receive(worker, functions, said.n * sizeof(*functions)) ||
            (said.n_bytes && worker_session_receive(worker, texts, said.n_bytes)) ||
            worker_session_judge(worker, v8_wire_take(asked->answer, &said, functions, texts)))
                return V8_CODE_E_GONE;
        return said.result;
}

int v8_link_name(FileLink *link, const uint64_t *words, V8Answer *answer, int *said) {
        Asked asked = { .question = { .magic = V8_WIRE_MAGIC, .words = { words[0], words[1], words[2] } },
                        .answer = answer };

        return file_link_ask(link, ask_name, &asked, said);
}
