/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot-walk.h"
#include "host/runtime/reader/reader-text.h"
#include "hotspot-image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FRAMES = 256, MAX_BLOBS = 64 };

static void name(Hotspot *hotspot, const uint64_t *words) {
        HotspotFrames frames;

        if (hotspot_frames(hotspot, words, &frames))
                return;
        if (!frames.n || frames.n > HOTSPOT_MAX_INLINED)
                abort();
        for (uint32_t i = 0; i < frames.n; i++)
                if (!strlen(frames.frames[i].name) || strlen(frames.frames[i].file) > 3 * HOTSPOT_MAX_FILE)
                        abort();
}

/* Whatever the memory says, the daemon takes what comes of it. */
static void look_at_locks(Hotspot *hotspot) {
        static RuntimeLocks locks;

        hotspot_locks(hotspot, &locks);
        if (!reader_locks_check(&locks))
                abort();
}

static void walk(Hotspot *hotspot, uint64_t thread) {
        static uint64_t words[MAX_FRAMES][HOTSPOT_WORDS];
        const HotspotReader *reader = hotspot_reader(hotspot);
        HotspotRegisters registers;
        uint32_t n;

        if (!hotspot_walk_start(&registers, hotspot_layout(hotspot), reader, thread))
                return;
        hotspot_walk(words, MAX_FRAMES, &n, hotspot_code(hotspot), hotspot_layout(hotspot), reader,
                     thread, registers);
        if (n > MAX_FRAMES)
                abort();
        for (uint32_t i = 0; i < n; i++)
                name(hotspot, words[i]);
}

static void list(Hotspot *hotspot) {
        const HotspotReader *reader = hotspot_reader(hotspot);
        HotspotCodeCursor cursor = { 0 };
        uint64_t address, found;
        HotspotBlob blob;

        for (unsigned i = 0; i < MAX_BLOBS &&
             !hotspot_code_next(hotspot_code(hotspot), hotspot_layout(hotspot), reader, &cursor, &address);
             i++)
                if (!hotspot_blob_read(&blob, hotspot_code(hotspot), hotspot_layout(hotspot), reader,
                                       address))
                        hotspot_code_find(hotspot_code(hotspot), hotspot_layout(hotspot), reader, blob.code,
                                          &found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char reason[HOTSPOT_MAX_REASON] = "";
        Hotspot *hotspot = NULL;
        HotspotImage image;

        if (!image_open(&image, data, size))
                return 0;
        if (hotspot_new_over(&hotspot, &image.reader, image.symbols, image.bias, reason)) {
                if (!reason[0])
                        abort();
                return 0;
        }
        list(hotspot);
        for (uint32_t i = 0; i < image.n_frames; i++)
                name(hotspot, image.frames[i]);
        walk(hotspot, image.thread);
        look_at_locks(hotspot);
        hotspot_free(hotspot);
        return 0;
}
