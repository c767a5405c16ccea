/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Notes the first mistake of a recording; later ones follow from it.
 */

#include "core/jfr/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void jfr_mistake(JfrReader *reader, const char *format, ...) {
        va_list arguments;
        char line[256];

        if (!reader->damaged) {
                va_start(arguments, format);
                vsnprintf(line, sizeof(line), format, arguments);
                va_end(arguments);
                text_append(reader->problem, line, strlen(line));
        }
        reader->damaged = true;
}
