/* SPDX-License-Identifier: Apache-2.0 */

/* Recordings of Java programs (JFR). */

#include <inttypes.h>
#include <string.h>

#include "core/base/util/text.h"
#include "core/jfr/jfr.h"
#include "core/jfr/mask.h"
#include "desk/convert/format.h"

enum {
        MAX_TIMES = 1 << 20,            /* 12 to 20 bytes each, and 8 in the output */
        MAX_PAYLOAD = 512 << 20,
};

typedef struct Input {
        const Convert *convert;
        const Source *source;
} Input;

static bool recognize(const uint8_t *data, size_t size) {
        return size >= 4 && !memcmp(data, "FLR", 4);
}

static size_t read_bytes(void *userdata, void *to, size_t size, uint64_t offset) {
        return source_read(((const Input *)userdata)->source, to, size, offset);
}

static void show_progress(uint64_t done, void *userdata) {
        const Input *input = userdata;
        const ConvertOptions *options = input->convert->options;

        options->progress(input->source->name, done, input->source->size, options->userdata);
}

/* Warns of totals that lack samples, and of two profiles that measure the same. */
static void say_doubts(const Convert *convert, const Source *source, const JfrResult *result) {
        Text pairs = { 0 };

        if (result->n_lost)
                convert_notice(convert,
                               "%s: the JVM lost %" PRIu64 " samples of the CPU's time; they are in no total",
                               source->name, result->n_lost);
        if (result->n_stackless)
                convert_notice(convert,
                               "%s: %" PRIu64
                               " samples have no stack: what they refer to is not in the recording, or has no frames",
                               source->name, result->n_stackless);
        if (result->n_frames_missing)
                convert_notice(convert,
                               "%s: %" PRIu64
                               " frames have no name: what they refer to is not in the recording",
                               source->name, result->n_frames_missing);
        for (uint32_t i = 0; i < result->n_twice; i++)
                text_printf(&pairs, "%s%s and %s", i ? ", " : "", result->twice[i].type,
                            result->twice[i].other);
        if (pairs.data)
                convert_notice(convert, "%s: has %s: each two measurements of the same; their sum means nothing",
                               source->name, pairs.data);
        text_deinit(&pairs);
}

/* One line for what `--log-level debug` lists. */
static void say_left(const Convert *convert, const Source *source, const JfrResult *result) {
        uint32_t n = MIN(result->n_left_types, (uint32_t)JFR_MAX_LEFT);
        _cleanup_(text_deinit) Text types = { 0 };

        for (uint32_t i = 0; i < n; i++) {
                text_printf(&types, "%s", i ? ", " : "");
                text_append_masked(&types, result->left[i].name);
                text_printf(&types, " (%" PRIu64 ")", result->left[i].n);
        }
        if (result->n_left && !types.failed)
                convert_notice(convert, "%s: %" PRIu64 " events with stacks are in no profile: %s%s",
                               source->name, result->n_left, types.data,
                               result->n_left_types > n ? ", …; --log-level debug lists all" : "");
}

static void note_times(Convert *convert, const Source *source, const JfrResult *result) {
        if (result->end_ns > result->start_ns)
                convert_cover(convert, result->start_ns, result->end_ns);
        if (result->last_ns)
                convert_cover(convert, result->first_ns, result->last_ns + 1);
        convert->n_timed += result->n_timed;
        if (result->times_dropped && !convert->times_dropped) {
                convert->times_dropped = true;
                convert_notice(
                        convert,
                        "%s: more than %d samples: their times are left out, sums stay (--timestamps keeps them)",
                        source->name, MAX_TIMES);
        }
}

/* The recording as it is, without what was not asked for. */
static int add_payload(Convert *convert, const Source *source, uint32_t profile, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;
        int r = convert_read_all(source, MAX_PAYLOAD, &data, &size, problem);

        if (r)
                return r;
        r = jfr_mask(data, size, convert->options->arguments);
        if (r == JFR_MASK_E_UNSURE) {
                text_printf(problem,
                            "%sits payload is left out: there may be secrets in it that could not be found",
                            problem->size ? "; " : "");
                return CONVERT_E_INPUT;
        }
        return r ? r : convert_add_payload(convert, profile, "jfr", take(data), size);
}

static void note_size(Text *diagnostics, const Source *source) {
        text_append_masked(diagnostics, source->name);
        text_printf(diagnostics, ": %llu bytes\n", (unsigned long long)source->packed_size);
}

static int read_jfr(Convert *convert, const Source *source, Text *problem) {
        const ConvertOptions *asked = convert->options;
        Input userdata = { convert, source };
        const JfrInput input = { read_bytes, &userdata, source->size };
        const JfrOptions options = { .start_ns = asked->start_ns,
                                     .end_ns = asked->end_ns,
                                     .start_relative = asked->start_relative,
                                     .end_relative = asked->end_relative,
                                     .timestamps = asked->timestamps && !convert->times_dropped,
                                     .max_times = asked->timestamps_asked ? 0
                                                                          : MAX_TIMES - convert->n_timed + 1,
                                     .arguments = asked->arguments,
                                     .key = convert->n_inputs,
                                     .progress = asked->progress ? show_progress : NULL,
                                     .userdata = &userdata };
        JfrResult result;
        int r, q = 0;

        if (convert->diagnostics)
                note_size(convert->diagnostics, source);
        r = jfr_read(&input, &options, convert->window, &result, convert->diagnostics, problem);
        if (r < 0)
                return r;
        convert->rank = jfr_profile_rank;
        note_times(convert, source, &result);
        say_doubts(convert, source, &result);
        say_left(convert, source, &result);
        if (asked->payload && result.n_profiles)
                q = add_payload(convert, source, result.profile, problem);
        return q ? q : r ? CONVERT_E_INPUT : 0;
}

const ConvertReader convert_read_jfr = {
        .name = "jfr", .recognize = recognize, .keeps_times = true, .read = read_jfr
};
