/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the file's frames by the ends of their paths, counts each line once a sample, and prints the source
 * with its shares.
 */

#include "desk/report/annotate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/profile/shown.h"
#include "desk/report/annotate-page.h"
#include "desk/report/sheet.h"

enum { MAX_SOURCE_BYTES = 64 << 20, MAX_NAMES = 5 };

typedef struct Annotation {
        const Window *window;
        const char *path;
        const WindowProfile *kind;      /* the profile that is told of */
        uint64_t *self, *total;         /* by line, from 1; row 0 is what lies behind the end */
        uint64_t *seen;                 /* by line: the sample that was counted last */
        bool *shown;                    /* by line: within the context of a line with samples */
        uint64_t n_samples;
        uint32_t n_lines;
        uint8_t *matches;               /* by string: 0 not asked, 1 means the file, 2 another, 3 told */
        uint64_t all, behind;
        bool any_line;                  /* a sample has a line, whatever its file */
} Annotation;

static const char *skip_dots(const char *path) {
        for (;;) {
                if (!strncmp(path, "./", 2))
                        path += 2;
                else if (!strncmp(path, "../", 3))
                        path += 3;
                else
                        return path;
        }
}

/* `src/a.c` and `/build/src/a.c` are one file, `b/a.c` and `c/a.c` are two. */
static bool is_same_file(const char *left, const char *right) {
        size_t n, m;

        left = skip_dots(left);
        right = skip_dots(right);
        n = strlen(left);
        m = strlen(right);
        if (n > m)
                return is_same_file(right, left);
        return n && !strcmp(left, right + m - n) && (n == m || left[0] == '/' || right[m - n - 1] == '/');
}

static bool is_in_file(Annotation *annotation, uint32_t string) {
        uint8_t *match = &annotation->matches[string];

        if (!*match) {
                const char *name = window_get_string(annotation->window, string, NULL);

                *match = is_same_file(annotation->path, name) ? 1 : 2;
        }
        return *match == 1;
}

/* A line that a stack has twice counts once in the total. */
static void add_stack(Annotation *annotation, uint32_t stack, uint64_t value) {
        size_t n;
        const FrameWord *words = window_get_stack(annotation->window, stack, &n);

        annotation->all += value;
        annotation->n_samples++;
        for (size_t i = 0; i < n; i++) {
                WindowFrame frame = window_expand_frame(annotation->window, words[i]);
                const WindowFunction *function = window_get_function(annotation->window, frame.function);
                uint32_t line;

                annotation->any_line |= frame.line > 0;
                if (frame.line <= 0 || !is_in_file(annotation, function->filename))
                        continue;
                line = frame.line <= annotation->n_lines ? (uint32_t)frame.line : 0;
                if (i == 0)
                        annotation->self[line] += value;
                if (annotation->seen[line] != annotation->n_samples)
                        annotation->total[line] += value;
                annotation->seen[line] = annotation->n_samples;
        }
}

static void add_samples(Annotation *annotation) {
        const WindowProfileNames *names = &annotation->kind->names;

        for (uint32_t i = 0; i < window_n_profiles(annotation->window); i++) {
                const WindowProfile *profile = window_get_profile(annotation->window, i);

                if (profile->names.type != names->type || profile->names.unit != names->unit)
                        continue;
                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(annotation->window, i, j, &sample);
                        if (sample.value > 0)
                                add_stack(annotation, sample.stack, (uint64_t)sample.value);
                }
        }
}

static bool has_any(const Annotation *annotation) {
        for (uint32_t i = 0; i <= annotation->n_lines; i++)
                if (annotation->total[i])
                        return true;
        return false;
}

/* Says that the file has no samples, and names files that have lines. */
static void say_none(Annotation *annotation, Text *problem) {
        const Window *window = annotation->window;
        int n = 0;

        text_printf(problem, "no sample has a line in it");
        if (!annotation->any_line) {
                text_printf(problem, ": this profile has none at all; is there debug information (-g)?");
                return;
        }
        for (uint32_t i = 1; i < window_n_functions(window) && n < MAX_NAMES; i++) {
                uint32_t file = window_get_function(window, i)->filename;

                if (!file || annotation->matches[file] == 3)
                        continue;
                text_printf(problem, "%s", n++ ? ", " : "; there are lines of ");
                text_append_masked(problem, window_get_string(window, file, NULL));
                annotation->matches[file] = 3;
        }
        if (!n)
                text_printf(problem, ": no line is known at all; is debug information (-g) here?");
}

static void print_share(const Annotation *annotation, uint64_t value, FILE *out) {
        if (value)
                fprintf(out, "%6.1f%% ", sheet_share(value, annotation->all));
        else
                fprintf(out, "%7s ", "");
}

