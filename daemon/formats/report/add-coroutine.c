/* SPDX-License-Identifier: Apache-2.0 */

/* Which coroutine a sample is of, by its attributes; and how long one was suspended. */
#include <string.h>

#include "formats/report/add-private.h"

int adding_coroutine_attribute(Adding *adding, const char *key, const WindowAttribute *attribute,
                               ReportCoroutine *coroutine, uint32_t *statep) {
        if (attribute->kind == ATTRIBUTE_INT && attribute->integer >= 0) {
                if (!strcmp(key, "station") && attribute->integer < UINT32_MAX)
                        coroutine->station = (uint32_t)attribute->integer + 1;
                else if (!strcmp(key, "birth_ns"))
                        coroutine->birth_ns = (uint64_t)attribute->integer;
        }
        if (attribute->kind != ATTRIBUTE_STRING)
                return 0;
        if (!strcmp(key, "probe_id"))
                return report_names_string(&adding->names, attribute->string, &coroutine->probe_id);
        if (!strcmp(key, "id"))
                return report_names_string(&adding->names, attribute->string, &coroutine->id);
        return strcmp(key, "state") ? 0 : report_names_string(&adding->names, attribute->string, statep);
}

/* Many coroutines of many processes have the same station: the process is a part of who it is. */
int adding_coroutine(Adding *adding, uint32_t process, ReportCoroutine *coroutine, uint32_t *indexp) {
        *indexp = 0;
        if (!coroutine->station && !coroutine->probe_id && !coroutine->birth_ns && !coroutine->id)
                return 0;
        coroutine->process = process;
        return report_intern(adding->report, &adding->report->coroutines, coroutine, sizeof(*coroutine),
                             indexp);
}

static bool is_time(const Report *report, uint32_t kind) {
        return !strcmp(report_string(report, report_kind(report, kind)->unit), "nanoseconds");
}

/* What samples in that state say: of a running daemon, or of a trace. */
uint64_t report_suspended_ns(const Report *report, uint32_t coroutine) {
        ReportCoroutineKey key = { .coroutine = coroutine };
        uint64_t sum_ns = 0;
        uint32_t index;

        if (intern_find(&report->strings, "suspended", sizeof("suspended"), &key.state))
                return 0;
        for (uint32_t kind = 0; kind < report->kinds.n_items; kind++)
                if (is_time(report, kind) && !report_find_section(report, 0, kind, &key.section) &&
                    !intern_find(&report->by_coroutine.keys, &key, sizeof(key), &index))
                        sum_ns = add_saturated(sum_ns, report->by_coroutine.sums[index].self);
        return sum_ns;
}
