/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads one argument of the command line whole; standard input may be named once.
 */

#include "desk/cli/input.h"

#include <errno.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/log.h"
#include "core/otlp/decode.h"
#include "host/cli/cli.h"

const char *input_name(const char *argument) {
        return strcmp(argument, "-") ? argument : "standard input";
}

int input_mistake(const char *name, const char *what, const char *where) {
        log_error("%s: %s%s%s", name, what, where && where[0] ? ": " : "", where ? where : "");
        return STATUS_FAILURE;
}

int input_read(Input *input, const char *argument, char **datap, size_t *sizep) {
        const char *name = input_name(argument);
        bool from_stdin = name != argument;
        int r;

        if (from_stdin && input->stdin_used)
                return input_mistake(name, "can be read only once", NULL);
        input->stdin_used |= from_stdin;
        r = from_stdin ? file_read_fd(STDIN_FILENO, OTLP_DECODE_MAX_BYTES, datap, sizep)
                       : file_read(argument, OTLP_DECODE_MAX_BYTES, datap, sizep);
        if (r == FILE_E_UNREADABLE)
                return input_mistake(name, "cannot be read", strerror(errno));
        if (r == FILE_E_TOO_LARGE)
                return input_mistake(name, "is larger than the 64 MiB that a request may have", NULL);
        if (!r && !*sizep) {
                free(take(*datap));
                return input_mistake(name, "is empty", NULL);
        }
        return r;
}
