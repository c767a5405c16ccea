/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/openmetrics.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- what a scraper prefers ---- */

/* Of one part of an Accept header, `TYPE;NAME=VALUE;q=0.5`, of @size bytes: 1 without a `q`. */
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

/* `# TYPE NAME counter`, somewhere behind @line, for the family of @name. */
static bool is_counter(const char *line, const char *name, size_t size) {
        const char *type = strstr(line, "# TYPE ");

        return type && !strncmp(type + 7, name, size) && starts_with(type + 7 + size, " counter");
}

/* A family of counters is called without the ending that its samples have. */
static size_t family_size(const char *line, const char *name, size_t size) {
        const size_t ending = sizeof("_total") - 1;

        if (size > ending && !memcmp(name + size - ending, "_total", ending) && is_counter(line, name, size))
                return size - ending;
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

static void append_comment(Text *text, const char *line, size_t size) {
        const char *name = line + 7;    /* both words have as many characters */
        size_t name_size = strcspn(name, " \n");

        text_append(text, line, 7);
        text_append(text, name, family_size(line, name, name_size));
        if (starts_with(line, "# HELP "))
                append_help(text, name + name_size, size - 7 - name_size);
        else
                text_append(text, name + name_size, size - 7 - name_size);
}

void openmetrics_convert(Text *text, const char *page) {
        while (*page) {
                size_t size = strcspn(page, "\n");

                if (starts_with(page, "# HELP ") || starts_with(page, "# TYPE "))
                        append_comment(text, page, size);
                else
                        text_append(text, page, size);
                text_append(text, "\n", 1);
                page += size + (page[size] == '\n');
        }
        text_append(text, "# EOF\n", 6);
}
