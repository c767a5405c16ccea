/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the source as rows with their shares and a colour by heat; all text is escaped.
 */

#include "desk/report/annotate-page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "desk/report/annotate-html.h"
#include "desk/report/sheet.h"

enum { HOTTEST = 5, HEATS = 5 };

/* Masked, and never markup. */
static void put_text(const char *text, size_t size, FILE *out) {
        _cleanup_(freep) char *copy = strndup(text, size);
        _cleanup_(text_deinit) Text page = { 0 };

        if (copy)
                text_append_html(&page, copy);
        fputs(!copy || page.failed ? "?" : page.data ? page.data : "", out);
}

static void put_share(const SourceLines *lines, uint64_t value, FILE *out) {
        if (value)
                fprintf(out, "<td>%.1f%%</td>", sheet_share(value, lines->all));
        else
                fputs("<td></td>", out);
}

/* The line with the most of its own that is less than @below, or equal and behind @line; 0 = no more. */
static uint32_t next_hottest(const SourceLines *lines, uint64_t below, uint32_t line) {
        uint32_t best = 0;

        for (uint32_t i = 1; i <= lines->n_lines; i++) {
                uint64_t value = lines->self[i];
                bool is_next = value < below || (value == below && i > line);

                if (value && is_next && (!best || value > lines->self[best]))
                        best = i;
        }
        return best;
}

static void put_hottest(const SourceLines *lines, FILE *out) {
        uint32_t line = 0;
        uint64_t value = UINT64_MAX;

        for (unsigned i = 0; i < HOTTEST; i++) {
                line = next_hottest(lines, value, line);
                if (!line)
                        break;
                value = lines->self[line];
                fprintf(out, "%s<a href=\"#L%" PRIu32 "\">line %" PRIu32 "</a> (%.1f%%)",
                        i ? ", " : "<p>Hottest by their own share: ", line, line,
                        sheet_share(value, lines->all));
        }
        if (value != UINT64_MAX)
                fputs("</p>\n", out);
}

/* Heat of a line by the most that a line has: 0 = none of its own, 5 = all. */
static unsigned heat_of(const SourceLines *lines, uint64_t value, uint64_t most) {
        return value ? 1 + (unsigned)((double)value / (double)most * (HEATS - 1)) : 0;
}

static void put_line(const char *line, const char *end, FILE *out) {
        for (const char *tab; line <= end; line = tab + 1) {
                tab = memchr(line, '\t', (size_t)(end - line));
                tab = tab ? tab : end;
                put_text(line, (size_t)(tab - line), out);
                if (tab < end)
                        fputs("        ", out);
        }
}

static void put_lines(const SourceLines *lines, FILE *out) {
        uint32_t hottest = next_hottest(lines, UINT64_MAX, 0);
        const char *line = lines->source, *end, *stop;

        fputs("<div class=\"wide\"><table>\n<thead><tr><th>self</th><th>total</th><th>line</th>"
              "<th>source</th></tr></thead>\n<tbody>\n",
              out);
        for (uint32_t i = 1; i <= lines->n_lines; i++, line = end + 1) {
                end = strchrnul(line, '\n');
                stop = end > line && end[-1] == '\r' ? end - 1 : end;
                if (!lines->shown[i]) {
                        if (lines->shown[i - 1])
                                fputs("<tr><td></td><td></td><td>…</td><td></td></tr>\n", out);
                        continue;
                }
                fprintf(out, "<tr id=\"L%" PRIu32 "\" class=\"h%u\">", i,
                        hottest ? heat_of(lines, lines->self[i], lines->self[hottest]) : 0);
                put_share(lines, lines->self[i], out);
                put_share(lines, lines->total[i], out);
                fprintf(out, "<td>%" PRIu32 "</td><td>", i);
                put_line(line, stop, out);
                fputs("</td></tr>\n", out);
        }
        fputs("</tbody>\n</table></div>\n", out);
}

void annotate_page(const SourceLines *lines, FILE *out) {
        fwrite(annotate_html_head, 1, annotate_html_head_size, out);
        fputs("<h1>", out);
        put_text(lines->path, strlen(lines->path), out);
        fputs("</h1>\n<p class=\"muted\">", out);
        put_text(lines->type, strlen(lines->type), out);
        fputs(", ", out);
        put_text(lines->value, strlen(lines->value), out);
        fputs(" in all. Self: what ran in the line itself; total: with all that it called.</p>\n", out);
        put_hottest(lines, out);
        if (lines->total[0])
                fprintf(out, "<p>%.1f%% lies behind the end of this file: has it changed since?</p>\n",
                        sheet_share(lines->total[0], lines->all));
        put_lines(lines, out);
        fwrite(annotate_html_tail, 1, annotate_html_tail_size, out);
}
