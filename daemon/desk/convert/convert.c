/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recognises each source by its first bytes, has its reader fill the window, and closes it with names,
 * filters and attributes of the options.
 */

#include "desk/convert/convert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/profile/shown.h"
#include "core/symbol/function/window-names.h"

enum {
        HEAD = 4096,                    /* bytes that tell a format */
        MAX_SEEN = 16 << 20,
};

const WindowLimits format_limits = {
        .max_strings = 4 << 20,
        .max_modules = 128 << 10,
        .max_functions = 4 << 20,
        .max_frames = 4 << 20,
        .max_stacks = 4 << 20,
        .max_links = 4 << 20,
        .max_attributes = 4 << 20,
        .max_samples = 16 << 20,
        .max_resources = 64 << 10,
        .max_times = 64 << 20,
        .max_bytes = (size_t)1 << 30,
};

/* Limits for one run, after which the process ends: a day's recording fits. */
static WindowLimits convert_limits(void) {
        WindowLimits limits = format_limits;

        limits.max_times = 256 << 20;
        limits.max_bytes = (size_t)4 << 30;
        return limits;
}

int convert_init(Convert *convert, const ConvertOptions *options) {
        WindowLimits limits = convert_limits();

        *convert = (Convert){ .options = options, .start_ns = UINT64_MAX };
        intern_init(&convert->seen, MAX_SEEN);
        return window_new(&convert->window, 0, 0, &limits);
}

void convert_deinit(Convert *convert) {
        window_free(convert->window);
        intern_deinit(&convert->seen);
        for (uint32_t i = 0; i < convert->n_payloads; i++)
                free(convert->payloads[i]);
        free(convert->payloads);
        *convert = (Convert){ 0 };
}

void convert_cover(Convert *convert, uint64_t start_ns, uint64_t end_ns) {
        convert->start_ns = MIN(convert->start_ns, start_ns);
        convert->end_ns = MAX(convert->end_ns, end_ns);
}

int convert_read_all(const Source *source, size_t max, uint8_t **datap, size_t *sizep, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;

        if (source->size > max) {
                text_printf(problem, "is larger than %zu MiB", max >> 20);
                return CONVERT_E_INPUT;
        }
        data = malloc(source->size + 1);
        if (!data)
                return error_origin(-ENOMEM);
        size = source_read(source, data, source->size, 0);
        data[size] = 0;
        *sizep = size;
        *datap = take(data);
        return 0;
}

/* Appends the input to the payload that the profile has already: two recordings, joined, are a recording. */
static int join_payload(Convert *convert, uint32_t profile, uint8_t **datap, size_t *sizep) {
        const WindowProfile *row = window_get_profile(convert->window, profile);
        uint8_t *joined;

        if (!row->payload_format)
                return 0;
        joined = malloc(row->payload_size + *sizep + 1);
        if (!joined)
                return error_origin(-ENOMEM);
        memcpy(joined, row->payload, row->payload_size);
        memcpy(joined + row->payload_size, *datap, *sizep);
        free(*datap);
        *datap = joined;
        *sizep += row->payload_size;
        return 0;
}

int convert_add_payload(Convert *convert, uint32_t profile, const char *format, uint8_t *bytes, size_t size) {
        uint8_t **payloads = realloc(convert->payloads, (convert->n_payloads + 1) * sizeof(*payloads));
        _cleanup_(freep) uint8_t *data = bytes;
        int r;

        if (!payloads)
                return error_origin(-ENOMEM);
        convert->payloads = payloads;
        r = join_payload(convert, profile, &data, &size);
        if (r)
                return r;
        convert->payload_bytes += size;
        payloads[convert->n_payloads++] = data;
        window_set_profile_payload(convert->window, profile, format, take(data), size);
        return 0;
}

const ConvertReader *convert_recognize(const Source *source) {
        uint8_t head[HEAD];
        size_t size = source_read(source, head, sizeof(head), 0);

        for (const ConvertReader *const *reader = convert_readers; size && *reader; reader++)
                if ((*reader)->recognize(head, size))
                        return *reader;
        return NULL;
}

int convert_add_source(Convert *convert, const Source *source, Text *problem) {
        const ConvertReader *reader = convert_recognize(source);

        convert->n_inputs++;
        convert->n_bytes += source->packed_size;
        if (!reader) {
                text_printf(problem, source->size ? "is in no format that can be read"
                                                   : "is empty, as a recording without one sample is");
                return CONVERT_E_INPUT;
        }
        convert->times_open |= !reader->keeps_times;
        return reader->read(convert, source, problem);
}

/* Parses an attribute of --resource; `key=` is an empty value. */
static int parse_attribute(Window *window, const char *pair, uint32_t *attributep) {
        const char *equals = strchr(pair, '=');
        _cleanup_(freep) char *key = strndup(pair, (size_t)(equals - pair));

        if (!key)
                return error_origin(-ENOMEM);
        return window_attribute_string(window, key, equals + 1, strlen(equals + 1), attributep);
}

/* Puts what was asked for before what the inputs say: of two with one key the first wins. */
static int add_resource(Window *window, uint32_t resource, const uint32_t *asked, size_t n_asked) {
        uint32_t set[WINDOW_MAX_SET];
        const uint32_t *own;
        size_t n_own;

        own = window_get_resource(window, resource, &n_own);
        n_own = MIN(n_own, WINDOW_MAX_SET - n_asked);
        if (n_asked)
                memcpy(set, asked, n_asked * sizeof(*set));
        if (n_own)
                memcpy(set + n_asked, own, n_own * sizeof(*set));
        return window_resource_attributes(window, resource, set, n_asked + n_own);
}

