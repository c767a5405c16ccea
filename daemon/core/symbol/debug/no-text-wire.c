/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks and answers for the file without its text. The daemon's side checks sizes against those of the
 * request; the worker's side makes the bytes from headers while it sends them.
 */

#include "core/symbol/debug/no-text-wire.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/symbol/debug/no-text.h"

enum {
        NICE = 19,                      /* behind everything: nothing waits for it */
        PIECE = 64 << 10,
};

/* ---- the daemon's side ---- */

bool no_text_wire_check(const NoTextAnswer *answer, const NoTextRequest *request) {
        bool is_made = answer->state == NO_TEXT_STATE_MADE;

        if (answer->magic != NO_TEXT_WIRE_MAGIC || answer->state >= NO_TEXT_N_STATES ||
            answer->has_symbols > 1 || answer->has_lines > 1 ||
            !memchr(answer->gnu, 0, sizeof(answer->gnu)) ||
            strspn(answer->gnu, "0123456789abcdef") != strlen(answer->gnu))
                return false;
        if (request->ask == NO_TEXT_ASK_ID || !is_made)
                return !answer->size;
        /* Parts take no more than the file; headers and the room between parts no more than thrice that. */
        return answer->size && answer->size / 4 <= request->size && !strcmp(answer->gnu, request->gnu);
}

/*
 * Lowers the worker's priority. Its user is ours, so that no right is needed. A worker whose number is not
 * known yet keeps its priority.
 */
static void lower(const WorkerSession *session) {
        int32_t pid;

        zygotes_tend(session->zygotes);
        pid = zygotes_pid(session->zygotes, session->serial);
        if (pid > 0)
                setpriority(PRIO_PROCESS, (id_t)pid, NICE);
}

static bool is_sound(const void *answer, const void *request) {
        return no_text_wire_check(answer, request);
}

#define QUESTION(time_ns)                                                                                 \
        {                                                                                                 \
                .magic = NO_TEXT_WIRE_MAGIC, .request_size = sizeof(NoTextRequest),                       \
                .answer_size = sizeof(NoTextAnswer), .needs_file = true, .n_tries = 1,                    \
                .timeout_ns = time_ns, .is_sound = is_sound,                                              \
        }

/* A file has more time: its question to the server is part of it. */
const WorkerQuestion no_text_questions[] = {
        [NO_TEXT_ASK_ID] = QUESTION(20 * NS_PER_SEC),
        [NO_TEXT_ASK_FILE] = QUESTION(120 * NS_PER_SEC),
};

int no_text_ask(WorkerSession *session, NoTextAsk ask, int fd, uint64_t size, const char *gnu,
                NoTextAnswer *answer) {
        NoTextRequest request = { .magic = NO_TEXT_WIRE_MAGIC, .ask = ask, .size = size };
        int r;

        strncpy(request.gnu, gnu, sizeof(request.gnu) - 1);
        r = worker_session_ask(session, &no_text_questions[ask], &request, fd, answer);
        if (!r)
                lower(session);
        return r;
}

int no_text_take(WorkerSession *session, const NoTextAnswer *answer, int to_fd) {
        _cleanup_(freep) char *piece = malloc(PIECE);

        if (!piece)
                return error_origin(-ENOMEM);
        for (uint64_t at = 0; at < answer->size; at += PIECE) {
                size_t n = (size_t)MIN(answer->size - at, (uint64_t)PIECE);
                int r = worker_session_receive(session, piece, n);

                r = r ?: file_write(to_fd, piece, n);
                if (r)
                        return r;
        }
        return 0;
}

/* ---- the worker's side ---- */

static int send_piece(const void *data, size_t size, void *userdata) {
        return channel_send(*(const int *)userdata, data, size, -1) != 0;
}

static NoTextState state_of(int r) {
        return r == NO_TEXT_E_NAMELESS ? NO_TEXT_STATE_NAMELESS : NO_TEXT_STATE_MALFORMED;
}

/* @plan: what to send behind the answer, if its state is MADE and a file was asked for. */
static void look(const ElfImage *image, const NoTextRequest *request, NoTextAnswer *answer, NoText *plan) {
        ImageIds ids;
        int r = elf_image_ids(image, &ids);

        if (r)
                return;
        strcpy(answer->gnu, ids.gnu);
        answer->state = strcmp(ids.gnu, request->gnu) ? NO_TEXT_STATE_OTHER : NO_TEXT_STATE_MADE;
        if (request->ask != NO_TEXT_ASK_FILE || answer->state == NO_TEXT_STATE_OTHER)
                return;
        r = no_text_plan(plan, image);
        if (r) {
                answer->state = state_of(r);
                return;
        }
        answer->size = plan->size;
        answer->has_symbols = plan->has_symbols;
        answer->has_lines = plan->has_lines;
}

void no_text_serve(int socket, int fd, const NoTextRequest *request) {
        NoTextAnswer answer = { .magic = NO_TEXT_WIRE_MAGIC, .state = NO_TEXT_STATE_MALFORMED };
        NoTextRequest checked = *request;
        NoText plan = { 0 };
        ElfImage image;

        checked.gnu[sizeof(checked.gnu) - 1] = 0;
        if (elf_image_init(&image, fd, 0, checked.size)) {
                (void)!channel_send(socket, &answer, sizeof(answer), -1);
                return;
        }
        look(&image, &checked, &answer, &plan);
        if (!channel_send(socket, &answer, sizeof(answer), -1) && plan.size)
                (void)!no_text_write(&plan, &image, send_piece, &socket);
        no_text_deinit(&plan);
        elf_image_deinit(&image);
}
