/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Logs a text line by line, and finds the width of standard output: that of the terminal, else COLUMNS.
 */

#include "core/base/terminal/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/util/log.h"

void cli_log_lines(const Text *text) {
        const char *line = text->data;

        while (line && *line) {
                size_t size = strcspn(line, "\n");

                log_error("%.*s", (int)size, line);
                line += size + (line[size] == '\n');
        }
}

unsigned cli_output_width(void) {
        const char *columns = getenv("COLUMNS");
        struct winsize size;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
                return size.ws_col;
        return columns ? (unsigned)strtoul(columns, NULL, 10) : 0;
}
