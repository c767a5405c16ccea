/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Logs a text line by line, wraps lines between words, and finds the width of standard output: that of the
 * terminal, else COLUMNS.
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

static unsigned count_columns(const char *text, size_t size) {
        unsigned n = 0;

        for (size_t i = 0; i < size; i++)
                n += ((unsigned char)text[i] & 0xC0) != 0x80;
        return n;
}

/* A word with the blanks before it. */
static size_t word_size(const char *text) {
        size_t n_blanks = strspn(text, " ");

        return n_blanks + strcspn(text + n_blanks, " \n");
}

void cli_print_wrapped(const char *text, unsigned width, unsigned indent, FILE *out) {
        unsigned column = 0;

        while (*text) {
                size_t size = *text == '\n' ? 1 : word_size(text);
                unsigned n = count_columns(text, size), n_blanks = (unsigned)strspn(text, " ");

                if (*text == '\n') {
                        column = n = 0;
                } else if (width && column > indent && column + n > width) {
                        fprintf(out, "\n%*s", (int)indent, "");
                        text += n_blanks;
                        size -= n_blanks;
                        column = indent;
                        n -= n_blanks;
                }
                fprintf(out, "%.*s", (int)size, text);
                column += n;
                text += size;
        }
}

unsigned cli_output_width(void) {
        const char *columns = getenv("COLUMNS");
        struct winsize size;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
                return size.ws_col;
        return columns ? (unsigned)strtoul(columns, NULL, 10) : 0;
}
