/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sorts the samples of goroutines into groups by process and size, and prints each group with its stack and
 * labels.
 */

#include "desk/live/goroutine-list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "desk/live/frame-list.h"
#include "desk/report/glossary.h"

/* Goroutines that are alike in all that is known of them. */
typedef struct Group {
        int64_t pid;
        const char *process;
        uint64_t n;
        WindowSample sample;
} Group;

struct GoroutineList {
        const Window *window;
        const GoroutinesSeen *seen;
        Group *groups;                  /* by process, the largest first */
        size_t n;
};

static size_t count_groups(const Window *window) {
        size_t n = 0;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                n += profile->type == PROFILE_GOROUTINES ? profile->n_samples : 0;
        }
        return n;
}

static void take_profile(GoroutineList *list, uint32_t index) {
        const WindowProfile *profile = window_get_profile(list->window, index);
        Group group = { .process = window_get_resource_text(list->window, profile->resource,
                                                            "process.executable.name") };

        window_get_resource_integer(list->window, profile->resource, "process.pid", &group.pid);
        for (uint32_t i = 0; profile->type == PROFILE_GOROUTINES && i < profile->n_samples; i++) {
                window_get_sample(list->window, index, i, &group.sample);
                group.n = (uint64_t)group.sample.value;
                list->groups[list->n++] = group;
        }
}

static int compare(const void *left, const void *right) {
        const Group *a = left, *b = right;

        if (a->pid != b->pid)
                return a->pid < b->pid ? -1 : 1;
        if (a->n != b->n)
                return a->n > b->n ? -1 : 1;
        return (a->sample.stack > b->sample.stack) - (a->sample.stack < b->sample.stack);
}

int goroutine_list_new(GoroutineList **listp, const Window *window, const GoroutinesSeen *seen) {
        _cleanup_(goroutine_list_freep) GoroutineList *list = calloc(1, sizeof(*list));

        if (list)
                list->groups = calloc(count_groups(window) + 1, sizeof(*list->groups));
        if (!list || !list->groups)
                return error_origin(-ENOMEM);
        list->window = window;
        list->seen = seen;
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                take_profile(list, i);
        qsort(list->groups, list->n, sizeof(*list->groups), compare);
        *listp = take(list);
        return 0;
}

GoroutineList *goroutine_list_free(GoroutineList *list) {
        if (!list)
                return NULL;
        free(list->groups);
        free(list);
        return NULL;
}

/* ---- labels ---- */

static bool is_label(const char *key) {
        return strncmp(key, "wait.", 5) && strcmp(key, "profile.stack.truncated");
}

/* Calls @visit for each attribute that came from the program. */
static void each_label(const GoroutineList *list, const Group *group, void *userdata,
                       void (*visit)(void *userdata, const char *key, const char *value)) {
        size_t n;
        const uint32_t *set = window_get_attribute_set(list->window, group->sample.attributes, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(list->window, set[i]);
                const char *key = window_get_string(list->window, row->key, NULL);

                if (row->kind == ATTRIBUTE_STRING && is_label(key))
                        visit(userdata, key, window_get_string(list->window, row->string, NULL));
        }
}

static const char *text_of(const GoroutineList *list, const Group *group, const char *key) {
        size_t n;
        const uint32_t *set = window_get_attribute_set(list->window, group->sample.attributes, &n);

        return frame_list_text(list->window, set, n, key);
}

/* ---- for people ---- */

static void print_label(void *userdata, const char *key, const char *value) {
        FILE *out = userdata;

        fprintf(out, "%*s", FRAME_LIST_INDENT, "");
        text_print(key, strlen(key), out);
        fputs(" = ", out);
        text_print(value, strlen(value), out);
        fputc('\n', out);
}

