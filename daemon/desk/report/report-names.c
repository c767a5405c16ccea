/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps an array from each string and module of the window to its number in the report.
 */

#include "desk/report/report-names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"

int report_names_init(ReportNames *names, Report *report, const Window *window) {
        int r = 0;

        *names = (ReportNames){ .report = report, .window = window };
        names->objects = calloc(window_n_modules(window) + 1u, sizeof(*names->objects));
        names->strings = calloc(window_n_strings(window) + 1u, sizeof(*names->strings));
        if (!names->objects || !names->strings)
                r = error_origin(-ENOMEM);
        if (!r && report->options.symbolizer)
                r = window_names_new(&names->native, window, report->options.symbolizer, NULL);
        if (r)
                report_names_deinit(names);
        return r ? error_fold(r) : 0;
}

void report_names_deinit(ReportNames *names) {
        hashmap_deinit(&names->functions);
        window_names_free(names->native);
        free(names->objects);
        free(names->strings);
        *names = (ReportNames){ 0 };
}

static int add_text(Report *report, const char *text, size_t size, uint32_t *indexp) {
        return report_intern(report, &report->strings, text, size + 1, indexp);
}

int report_names_string(ReportNames *names, uint32_t string, uint32_t *indexp) {
        const char *text;
        size_t size;
        int r;

        if (!names->strings[string]) {
                text = window_get_string(names->window, string, &size);
                r = add_text(names->report, text, size, indexp);
                if (r)
                        return error_fold(r);
                names->strings[string] = *indexp + 1;
        }
        *indexp = names->strings[string] - 1;
        return 0;
}

static int add_object(Report *report, const ReportObject *object, uint32_t *indexp) {
        uint32_t known = report->object_states_room;
        int r = report_intern(report, &report->objects, object, sizeof(*object), indexp);

        if (!r)
                r = array_reserve(&report->object_states, &report->object_states_room, *indexp + 1u, 64);
        for (uint32_t i = known; i < report->object_states_room; i++)
                report->object_states[i] = SYMBOL_N_STATES;
        return r;
}

/* `[kernel]`, `[ext4]`, `[unknown]`: objects that are no files. */
static int bracketed(Report *report, const char *name, uint32_t *stringp) {
        Text text = { 0 };
        int r;

        text_printf(&text, name[0] == '[' ? "%s" : "[%s]", name);
        r = text.failed ? error_origin(-ENOMEM) : add_text(report, text.data, text.size, stringp);
        text_deinit(&text);
        return r;
}

static int kernel_object(ReportNames *names, const WindowModule *module, ReportObject *object) {
        const char *path = window_get_string(names->window, module->path, NULL);

        if (!path[0] || !strcmp(path, "vmlinux") || !strncmp(path, "[kernel", strlen("[kernel")))
                path = "kernel";
        return bracketed(names->report, path, &object->path);
}

static int find_object(ReportNames *names, uint32_t index, bool is_kernel, uint32_t *objectp) {
        const WindowModule *module = window_get_module(names->window, index);
        ReportObject object = { 0 };
        int r;

        if (names->objects[index]) {
                *objectp = names->objects[index] - 1;
                return 0;
        }
        r = is_kernel ? kernel_object(names, module, &object)
                      : report_names_string(names, module->path, &object.path);
        if (!r)
                r = report_names_string(names, module->build_id_gnu, &object.build_id_gnu);
        if (!r)
                r = report_names_string(names, module->build_id_go, &object.build_id_go);
        if (!r)
                r = report_names_string(names, module->build_id_htlhash, &object.build_id_htlhash);
        if (!r)
                r = add_object(names->report, &object, objectp);
        if (!r)
                names->objects[index] = *objectp + 1;
        return r;
}

/*
 * A frame without a module: code of a runtime lies in its source file, else all that is known is what kind it
 * is.
 */
static int find_source(ReportNames *names, const WindowFrame *frame, uint32_t *objectp) {
        const WindowFunction *function = window_get_function(names->window, frame->function);
        const char *type = window_get_string(names->window, frame->type, NULL);
        ReportObject object = { 0 };
        int r;

        if (function->filename)
                r = report_names_string(names, function->filename, &object.path);
        else
                r = bracketed(names->report, type[0] ? type : "unknown", &object.path);
        return r ? r : add_object(names->report, &object, objectp);
}

/* `checkout shop.c:41` if each line of a function counts by itself. */
static int named_function(ReportNames *names, const NamedFrame *named, ReportFunction *function) {
        const char *slash = strrchr(named->file, '/'), *file = slash ? slash + 1 : named->file;
        Text text = { 0 };
        int r;

        if (!named->line || !names->report->options.by_line)
                return add_text(names->report, named->name, strlen(named->name), &function->name);
        text_printf(&text, "%s%s%s:%" PRIu32, named->name, named->name[0] ? " " : "", file, named->line);
        r = text.failed ? error_origin(-ENOMEM)
                        : add_text(names->report, text.data, text.size, &function->name);
        text_deinit(&text);
        return r;
}

static int find_place(ReportNames *names, const WindowFrame *frame, ReportFunction *function) {
        bool is_kernel = !strcmp(window_get_string(names->window, frame->type, NULL), "kernel");
        SymbolState state;
        int r;

        if (!frame->module && !is_kernel)
                return find_source(names, frame, &function->object);
        r = find_object(names, frame->module, is_kernel, &function->object);
        state = names->native ? window_names_state(names->native, frame->module) : SYMBOL_N_STATES;
        if (!r && !is_kernel && state != SYMBOL_N_STATES)
                names->report->object_states[function->object] = state;
        return r;
}

/* Makes the functions of a frame: inlined ones count, too. Names come from the profile, else this machine. */
static int make_functions(ReportNames *names, FrameWord word, uint32_t functions[static REPORT_MAX_INLINED],
                          size_t *np) {
        WindowFrame frame = window_expand_frame(names->window, word);
        uint32_t name = frame.function ? window_get_function(names->window, frame.function)->name : 0;
        const NamedFrame *named = NULL;
        size_t n = names->native ? window_names_get(names->native, word, &named) : 0;
        ReportFunction place = { 0 };
        int r = find_place(names, &frame, &place);

        if (!r && name && !n)
                r = report_names_string(names, name, &place.name);
        *np = MAX(MIN(n, (size_t)REPORT_MAX_INLINED), (size_t)1);
        for (size_t i = 0; i < *np && !r; i++) {
                ReportFunction function = place;

                if (n)
                        r = named_function(names, &named[i], &function);
                if (!r)
                        r = report_intern(names->report, &names->report->functions, &function,
                                          sizeof(function), &functions[i]);
        }
        return r;
}

int report_names_functions(ReportNames *names, FrameWord word, uint32_t functions[static REPORT_MAX_INLINED],
                           size_t *np) {
        void *known = hashmap_get(&names->functions, word);
        int r;

        if (known) {
                functions[0] = (uint32_t)((uintptr_t)known - 1);
                *np = 1;
                return 0;
        }
        r = make_functions(names, word, functions, np);
        if (!r && *np == 1)
                r = hashmap_put(&names->functions, word, (void *)(uintptr_t)(functions[0] + 1u));
        return r ? error_fold(r) : 0;
}
