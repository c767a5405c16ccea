/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 Links
 *
 * What the worker of a process with V8 is asked over its link (host/runtime/reader/file-link.h).
 */

#include "host/runtime/reader/file-link.h"
#include "host/runtime/v8/v8-wire.h"

enum { V8_MAX_ASKED = 64 };             /* frames at once */

/* What a file says: a V8Opened. */
extern const FileLinkOps v8_link_ops;

/* Takes what v8_code_name() @said of frame @i. Return: 0; else no further one is taken. */
typedef int (*V8LinkAnswer)(void *userdata, size_t i, int said);

/*
 * @words: of each of @n frames, V8_MAX_ASKED at most. *room has the answer while @answer is called.
 * Return: 0; FILE_LINK_E_LATER: some have no answer; what @answer returned.
 */
int v8_link_names(FileLink *link, const uint64_t *const *words, size_t n, V8Answer *room,
                  V8LinkAnswer answer, void *userdata);
