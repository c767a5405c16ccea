/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for the functions of frames: the head of each answer says how many functions
 * and bytes follow. All links share the room for them, since the loop waits for one worker at a time.
 */
#include "host/runtime/v8/v8-link.h"

#include "core/base/util/macro.h"

static bool check_opened(void *opened, int result) {
        return v8_wire_check_opened(opened, result);
}

const FileLinkOps v8_link_ops = { .name = "v8",
                                  .question = &v8_open_question,
                                  .size = sizeof(V8Opened),
                                  .check = check_opened };

typedef struct Asked {
        V8Question questions[V8_MAX_ASKED];
        size_t n, n_answered;
        V8Answer *room;
        V8LinkAnswer answer;
        void *userdata;
} Asked;

/* Return: whether the worker has answered. */
static bool hear_name(WorkerSession *worker, V8Said *said, V8Answer *answer) {
        static V8WireFunction functions[V8_MAX_FUNCTIONS];
        static char texts[V8_WIRE_MAX_TEXTS];

        if (worker_session_hear(worker, &v8_question, NULL, said))
                return false;
        return !v8_wire_has_names(said) ||
                (!worker_session_receive(worker, functions, said->n * sizeof(*functions)) &&
                 (!said->n_bytes || !worker_session_receive(worker, texts, said->n_bytes)) &&
                 !worker_session_judge(worker, v8_wire_take(answer, said, functions, texts)));
}

/* All questions are sent before the first answer is waited for: the worker goes on without us. */
static int ask_names(void *userdata, WorkerSession *worker) {
        Asked *asked = userdata;
        int r = 0;

        if (worker_session_send(worker, asked->questions, asked->n * sizeof(*asked->questions), -1))
                return r;
        for (size_t i = 0; i < asked->n; i++) {
                V8Said said;

                if (!hear_name(worker, &said, asked->room))
                        return r;
                asked->n_answered++;
                r = r ?: asked->answer(asked->userdata, i, said.result);
        }
        return r;
}

int v8_link_names(FileLink *link, const uint64_t *const *words, size_t n, V8Answer *room, V8LinkAnswer answer,
                  void *userdata) {
        Asked asked = { .n = MIN(n, (size_t)V8_MAX_ASKED), .room = room, .answer = answer,
                        .userdata = userdata };
        int r = 0;

        for (size_t i = 0; i < asked.n; i++)
                asked.questions[i] = (V8Question){ .magic = V8_WIRE_MAGIC,
                                                   .words = { words[i][0], words[i][1], words[i][2] } };
        if (file_link_ask(link, ask_names, &asked, &r))
                return FILE_LINK_E_LATER;
        return r ? r : asked.n_answered < n ? FILE_LINK_E_LATER : 0;
}
