/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has the table of endings.
 */

#include "desk/coro/trace/trace.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "core/base/util/macro.h"

static const struct { const char *ending; TraceForm form; } endings[] = {
        { ".jsonl", TRACE_JSONL }, { ".ndjson", TRACE_JSONL }, { ".csv", TRACE_CSV },
        { ".db", TRACE_SQLITE }, { ".sqlite", TRACE_SQLITE }, { ".sqlite3", TRACE_SQLITE },
};

int trace_form_of(const char *path, TraceForm *formp) {
        size_t size = strlen(path);

        if (!strcmp(path, "-")) {
                *formp = TRACE_JSONL;
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
                size_t n = strlen(endings[i].ending);

                if (size > n && !strcasecmp(path + size - n, endings[i].ending)) {
                        *formp = endings[i].form;
                        return 0;
                }
        }
        return TRACE_E_ENDING;
}
