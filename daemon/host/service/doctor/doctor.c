/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects findings in an array with a cap, and prints them as lines or as JSON.
 */

#include "host/service/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/macro.h"

static const char *const words[] = { [DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail" };

void doctor_add(Doctor *doctor, const char *name, Verdict verdict, const char *fix, const char *format, ...) {
        Finding *finding = &doctor->findings[MIN(doctor->n_findings, (size_t)DOCTOR_MAX_FINDINGS - 1)];
        va_list args;

        *finding = (Finding){ .verdict = verdict, .of_daemon = doctor->of_daemon };
        snprintf(finding->name, sizeof(finding->name), "%s", name);
        snprintf(finding->fix, sizeof(finding->fix), "%s", fix && verdict != DOCTOR_OK ? fix : "");
        va_start(args, format);
        vsnprintf(finding->text, sizeof(finding->text), format, args);
        va_end(args);
        doctor->n_findings = MIN(doctor->n_findings + 1, (size_t)DOCTOR_MAX_FINDINGS);
}

bool doctor_find_line(const char *status, const char *word, char line[static DOCTOR_MAX_LINE]) {
        const size_t size = strlen(word);

        for (const char *at = strchr(status, '\n'); at; at = strchr(at, '\n'))
                if (!strncmp(++at, word, size) && at[size] == ' ') {
                        at += size + strspn(at + size, " ");
                        snprintf(line, DOCTOR_MAX_LINE, "%.*s", (int)strcspn(at, "\n"), at);
                        return true;
                }
        return false;
}

static size_t count(const Doctor *doctor, Verdict verdict) {
        size_t n = 0;

        for (size_t i = 0; i < doctor->n_findings; i++)
                n += doctor->findings[i].verdict == verdict;
        return n;
}

/* Prints whose view the findings from @i on are, where there are two. */
static void print_head(const Doctor *doctor, size_t i, Text *text) {
        bool of_daemon = doctor->findings[i].of_daemon;

        if (!doctor->view.pid || (i && doctor->findings[i - 1].of_daemon == of_daemon))
                return;
        if (of_daemon)
                text_printf(text, "As the daemon that runs sees it (process %u):\n", doctor->view.pid);
        else
                text_printf(text, "As this command sees it:\n");
}

size_t doctor_print(const Doctor *doctor, Text *text) {
        for (size_t i = 0; i < doctor->n_findings; i++) {
                const Finding *finding = &doctor->findings[i];

                print_head(doctor, i, text);
                text_printf(text, "%-5s %-24s ", words[finding->verdict], finding->name);
                text_append_masked(text, finding->text);
                if (*finding->fix)
                        text_printf(text, "\n%-30s → ", "");
                text_append_masked(text, finding->fix);
                text_printf(text, "\n");
        }
        text_printf(text, "%zu ok, %zu warning%s, %zu failed\n", count(doctor, DOCTOR_OK),
                    count(doctor, DOCTOR_WARN), count(doctor, DOCTOR_WARN) == 1 ? "" : "s",
                    count(doctor, DOCTOR_FAIL));
        return count(doctor, DOCTOR_FAIL);
}

static void print_finding(const Finding *finding, JsonWriter *json) {
        json_line(json, 2);
        json_open(json, NULL, '{');
        json_text(json, "name", finding->name);
        json_text(json, "result", words[finding->verdict]);
        json_text(json, "view", finding->of_daemon ? "daemon" : "command");
        json_text(json, "text", finding->text);
        json_text(json, "fix", finding->fix);
        json_close(json, '}');
}

void doctor_print_json(const Doctor *doctor, Text *text) {
        JsonWriter json = { .text = text, .is_spaced = true };

        json_open(&json, NULL, '{');
        json_number(&json, "ok", count(doctor, DOCTOR_OK));
        json_number(&json, "warn", count(doctor, DOCTOR_WARN));
        json_number(&json, "fail", count(doctor, DOCTOR_FAIL));
        json_open(&json, "checks", '[');
        for (size_t i = 0; i < doctor->n_findings; i++)
                print_finding(&doctor->findings[i], &json);
        json_line(&json, 0);
        json_close(&json, ']');
        json_close(&json, '}');
        json_end(&json);
}
