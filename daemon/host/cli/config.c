/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `config`: shows each setting with its value and origin, or checks files as `run` would.
 */

#include <stdio.h>
#include <string.h>

#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "host/cli/cli.h"
#include "host/service/config/config-check.h"
#include "host/service/config/config-effective.h"
#include "host/service/config/config-files.h"
#include "host/service/config/config-load.h"

static void print_line(const Option *option, const Text *value, const Text *origin) {
        printf("%-20s = %-24s # %s\n", option->name,
               !value->size ? "" : option->secret ? "(set, not shown)" : value->data,
               origin->data ? origin->data : "default");
}

static void print_setting(const Option *option, const Config *config) {
        _cleanup_(text_deinit) Text value = { 0 }, origin = { 0 };

        config_effective(config, option, CONFIG_ASKED_FROM_OUTSIDE, &value, &origin);
        print_line(option, &value, &origin);
}

static int print_file(const ConfigFile *file, void *userdata) {
        printf("# %s\n", file->path);
        return 0;
}

static void show_export(const ConfigExport *export) {
        printf("\n[export %s]\n", export->name);
        for (size_t i = 0; i < option_table_size; i++)
                if (config_export_takes(&option_table[i]))
                        print_setting(&option_table[i], export->config);
}

static int show(Cli *cli) {
        const char *section = NULL;
        int r = 0;

        if (*cli->config.command.config)
                printf("# %s\n", cli->config.command.config);
        else
                r = config_visit_files("", cli->as_root, print_file, NULL);
        if (r)
                return STATUS_FAILURE;
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (!option->section)
                        continue;
                if (!section || strcmp(section, option->section))
                        printf("%s[%s]\n", section ? "\n" : "", option->section);
                section = option->section;
                print_setting(option, &cli->config);
        }
        for (size_t i = 0; i < cli->config.n_exports; i++)
                show_export(&cli->config.exports[i]);
        if (config_first_export(&cli->config))
                printf("\n# profiles go to %s\n", cli->config.delivery.shown_url);
        for (size_t i = 0; i < cli->config.n_exports; i++)
                printf("%s# profiles go to %s\n", i || config_first_export(&cli->config) ? "" : "\n",
                       cli->config.exports[i].config->delivery.shown_url);
        return STATUS_OK;
}

/* Errors of a check are its result, but also what an editor or a pipeline looks for on standard error. */
static int report(int r, const Text *errors) {
        if (r < 0) {
                log_error("%s", strerror(-r));
                return STATUS_FAILURE;
        }
        if (r) {
                text_print_lines(errors->data ? errors->data : "", stderr);
                return STATUS_CONFIG;
        }
        return STATUS_OK;
}

static int check_file(const char *path) {
        _cleanup_(config_deinit) Config config = { 0 };
        _cleanup_(text_deinit) Text errors = { 0 };
        ConfigSource source = { .root = "", .verb = VERB_CONFIG, .files = true };
        const Option *option = option_find("config", strlen("config"));
        int r = config_init(&config);

        if (!r)
                r = config_set(&config, option, path, CONFIG_COMMAND_LINE, "command line", "config", &errors);
        if (!r)
                r = config_load(&config, &source, &errors);
        if (!r)
                r = config_check_machine(&config, &errors);
        r = report(r, &errors);
        if (r == STATUS_OK)
                printf("%s: valid\n", path);
        return r;
}

static int load(Cli *cli, bool checks) {
        _cleanup_(text_deinit) Text errors = { 0 };
        int r = cli_load(cli, &errors);

        if (!r && checks)
                r = config_check_machine(&cli->config, &errors);
        return report(r, &errors);
}

/*
 * For the unit's ExecCondition=: tells whether the configuration says where profiles shall go. A
 * configuration that is wrong is left to `run`, which names the mistake and ends with a status that systemd
 * understands.
 */
static int endpoint(Cli *cli) {
        Text errors = { 0 };
        int r = cli_load(cli, &errors);

        text_deinit(&errors);
        if (r) {
                printf("the configuration cannot be read\n");
                return STATUS_OK;
        }
        if (*cli->config.delivery.endpoint) {
                printf("%s\n", cli->config.delivery.shown_url);
                return STATUS_OK;
        }
        log_error(
                "no endpoint is set: set `endpoint` in the section [export] of /etc/spanprof/spanprof.conf");
        return STATUS_FAILURE;
}

static int run(Cli *cli) {
        const char *word = cli->arguments[0];
        int r;

        if (!strcmp(word, "check") && cli->n_arguments == 2)
                return check_file(cli->arguments[1]);
        if (!strcmp(word, "endpoint") && cli->n_arguments == 1)
                return endpoint(cli);
        if ((strcmp(word, "show") && strcmp(word, "check")) || cli->n_arguments == 2) {
                log_error("config: `%s`: use `show`, or `check [FILE]`, or `endpoint`",
                          cli->arguments[cli->n_arguments - 1]);
                return STATUS_USAGE;
        }
        r = load(cli, !strcmp(word, "check"));
        if (r)
                return r;
        if (!strcmp(word, "show"))
                return show(cli);
        printf("the configuration is valid\n");
        return STATUS_OK;
}

const Verb verb_config = {
        .name = "config",
        .bit = VERB_CONFIG,
        .arguments = "show | check [FILE] | endpoint",
        .min_arguments = 1,
        .max_arguments = 2,
        .reads_files = true,
        .summary = "show every setting and its origin, or check a file",
        .description =
                "`show` prints what is in force of every setting, and where it comes from: command line, environment,\n"
                "file and line, or default, and what a default follows from. `check` names file and line of each mistake;\n"
                "without FILE it checks what is installed and the environment. What it takes `run` takes, but for what\n"
                "others hold when it starts (a port, a process that is gone). `endpoint` prints where profiles go, and\n"
                "fails if nobody has set it: the service does not start then.",
        .run = run,
};
