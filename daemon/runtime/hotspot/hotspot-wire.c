/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hotspot/hotspot-wire.h"

#include <string.h>

#include "base/sandbox/channel.h"
#include "base/util/text.h"

/* ---- what the worker says ---- */

bool hotspot_wire_check(const HotspotSaid *said) {
        if (said->magic != HOTSPOT_WIRE_MAGIC || said->result < 0 || said->result > HOTSPOT_E_NAMELESS)
                return false;
        switch (said->kind) {
        case HOTSPOT_SAID_WANT:
                return said->n && said->n <= HOTSPOT_PAGE;
        case HOTSPOT_SAID_OPEN:
                return !said->n;
        case HOTSPOT_SAID_FRAMES:
                return said->n <= HOTSPOT_MAX_INLINED && !said->n == !!said->result;
        default:
                return false;
        }
}

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
        return code->interpreter_low < code->interpreter_high && opened->layout.version < 1000;
}

static const char *take_text(const char **atp, uint16_t size) {
        const char *text = *atp;

        *atp += size;
        return size && !text[size - 1] && strlen(text) == size - 1U && text_is_utf8(text, size - 1U) ? text
                                                                                                     : NULL;
}

bool hotspot_wire_take(HotspotFrame *to, const HotspotWireFrame *frame, const char *text) {
        *to = (HotspotFrame){ .kind = frame->kind, .line = frame->line, .bci = frame->bci };
        to->name = take_text(&text, frame->n_name);
        to->signature = take_text(&text, frame->n_signature);
        to->file = take_text(&text, frame->n_file);
        return frame->kind <= HOTSPOT_FRAME_STUB && frame->line <= UINT16_MAX && frame->bci >= -1 &&
                frame->bci <= UINT16_MAX && to->name && to->name[0] && to->signature && to->file;
}

/* ---- the worker ---- */

static bool ask(void *userdata, uint64_t address, void *to, size_t size) {
        const HotspotSaid want = { .magic = HOTSPOT_WIRE_MAGIC,
                                   .kind = HOTSPOT_SAID_WANT,
                                   .n = (uint32_t)size,
                                   .address = address };
        int socket = *(const int *)userdata;
        HotspotPage page;

        return size <= HOTSPOT_PAGE && !channel_send(socket, &want, sizeof(want), -1) &&
                !channel_receive_all(socket, &page, sizeof(page)) && page.magic == HOTSPOT_WIRE_MAGIC &&
                page.n == size && !channel_receive_all(socket, to, size);
}

static int say_opened(int socket, const Hotspot *hotspot, int result, const char *reason) {
        const HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_OPEN, .result = result };
        static HotspotOpened opened;

        if (hotspot) {
                opened.layout = *hotspot_layout(hotspot);
                opened.code = *hotspot_code(hotspot);
        }
        memcpy(opened.reason, reason, sizeof(opened.reason));
        return channel_send(socket, &said, sizeof(said), -1) ||
                channel_send(socket, &opened, sizeof(opened), -1);
}

static int say_frame(int socket, const HotspotFrame *frame) {
        const HotspotWireFrame wire = { .kind = frame->kind,
                                        .line = frame->line,
                                        .bci = frame->bci,
                                        .n_name = (uint16_t)(strlen(frame->name) + 1),
                                        .n_signature = (uint16_t)(strlen(frame->signature) + 1),
                                        .n_file = (uint16_t)(strlen(frame->file) + 1) };

        return channel_send(socket, &wire, sizeof(wire), -1) ||
                channel_send(socket, frame->name, wire.n_name, -1) ||
                channel_send(socket, frame->signature, wire.n_signature, -1) ||
                channel_send(socket, frame->file, wire.n_file, -1);
}

/* Return: 0; anything else = the conversation is over. */
static int answer(int socket, Hotspot *hotspot, const HotspotQuestion *question) {
        HotspotSaid said = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_FRAMES };
        HotspotFrames frames;
        int r = 0;

        if (question->magic != HOTSPOT_WIRE_MAGIC)
                return 1;
        if (question->is_first)
                hotspot_begin(hotspot);
        said.result = hotspot_frames(hotspot, question->words, &frames);
        if (said.result < 0)
                return said.result;
        said.n = said.result ? 0 : frames.n;
        said.is_short = frames.is_short;
        r = channel_send(socket, &said, sizeof(said), -1);
        for (uint32_t i = 0; !r && i < said.n; i++)
                r = say_frame(socket, &frames.frames[i]);
        return r;
}

void hotspot_serve(int socket, int fd, const HotspotRequest *first) {
        _cleanup_(hotspot_freep) Hotspot *hotspot = NULL;
        const HotspotReader source = { .read = ask, .userdata = &socket };
        char reason[HOTSPOT_MAX_REASON] = "";
        HotspotQuestion question;
        int r;

        r = hotspot_new(&hotspot, &source, fd, first->size, first->bias, reason);
        if (r < 0 || say_opened(socket, hotspot, r, reason) || r)
                return;
        while (!r && !channel_receive_all(socket, &question, sizeof(question)))
                r = answer(socket, hotspot, &question);
}
