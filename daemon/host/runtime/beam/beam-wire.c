/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the worker of a process for functions of Erlang and checks what it says, on the daemon's side; serves
 * these questions, on the worker's side.
 */
#include "host/runtime/beam/beam-wire.h"

#include <string.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "host/runtime/reader/reader-text.h"

/* ---- what the worker says ---- */

bool beam_wire_check(const FunctionSaid *said, BeamWireKind kind) {
        int32_t most = kind == BEAM_WIRE_OPEN ? BEAM_OPEN_E_UNKNOWN : BEAM_CODE_E_N - 1;

        if (said->magic != BEAM_WIRE_MAGIC || said->kind != kind || said->result < 0 || said->result > most ||
            said->first_line)
                return false;
        if ((kind != BEAM_WIRE_NAME && kind != BEAM_WIRE_TASK) || said->result)
                return !said->line && !said->n_name && !said->n_file;
        return function_wire_is_named(said);
}

static bool is_opened(const void *answer, const void *request) {
        return beam_wire_check(answer, BEAM_WIRE_OPEN);
}

static bool is_answer(const void *answer, const void *request) {
        const BeamQuestion *question = request;

        return beam_wire_check(answer, question->kind);
}

const WorkerQuestion beam_open_question = {
        .magic = BEAM_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(FunctionSaid),
        .needs_file = true,
        .is_sound = is_opened,
};

static const WorkerQuestion beam_question = {
        .magic = BEAM_WIRE_MAGIC,
        .request_size = sizeof(BeamQuestion),
        .answer_size = sizeof(FunctionSaid),
        .is_sound = is_answer,
};

static bool check_opened(void *userdata, int result) {
        BeamOpened *opened = userdata;

        reader_text_repair(opened->reason, sizeof(opened->reason));
        return result || beam_opened_is_sound(opened);
}

const FileLinkOps beam_link_ops = { .name = "beam",
                                    .question = &beam_open_question,
                                    .size = sizeof(BeamOpened),
                                    .check = check_opened };

typedef struct Asked {
        BeamQuestion question;
        BeamFound *found;
} Asked;

static int ask_find(void *userdata, WorkerSession *worker) {
        const Asked *asked = userdata;
        FunctionSaid said;

        if (worker_session_ask(worker, &beam_question, &asked->question, -1, &said))
                return BEAM_CODE_E_LATER;
        if (said.result)
                return said.result;
        return worker_session_receive(worker, asked->found, sizeof(*asked->found)) ||
                        worker_session_judge(worker, beam_found_check(asked->found))
                ? BEAM_CODE_E_LATER
                : 0;
}

int beam_link_find(FileLink *link, BeamFound *found, int *said) {
        Asked asked = { .question = { .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_FIND },
                        .found = found };

        return file_link_ask(link, ask_find, &asked, said);
}

int beam_link_names(FileLink *link, const BeamFound *found, const uint64_t *const *words, size_t n,
                    ReaderFunction *room, FunctionAnswer answer, void *userdata) {
        const struct beam_process *process = &found->process;
        BeamQuestion questions[FUNCTION_MAX_ASKED];

        for (size_t i = 0; i < MIN(n, (size_t)FUNCTION_MAX_ASKED); i++)
                questions[i] = (BeamQuestion){ .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_NAME,
                                               .words = { words[i][0], words[i][1] },
                                               .ranges = process->ranges, .active = process->active,
                                               .modules = process->modules, .atoms = found->atoms };
        return function_link_ask(link, &beam_question, questions, n, room, answer, userdata);
}

int beam_link_task(FileLink *link, const BeamFound *found, uint64_t task, ReaderFunction *function,
                   int *said) {
        const BeamQuestion question = { .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_TASK, .words = { task },
                                        .atoms = found->atoms };

        return function_link_ask(link, &beam_question, &question, 1, function, function_keep_said,
                                 said);
}

/* ---- the worker ---- */

typedef struct Served {
        int socket;
        uint64_t bias;
        BeamOpened opened;
        BeamReader reader;
} Served;

static int say_found(const Served *served) {
        FunctionSaid said = { .magic = BEAM_WIRE_MAGIC, .kind = BEAM_WIRE_FIND };
        BeamFound found;

        said.result = beam_find(&served->reader, &served->opened, served->bias, &found);
        return channel_send(served->socket, &said, sizeof(said), -1) ||
                (!said.result && channel_send(served->socket, &found, sizeof(found), -1));
}

static int say_name(const Served *served, const BeamQuestion *question) {
        static ReaderFunction function;
        int r = question->kind == BEAM_WIRE_TASK
                ? beam_code_task(&served->reader, question->words[0], &function)
                : beam_code_name(&served->reader, question->words, &function);

        return function_wire_say(served->socket, BEAM_WIRE_MAGIC, question->kind, r, &function);
}

/* Return: 0, or anything else: the session is over. */
static int answer(Served *served, const BeamQuestion *question) {
        if (question->magic != BEAM_WIRE_MAGIC)
                return 1;
        if (question->kind == BEAM_WIRE_FIND)
                return say_found(served);
        if (question->kind != BEAM_WIRE_NAME && question->kind != BEAM_WIRE_TASK)
                return 1;
        served->reader.ranges = question->ranges;
        served->reader.active = question->active;
        served->reader.modules = question->modules;
        served->reader.atoms = question->atoms;
        return say_name(served, question);
}

void beam_serve(int socket, int fd, const ReaderRequest *first) {
        static ReaderHandle handle;
        static Served served;
        BeamQuestion question;
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        served = (Served){ .socket = socket, .bias = first->bias };
        r = beam_open(fd, NULL, first->size, &served.opened);
        if (function_wire_say_opened(socket, BEAM_WIRE_MAGIC, r, &served.opened, sizeof(served.opened)) || r)
                return;
        served.reader = (BeamReader){ .read = reader_handle_read,
                                      .userdata = &handle,
                                      .layout = beam_layout(served.opened.release) };
        while (!channel_receive_all(socket, &question, sizeof(question)) && !answer(&served, &question))
                ;
}
