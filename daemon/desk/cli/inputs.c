/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns arguments into a list of files, directories and stored requests, and gives each to the caller with
 * the filter of the options. Long work shows its progress.
 */

#include "desk/cli/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/cli/input.h"
#include "desk/cli/time-option.h"
#include "desk/convert/foreign.h"
#include "desk/receive/store-tree.h"

enum {
        PROGRESS_FIRST_NS = NS_PER_SEC,         /* quick work says nothing */
        PROGRESS_NEXT_NS = NS_PER_SEC / 5,
        MAX_SPANS_BYTES = 1 << 30,
        MAX_SEEN = 16 << 20,
};

bool inputs_asked(const Config *config, const char *option) {
        return config_origin(config, option)->level == CONFIG_COMMAND_LINE;
}

bool inputs_is_set(const Config *config, const char *option) {
        return config_origin(config, option)->level > CONFIG_DEFAULT;
}

/* Progress: only for people who look at it, and only on work that takes a while. */
static void show_progress(const char *name, uint64_t done, uint64_t size, void *userdata) {
        Inputs *inputs = userdata;
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < inputs->next_progress_ns)
                return;
        inputs->next_progress_ns = now_ns + PROGRESS_NEXT_NS;
        inputs->progress_shown = true;
        fputc('\r', stderr);
        text_print(name, strlen(name), stderr);
        fprintf(stderr, ": %3.0f %% of %.1f MiB\033[K", size ? 100.0 * (double)done / (double)size : 100.0,
                (double)size / (1 << 20));
}

static void hide_progress(Inputs *inputs) {
        if (inputs->progress_shown)
                fprintf(stderr, "\r\033[K");
        inputs->progress_shown = false;
}

/* Options */

static FilterWords words(const ConfigList *list) {
        return (FilterWords){ list->items, list->n_items };
}

static const char *operation_of(const WindowLink *link, void *userdata) {
        uint32_t operation;

        return span_list_find(userdata, link->span_id, &operation) ? NULL
                                                                   : span_list_operation(userdata, operation);
}

static void set_filter(Inputs *inputs) {
        const Config *config = inputs->config;

        inputs->options.filter = (FilterOptions){
                .pids = config->targets.pids.items,
                .n_pids = config->targets.pids.n_items,
                .comms = words(&config->targets.comms),
                .processes = words(&config->filter.processes),
                .services = words(&config->filter.services),
                .hosts = words(&config->filter.hosts),
                .threads = words(&config->filter.threads),
                .spans = words(&config->filter.span_ids),
                .traces = words(&config->filter.trace_ids),
                .operations = words(&config->filter.operations),
                .coroutines = words(&config->filter.coroutines),
                .types = words(&config->filter.types),
                .slower_ns = config->filter.slower_ns,
                .operation = inputs->spans ? operation_of : NULL,
                .userdata = inputs->spans,
                .end_ns = UINT64_MAX,
        };
}

static int set_times(Inputs *inputs) {
        ConvertOptions *options = &inputs->options;
        int r = time_option_parse("start", inputs->config->filter.start, &options->start_ns,
                                  &options->start_relative);

        if (!r)
                r = time_option_parse("end", inputs->config->filter.end, &options->end_ns,
                                      &options->end_relative);
        if (!r && options->start_relative == options->end_relative && options->start_ns >= options->end_ns) {
                log_error("--start is not before --end");
                r = STATUS_USAGE;
        }
        return r;
}

static int set_options(Inputs *inputs, bool asks_times) {
        const Config *config = inputs->config;
        const char **resource = calloc(config->convert.resources.n_items + 1, sizeof(*resource));

        if (!resource)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < config->convert.resources.n_items; i++)
                resource[i] = config->convert.resources.items[i];
        inputs->resource = resource;
        inputs->options = (ConvertOptions){ .end_ns = UINT64_MAX,
                                            .timestamps = config->form.timestamps,
                                            .timestamps_asked = asks_times || config->filter.slower_ns,
                                            .payload = config->convert.include_payload,
                                            .arguments = config->convert.include_arguments,
                                            .pretty = config->convert.pretty,
                                            .version = SPANPROF_VERSION,
                                            .resource = resource,
                                            .seen = &inputs->seen,
                                            .userdata = inputs };
        if (isatty(STDERR_FILENO))
                inputs->options.progress = show_progress;
        inputs->next_progress_ns = clock_monotonic_ns() + PROGRESS_FIRST_NS;
        set_filter(inputs);
        return set_times(inputs);
}

