/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libspanprof-convert: one Convert with its options behind a face that stays (spanprof-convert.h).
 *
 * Inputs are added to the window as they come. The first write ends the reading; the window can be written
 * many times after that. The command opens it with what its configuration says (library.h), and is a caller
 * like others from there on.
 */

#include "desk/convert/library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

#define LIBRARY_API __attribute__((visibility("default")))

enum {
        ALL_FLAGS = SPANPROF_CONVERT_PRETTY | SPANPROF_CONVERT_NO_TIMES | SPANPROF_CONVERT_ALL_TIMES |
                SPANPROF_CONVERT_PAYLOAD | SPANPROF_CONVERT_ARGUMENTS | SPANPROF_CONVERT_RELATIVE |
                SPANPROF_CONVERT_NAMES,
};

struct spanprof_convert {
        ConvertOptions options;
        Convert convert;
        char **resource;                /* lent to the options */
        Symbolizer *symbolizer;         /* the same; NULL = names are those of the inputs */
        spanprof_convert_progress progress;
        void *userdata;                 /* argument for progress */
        Text problem, losses, notices;
        bool is_closed;                 /* the first write has come … */
        int closed;                     /* … and this came of the end of the reading */
};

typedef struct Output {
        spanprof_convert_sink sink;
        void *userdata;
} Output;

static void note(const char *text, void *userdata) {
        spanprof_convert *convert = userdata;

        text_printf(&convert->notices, "%s\n", text);
}

static int copy_resource(spanprof_convert *convert, const char *const *resource) {
        size_t n = 0;

        while (resource && resource[n])
                if (!strchr(resource[n++], '='))
                        return -EINVAL;
        convert->resource = calloc(n + 1, sizeof(*convert->resource));
        if (!convert->resource)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++) {
                convert->resource[i] = strdup(resource[i]);
                if (!convert->resource[i])
                        return error_origin(-ENOMEM);
        }
        return 0;
}

static FilterWords words_of(const char *const *list) {
        size_t n = 0;

        while (list && list[n])
                n++;
        return (FilterWords){ (char *const *)list, n };         /* nothing writes to them */
}

static FilterOptions filter_of(const struct spanprof_convert_filter *asked) {
        static const struct spanprof_convert_filter all;

        asked = asked ? asked : &all;
        return (FilterOptions){
                .processes = words_of(asked->processes),
                .services = words_of(asked->services),
                .hosts = words_of(asked->hosts),
                .threads = words_of(asked->threads),
                .spans = words_of(asked->spans),
                .traces = words_of(asked->traces),
                .operations = words_of(asked->operations),
                .coroutines = words_of(asked->coroutines),
                .types = words_of(asked->types),
                .end_ns = UINT64_MAX,
        };
}

static void report_progress(const char *name, uint64_t done, uint64_t size, void *userdata) {
        spanprof_convert *convert = userdata;

        convert->progress(name, done, size, convert->userdata);
}

static void set_options(spanprof_convert *convert, const struct spanprof_convert_options *asked) {
        convert->options = (ConvertOptions){
                .start_ns = asked->start_ns,
                .end_ns = asked->end_ns ? asked->end_ns : UINT64_MAX,
                .start_relative = asked->flags & SPANPROF_CONVERT_RELATIVE,
                .end_relative = asked->flags & SPANPROF_CONVERT_RELATIVE,
                .timestamps = !(asked->flags & SPANPROF_CONVERT_NO_TIMES),
                .timestamps_asked = asked->flags & SPANPROF_CONVERT_ALL_TIMES,
                .payload = asked->flags & SPANPROF_CONVERT_PAYLOAD,
                .arguments = asked->flags & SPANPROF_CONVERT_ARGUMENTS,
                .pretty = asked->flags & SPANPROF_CONVERT_PRETTY,
                .version = SPANPROF_VERSION,
                .resource = (const char *const *)convert->resource,
                .symbolizer = convert->symbolizer,
                .filter = filter_of(asked->filter),
                .progress = asked->progress ? report_progress : NULL,
                .notice = note,
                .userdata = convert,
        };
        convert->progress = asked->progress;
        convert->userdata = asked->userdata;
}

/* Files that inputs name are opened for it, as the command does. */
static int make_symbolizer(spanprof_convert *convert, unsigned flags) {
        return flags & SPANPROF_CONVERT_NAMES ? symbolizer_new(&convert->symbolizer, NULL) : 0;
}

int convert_library_open(spanprof_convert **convertp, const ConvertOptions *options) {
        spanprof_convert *convert = calloc(1, sizeof(*convert));
        int r;

        *convertp = NULL;
        if (!convert)
                return error_origin(-ENOMEM);
        r = convert_init(&convert->convert, options);
        if (r) {
                spanprof_convert_close(convert);
                return r;
        }
        *convertp = convert;
        return 0;
}

Convert *convert_library_inside(spanprof_convert *convert) {
        return &convert->convert;
}

