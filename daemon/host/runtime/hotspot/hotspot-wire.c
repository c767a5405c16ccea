/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks what a worker said on the daemon's side, and serves questions on the worker's side.
 */

#include "host/runtime/hotspot/hotspot-wire.h"

#include <stdio.h>
#include <string.h>

#include "core/base/sandbox/channel.h"
#include "host/runtime/reader/reader-text.h"

enum { REPLY_BYTES = 16 << 10 };        /* sent at once; longer answers in parts */

/* ---- what the worker says ---- */

bool hotspot_wire_check(const HotspotSaid *said) {
        if (said->magic != HOTSPOT_WIRE_MAGIC || said->result < 0 || said->result > HOTSPOT_E_NAMELESS)
                return false;
        switch (said->kind) {
        case HOTSPOT_SAID_OPEN:
                return !said->n;
        case HOTSPOT_SAID_FRAMES:
                return said->n <= HOTSPOT_MAX_INLINED && !said->n == !!said->result;
        case HOTSPOT_SAID_LOCKS:
                return said->n <= RUNTIME_MAX_LOCKS && !said->result;
        default:
                return false;
        }
}

static bool is_opened(const void *answer, const void *request) {
        const HotspotSaid *said = answer;

        return hotspot_wire_check(said) && said->kind == HOTSPOT_SAID_OPEN;
}

static bool is_frames(const void *answer, const void *request) {
        const HotspotSaid *said = answer;

        return hotspot_wire_check(said) && said->kind == HOTSPOT_SAID_FRAMES;
}

static bool is_locks(const void *answer, const void *request) {
        const HotspotSaid *said = answer;

        return hotspot_wire_check(said) && said->kind == HOTSPOT_SAID_LOCKS;
}

const WorkerQuestion hotspot_open_question = {
        .magic = HOTSPOT_WIRE_MAGIC,
        .request_size = sizeof(ReaderRequest),
        .answer_size = sizeof(HotspotSaid),
        .needs_file = true,
        .is_sound = is_opened,
};

const WorkerQuestion hotspot_frames_question = {
        .magic = HOTSPOT_WIRE_MAGIC,
        .request_size = sizeof(HotspotQuestion),
        .answer_size = sizeof(HotspotSaid),
        .is_sound = is_frames,
};

const WorkerQuestion hotspot_locks_question = {
        .magic = HOTSPOT_WIRE_MAGIC,
        .request_size = sizeof(HotspotQuestion),
        .answer_size = sizeof(HotspotSaid),
        .is_sound = is_locks,
};

bool hotspot_wire_check_opened(const HotspotOpened *opened) {
        const HotspotCode *code = &opened->code;

        if (code->n_heaps < 1 || code->n_heaps > HOTSPOT_MAX_HEAPS)
                return false;
        for (uint32_t i = 0; i < code->n_heaps; i++) {
                const HotspotHeap *heap = &code->heaps[i];

                if (heap->low >= heap->end || heap->end >> 56 || heap->log2_segment > 31)
                        return false;
                for (uint32_t k = 0; k < i; k++)
                        if (heap->low < code->heaps[k].end && code->heaps[k].low < heap->end)
                                return false;
        }
        return code->interpreter_low < code->interpreter_high && opened->layout.version < 1000 &&
                (!opened->interpreter_blob || hotspot_code_heap(code, opened->interpreter_blob));
}

static const char *take_text(const char **atp, uint16_t size) {
        const char *text = *atp;

        *atp += size;
        return reader_text_check(text, size) ? text : NULL;
}

bool hotspot_wire_take(HotspotFrame *to, const HotspotWireFrame *frame, const char *text) {
        *to = (HotspotFrame){ .kind = frame->kind, .line = frame->line, .bci = frame->bci };
        to->name = take_text(&text, frame->n_name);
        to->signature = take_text(&text, frame->n_signature);
        to->file = take_text(&text, frame->n_file);
        return frame->kind < HOTSPOT_N_FRAME_KINDS && frame->line <= UINT16_MAX && frame->bci >= -1 &&
                frame->bci <= UINT16_MAX && to->name && to->name[0] && to->signature && to->file;
}

/* ---- the worker ---- */