/* Return: as file_read(). */
static int read_noted(Inputs *inputs, const char *path, char **datap, size_t *sizep) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        struct stat status;

        if (fd < 0 || fstat(fd, &status) < 0)
                return FILE_E_UNREADABLE;
        outfile_note_input(&inputs->readers, &status);
        return file_read_fd(fd, MAX_SPANS_BYTES, datap, sizep);
}

static int read_spans(Inputs *inputs) {
        const char *path = inputs->config->report.spans;
        _cleanup_(freep) char *data = NULL;
        SpanListProblem problem;
        size_t size;
        int r = read_noted(inputs, path, &data, &size);

        if (r == FILE_E_UNREADABLE)
                return input_mistake(path, "cannot be read", strerror(errno));
        if (r == FILE_E_TOO_LARGE)
                return input_mistake(path, "is larger than 1 GiB", NULL);
        if (!r)
                r = span_list_new(&inputs->spans, data, size, &problem);
        if (r == SPAN_LIST_E_INVALID) {
                log_error("%s:%lu: %s", path, (unsigned long)problem.line, problem.text);
                return STATUS_FAILURE;
        }
        return r;
}

/* Paths */

static int add_path(Inputs *inputs, const char *path) {
        char **bigger = reallocarray(inputs->paths, inputs->n_paths + 1, sizeof(*bigger));

        if (!bigger)
                return error_origin(-ENOMEM);
        inputs->paths = bigger;
        bigger[inputs->n_paths] = strdup(path);
        if (!bigger[inputs->n_paths])
                return error_origin(-ENOMEM);
        inputs->n_paths++;
        return 0;
}

static int is_visible(const struct dirent *entry) {
        return entry->d_name[0] != '.' &&
                (entry->d_type == DT_REG || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN);
}

/* A receiver stores each request twice: NNNNNN.json is a copy of NNNNNN.pb. */
static bool has_twin(const char *path) {
        size_t size = strlen(path);
        _cleanup_(freep) char *twin = NULL;

        if (size < 5 || strcmp(path + size - 5, ".json") ||
            asprintf(&twin, "%.*s.pb", (int)size - 5, path) < 0)
                return false;
        return access(twin, F_OK) == 0;
}

static int add_entry(Inputs *inputs, const char *directory, const char *name) {
        _cleanup_(freep) char *path = NULL;

        if (asprintf(&path, "%s/%s", directory, name) < 0) {
                path = NULL;
                return error_origin(-ENOMEM);
        }
        return has_twin(path) ? 0 : add_path(inputs, path);
}

