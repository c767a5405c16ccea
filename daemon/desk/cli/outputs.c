/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the writer by format or suffix, opens the output, and gives it its name only after the last byte
 * was written.
 */

#include "desk/cli/outputs.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/log.h"
#include "host/cli/cli.h"

const ConvertWriter *outputs_find_writer(const char *path, const char *format) {
        const ConvertWriter *writer = convert_find_writer(strcmp(format, "auto") ? format : NULL, path);

        if (writer)
                return writer;
        if (strcmp(format, "auto"))
                log_error("--format %s is for reports: this verb does not write it", format);
        else if (!strcmp(path, "-"))
                log_error("-o -: say which --format");
        else
                log_error("%s: its suffix names no format; say which --format", path);
        return NULL;
}

static int cannot_write(const Outputs *outputs, int r) {
        log_error("%s: cannot be written: %s", outputs->path, outfile_problem(r));
        return STATUS_FAILURE;
}

static int write_document(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        Outputs *outputs = userdata;
        int r = outfile_write(&outputs->file, data, size);

        return r ? cannot_write(outputs, r) : 0;
}

static void say_losses(const Outputs *outputs, const ConvertWriter *writer, const char *words) {
        if (words && *words)
                log_notice("%s: left out, since %s cannot hold it: %s", outputs->path, writer->name, words);
}

static int write_documents(Outputs *outputs, const ConvertWriter *writer, const Convert *convert) {
        _cleanup_(text_deinit) Text problem = { 0 };
        int r = writer->write(convert, write_document, outputs, &problem);

        if (r == CONVERT_E_OUTPUT && problem.data)
                log_error("%s: %s", outputs->path, problem.data);
        return r > 0 ? STATUS_FAILURE : r;
}

static int open_output(Outputs *outputs) {
        OutfileOptions options = { .mode = outputs->mode ?: 0666,
                                   .readers = outputs->readers,
                                   .for_caller = true };
        int r = outfile_open(&outputs->file, outputs->path, &options);

        return r ? cannot_write(outputs, r) : 0;
}

/* @r: what came of the writing. */
static int finish_output(Outputs *outputs, int r) {
        if (!r) {
                r = outfile_finish(&outputs->file);
                if (r)
                        r = cannot_write(outputs, r);
        }
        outputs->n_bytes = outputs->file.size;
        outfile_deinit(&outputs->file);
        return r;
}

int outputs_write(Outputs *outputs, const ConvertWriter *writer, const Convert *convert) {
        _cleanup_(text_deinit) Text words = { 0 };
        int r = open_output(outputs);

        if (!r)
                r = write_documents(outputs, writer, convert);
        r = finish_output(outputs, r);
        if (!r && writer->losses)
                writer->losses(convert, &words);
        if (!r)
                say_losses(outputs, writer, words.data);
        return r;
}

static int write_piece(const void *data, size_t size, void *userdata) {
        return write_document(data, size, 0, userdata);
}

static int write_by_library(Outputs *outputs, const ConvertWriter *writer, spanprof_convert *convert) {
        int r = spanprof_convert_write(convert, writer->name, write_piece, outputs);

        if (r == -EMSGSIZE)
                log_error("%s: %s", outputs->path, spanprof_convert_problem(convert));
        /* -ECANCELED: write_piece() has said it */
        return r == -EMSGSIZE || r == -ECANCELED ? STATUS_FAILURE : r;
}

int outputs_write_library(Outputs *outputs, const ConvertWriter *writer, spanprof_convert *convert) {
        int r = open_output(outputs);

        if (!r)
                r = write_by_library(outputs, writer, convert);
        r = finish_output(outputs, r);
        if (!r)
                say_losses(outputs, writer, spanprof_convert_losses(convert, writer->name));
        return r;
}
