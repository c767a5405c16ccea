/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the weights of an Accept header, and rewrites Prometheus' text family by family into OpenMetrics.
 */

#include "host/service/control/openmetrics.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what a scraper prefers ---- */

/* Quality that @part of an Accept header gives its type, `TYPE;NAME=VALUE;q=0.5`: 1 without a `q`. */
static double quality_of(const char *part, size_t size) {
        for (size_t i = 0; i + 2 < size; i++)
                if (part[i] == ';') {
                        size_t at = i + 1 + strspn(part + i + 1, " \t");

                        if (at + 2 <= size && !strncasecmp(part + at, "q=", 2))
                                return strtod(part + at + 2, NULL);
                }
        return 1;
}

/* Return: 0 = not asked for. */
static double quality(const char *accept, const char *type) {
        size_t type_size = strlen(type);

        for (const char *part = accept; *part;) {
                size_t size;

                part += strspn(part, ", \t");
                size = strcspn(part, ",");
                if (size >= type_size && !strncasecmp(part, type, type_size) &&
                    (size == type_size || strchr("; \t", part[type_size])))
                        return quality_of(part, size);
                part += size;
        }
        return 0;
}

bool openmetrics_is_wanted(const char *accept) {
        double wanted = quality(accept, "application/openmetrics-text");

        return wanted > 0 && wanted >= quality(accept, "text/plain");
}

/* ---- conversion ---- */

static bool starts_with(const char *line, const char *start) {
        return !strncmp(line, start, strlen(start));
}

/* Return: what follows `# TYPE NAME ` in @page, NULL = it is not there. */
static const char *type_of(const char *page, const char *name, size_t size) {
        for (const char *line = strstr(page, "# TYPE "); line; line = strstr(line + 7, "# TYPE "))
                if (!strncmp(line + 7, name, size) && line[7 + size] == ' ')
                        return line + 8 + size;
        return NULL;
}

/*
 * A family of counters is called without the ending that its samples have. Where another family is called so
 * already, it keeps its name, and is of no known type. *typep: NULL = as it was.
 */
static size_t family_size(const char *page, const char *name, size_t size, const char **typep) {
        const size_t ending = sizeof("_total") - 1;
        const char *type = type_of(page, name, size);

        *typep = NULL;
        if (!type || !starts_with(type, "counter") || size <= ending ||
            memcmp(name + size - ending, "_total", ending) != 0)
                return size;
        if (!type_of(page, name, size - ending))
                return size - ending;
        *typep = " unknown";
        return size;
}

/* In the older form a quote stands for itself in a help text. */
static void append_help(Text *text, const char *help, size_t size) {
        for (size_t i = 0; i < size; i++) {
                if (help[i] == '"')
                        text_append(text, "\\", 1);
                text_append(text, help + i, 1);
        }
}

static void append_comment(Text *text, const char *page, const char *line, size_t size) {
        const char *name = line + 7, *type;     /* both words have as many characters */
        size_t name_size = strcspn(name, " \n");

        text_append(text, line, 7);
        text_append(text, name, family_size(page, name, name_size, &type));
        if (starts_with(line, "# HELP "))
                append_help(text, name + name_size, size - 7 - name_size);
        else if (type)
                text_append(text, type, strlen(type));
        else
                text_append(text, name + name_size, size - 7 - name_size);
}

void openmetrics_convert(Text *text, const char *page) {
        for (const char *line = page; *line;) {
                size_t size = strcspn(line, "\n");

                if (starts_with(line, "# HELP ") || starts_with(line, "# TYPE "))
                        append_comment(text, page, line, size);
                else
                        text_append(text, line, size);
                text_append(text, "\n", 1);
                line += size + (line[size] == '\n');
        }
        text_append(text, "# EOF\n", 6);
}
