/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inputs
 *
 * What `report` and `convert` were given to read, and how: files, directories, standard input, and the
 * options that say what counts of them. An input that cannot be read is named with the reason and does not
 * end it: the others, and what could be read of this one, count.
 */

#include "core/base/file/outfile.h"
#include "desk/convert/convert.h"
#include "desk/report/spans.h"
#include "host/cli/cli.h"

typedef struct Inputs {
        const Config *config;
        ConvertOptions options;
        char **paths;                   /* directories are replaced by what is in them */
        size_t n_paths, n_first;        /* n_first: those of the first argument */
        const char **resource;
        SpanList *spans;                /* spans of --spans, or NULL */
        Intern seen;
        OutfileReaders readers;         /* readers of all inputs opened so far */
        uint64_t next_progress_ns;
        bool progress_shown, stdin_used;
        size_t n_read;                  /* inputs without a mistake */
        size_t n_partly;                /* inputs with a mistake that were read in part */
        int status;                     /* STATUS_FAILURE once an input had a mistake */
} Inputs;

/* Whether an option stands on the command line. */
bool inputs_asked(const Config *config, const char *option);

/* Whether it stands anywhere: there, or in the environment. */
bool inputs_is_set(const Config *config, const char *option);

/* Whether they are one file, which writing would destroy; says so. */
bool inputs_is_output(const char *path, const char *output);

/*
 * Reads the options and looks into directories. Pair with inputs_deinit() in any case. Return: 0, STATUS_*
 * after a message, -ENOMEM.
 */
int inputs_init(Inputs *inputs, const Cli *cli);
void inputs_deinit(Inputs *inputs);

/* Opens one input. Return: 0, 1 after a message: nothing can be read, -ENOMEM. */
int inputs_open(Inputs *inputs, size_t index, Source *source);

/* Reads an open input. Return: 0, also after messages, -ENOMEM. */
int inputs_add_source(Inputs *inputs, const Source *source, Convert *convert);

/* Both. */
int inputs_add(Inputs *inputs, size_t index, Convert *convert);

/*
 * Counts an input that was read by other means, and says what is wrong with it. @has_more: something of it
 * could be read.
 */
void inputs_judge(Inputs *inputs, const Source *source, bool is_read, bool has_more, Text *problem);

/* Says and counts what is wrong with an input. */
void inputs_mistake(Inputs *inputs, const Source *source, const Text *problem);

/* Forgets which profiles were read, so that they may come again: for a second side of a comparison. */
void inputs_forget(Inputs *inputs);

/* Times that count from the recording's start count from this one for all that follow. */
void inputs_fix_times(Inputs *inputs, const Convert *first);
