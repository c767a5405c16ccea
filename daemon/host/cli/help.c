/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `help`: prints the description of a verb, and its options from the table of options, wrapped to the width of
 * a page or of a narrower terminal.
 */

#include <stdio.h>
#include <string.h>

#include "core/base/terminal/terminal.h"
#include "host/cli/cli.h"

enum {
        HELP_COLUMN = 30,               /* at which what an option means begins */
        VERB_COLUMN = 16,
        EXAMPLE_INDENT = 6,             /* blanks before words below a command */
        HELP_WIDTH = 100,
        DESCRIPTION_WIDTH = 110,
        LEAST_WIDTH = 60,               /* on a terminal that is narrower still */
};

/* Columns of a terminal; of anything else, as many as there are. */
static int help_width(int most) {
        unsigned columns = cli_output_width();

        return columns && columns < (unsigned)most ? (int)MAX(columns, (unsigned)LEAST_WIDTH) : most;
}

/* Columns that a text takes: code points, which is right for what the table holds. */
static int width(const char *text, size_t size) {
        int n = 0;

        for (size_t i = 0; i < size; i++)
                n += ((unsigned char)text[i] & 0xC0) != 0x80;
        return n;
}

/* Prints words from column HELP_COLUMN on, wrapped; the cursor is at @column. */
static void print_wrapped(const char *text, int column) {
        const char *separator = "";

        if (column >= HELP_COLUMN) {
                printf("\n");
                column = 0;
        }
        printf("%*s", HELP_COLUMN - column, "");
        column = HELP_COLUMN;
        while (*text) {
                size_t size = strcspn(text, " ");

                if (column + width(text, size) + 1 > help_width(HELP_WIDTH)) {
                        printf("\n%*s", HELP_COLUMN, "");
                        column = HELP_COLUMN;
                        separator = "";
                }
                printf("%s%.*s", separator, (int)size, text);
                column += width(text, size) + (int)strlen(separator);
                separator = " ";
                text += size + (text[size] == ' ');
        }
        printf("\n");
}

static void describe(const Option *option, int verb, Text *text) {
        const char *fallback = option_fallback(option, verb);
        Text range = { 0 };

        text_printf(text, "%s", option_help(option, verb));
        option_print_range(option, &range);
        if (range.size)
                text_printf(text, "; %s", range.data);
        if (fallback && *fallback && option->section)
                text_printf(text, " (default: %s)", fallback);
        text_deinit(&range);
}

static void print_option(const Option *option, int verb) {
        Text flags = { 0 }, help = { 0 };

        if (option->letter)
                text_printf(&flags, "  -%c, --%s", option->letter, option->name);
        else
                text_printf(&flags, "      --%s", option->name);
        if (option->argument)
                text_printf(&flags, "=%s", option->argument);
        else if (option->fallback && !strcmp(option->fallback, "on"))
                text_printf(&flags, "=on|off");
        describe(option, verb, &help);
        if (!flags.failed && !help.failed) {
                printf("%s", flags.data);
                print_wrapped(help.data, width(flags.data, flags.size));
        }
        text_deinit(&flags);
        text_deinit(&help);
}

/* Sections are those of configuration files; a verb that reads none has words of its own. */
static const char *find_title(const Option *option, const Verb *verb) {
        if (!option->section)
                return "options";
        if (!verb->reads_files && !strcmp(option->section, "daemon"))
                return "general";
        if (!verb->reads_files && !strcmp(option->section, "export"))
                return "names and output";
        return option->section;
}

/* Prints the options of @verb under their headings. Return: how many advanced ones were left out. */
static unsigned print_options(const Verb *verb, bool all) {
        const char *section = "";
        unsigned n_hidden = 0;

        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];
                const char *title = find_title(option, verb);

                if (!option_is_for(option, verb->bit) && option_is_setting(option))
                        continue;
                if (option->advanced && !all) {
                        n_hidden++;
                        continue;
                }
                if (strcmp(title, section))
                        printf("\n%c%s:\n", title[0] - 'a' + 'A', title + 1);
                section = title;
                print_option(option, verb->bit);
        }
        return n_hidden;
}

