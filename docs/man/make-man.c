/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills a manual page with the options of the table, so that they cannot disagree. Copies standard
 * input to standard output; these lines are replaced:
 *
 *     .\" @VERBS@             every verb with its summary
 *     .\" @OPTIONS@           a section for each verb with the options that it takes
 *     .\" @SETTINGS@          the keys of configuration files by section
 *     .\" @RULES@             the rules of `validate`
 */

#include <stdio.h>
#include <string.h>

#include "core/otlp/finding.h"
#include "host/cli/cli.h"

/* A leading dot, a backslash and a dash mean something to roff. */
static void print_escaped(const char *text) {
        if (*text == '.' || *text == '\'')
                fputs("\\&", stdout);
        for (; *text; text++) {
                if (*text == '\\' || *text == '-')
                        putchar('\\');
                if (*text == '\\')
                        putchar('e');
                else
                        putchar(*text);
        }
}

static void print_bold(const char *text) {
        fputs("\\fB", stdout);
        print_escaped(text);
        fputs("\\fR", stdout);
}

static void print_italic(const char *text) {
        fputs("\\fI", stdout);
        print_escaped(text);
        fputs("\\fR", stdout);
}

/* @verb: 0 = as a setting of a configuration file, without the variable of the environment. */
static void print_help(const Option *option, int verb) {
        const char *fallback = option_fallback(option, verb);
        char name[OPTION_ENVIRONMENT_MAX];
        Text range = { 0 };

        print_escaped(option_help(option, verb));
        option_print_range(option, &range);
        if (range.size) {
                fputs("; ", stdout);
                print_escaped(range.data);
        }
        if (fallback && *fallback && option->section) {
                fputs(" (default: ", stdout);
                print_escaped(fallback);
                fputs(")", stdout);
        }
        fputs(".\n", stdout);
        if (verb && option_is_setting(option)) {
                option_environment(option, name);
                fputs(".br\nEnvironment: ", stdout);
                print_bold(name);
                if (option->otel) {
                        fputs(", ", stdout);
                        print_bold("OTEL_EXPORTER_OTLP_");
                        print_bold(option->otel);
                }
                fputs(".\n", stdout);
        }
        text_deinit(&range);
}

static void print_flags(const Option *option) {
        fputs(".TP\n", stdout);
        if (option->letter) {
                const char flag[] = { '-', option->letter, 0 };

                print_bold(flag);
                fputs(", ", stdout);
        }
        print_bold("--");
        print_bold(option->name);
        if (option->argument) {
                putchar('=');
                print_italic(option->argument);
        } else if (option->fallback && !strcmp(option->fallback, "on")) {
                fputs(", ", stdout);
                print_bold("--no-");
                print_bold(option->name);
        }
        putchar('\n');
}

static void print_verbs(void) {
        for (const Verb *const *verb = verbs; *verb; verb++) {
                fputs(".TP\n", stdout);
                print_bold((*verb)->name);
                if (*(*verb)->arguments) {
                        putchar(' ');
                        print_italic((*verb)->arguments);
                }
                putchar('\n');
                print_escaped((*verb)->summary);
                fputs(".\n", stdout);
        }
}

static void print_options(const Verb *verb) {
        fputs(".SH OPTIONS OF ", stdout);
        for (const char *c = verb->name; *c; c++)
                putchar(*c - 'a' + 'A');
        putchar('\n');
        if (verb->bit == VERB_CONFIG)
                fputs("All those that a configuration file may set, and\n", stdout);
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (!(option->verbs & verb->bit) || !option_is_setting(option))
                        continue;
                print_flags(option);
                print_help(option, verb->bit);
        }
}

static void print_all_options(void) {
        for (const Verb *const *verb = verbs; *verb; verb++)
                if ((*verb)->bit)
                        print_options(*verb);
}

static void print_settings(void) {
        const char *section = "";

        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (!option->section)
                        continue;
                if (strcmp(section, option->section))
                        printf(".SS [%s]\n", option->section);
                section = option->section;
                fputs(".TP\n", stdout);
                print_bold(option->name);
                fputs(" = ", stdout);
                print_italic(option->argument ? option->argument : "on|off");
                putchar('\n');
                print_help(option, 0);
        }
}

static void print_rules(void) {
        static const char *const rules[][2] = {
#define X(name, text, what) { text, what },
                VALIDATE_RULES(X)
#undef X
        };

        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
                fputs(".TP\n", stdout);
                print_bold(rules[i][0]);
                putchar('\n');
                print_escaped(rules[i][1]);
                fputs(".\n", stdout);
        }
}

int main(void) {
        char line[4096];

        while (fgets(line, sizeof(line), stdin)) {
                if (!strcmp(line, ".\\\" @VERBS@\n"))
                        print_verbs();
                else if (!strcmp(line, ".\\\" @OPTIONS@\n"))
                        print_all_options();
                else if (!strcmp(line, ".\\\" @SETTINGS@\n"))
                        print_settings();
                else if (!strcmp(line, ".\\\" @RULES@\n"))
                        print_rules();
                else
                        fputs(line, stdout);
        }
        return ferror(stdin) | fflush(stdout) ? 1 : 0;
}
