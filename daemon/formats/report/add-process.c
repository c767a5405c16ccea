/* SPDX-License-Identifier: Apache-2.0 */

/* Which process a resource is, and whether somebody asked for it. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/text.h"
#include "formats/report/add-private.h"

/* An attribute as text: what people search for. */
static int add_attribute(Adding *adding, uint32_t index, uint32_t *pair) {
        const WindowAttribute *attribute = window_get_attribute(adding->window, index);
        Report *report = adding->report;
        char text[64] = "";
        double number;
        int r = report_names_string(&adding->names, attribute->key, &pair[0]);

        if (r)
                return error_fold(r);
        if (attribute->kind == ATTRIBUTE_STRING)
                return report_names_string(&adding->names, attribute->string, &pair[1]);
        if (attribute->kind == ATTRIBUTE_INT)
                snprintf(text, sizeof(text), "%" PRId64, attribute->integer);
        else if (attribute->kind == ATTRIBUTE_BOOL)
                snprintf(text, sizeof(text), "%s", attribute->integer ? "true" : "false");
        else if (attribute->kind == ATTRIBUTE_DOUBLE) {
                memcpy(&number, &attribute->integer, sizeof(number));
                snprintf(text, sizeof(text), "%.17g", number);
        }
        return report_intern(report, &report->strings, text, strlen(text) + 1, &pair[1]);
}

/* Key: 1 (so that a resource without attributes is not row 0), then the pairs. */
int adding_process(Adding *adding, uint32_t resource, uint32_t *processp) {
        Report *report = adding->report;
        _cleanup_(freep) uint32_t *key = NULL;
        const uint32_t *attributes;
        size_t n;
        int r = 0;

        if (adding->processes[resource]) {
                *processp = adding->processes[resource] - 1;
                return 0;
        }
        attributes = window_get_resource(adding->window, resource, &n);
        key = calloc(1 + 2 * n, sizeof(*key));
        if (!key)
                return error_origin(-ENOMEM);
        key[0] = 1;
        for (size_t i = 0; i < n && !r; i++)
                r = add_attribute(adding, attributes[i], key + 1 + 2 * i);
        if (!r)
                r = report_intern(report, &report->processes, key, (1 + 2 * n) * sizeof(*key), processp);
        if (r)
                return error_fold(r);
        adding->processes[resource] = *processp + 1;
        return 0;
}

static bool has_pid(const ReportOptions *options, const char *text) {
        uint64_t pid;

        if (text_u64(text, UINT32_MAX, &pid))
                return false;
        for (size_t i = 0; i < options->n_pids; i++)
                if (options->pids[i] == pid)
                        return true;
        return false;
}

bool adding_wants(const Report *report, uint32_t process) {
        const ReportOptions *options = &report->options;
        static const char *const keys[] = { "process.executable.name", "service.name" };

        if (!options->n_pids && !options->n_names)
                return true;
        if (has_pid(options, report_attribute(report, process, "process.pid")))
                return true;
        for (size_t i = 0; i < options->n_names; i++)
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        if (fnmatch(options->names[i], report_attribute(report, process, keys[k]), 0) == 0)
                                return true;
        return false;
}
