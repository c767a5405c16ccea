/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Conversion
 *
 *     file, pipe ─▶ source (unpacks) ─▶ reader ─▶ Window ─▶ writer ─▶ file, pipe; exporter
 *
 * Inputs → one Window → one output. All formats meet in the Window, so each reader goes with each writer. The
 * first bytes of an input choose the reader, a name or the suffix of the output chooses the writer. A new
 * format is a reader or a writer (format.h) in a room of its own, and one line in a table of formats.c.
 */

#include "desk/convert/format.h"

/* The tables (formats.c), each ended by NULL. */
extern const ConvertReader *const convert_readers[];
extern const ConvertWriter *const convert_writers[];

/* @options must outlive it. Return: 0, -ENOMEM. */
int convert_init(Convert *convert, const ConvertOptions *options);
void convert_deinit(Convert *convert);

/*
 * Reads one input. @source: as source_open() has left it. @problem gets what is wrong. Return: 0,
 * CONVERT_E_INPUT (what could be read is in the window), -ENOMEM.
 */
int convert_add_source(Convert *convert, const Source *source, Text *problem);

/* The reader of a source, or NULL. */
const ConvertReader *convert_recognize(const Source *source);

/* Ends the reading: resources, filter, names. Return: 0, -ENOMEM. */
int convert_close(Convert *convert);

/* By name or, without one, by the path's suffix. Return: the writer, or NULL. */
const ConvertWriter *convert_find_writer(const char *name, const char *path);