static int add_resources(Convert *convert) {
        uint32_t asked[WINDOW_MAX_SET];
        size_t n = 0;
        int r = 0;

        for (const char *const *pair = convert->options->resource;
             pair && *pair && n < WINDOW_MAX_SET / 2 && !r; pair++)
                r = parse_attribute(convert->window, *pair, &asked[n++]);
        for (uint32_t i = 1; n && !r && i < window_n_resources(convert->window); i++)
                r = add_resource(convert->window, i, asked, n);
        return r == WINDOW_E_FULL ? error_origin(-ENOMEM) : r;
}

/* Times of the command line count from where the inputs begin, or from 1970. */
static void set_times(const Convert *convert, FilterOptions *filter) {
        const ConvertOptions *options = convert->options;

        filter->start_ns = 0;
        filter->end_ns = UINT64_MAX;
        if (!convert->times_open)
                return;
        filter->start_ns = options->start_ns + (options->start_relative ? convert->start_ns : 0);
        if (options->end_ns != UINT64_MAX)
                filter->end_ns = options->end_ns + (options->end_relative ? convert->start_ns : 0);
}

static size_t name_frame(void *userdata, FrameWord word, CopyName names[static COPY_MAX_INLINED]) {
        const NamedFrame *frames;
        size_t n = MIN(window_names_get(userdata, word, &frames), (size_t)COPY_MAX_INLINED);

        for (size_t i = 0; i < n; i++)
                names[i] = (CopyName){ .name = frames[i].name,
                                       .system_name = *frames[i].linkage_name ? frames[i].linkage_name : NULL,
                                       .file = *frames[i].file ? frames[i].file : NULL,
                                       .line = frames[i].line,
                                       .start_line = frames[i].start_line };
        return n;
}

static int copy_window(Convert *convert, const FilterOptions *filter, WindowNames *names) {
        WindowLimits limits = convert_limits();
        CopyOptions options = {
                .filter = filter, .namer = names ? name_frame : NULL, .userdata = names, .limits = &limits
        };
        Window *window;
        int r = window_copy(&window, convert->window, &options, &convert->counts);

        if (r)
                return r < 0 ? r : error_origin(-ENOMEM);
        window_free(convert->window);
        convert->window = window;
        return 0;
}

/* Only what a filter changes or a frame without a name needs a second window. */
static int select_samples(Convert *convert) {
        _cleanup_(window_names_freep) WindowNames *names = NULL;
        FilterOptions filter = convert->options->filter;
        int r;

        set_times(convert, &filter);
        if (convert->options->symbolizer) {
                r = window_names_new(&names, convert->window, convert->options->symbolizer, NULL);
                if (r)
                        return r;
        }
        return filter_is_needed(&filter) || names ? copy_window(convert, &filter, names) : 0;
}

/* Says what a picture or a table of shares cannot show: a part that is less than nothing. */
static void say_below_zero(const Convert *convert) {
        uint64_t n = 0;

        for (uint32_t i = 0; !convert->options->below_zero && i < window_n_profiles(convert->window); i++)
                for (uint32_t j = 0; j < window_get_profile(convert->window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(convert->window, i, j, &sample);
                        n += sample.value < 0;
                }
        if (n)
                convert_notice(convert,
                               "%" PRIu64
                               " samples are below zero, as in a difference of two profiles, and count as nothing:"
                               " convert keeps them in pprof and OTLP, and report --diff compares two files",
                               n);
}

int convert_close(Convert *convert) {
        int r = add_resources(convert);

        if (r)
                return r;
        window_move_start(convert->window, MIN(convert->start_ns, convert->end_ns));
        r = window_close(convert->window, convert->end_ns);
        if (!r)
                say_below_zero(convert);
        if (!r && convert->rank)
                r = window_order_profiles(convert->window, convert->rank);
        if (!r && convert->options->closed)
                r = convert->options->closed(convert->window, convert->options->userdata);
        return r ? r : select_samples(convert);
}

void convert_say_uneven(const Convert *convert) {
        int64_t shortest, longest;

        if (shown_find_uneven(convert->window, &shortest, &longest))
                convert_notice(convert, "samples count alike here, but stand for %.1f to %.1f ms, as with a boost: pprof, speedscope "
                               "and report --wall have their time",
                               (double)shortest / (double)NS_PER_MS, (double)longest / (double)NS_PER_MS);
}

void convert_notice(const Convert *convert, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n < 0)
                text = NULL;
        else if (convert->options->notice)
                convert->options->notice(text, convert->options->userdata);
        else
                log_notice("%s", text);
}

void convert_loss(Text *words, uint64_t n, const char *one, const char *many) {
        if (n)
                text_printf(words, "%s%" PRIu64 " %s", words->size ? ", " : "", n, n == 1 ? one : many);
}

int convert_lines_add(ConvertLines *lines, int r, int malformed) {
        lines->n++;
        if (r != malformed)
                return r;
        if (!lines->n_malformed++)
                lines->first_malformed = lines->n;
        return 0;
}

int convert_lines_judge(const ConvertLines *lines, int r, const char *are, Text *problem) {
        if (r)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        else if (lines->n_malformed)
                text_printf(problem, "%" PRIu64 " lines %s and were left out, line %" PRIu64 " first",
                            lines->n_malformed, are, lines->first_malformed);
        return r || lines->n_malformed ? CONVERT_E_INPUT : 0;
}