static int add_files(Inputs *inputs, const char *directory) {
        struct dirent **entries;
        int n = scandir(directory, &entries, is_visible, alphasort), r = 0;

        if (n < 0) {
                inputs->status = input_mistake(directory, "cannot be read", strerror(errno));
                return 0;
        }
        for (int i = 0; i < n; i++) {
                if (!r)
                        r = add_entry(inputs, directory, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int add_stored(const char *path, void *userdata) {
        return add_path(userdata, path);
}

/* Adds the files of a store. A directory that cannot be read is a mistake of the input; the rest counts. */
static int add_store(Inputs *inputs, const char *directory, uint64_t *n_leftp) {
        const ConvertOptions *options = &inputs->options;
        StoreTree tree = { .services = options->filter.services,
                           .hosts = options->filter.hosts,
                           .start_ns = options->start_relative ? 0 : options->start_ns,
                           .end_ns = options->end_relative ? UINT64_MAX : options->end_ns,
                           .add = add_stored,
                           .userdata = inputs };
        int r = store_tree_walk(&tree, directory);

        *n_leftp = tree.n_left_out;
        if (tree.n_unreadable)
                inputs->status = input_mistake(directory, "has directories that cannot be read", NULL);
        return r;
}

static int add_directory(Inputs *inputs, const char *directory) {
        size_t n_before = inputs->n_paths;
        int status = inputs->status, r;
        uint64_t n_left = 0;

        r = add_files(inputs, directory);
        if (!r && inputs->status == status)
                r = add_store(inputs, directory, &n_left);
        if (!r && inputs->n_paths == n_before && inputs->status == status)
                inputs->status = input_mistake(directory,
                                               n_left ? "is a store without what is asked for"
                                                      : "is a directory without files",
                                               NULL);
        return r;
}

static int add_argument(Inputs *inputs, const char *argument) {
        struct stat status;

        if (strcmp(argument, "-") && !stat(argument, &status) && S_ISDIR(status.st_mode))
                return add_directory(inputs, argument);
        return add_path(inputs, argument);
}

bool inputs_is_output(const char *path, const char *output) {
        struct stat x, y;

        if (!strcmp(path, "-") || stat(path, &x) || stat(output, &y) || x.st_dev != y.st_dev ||
            x.st_ino != y.st_ino || !S_ISREG(x.st_mode))
                return false;
        log_error("%s: is input and output", path);
        return true;
}

int inputs_init(Inputs *inputs, const Cli *cli) {
        int r;

        *inputs = (Inputs){ .config = &cli->config };
        intern_init(&inputs->seen, MAX_SEEN);
        r = *cli->config.report.spans ? read_spans(inputs) : 0;
        if (!r)
                r = set_options(inputs, inputs_asked(&cli->config, "timestamps") || cli->verb->bit == VERB_KEEP);
        for (int i = 0; i < cli->n_arguments && !r; i++) {
                r = add_argument(inputs, cli->arguments[i]);
                if (i == 0)
                        inputs->n_first = inputs->n_paths;
        }
        for (size_t i = 0; i < inputs->n_paths && !r; i++)
                r = inputs_is_output(inputs->paths[i], cli->config.command.output) ? STATUS_USAGE : 0;
        return r;
}

void inputs_deinit(Inputs *inputs) {
        for (size_t i = 0; i < inputs->n_paths; i++)
                free(inputs->paths[i]);
        free(inputs->paths);
        free((void *)inputs->resource);
        span_list_free(inputs->spans);
        intern_deinit(&inputs->seen);
        *inputs = (Inputs){ 0 };
}

/* Reading */

void inputs_mistake(Inputs *inputs, const Source *source, const Text *problem) {
        hide_progress(inputs);
        log_error("%s: %s", source->name, problem->data ? problem->data : "cannot be read");
        inputs->status = STATUS_FAILURE;
}

int inputs_open(Inputs *inputs, size_t index, Source *source) {
        const char *path = inputs->paths[index];
        Text problem = { 0 };
        int r;

        if (!strcmp(path, "-") && inputs->stdin_used) {
                inputs->status = input_mistake("standard input", "can be read only once", NULL);
                return 1;
        }
        inputs->stdin_used |= !strcmp(path, "-");
        r = source_open(source, path, &problem);
        outfile_note_input(&inputs->readers, &source->status);
        if (r > 0)
                inputs_mistake(inputs, source, &problem);
        text_deinit(&problem);
        if (r == SOURCE_E_CUT && source->size)          /* the part that could be unpacked is worth reading */
                return 0;
        return r < 0 ? r : r > 0;
}

/* Says what the file is, if that is known, in the place of why it is no profile. */
static void name_foreign(const Source *source, Text *problem) {
        const char *name = foreign_name(source);

        if (!name)
                return;
        text_deinit(problem);
        text_printf(problem, "is no profiles file: it is %s", name);
}

void inputs_judge(Inputs *inputs, const Source *source, bool is_read, bool has_more, Text *problem) {
        hide_progress(inputs);
        if (!is_read && !has_more)
                name_foreign(source, problem);
        if (!is_read)
                inputs_mistake(inputs, source, problem);
        inputs->n_read += is_read;
        inputs->n_partly += !is_read && has_more;
}

int inputs_add_source(Inputs *inputs, const Source *source, Convert *convert) {
        uint64_t n_before = window_n_events(convert->window);
        _cleanup_(text_deinit) Text problem = { 0 };
        int r = convert_add_source(convert, source, &problem);

        if (r >= 0)
                inputs_judge(inputs, source, !r, window_n_events(convert->window) > n_before, &problem);
        return MIN(r, 0);
}

int inputs_add(Inputs *inputs, size_t index, Convert *convert) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        int r = inputs_open(inputs, index, &source);

        if (!r && !convert->first_path && strcmp(inputs->paths[index], "-"))
                convert->first_path = inputs->paths[index];
        return r < 0 ? r : r ? 0 : inputs_add_source(inputs, &source, convert);
}

void inputs_forget(Inputs *inputs) {
        intern_reset(&inputs->seen);
}

void inputs_fix_times(Inputs *inputs, const Convert *first) {
        ConvertOptions *options = &inputs->options;

        if (first->start_ns == UINT64_MAX)
                return;
        if (options->start_relative)
                options->start_ns += first->start_ns;
        if (options->end_relative && options->end_ns != UINT64_MAX)
                options->end_ns += first->start_ns;
        options->start_relative = options->end_relative = false;
}
