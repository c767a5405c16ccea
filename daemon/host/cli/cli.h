/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Command Line
 *
 * `spanprof VERB [OPTION…] [ARGUMENT…]`. Each verb is one file that defines one
 * Verb; verbs.c lists them. Before run() is called, options are parsed, environment
 * and (if the verb wants them) files are read, and mistakes have been reported.
 *
 * Exit statuses are those of enum status. Results go to standard output, all else
 * to the log (core/base/util/log.h).
 */

#include <stdbool.h>

#include "core/base/util/macro.h"
#include "host/service/config/config.h"
#include "host/service/config/option.h"

enum status {
        STATUS_OK = 0,
        STATUS_FAILURE = 1,             /* the verb was tried and did not work */
        STATUS_USAGE = 2,               /* wrong command line */
        STATUS_SLOWER = 3,              /* a comparison found what --fail-above forbids */
        /* configuration or kernel not usable (EX_CONFIG); systemd need not restart */
        STATUS_CONFIG = 78,
};

typedef struct Cli Cli;

typedef struct Verb {
        const char *name;
        int bit;                        /* VERB_* that options name; 0 = takes only --help and --version */
        const char *arguments;          /* arguments in the usage line, "" = none */
        int min_arguments, max_arguments;
        bool reads_files;               /* configuration files count */
        const char *summary;            /* line for the list of verbs */
        const char *description;        /* paragraphs of `spanprof VERB --help`; may end with examples */
        const char *refusal;            /* hint for an argument too many; may be NULL */
        /* arguments are a command line: options end with its first word */
        bool takes_command;
        /* reads its command line itself: arguments are all that follows the verb */
        bool raw;
        int (*run)(Cli *cli);           /* Return: enum status */
} Verb;

struct Cli {
        const Verb *verb;
        Config config;
        char **arguments;               /* words that are no options */
        int n_arguments;
        bool help_all;                  /* `--help --all`: help shows advanced options, too */
        char **argv;                    /* all that was behind the verb, to parse it again (cli_reload) */
        int argc;
        bool as_root;                   /* root has started us: see ConfigSource */
};

/* All verbs, ended by NULL. */
extern const Verb *const verbs[];
extern const Verb verb_record, verb_top, verb_stacks, verb_heap;
extern const Verb verb_coro, verb_corotracer;
extern const Verb verb_status, verb_keep, verb_watch, verb_boost, verb_pause, verb_resume, verb_doctor;
extern const Verb verb_run, verb_targets, verb_contexts, verb_report, verb_convert, verb_receive,
        verb_validate, verb_spool, verb_config, verb_help, verb_version;

/* Return: the verb, or NULL and a message with the nearest name. */
const Verb *verb_find(const char *name);

/* Does all that main() does but the care for descriptors. Return: enum status. */
int cli_main(int argc, char **argv);

/*
 * Reads the options of cli->verb from @argv (without program and verb) into cli->config and
 * moves the arguments to the front of @argv. Return: 0, or STATUS_USAGE after messages, -ENOMEM.
 */
int cli_parse(Cli *cli, int argc, char **argv);

/* Adds environment and files. Return: as config_load(). */
int cli_load(Cli *cli, Text *errors);

/*
 * Reads command line, environment and files again, for a verb without arguments. *configp is initialized by
 * this; on anything but 0 the reasons were logged and it holds nothing. Return: 0, CONFIG_E_INVALID, -errno.
 */
int cli_reload(const Cli *cli, Config *configp);

/* @all: with advanced options. */
void help_print_verb(const Verb *verb, bool all);
void version_print(void);
