/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The data of a page, read back: the twin of page-encode.c, whose top describes the bytes. Pure: bytes in,
 * tables out. A page may come from anybody, so each index is checked here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "desk/page/model.h"

typedef struct DecodedKind {
        const char *type, *unit, *period_type, *period_unit;    /* borrowed of `json` */
        double measured;                /* Σ value × period */
} DecodedKind;

typedef struct DecodedDimension {
        const char *key;                /* borrowed of `json` */
        uint32_t n_values;
        uint32_t *labels;               /* strings, by value; NULL: these are spans */
        const uint8_t *spans;           /* 24 bytes each, from value 2 on */
} DecodedDimension;

typedef struct DecodedContext {
        uint32_t kind, first;           /* first: bucket */
        uint32_t values[PAGE_MAX_DIMENSIONS];
} DecodedContext;

typedef struct DecodedPage {
        void *json;                     /* cJSON */
        uint64_t start_ns, bucket_ns;   /* REALTIME; bucket_ns 0 = no times */
        DecodedKind kinds[PAGE_MAX_KINDS];
        uint32_t n_kinds;
        const char **strings;
        uint32_t n_strings;
        PageFrame *frames;
        uint32_t n_frames;
        PageNode *nodes;                /* node 0 is the root; a parent stands before its children */
        uint32_t n_nodes;
        DecodedDimension dimensions[PAGE_MAX_DIMENSIONS];
        uint32_t n_dimensions;
        DecodedContext *contexts;
        uint32_t n_contexts;
        PageLines *lines;               /* number 0 has none; one stands before those inside of it */
        uint32_t n_lines;
        PageRow *rows;
        size_t n_rows;
} DecodedPage;

enum {
        _PAGE_DECODE_E_SUCCESS,
        PAGE_DECODE_E_CORRUPT,          /* cut off, or a number is out of its range */
        PAGE_DECODE_E_COMPARISON,       /* the page compares two profiles */
        PAGE_DECODE_E_VERSION,          /* a form that another version of spanprof writes */
};

/*
 * @data is borrowed by @page, which is set in any case; pair with page_decode_deinit(). Return: 0,
 * PAGE_DECODE_E_*, -ENOMEM.
 */
int page_decode(DecodedPage *page, const uint8_t *data, size_t size);
void page_decode_deinit(DecodedPage *page);

/* Where the packed data of an HTML page stands, as base64. Return: whether it is a page of ours. */
bool page_find_data(const char *html, size_t size, const char **textp, size_t *text_sizep);