static void show_context(Annotation *annotation, uint32_t context) {
        uint32_t done = 0;              /* lines up to here are decided */

        for (uint32_t i = 1; i <= annotation->n_lines; i++) {
                uint32_t last = annotation->n_lines - i < context ? annotation->n_lines : i + context;

                if (context != UINT32_MAX && !annotation->total[i])
                        continue;
                for (uint32_t k = MAX(done + 1, i > context ? i - context : 1); k <= last; k++)
                        annotation->shown[k] = true;
                done = MAX(done, last);
        }
}

static void print_lines(const Annotation *annotation, const char *source, const ReportFormat *format,
                        FILE *out) {
        const char *line = source, *end, *stop;

        fprintf(out, "%s%7s %7s  line\n", format->markdown ? "```\n" : "", "self", "total");
        for (uint32_t i = 1; i <= annotation->n_lines; i++, line = end + 1) {
                end = strchrnul(line, '\n');
                stop = end > line && end[-1] == '\r' ? end - 1 : end;
                if (!annotation->shown[i]) {
                        if (annotation->shown[i - 1])
                                fprintf(out, "%21s\n", "…");
                        continue;
                }
                print_share(annotation, annotation->self[i], out);
                print_share(annotation, annotation->total[i], out);
                fprintf(out, "%5" PRIu32 "  ", i);
                for (const char *part = line, *tab; part <= stop; part = tab + 1) {
                        tab = memchr(part, '\t', (size_t)(stop - part));
                        tab = tab ? tab : stop;
                        text_print(part, (size_t)(tab - part), out);
                        if (tab < stop)
                                fputs("        ", out);
                }
                fputc('\n', out);
        }
        if (format->markdown)
                fputs("```\n", out);
}

static void print_annotation(const Annotation *annotation, const char *source, const ReportFormat *format,
                             FILE *out) {
        Sheet sheet = sheet_make(out, format->width, format->markdown);
        const WindowProfileNames *names = &annotation->kind->names;
        const char *unit = window_get_string(annotation->window, names->unit, NULL);
        char value[SHEET_VALUE_MAX];

        if (format->page) {
                annotate_page(&(SourceLines){ annotation->path, source,
                                              window_get_string(annotation->window, names->type, NULL),
                                              sheet_value(value, unit, (double)annotation->all),
                                              annotation->self, annotation->total, annotation->shown,
                                              annotation->all,
                                              annotation->n_lines },
                              out);
                return;
        }
        sheet_part(&sheet, 1, "Source", "%s: %s in %s, %s in all", annotation->path,
                   window_get_string(annotation->window, names->type, NULL), unit,
                   sheet_value(value, unit, (double)annotation->all));
        print_lines(annotation, source, format, out);
        if (annotation->total[0])
                sheet_note(&sheet, "%.1f%% lies behind the end of this file: has it changed since?",
                           sheet_share(annotation->total[0], annotation->all));
}

static uint32_t count_lines(const char *source) {
        uint32_t n = 0;

        for (const char *line = source; *line; n++) {
                line = strchrnul(line, '\n');
                line += *line == '\n';
        }
        return n;
}

static int annotate(Annotation *annotation, const char *source, const ReportFormat *format, FILE *out,
                    Text *problem) {
        size_t n = annotation->n_lines + 1u;

        annotation->self = calloc(n, sizeof(*annotation->self));
        annotation->total = calloc(n, sizeof(*annotation->total));
        annotation->seen = calloc(n, sizeof(*annotation->seen));
        annotation->shown = calloc(n, sizeof(*annotation->shown));
        annotation->matches = calloc(window_n_strings(annotation->window), 1);
        if (!annotation->self || !annotation->total || !annotation->seen || !annotation->shown ||
            !annotation->matches)
                return error_origin(-ENOMEM);
        if (annotation->kind)
                add_samples(annotation);
        if (!has_any(annotation)) {
                say_none(annotation, problem);
                return ANNOTATE_E_SOURCE;
        }
        show_context(annotation, format->context);
        print_annotation(annotation, source, format, out);
        return 0;
}

int annotate_print(const Window *window, const char *path, const ReportFormat *format, FILE *out,
                   Text *problem) {
        Annotation annotation = { .window = window, .path = path, .kind = shown_find(window) };
        _cleanup_(freep) char *source = NULL;
        size_t size;
        int r = file_read_regular(path, MAX_SOURCE_BYTES, &source, &size);

        if (r) {
                text_printf(problem, "cannot be read: %s",
                            r == FILE_E_TOO_LARGE  ? "it has more than 64 MiB"
                                    : r == FILE_E_KIND ? "it is no file"
                                                       : strerror(errno));
                return r < 0 ? r : ANNOTATE_E_SOURCE;
        }
        annotation.n_lines = count_lines(source);
        r = annotate(&annotation, source, format, out, problem);
        free(annotation.self);
        free(annotation.total);
        free(annotation.seen);
        free(annotation.shown);
        free(annotation.matches);
        return r;
}