LIBRARY_API int spanprof_convert_open(spanprof_convert **convertp,
                                      const struct spanprof_convert_options *options) {
        static const struct spanprof_convert_options none = { .size = sizeof(none) };
        const struct spanprof_convert_options *asked = options ? options : &none;
        spanprof_convert *convert;
        int r;

        *convertp = NULL;
        if (asked->size != sizeof(*asked) || asked->flags & ~(unsigned)ALL_FLAGS)
                return -EINVAL;
        convert = calloc(1, sizeof(*convert));
        if (!convert)
                return error_origin(-ENOMEM);
        r = copy_resource(convert, asked->resource);
        if (!r)
                r = make_symbolizer(convert, asked->flags);
        if (!r) {
                set_options(convert, asked);
                r = convert_init(&convert->convert, &convert->options);
        }
        if (r) {
                spanprof_convert_close(convert);
                return r;
        }
        *convertp = convert;
        return 0;
}

LIBRARY_API void spanprof_convert_close(spanprof_convert *convert) {
        if (!convert)
                return;
        if (convert->convert.options)
                convert_deinit(&convert->convert);
        symbolizer_free(convert->symbolizer);
        for (char **pair = convert->resource; pair && *pair; pair++)
                free(*pair);
        free(convert->resource);
        text_deinit(&convert->problem);
        text_deinit(&convert->losses);
        text_deinit(&convert->notices);
        free(convert);
}

static void forget_problem(spanprof_convert *convert) {
        text_deinit(&convert->problem);
        convert->problem = (Text){ 0 };
}

static int refuse(spanprof_convert *convert, const char *problem, int r) {
        text_printf(&convert->problem, "%s", problem);
        return r;
}

/* Nothing is added behind the end of the reading. Return: 0, -EBUSY. */
static int begin_input(spanprof_convert *convert) {
        forget_problem(convert);
        if (!convert->is_closed)
                return 0;
        return refuse(convert, "nothing can be added behind the first write", -EBUSY);
}

/* @opened: as the source was opened; a cut one has what could be unpacked. */
static int add(spanprof_convert *convert, const Source *source, int opened) {
        int r = opened;

        if (!r || (r == SOURCE_E_CUT && source->size))
                r = convert_add_source(&convert->convert, source, &convert->problem);
        return r < 0 ? r : r || opened ? 1 : 0;
}

int convert_library_add(spanprof_convert *convert, const Source *source) {
        int r = begin_input(convert);

        return r ? r : add(convert, source, 0);
}

LIBRARY_API int spanprof_convert_add_file(spanprof_convert *convert, const char *path) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        int r = begin_input(convert);

        return r ? r : add(convert, &source, source_open(&source, path, &convert->problem));
}

LIBRARY_API int spanprof_convert_add_memory(spanprof_convert *convert, const char *name, const void *data,
                                            size_t size) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        int r = begin_input(convert);

        if (r)
                return r;
        return add(convert, &source, source_open_memory(&source, name, data, size, &convert->problem));
}

static int pass_on(const uint8_t *data, size_t size, uint64_t n_events, void *userdata) {
        const Output *output = userdata;

        return output->sink(data, size, output->userdata) ? -ECANCELED : 0;
}

LIBRARY_API int spanprof_convert_finish(spanprof_convert *convert) {
        forget_problem(convert);
        if (!convert->is_closed)
                convert->closed = convert_close(&convert->convert);
        convert->is_closed = true;
        if (convert->closed)
                return convert->closed;
        if (!window_n_events(convert->convert.window))
                return refuse(convert, "no input has an event that counts", -ENODATA);
        return 0;
}

LIBRARY_API int spanprof_convert_write(spanprof_convert *convert, const char *form,
                                       spanprof_convert_sink sink, void *userdata) {
        const ConvertWriter *writer = convert_find_writer(form, "");
        Output output = { sink, userdata };
        int r;

        forget_problem(convert);
        if (!writer)
                return refuse(convert, "there is no such form", -EINVAL);
        r = spanprof_convert_finish(convert);
        if (r)
                return r;
        r = writer->write(&convert->convert, pass_on, &output, &convert->problem);
        if (r == -ECANCELED)
                return refuse(convert, "the output could not be taken", r);
        return r > 0 ? -EMSGSIZE : r;
}

static const char *words(const Text *text) {
        return text->data ? text->data : "";
}

LIBRARY_API const char *spanprof_convert_problem(const spanprof_convert *convert) {
        return words(&convert->problem);
}

LIBRARY_API const char *spanprof_convert_losses(spanprof_convert *convert, const char *form) {
        const ConvertWriter *writer = convert_find_writer(form, "");

        text_deinit(&convert->losses);
        convert->losses = (Text){ 0 };
        if (writer && writer->losses && convert->is_closed && !convert->closed)
                writer->losses(&convert->convert, &convert->losses);
        return words(&convert->losses);
}

LIBRARY_API const char *spanprof_convert_notices(const spanprof_convert *convert) {
        return words(&convert->notices);
}
