/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing a window in one of the forms of the table, to a file, which appears whole or not at all, or to
 * standard output.
 */

#include "core/base/file/outfile.h"
#include "desk/convert/library.h"

typedef struct Outputs {
        const char *path;               /* `-` = standard output */
        OutfileReaders readers;         /* users who may read the inputs of the output */
        uint32_t mode;                  /* mode of a new file; 0 = umask decides */
        Outfile file;
        uint64_t n_bytes;
} Outputs;

/* The writer for a path and a --format (`auto`: by the path's suffix), or NULL after a message. */
const ConvertWriter *outputs_find_writer(const char *path, const char *format);

/* Says what the form cannot hold. Return: 0, STATUS_FAILURE after a message, -errno. */
int outputs_write(Outputs *outputs, const ConvertWriter *writer, const Convert *convert);

/* The same by the library's functions. */
int outputs_write_library(Outputs *outputs, const ConvertWriter *writer, spanprof_convert *convert);
