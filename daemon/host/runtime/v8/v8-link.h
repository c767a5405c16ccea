/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 Links
 *
 * What the worker of a process with V8 is asked over its link (host/runtime/reader/file-link.h).
 */

#include "host/runtime/reader/file-link.h"
#include "host/runtime/v8/v8-wire.h"

/* What a file says: a V8Opened. */
extern const FileLinkOps v8_link_ops;

/* @words: of a frame. Return: 0 with what v8_code_name() *said, and maybe *answer; FILE_LINK_E_LATER. */
int v8_link_name(FileLink *link, const uint64_t *words, V8Answer *answer, int *said);
