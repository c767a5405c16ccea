/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frame List
 *
 * What a window says of a stack, for people and for programs: its frames, span and attributes.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/data/json-writer.h"
#include "core/profile/window.h"

enum { FRAME_LIST_INDENT = 4 };

/* The attribute @key of a set of @n; "", or 0, = it has none. Texts are the window's. */
const char *frame_list_text(const Window *window, const uint32_t *set, size_t n, const char *key);
int64_t frame_list_number(const Window *window, const uint32_t *set, size_t n, const char *key);

typedef struct FrameTexts {
        const char *name, *module, *file;       /* "" = not known */
        uint64_t address, line;
} FrameTexts;

FrameTexts frame_list_texts(const Window *window, FrameWord word);

/* The last part of a path. */
const char *frame_list_base(const char *path);

/* A line for each frame, cleaned for a terminal. Return: how many. */
size_t frame_list_print(const Window *window, uint32_t stack, FILE *out);
void frame_list_json(const Window *window, uint32_t stack, JsonWriter *json);   /* as `frames` */

/*
 * The lock that the innermost functions of a stack wait for, if it is of a kind that does not know who has
 * it: of Rust or of Go. NULL = it is none of these.
 */
const char *frame_list_lock(const Window *window, uint32_t stack);

/* Says that @n of these wait for such locks, so that nobody knows of a deadlock; 0 = nothing is written. */
void frame_list_print_untold(const char *what, uint64_t n, FILE *out);

/* @lock: NULL = nothing is written. */
void frame_list_print_lock(const char *lock, FILE *out);
void frame_list_json_lock(const char *lock, JsonWriter *json);

/* @link: 0 = nothing is written. */
void frame_list_print_link(const Window *window, uint32_t link, FILE *out);
void frame_list_json_link(const Window *window, uint32_t link, JsonWriter *json);