/* `  spanprof top    what it does`; where it is too wide, what it does stands below. */
static void print_example(const char *line, size_t size, int columns) {
        size_t n_blanks = strspn(line, " ");
        const char *words = memmem(line + n_blanks, size - n_blanks, "  ", 2);
        size_t n_command = words ? (size_t)(words - line) : size;

        if (width(line, size) <= columns || !words) {
                printf("%.*s\n", (int)size, line);
                return;
        }
        words += strspn(words, " ");
        printf("%.*s\n%*s%.*s\n", (int)n_command, line, EXAMPLE_INDENT, "", (int)(size - (size_t)(words - line)),
               words);
}

/* Lines of a paragraph are one text; those that begin with a blank stand for themselves. */
static void print_description(const char *text, int columns) {
        Text paragraph = { 0 };

        while (*text) {
                size_t size = strcspn(text, "\n");
                char next = text[size] ? text[size + 1] : '\0';
                bool goes_on = size && *text != ' ' && next && next != '\n' && next != ' ';

                if (size && *text == ' ') {
                        print_example(text, size, columns);
                } else {
                        text_append(&paragraph, text, size);
                        text_append(&paragraph, goes_on ? " " : "\n", 1);
                }
                if (!goes_on && paragraph.data) {
                        cli_print_wrapped(paragraph.data, (unsigned)columns, 0, stdout);
                        text_deinit(&paragraph);
                }
                text += size + (text[size] == '\n');
        }
}

void help_print_verb(const Verb *verb, bool all) {
        int columns = help_width(DESCRIPTION_WIDTH);
        unsigned n_hidden;

        printf("Usage: spanprof %s%s%s%s\n\n", verb->name, verb->bit ? " [OPTION…]" : "", *verb->arguments ? " " : "",
               verb->arguments);
        if (columns < DESCRIPTION_WIDTH)
                print_description(verb->description, columns);
        else
                printf("%s%s", verb->description,
                       verb->description[strlen(verb->description) - 1] == '\n' ? "" : "\n");
        n_hidden = print_options(verb, all);
        if (verb->bit)
                cli_print_wrapped(verb->reads_files ? "\nEach option can be set in the environment too, e.g. "
                                                      "SPANPROF_EXPORT_INTERVAL=30s,\nand those under a heading in "
                                                      "configuration files: see spanprof.conf(5).\n"
                                                    : "\nEach option can be set in the environment too, e.g. "
                                                      "SPANPROF_EXPORT_INTERVAL=30s.\n",
                                  (unsigned)columns, 0, stdout);
        if (n_hidden)
                printf("\n`spanprof %s --help --all` shows %u more option%s.\n", verb->name, n_hidden,
                       n_hidden == 1 ? "" : "s");
}

static void help_print(void) {
        unsigned columns = (unsigned)help_width(HELP_WIDTH);

        cli_print_wrapped("Usage: spanprof VERB [OPTION…] [ARGUMENT…]\n\n"
                          "Samples the stacks of running programs by span, from outside, and ships them as OTLP profiles.\n\n"
                          "Verbs:\n",
                          columns, 0, stdout);
        for (const Verb *const *verb = verbs; *verb; verb++) {
                _cleanup_(text_deinit) Text line = { 0 };

                text_printf(&line, "  %-12s  %s\n", (*verb)->name, (*verb)->summary);
                cli_print_wrapped(line.data ? line.data : "", columns, VERB_COLUMN, stdout);
        }
        printf("\n`spanprof VERB --help` tells more.\n\n"
               "Exit status: %d done; %d failed; %d wrong command line; %d slower than --fail-above allows;\n"
               "%d configuration or kernel not usable.\n",
               STATUS_OK, STATUS_FAILURE, STATUS_USAGE, STATUS_SLOWER, STATUS_CONFIG);
}

static int run(Cli *cli) {
        const Verb *verb;

        if (!cli->n_arguments) {
                help_print();
                return STATUS_OK;
        }
        verb = verb_find(cli->arguments[0]);
        if (!verb)
                return STATUS_USAGE;
        help_print_verb(verb, cli->help_all);
        return STATUS_OK;
}

const Verb verb_help = {
        .name = "help",
        .arguments = "[VERB]",
        .max_arguments = 1,
        .summary = "what the verbs are and what each does",
        .description = "Lists the verbs, or explains one.",
        .run = run,
};
