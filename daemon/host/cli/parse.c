/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Options of a command line: `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`; switches as `--name`,
 * `--no-name`, `--name=off`, `-abc`; `--` ends them. Written here and not left to getopt_long(), because
 * names, short flags and the word that was nearly typed all come from the table.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/terminal/terminal.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/cli/cli.h"
#include "host/service/config/option-removed.h"

typedef struct Parse {
        Cli *cli;
        char **argv;
        int argc, at;                   /* argv[at] is the next to read */
        bool all;                       /* --all was given to a verb that has no such option */
        Text errors;
} Parse;

static int complain(Parse *parse) {
        return parse->errors.failed ? error_origin(-ENOMEM) : STATUS_USAGE;
}

static bool is_taken(const Parse *parse, const Option *option) {
        return option && (option_is_for(option, parse->cli->verb->bit) || !option_is_setting(option));
}

#define WALL "samples are CPU time; --off-cpu counts waits, too, and `report --wall` shows both as one"

/* Hint on what replaces an option that is gone, or one of perf's or py-spy's; NULL = there is no word for it. */
static const char *replacement(const Verb *verb, const char *typed) {
        static const struct {
                const Verb *verb;
                const char *typed, *hint;
        } table[] = {
                { &verb_report, "raw", "use `spanprof convert FILE -o FILE.json --pretty`" },
                { &verb_record, "g", "stacks are always taken" },
                { &verb_record, "call-graph", "stacks are always taken, without frame pointers too" },
                { &verb_record, "e", "CPU time is what is sampled; -F says how often" },
                { &verb_record, "event", "CPU time is what is sampled; -F says how often" },
                { &verb_record, "c", "-F says how many samples a second" },
                { &verb_record, "t", "-p takes a process; its page and `report --thread` show a thread alone" },
                { &verb_record, "all-cpus", "it is -a, --all" },
                { &verb_record, "b", "branches are not read" },
                { &verb_record, "native", "functions of C are always there, beside those of Python" },
                { &verb_record, "n", "functions of C are always there, beside those of Python" },
                { &verb_record, "gil", "samples are CPU time: who waits for the GIL has none; --off-cpu counts that wait" },
                { &verb_record, "idle", WALL },
                { &verb_record, "i", WALL },
                { &verb_record, "rate", "-F says how many samples a second" },
                { &verb_record, "r", "-F says how many samples a second" },
                { &verb_record, "subprocesses", "what a COMMAND starts is always recorded; -p takes several processes" },
                { &verb_record, "s", "what a COMMAND starts is always recorded; -p takes several processes" },
                { &verb_record, "nonblocking", "no process is ever stopped" },
                { &verb_report, "stdio", "that is what it does" },
                { &verb_report, "i", "name the file without it" },
                { &verb_report, "input", "name the file without it" },
                { &verb_report, "children", "`total` has what a function calls; --sort=total begins with it" },
                { &verb_report, "no-children", "--sort=self, which is the default" },
                { &verb_report, "g", "`Stacks` are below the functions; `-o FILE.html` has the whole tree" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (verb == table[i].verb && !strcmp(typed, table[i].typed))
                        return table[i].hint;
        return NULL;
}

static int unknown_option(Parse *parse, const char *typed) {
        const char *hint = replacement(parse->cli->verb, typed);
        const char *names[CONFIG_MAX_OPTIONS + 1], *near;
        size_t n = 0;

        for (size_t i = 0; i < option_table_size; i++)
                if (is_taken(parse, &option_table[i]))
                        names[n++] = option_table[i].name;
        names[n] = NULL;
        near = nearest_word(typed, names);
        text_printf(&parse->errors, "%s: unknown option --%s", parse->cli->verb->name, typed);
        if (hint)
                text_printf(&parse->errors, ": %s", hint);
        else if (near)
                text_printf(&parse->errors, ", did you mean --%s?", near);
        text_printf(&parse->errors, "\n");
        return complain(parse);
}

static int apply(Parse *parse, const Option *option, const char *written, const char *value) {
        int r = config_set(&parse->cli->config, option, value, CONFIG_COMMAND_LINE, "command line", written,
                           &parse->errors);

        return r == CONFIG_E_INVALID ? STATUS_USAGE : r;
}

/* The value in the next argument. */
static int apply_next(Parse *parse, const Option *option, const char *written) {
        if (parse->at < parse->argc)
                return apply(parse, option, written, parse->argv[parse->at++]);
        text_printf(&parse->errors, "%s: needs a value (%s)\n", written, option->argument);
        return complain(parse);
}

/* An option that is gone, and the word that is its value. */
static int pass_removed(Parse *parse, const RemovedOption *removed, const char *written, const char *value) {
        if (!value && !removed->is_switch && parse->at < parse->argc)
                value = parse->argv[parse->at++];
        return removed_apply(removed, &parse->cli->config, value, CONFIG_COMMAND_LINE, "command line",
                             written);
}

static const RemovedOption *find_removed(const Parse *parse, const char *name, size_t size) {
        const RemovedOption *removed = removed_find(name, size, parse->cli->verb->bit);

        if (!removed && !strncmp(name, "no-", 3))
                removed = removed_find(name + 3, size - 3, parse->cli->verb->bit);
        return removed;
}

static int parse_long(Parse *parse, const char *name) {
        size_t size = strcspn(name, "=");
        const char *value = name[size] ? name + size + 1 : NULL;
        const Option *option = option_find(name, size);
        const RemovedOption *removed = find_removed(parse, name, size);
        _cleanup_(freep) char *written = NULL;

        if (asprintf(&written, "--%.*s", (int)size, name) < 0)
                return error_origin(-ENOMEM);
        if (!is_taken(parse, option) && !value && !strncmp(name, "no-", 3)) {
                option = option_find(name + 3, size - 3);
                if (is_taken(parse, option) && option->kind == OPTION_BOOL && option_is_setting(option))
                        return apply(parse, option, written, "off");
        }
        if (!is_taken(parse, option) && !value && !strcmp(name, "all")) {
                parse->all = true;
                return 0;
        }
        if (!is_taken(parse, option) && removed)
                return pass_removed(parse, removed, written, value);
        if (!is_taken(parse, option))
                return unknown_option(parse, written + 2);
        if (value)
                return apply(parse, option, written, value);
        if (option->kind == OPTION_BOOL)
                return apply(parse, option, written, "on");
        return apply_next(parse, option, written);
}

static int parse_short(Parse *parse, const char *letters) {
        for (; *letters; letters++) {
                const Option *option = option_find_letter(*letters, parse->cli->verb->bit);
                char written[16] = { '-', *letters };   /* with room: gcc 12 compares it with longer words */
                int r;

                if (!option) {
                        const char *hint = replacement(parse->cli->verb, written + 1);

                        text_printf(&parse->errors, "%s: unknown option -%c%s%s\n", parse->cli->verb->name,
                                    *letters, hint ? ": " : "", hint ? hint : "");
                        return complain(parse);
                }
                if (option->kind != OPTION_BOOL)
                        return letters[1] ? apply(parse, option, written, letters + 1)
                                          : apply_next(parse, option, written);
                r = apply(parse, option, written, "on");
                if (r)
                        return r;
        }
        return 0;
}

static int check_arguments(Parse *parse) {
        const Verb *verb = parse->cli->verb;
        int n = parse->cli->n_arguments;

        if (n >= verb->min_arguments && n <= verb->max_arguments)
                return 0;
        if (n < verb->min_arguments)
                text_printf(&parse->errors, "%s: needs %s\n", verb->name, verb->arguments);
        else
                text_printf(&parse->errors, "%s: too many arguments: `%s`\n", verb->name,
                            parse->cli->arguments[verb->max_arguments]);
        if (n > verb->max_arguments && verb->refusal)
                text_printf(&parse->errors, "%s\n", verb->refusal);
        return complain(parse);
}

/* Goes on after a mistake, so that all are named at once. Arguments move to the front of argv. */
static int parse_all(Parse *parse) {
        Cli *cli = parse->cli;
        bool only_arguments = false;
        int result = 0;

        while (parse->at < parse->argc) {
                char *word = parse->argv[parse->at++];
                int r = 0;

                if (only_arguments || word[0] != '-' || !word[1]) {
                        cli->arguments[cli->n_arguments++] = word;
                        only_arguments |= cli->verb->takes_command;
                } else if (!strcmp(word, "--"))
                        only_arguments = true;
                else
                        r = word[1] == '-' ? parse_long(parse, word + 2) : parse_short(parse, word + 1);
                if (r < 0)
                        return r;
                result = result ? result : r;
        }
        return result;
}

int cli_parse(Cli *cli, int argc, char **argv) {
        Parse parse = { .cli = cli, .argc = argc, .argv = argv };
        int r;

        cli->arguments = argv;
        cli->n_arguments = 0;
        r = parse_all(&parse);
        cli->help_all = parse.all && (cli->config.command.help || cli->verb == &verb_help);
        if (!r && parse.all && !cli->help_all)
                r = unknown_option(&parse, "all");
        if (!r && !cli->config.command.help && !cli->config.command.version)
                r = check_arguments(&parse);
        if (r == STATUS_USAGE) {
                cli_log_lines(&parse.errors);
                log_error("try `spanprof %s --help`", cli->verb->name);
        }
        text_deinit(&parse.errors);
        return r;
}
