/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory of a JVM in a file, for test-hotspot.c and fuzz-hotspot.c; make-hotspot-corpus.py writes them. All
 * in the order of bytes of x86-64:
 *
 *     bias, addresses of hotspot_symbol_names (18), address of a JavaThread      8 bytes each
 *     n_frames (4 bytes), frames of three words of 8 bytes
 *     pieces of memory {address (8), size (4), bytes}, up to the end
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot.h"

enum {
        IMAGE_MAX_FRAMES = 64,
        IMAGE_MAX_PIECES = 256,
};

typedef struct HotspotImage {
        uint64_t bias, symbols[HOTSPOT_N_SYMBOLS], thread;
        uint32_t n_frames;
        uint64_t frames[IMAGE_MAX_FRAMES][HOTSPOT_WORDS];
        struct {
                uint64_t address;
                uint32_t size;
                const uint8_t *data;
        } pieces[IMAGE_MAX_PIECES];
        uint32_t n_pieces;
        HotspotReader reader;
} HotspotImage;

static inline bool image_take(const uint8_t **data, size_t *size, void *to, size_t n) {
        if (*size < n)
                return false;
        memcpy(to, *data, n);
        *data += n;
        *size -= n;
        return true;
}

static inline bool image_read(void *userdata, uint64_t address, void *to, size_t size) {
        const HotspotImage *image = userdata;

        for (uint32_t i = 0; i < image->n_pieces; i++) {
                uint64_t at = address - image->pieces[i].address;

                if (at < image->pieces[i].size && size <= image->pieces[i].size - at) {
                        memcpy(to, image->pieces[i].data + at, size);
                        return true;
                }
        }
        return false;
}

/* @data lives longer than @image. Return: whether it begins like one. */
static inline bool image_open(HotspotImage *image, const uint8_t *data, size_t size) {
        memset(image, 0, sizeof(*image));
        image->reader = (HotspotReader){ .read = image_read, .userdata = image };
        if (!image_take(&data, &size, &image->bias, 8) ||
            !image_take(&data, &size, image->symbols, sizeof(image->symbols)) ||
            !image_take(&data, &size, &image->thread, 8) || !image_take(&data, &size, &image->n_frames, 4) ||
            image->n_frames > IMAGE_MAX_FRAMES ||
            !image_take(&data, &size, image->frames, image->n_frames * sizeof(image->frames[0])))
                return false;
        while (image->n_pieces < IMAGE_MAX_PIECES &&
               image_take(&data, &size, &image->pieces[image->n_pieces].address, 8) &&
               image_take(&data, &size, &image->pieces[image->n_pieces].size, 4) &&
               image->pieces[image->n_pieces].size <= size) {
                uint32_t n = image->pieces[image->n_pieces].size;

                image->pieces[image->n_pieces++].data = data;
                data += n;
                size -= n;
        }
        return true;
}
