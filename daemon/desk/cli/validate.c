/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `validate`: checks each document against the rules, and those of a backend, and prints findings with
 * their paths.
 */

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "core/otlp/decode.h"
#include "core/otlp/validate.h"
#include "desk/cli/input.h"
#include "host/cli/cli.h"

enum { MAX_LINES = 100 };               /* findings of a document, for people; programs get all */

typedef struct ValidateRun {
        const Config *config;
        ValidateFor backend;
        Input input;
        const char *name;               /* name of the current document */
        unsigned n_findings;
        unsigned n_forms;               /* findings of the backend that another form of the data has not */
        JsonWriter json;
        bool invalid;
} ValidateRun;

static void print_masked(const Text *line) {
        text_print(line->data ? line->data : "", line->size, stdout);
        putchar('\n');
}

/* A time stays what it is in any form. */
static bool is_form(const ValidateFinding *finding) {
        const char *time = "time_unix_nano";
        size_t n = strlen(finding->path), n_time = strlen(time);

        return finding->rule == VALIDATE_BACKEND && (n < n_time || strcmp(finding->path + n - n_time, time));
}

static void print_line(const ValidateFinding *finding, void *userdata) {
        ValidateRun *run = userdata;
        _cleanup_(text_deinit) Text line = { 0 };

        run->n_forms += is_form(finding);
        if (run->n_findings++ >= MAX_LINES)
                return;
        text_printf(&line, "%s: %s: %s%s%s [%s]", run->name, finding->warning ? "warning" : "error",
                    finding->path, *finding->path ? ": " : "", finding->text,
                    validate_rule_name(finding->rule));
        print_masked(&line);
}

static void print_object(const ValidateFinding *finding, void *userdata) {
        ValidateRun *run = userdata;
        JsonWriter *json = &run->json;

        json_line(json, 4);
        json_open(json, NULL, '{');
        json_text(json, "severity", finding->warning ? "warning" : "error");
        json_text(json, "rule", validate_rule_name(finding->rule));
        json_text(json, "path", finding->path);
        json_text(json, "text", finding->text);
        json_close(json, '}');
}

static void print_head(ValidateRun *run) {
        json_line(&run->json, 2);
        json_open(&run->json, NULL, '{');
        json_text(&run->json, "name", run->name);
        json_open(&run->json, "findings", '[');
}

static void print_json_tail(JsonWriter *json, const ValidateCounts *counts) {
        json_close(json, ']');
        json_bool(json, "valid", !counts->n_errors);
        json_number(json, "errors", counts->n_errors);
        json_number(json, "warnings", counts->n_warnings);
        json_close(json, '}');
}

static void print_tail(const ValidateRun *run, const ValidateCounts *counts) {
        _cleanup_(text_deinit) Text more = { 0 }, line = { 0 };

        text_printf(&more, "%s: … and %u more", run->name,
                    run->n_findings - MIN(run->n_findings, (unsigned)MAX_LINES));
        text_printf(&line, "%s: %s, %llu error%s, %llu warning%s", run->name,
                    counts->n_errors ? "invalid" : "valid", (unsigned long long)counts->n_errors,
                    counts->n_errors == 1 ? "" : "s", (unsigned long long)counts->n_warnings,
                    counts->n_warnings == 1 ? "" : "s");
        if (run->n_findings > MAX_LINES)
                print_masked(&more);
        print_masked(&line);
}

/* What is sent and what is converted for this backend has the form that it takes. */
static void print_cure(const ValidateRun *run) {
        const char *backend = run->config->form.backend;
        _cleanup_(text_deinit) Text line = { 0 };

        if (!run->n_forms)
                return;
        text_printf(&line, "%s: cure: `spanprof convert --backend %s FILE -o OTHER.pb` makes what %s takes, and so does "
                           "`backend = %s` of [export]",
                    run->name, backend, backend, backend);
        print_masked(&line);
}

static int validate_document(ValidateRun *run, const char *name, const char *data, size_t size) {
        ValidateCounts counts;
        int r;

        run->name = name;
        run->n_findings = 0;
        run->n_forms = 0;
        if (run->config->command.json)
                print_head(run);
        r = otlp_validate_for(run->backend, (const uint8_t *)data, size,
                              run->config->command.json ? print_object : print_line, run, &counts);
        if (r)
                return r;
        if (run->config->command.json)
                print_json_tail(&run->json, &counts);
        else {
                print_tail(run, &counts);
                print_cure(run);
        }
        run->invalid |= counts.n_errors != 0;
        return 0;
}

static int validate_file(ValidateRun *run, const char *argument) {
        _cleanup_(freep) char *data = NULL;
        char numbered[PATH_MAX + 32];
        const char *at;
        size_t size;
        int r = input_read(&run->input, argument, &data, &size);

        at = data;
        for (unsigned n = 1; !r && size; n++) {
                size_t first = otlp_document_size((const uint8_t *)at, size);

                snprintf(numbered, sizeof(numbered), "%s, document %u", input_name(argument), n);
                r = validate_document(run, n == 1 && first == size ? input_name(argument) : numbered, at,
                                      first);
                at += first;
                size -= first;
        }
        return r;
}

static ValidateFor backend_of(const Config *config) {
        return !strcmp(config->form.backend, "pyroscope") ? VALIDATE_FOR_PYROSCOPE
                : !strcmp(config->form.backend, "parca")  ? VALIDATE_FOR_PARCA
                                                          : VALIDATE_FOR_OTLP;
}

/* Unreadable is worse than invalid: nothing is known about that file. */
static int run(Cli *cli) {
        ValidateRun run = { .config = &cli->config,
                            .backend = backend_of(&cli->config),
                            .json = { .out = stdout, .is_spaced = true } };
        int status = STATUS_OK;

        if (cli->config.command.json)
                json_open(&run.json, NULL, '[');
        for (int i = 0; i < cli->n_arguments; i++) {
                int r = validate_file(&run, cli->arguments[i]);

                if (r < 0) {
                        log_error("cannot validate: %s", strerror(-r));
                        return STATUS_USAGE;
                }
                if (r)
                        status = STATUS_USAGE;
        }
        if (cli->config.command.json) {
                json_line(&run.json, 0);
                json_close(&run.json, ']');
                json_end(&run.json);
        }
        if (status)
                return status;
        return run.invalid ? STATUS_FAILURE : STATUS_OK;
}

const Verb verb_validate = {
        .name = "validate",
        .bit = VERB_VALIDATE,
        .arguments = "FILE…",
        .min_arguments = 1,
        .max_arguments = INT_MAX,
        .summary = "check OTLP profiles files against every rule of the format",
        .description =
                "Reads OTLP profiles requests, protobuf or JSON by content, and lists what readers of such data would\n"
                "refuse or misread, with the path of the element. `-` is standard input. Warnings are what passes\n"
                "today, but need not: fields of another version of the protocol, and forms that only some readers take.\n"
                "With --backend, errors are also what that backend refuses (its limits and the age of data by its defaults),\n"
                "and warnings what it leaves out; a last line names the cure.\n"
                "Exit status: 0 = valid, 1 = there are errors, 2 = a file could not be read.\n"
                "\n"
                "  spanprof validate profiles/*.pb\n"
                "  spanprof validate --backend pyroscope profiles/*.pb\n"
                "  spanprof validate --json - <request.json       for programs\n",
        .run = run,
};
