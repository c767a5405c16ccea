/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends a question and receives its answer part by part; the first part that does not check ends the
 * worker.
 */

#include "host/runtime/hotspot/hotspot-session.h"

#include <stdio.h>
#include <string.h>

#include "host/runtime/reader/reader-text.h"

/* Return: 0, WORKER_SESSION_E_*. */
static int hear(HotspotSession *session, HotspotSaidKind kind, HotspotSaid *said) {
        int r = worker_session_receive(session->worker, said, sizeof(*said));

        if (!r && (!hotspot_wire_check(said) || said->kind != kind))
                r = worker_session_refuse(session->worker);
        return r;
}

static int send_request(HotspotSession *session, const HotspotRequest *request, const ReaderHandle *handle,
                        int fd) {
        int r = worker_session_send(session->worker, request, sizeof(*request), fd);

        return r ? r : reader_handle_send(handle, session->worker);
}

static int receive_opened(HotspotSession *session, int *resultp) {
        HotspotOpened *opened = &session->answer->opened;
        HotspotSaid said;
        int r = hear(session, HOTSPOT_SAID_OPEN, &said);

        r = r ? r : worker_session_receive(session->worker, opened, sizeof(*opened));
        if (r)
                return r;
        reader_text_repair(opened->reason, sizeof(opened->reason));
        if (!said.result && !hotspot_wire_check_opened(opened))
                return worker_session_refuse(session->worker);
        *resultp = said.result;
        return 0;
}

int hotspot_session_open(HotspotSession *session, const ReaderHandle *handle, int fd, uint64_t size,
                         uint64_t bias) {
        const HotspotRequest request = { .magic = HOTSPOT_WIRE_MAGIC, .size = size, .bias = bias };
        int result = 0, r;

        r = send_request(session, &request, handle, fd);
        r = r ? r : receive_opened(session, &result);
        if (r) {
                snprintf(session->answer->opened.reason, HOTSPOT_MAX_REASON, "java: no worker could read it so far");
                return HOTSPOT_E_GONE;
        }
        return result;
}

static int receive_frame(HotspotSession *session, uint32_t i) {
        char *text = session->answer->text[i];
        HotspotWireFrame frame;
        size_t size;
        int r = worker_session_receive(session->worker, &frame, sizeof(frame));

        if (r)
                return r;
        size = (size_t)frame.n_name + frame.n_signature + frame.n_file;
        if (size > sizeof(session->answer->text[i]))
                return worker_session_refuse(session->worker);
        r = worker_session_receive(session->worker, text, size);
        if (r)
                return r;
        return hotspot_wire_take(&session->answer->frames.frames[i], &frame, text)
                ? 0
                : worker_session_refuse(session->worker);
}

int hotspot_session_frames(HotspotSession *session, const uint64_t words[HOTSPOT_WORDS], bool is_first) {
        HotspotQuestion question = { .magic = HOTSPOT_WIRE_MAGIC, .is_first = is_first };
        HotspotFrames *frames = &session->answer->frames;
        HotspotSaid said = { 0 };

        if (session->worker->socket < 0)
                return HOTSPOT_E_GONE;
        memcpy(question.words, words, sizeof(question.words));
        if (worker_session_send(session->worker, &question, sizeof(question), -1) ||
            hear(session, HOTSPOT_SAID_FRAMES, &said))
                return HOTSPOT_E_GONE;
        frames->n = 0;
        frames->is_short = said.is_short;
        for (uint32_t i = 0; i < said.n; i++, frames->n++)
                if (receive_frame(session, i))
                        return HOTSPOT_E_GONE;
        return said.result;
}