static void print_group(const GoroutineList *list, const Group *group, FILE *out) {
        const char *reason = text_of(list, group, "wait.reason");
        const char *end = text_of(list, group, "profile.stack.truncated");

        fprintf(out, "\n%" PRIu64 " goroutine%s %s", group->n, group->n == 1 ? "" : "s",
                text_of(list, group, "wait.state"));
        fprintf(out, "%s%s:\n", *reason ? " on " : "", reason);
        frame_list_print_lock(frame_list_lock(list->window, group->sample.stack), out);
        frame_list_print_link(list->window, group->sample.link, out);
        each_label(list, group, out, print_label);
        frame_list_print(list->window, group->sample.stack, out);
        if (*end)
                fprintf(out, "%*s(ends here: %s)\n", FRAME_LIST_INDENT, "", glossary_end(end));
}

static void print_head(const GoroutineList *list, size_t from, FILE *out) {
        const Group *first = &list->groups[from];
        uint64_t n = 0;

        for (size_t i = from; i < list->n && list->groups[i].pid == first->pid; i++)
                n += list->groups[i].n;
        fprintf(out, "\npid %" PRId64 " (", first->pid);
        text_print(first->process, strlen(first->process), out);
        fprintf(out, "): %" PRIu64 " goroutine%s\n", n, n == 1 ? " waits" : "s wait");
}

static void print_left_out(const GoroutinesSeen *seen, FILE *out) {
        const struct {
                uint64_t n;
                const char *text;
        } lines[] = {
                { seen->n_running, "goroutines had a CPU" },
                { seen->n_moved, "goroutines moved while they were read, and are left out" },
                { seen->n_unreadable, "goroutines could not be read" },
                { seen->n_pending + seen->n_window_full + seen->n_not_looked_at,
                  "goroutines were left out: too many, or unwind rows were not there yet" },
                { seen->n_lists_unreadable,
                  "programs of Go do not tell where their goroutines are, or may not be read" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
                if (lines[i].n)
                        fprintf(out, "\n%" PRIu64 " %s\n", lines[i].n, lines[i].text);
}

void goroutine_list_print(const GoroutineList *list, FILE *out) {
        for (size_t i = 0; i < list->n; i++) {
                if (!i || list->groups[i].pid != list->groups[i - 1].pid)
                        print_head(list, i, out);
                print_group(list, &list->groups[i], out);
        }
        print_left_out(list->seen, out);
}

/* ---- for programs ---- */

static void json_label(void *userdata, const char *key, const char *value) {
        json_text(userdata, key, value);
}

static void json_group(const GoroutineList *list, const Group *group, JsonWriter *json) {
        const char *reason = text_of(list, group, "wait.reason");
        const char *end = text_of(list, group, "profile.stack.truncated");

        json_open(json, NULL, '{');
        json_number(json, "pid", (uint64_t)group->pid);
        json_text(json, "process", group->process);
        json_number(json, "goroutines", group->n);
        json_text(json, "state", text_of(list, group, "wait.state"));
        if (*reason)
                json_text(json, "reason", reason);
        frame_list_json_lock(frame_list_lock(list->window, group->sample.stack), json);
        frame_list_json_link(list->window, group->sample.link, json);
        json_open(json, "labels", '{');
        each_label(list, group, json, json_label);
        json_close(json, '}');
        if (*end)
                json_text(json, "truncated", end);
        frame_list_json(list->window, group->sample.stack, json);
        json_close(json, '}');
}

void goroutine_list_json(const GoroutineList *list, JsonWriter *json) {
        const GoroutinesSeen *seen = list->seen;

        json_open(json, "goroutines", '[');
        for (size_t i = 0; i < list->n; i++)
                json_group(list, &list->groups[i], json);
        json_close(json, ']');
        json_number(json, "goroutines_running", seen->n_running);
        json_number(json, "goroutines_left_out",
                    seen->n_moved + seen->n_unreadable + seen->n_pending + seen->n_window_full +
                            seen->n_not_looked_at);
        json_number(json, "goroutine_lists_unreadable", seen->n_lists_unreadable);
}
