/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hotspot/hotspot-session.h"

#include <stdio.h>
#include <string.h>

/* A page of the process for the worker. Return: 0, WORKER_SESSION_E_*. */
static int give_page(HotspotSession *session, const HotspotSaid *want) {
        uint8_t data[sizeof(HotspotPage) + HOTSPOT_PAGE];
        HotspotPage page = { .magic = HOTSPOT_WIRE_MAGIC };

        if (session->n_left) {
                session->n_left--;
                if (hotspot_read(&session->source, want->address, data + sizeof(page), want->n))
                        page.n = want->n;
        }
        memcpy(data, &page, sizeof(page));
        return worker_session_send(&session->worker, data, sizeof(page) + page.n, -1);
}

/* Gives the worker what it wants until it says @kind. Return: 0, WORKER_SESSION_E_*. */
static int converse(HotspotSession *session, HotspotSaidKind kind, HotspotSaid *said) {
        session->n_left = HOTSPOT_MAX_CALLS;
        for (;;) {
                int r = worker_session_receive(&session->worker, said, sizeof(*said));

                if (r)
                        return r;
                if (!hotspot_wire_check(said) || (said->kind != HOTSPOT_SAID_WANT && said->kind != kind))
                        return worker_session_refuse(&session->worker);
                if (said->kind == kind)
                        return 0;
                r = give_page(session, said);
                if (r)
                        return r;
        }
}

static int receive_opened(HotspotSession *session, const HotspotRequest *request, int fd, int *resultp) {
        HotspotSaid said;
        int r = worker_session_begin(&session->worker);

        r = r ? r : worker_session_send(&session->worker, request, sizeof(*request), fd);
        r = r ? r : converse(session, HOTSPOT_SAID_OPEN, &said);
        r = r ? r : worker_session_receive(&session->worker, &session->opened, sizeof(session->opened));
        if (r)
                return r;
        session->opened.reason[HOTSPOT_MAX_REASON - 1] = '\0';
        if (!said.result && !hotspot_wire_check_opened(&session->opened))
                return worker_session_refuse(&session->worker);
        *resultp = said.result;
        return 0;
}

int hotspot_session_open(HotspotSession *session, int fd, uint64_t size, uint64_t bias) {
        const HotspotRequest request = { .magic = HOTSPOT_WIRE_MAGIC, .size = size, .bias = bias };
        int result = 0;

        if (receive_opened(session, &request, fd, &result)) {
                snprintf(session->opened.reason, HOTSPOT_MAX_REASON, "java: no worker could read it");
                return HOTSPOT_E_LATER;
        }
        if (result)
                worker_session_end(&session->worker);
        return result;
}

static int receive_frame(HotspotSession *session, uint32_t i) {
        HotspotWireFrame frame;
        size_t size;
        int r = worker_session_receive(&session->worker, &frame, sizeof(frame));

        if (r)
                return r;
        size = (size_t)frame.n_name + frame.n_signature + frame.n_file;
        if (size > sizeof(session->text[i]))
                return worker_session_refuse(&session->worker);
        r = worker_session_receive(&session->worker, session->text[i], size);
        if (r)
                return r;
        return hotspot_wire_take(&session->frames.frames[i], &frame, session->text[i])
                ? 0
                : worker_session_refuse(&session->worker);
}

int hotspot_session_frames(HotspotSession *session, const uint64_t words[HOTSPOT_WORDS], bool is_first) {
        HotspotQuestion question = { .magic = HOTSPOT_WIRE_MAGIC, .is_first = is_first };
        HotspotSaid said = { 0 };

        if (session->worker.socket < 0)
                return HOTSPOT_E_LATER;
        memcpy(question.words, words, sizeof(question.words));
        if (worker_session_send(&session->worker, &question, sizeof(question), -1) ||
            converse(session, HOTSPOT_SAID_FRAMES, &said))
                return HOTSPOT_E_LATER;
        session->frames.n = 0;
        session->frames.is_short = said.is_short;
        for (uint32_t i = 0; i < said.n; i++, session->frames.n++)
                if (receive_frame(session, i))
                        return HOTSPOT_E_LATER;
        return said.result;
}

void hotspot_session_end(HotspotSession *session) {
        worker_session_end(&session->worker);
}