void hotspot_wire_describe(HotspotOpened *to, const Hotspot *hotspot, const char *reason) {
        memset(to, 0, sizeof(*to));
        snprintf(to->reason, sizeof(to->reason), "%s", reason);
        if (!hotspot)
                return;
        to->layout = *hotspot_layout(hotspot);
        to->code = *hotspot_code(hotspot);
        if (hotspot_code_find(&to->code, &to->layout, hotspot_reader(hotspot), to->code.interpreter_low,
                              &to->interpreter_blob))
                to->interpreter_blob = 0;
}

static int say_opened(int socket, const Hotspot *hotspot, int result, const char *reason) {
        const HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_OPEN, .result = result };
        static HotspotOpened opened;

        hotspot_wire_describe(&opened, hotspot, reason);
        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, &opened, sizeof(opened), -1);
}

/* An answer is sent as a whole: each part would wake the daemon, which would wait for the next one. */
typedef struct Reply {
        int socket;
        size_t n;
        uint8_t data[REPLY_BYTES];
} Reply;

static int flush(Reply *reply) {
        size_t n = reply->n;

        reply->n = 0;
        return n ? channel_send(reply->socket, reply->data, n, -1) : 0;
}

static int put(Reply *reply, const void *data, size_t size) {
        int r = size > sizeof(reply->data) - reply->n ? flush(reply) : 0;

        if (r || size > sizeof(reply->data))
                return r ? r : channel_send(reply->socket, data, size, -1);
        memcpy(reply->data + reply->n, data, size);
        reply->n += size;
        return 0;
}

static int put_frame(Reply *reply, const HotspotFrame *frame) {
        const HotspotWireFrame wire = { .kind = frame->kind,
                                        .line = frame->line,
                                        .bci = frame->bci,
                                        .n_name = (uint16_t)(strlen(frame->name) + 1),
                                        .n_signature = (uint16_t)(strlen(frame->signature) + 1),
                                        .n_file = (uint16_t)(strlen(frame->file) + 1) };

        return put(reply, &wire, sizeof(wire)) || put(reply, frame->name, wire.n_name) ||
               put(reply, frame->signature, wire.n_signature) || put(reply, frame->file, wire.n_file);
}

static int answer_locks(int socket, Hotspot *hotspot) {
        HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_LOCKS };
        static RuntimeLocks locks;

        hotspot_locks(hotspot, &locks);
        said.n = locks.n;
        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, &locks, runtime_locks_size(locks.n), -1);
}

static int answer_frames(int socket, Hotspot *hotspot, const HotspotQuestion *question) {
        HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_FRAMES };
        static Reply reply;
        HotspotFrames frames;
        int r = 0;

        reply.socket = socket;
        if (question->is_first)
                hotspot_begin(hotspot);
        said.result = hotspot_frames(hotspot, question->words, &frames);
        if (said.result < 0)
                return said.result;
        said.n = said.result ? 0 : frames.n;
        said.is_short = frames.is_short;
        r = put(&reply, &said, sizeof(said));
        for (uint32_t i = 0; !r && i < said.n; i++)
                r = put_frame(&reply, &frames.frames[i]);
        return r ? r : flush(&reply);
}

/* Return: 0; anything else = the conversation is over. */
static int answer(int socket, Hotspot *hotspot, const HotspotQuestion *question) {
        if (question->magic != HOTSPOT_WIRE_MAGIC)
                return 1;
        return question->kind == HOTSPOT_SAID_LOCKS ? answer_locks(socket, hotspot)
                                                    : answer_frames(socket, hotspot, question);
}

void hotspot_serve(int socket, int fd, const ReaderRequest *first) {
        _cleanup_(hotspot_freep) Hotspot *hotspot = NULL;
        ReaderHandle handle = { -1, -1 };
        const HotspotReader source = { .read = reader_handle_read, .userdata = &handle };
        char reason[HOTSPOT_MAX_REASON] = "";
        HotspotQuestion question;
        int r;

        if (!reader_handle_receive(&handle, socket))
                return;
        r = hotspot_new(&hotspot, &source, fd, first->size, first->bias, reason);
        if (r < 0 || say_opened(socket, hotspot, r, reason) || r)
                return;
        while (!r && !channel_receive_all(socket, &question, sizeof(question)))
                r = answer(socket, hotspot, &question);
}
