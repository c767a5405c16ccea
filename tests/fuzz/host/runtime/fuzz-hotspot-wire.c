/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot-wire.h"
#include "host/runtime/reader/reader-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_frame(const uint8_t *data, size_t size) {
        char text[HOTSPOT_WIRE_MAX_TEXT];
        HotspotWireFrame wire;
        HotspotFrame frame;
        size_t n;

        if (size < sizeof(wire))
                return;
        memcpy(&wire, data, sizeof(wire));
        n = (size_t)wire.n_name + wire.n_signature + wire.n_file;
        if (n > sizeof(text) || n > size - sizeof(wire))
                return;
        memcpy(text, data + sizeof(wire), n);
        if (hotspot_wire_take(&frame, &wire, text) &&
            strlen(frame.name) + strlen(frame.signature) + strlen(frame.file) + 3 != n)
                abort();
}

static void take_locks(const uint8_t *data, size_t size) {
        static RuntimeLocks locks;

        memset(&locks, 0, sizeof(locks));
        memcpy(&locks, data, size < sizeof(locks) ? size : sizeof(locks));
        if (!reader_locks_check(&locks))
                return;
        for (uint32_t i = 0; i < locks.n; i++)
                if (strlen(locks.locks[i].name) >= RUNTIME_MAX_LOCK_NAME)
                        abort();
}

/* The first byte says which of a worker's messages follows. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static HotspotOpened opened;
        HotspotSaid said;

        if (!size)
                return 0;
        if (data[0] == 'f')
                take_frame(data + 1, size - 1);
        if (data[0] == 's' && size > sizeof(said)) {
                memcpy(&said, data + 1, sizeof(said));
                if (hotspot_wire_check(&said) &&
                    said.n > (said.kind == HOTSPOT_SAID_LOCKS ? RUNTIME_MAX_LOCKS : HOTSPOT_MAX_INLINED))
                        abort();
        }
        if (data[0] == 'c' && size > sizeof(opened.code)) {
                memcpy(&opened.code, data + 1, sizeof(opened.code));
                if (hotspot_wire_check_opened(&opened) && hotspot_code_heap(&opened.code, UINT64_C(1) << 56))
                        abort();
        }
        if (data[0] == 'r' && size > sizeof(opened.reason)) {
                memcpy(opened.reason, data + 1, sizeof(opened.reason));
                reader_text_repair(opened.reason, sizeof(opened.reason));
                if (strlen(opened.reason) >= sizeof(opened.reason))
                        abort();
        }
        if (data[0] == 'l')
                take_locks(data + 1, size - 1);
        return 0;
}
