/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the verb, loads its configuration, runs it, and turns what it returns into an exit status. Words of
 * perf and of others get a hint instead of an error alone.
 */

#include "host/cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/terminal/terminal.h"
#include "core/base/util/log.h"
#include "host/sampling/process/process.h"
#include "host/service/config/config-load.h"

/* Verbs of perf and others, and what does their job here. */
static const char *const of_others[][2] = {
        { "stat", "`spanprof record -- COMMAND` samples; counters are not read" },
        { "script", "`spanprof convert FILE -o FILE.folded` (or .json) has each sample" },
        { "annotate", "`spanprof report --annotate SOURCE FILE` has numbers beside its lines" },
        { "diff", "use `spanprof report --diff BEFORE AFTER`" },
        { "trace", "use `spanprof coro` for coroutines, `record` for CPU time" },
        { "flamegraph", "`spanprof record` writes one, as a page; `convert FILE -o FILE.svg` as a picture" },
        { "dump", "use `spanprof stacks PID`" },
        { "sched", "`spanprof record --off-cpu` has what threads wait for, and how long" },
        { "lock", "`spanprof stacks PID` says who has which lock now, `record --off-cpu` how long threads wait for some" },
};

const Verb *verb_find(const char *name) {
        const char *names[32], *near;
        size_t n = 0;

        for (const Verb *const *verb = verbs; *verb; verb++) {
                if (!strcmp((*verb)->name, name))
                        return *verb;
                if (n < ARRAY_SIZE(names) - 1)
                        names[n++] = (*verb)->name;
        }
        names[n] = NULL;
        near = nearest_word(name, names);
        for (size_t i = 0; i < ARRAY_SIZE(of_others); i++)
                if (!strcmp(name, of_others[i][0])) {
                        log_error("there is no `%s`: %s", name, of_others[i][1]);
                        return NULL;
                }
        if (near)
                log_error("unknown verb `%s`, did you mean `%s`?", name, near);
        else
                log_error("unknown verb `%s`; `spanprof help` lists them", name);
        return NULL;
}

int cli_load(Cli *cli, Text *errors) {
        ConfigSource source = {
                .root = "",
                .environment = (const char *const *)environ,
                .verb = cli->verb->bit,
                .files = cli->verb->reads_files,
                .as_root = cli->as_root,
        };
        int r = config_load(&cli->config, &source, errors);
        int level;

        if (!r)
                process_choose_remote(cli->config.sampling.remote_files);
        if (!r && log_level_parse(cli->config.daemon.log_level, &level) == 0)
                log_set_level(level);
        return r;
}

/* `config` reports on the configuration, so it loads for itself. */
static int load(Cli *cli) {
        Text errors = { 0 };
        int r = 0;

        if (cli->verb != &verb_config && cli->verb->bit)
                r = cli_load(cli, &errors);
        if (r == CONFIG_E_INVALID)
                cli_log_lines(&errors);
        text_deinit(&errors);
        return r;
}

int cli_reload(const Cli *cli, Config *configp) {
        Cli again = { .verb = cli->verb, .as_root = cli->as_root };
        int r = config_init(&again.config);

        if (!r)
                r = cli_parse(&again, cli->argc, cli->argv);
        if (!r)
                r = load(&again);
        if (!r)
                *configp = again.config;
        else
                config_deinit(&again.config);
        return r;
}

static int run_verb(Cli *cli, int argc, char **argv) {
        int r = config_init(&cli->config);

        cli->as_root = geteuid() == 0;
        cli->argc = argc;
        cli->argv = argv;
        if (!r)
                r = cli_parse(cli, argc, argv);
        if (r > 0)
                return r;
        if (!r && cli->config.command.help) {
                help_print_verb(cli->verb, cli->help_all || cli->config.targets.all);
                return STATUS_OK;
        }
        if (!r && cli->config.command.version) {
                version_print();
                return STATUS_OK;
        }
        if (!r)
                r = load(cli);
        if (r == CONFIG_E_INVALID)
                return STATUS_CONFIG;
        if (r < 0) {
                log_error("cannot start: %s", strerror(-r));
                return STATUS_FAILURE;
        }
        r = cli->verb->run(cli);
        process_end_remote();
        return r;
}

/* `spanprof --help` is what people try first. */
static const char *verb_name(const char *word) {
        if (!strcmp(word, "--help") || !strcmp(word, "-h"))
                return "help";
        return strcmp(word, "--version") ? word : "version";
}

static int run_raw(Cli *cli, int argc, char **argv) {
        cli->arguments = argv;
        cli->n_arguments = argc;
        return cli->verb->run(cli);
}

/* Under the name of the program that it stands in for, spanprof is that program. */
static bool is_called_corotracer(const char *path) {
        const char *slash = path ? strrchr(path, '/') : NULL;

        return path && !strcasecmp(slash ? slash + 1 : path, "corotracer");
}

int cli_main(int argc, char **argv) {
        Cli cli = { 0 };
        const char *name;
        int status;

        if (argc && is_called_corotracer(argv[0])) {
                cli.verb = &verb_corotracer;
                return run_raw(&cli, argc - 1, argv + 1);
        }
        if (argc < 2) {
                log_error("which verb? `spanprof help` lists them");
                return STATUS_USAGE;
        }
        name = verb_name(argv[1]);
        if (name[0] == '-') {
                log_error("`%s`: the verb comes first: spanprof VERB [OPTION…]", name);
                return STATUS_USAGE;
        }
        cli.verb = verb_find(name);
        if (!cli.verb)
                return STATUS_USAGE;
        if (cli.verb->raw)
                return run_raw(&cli, argc - 2, argv + 2);
        status = run_verb(&cli, argc - 2, argv + 2);
        config_deinit(&cli.config);
        return status;
}
