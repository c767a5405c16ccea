/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Format
 *
 * The interface of a reader and of a writer. A reader adds one input to the Window of a Convert, a writer
 * makes documents of that Window. Each format includes this header and defines a ConvertReader, a
 * ConvertWriter or both in its own room. Only the table in formats.c names them, so no header of a format is
 * needed there.
 *
 * Times in the window are REALTIME (its offset is 0).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/intern.h"
#include "core/base/util/text.h"
#include "core/profile/copy.h"
#include "core/profile/reshape.h"
#include "core/symbol/function/symbolizer.h"
#include "desk/convert/source.h"

struct PageOptions;

/* Limits of a window that is read from files: larger than the daemon's, since each file is read once. */
extern const WindowLimits format_limits;

typedef struct ConvertOptions {
        uint64_t start_ns, end_ns;      /* events in [start, end) count; 0 and UINT64_MAX = all */
        bool start_relative, end_relative;      /* … counted from where the recording begins */
        bool timestamps;                /* keep the time of each event */
        bool timestamps_asked;          /* … whatever they cost */
        bool payload;                   /* original_payload: the input as it came */
        bool arguments;                 /* command lines may be passed on */
        bool pretty;
        const char *version;            /* spanprof's version */
        const ReshapeOptions *reshape;  /* changes to OTLP for a certain receiver; NULL = none */
        bool one_value;                 /* … whose samples have one value each */
        bool below_zero;                /* the output has a place for values below zero */
        const char *const *resource;    /* KEY=VALUE, ended by NULL */
        FilterOptions filter;           /* all filters but times, which are start_ns and end_ns */
        Symbolizer *symbolizer;         /* for frames that have no function; NULL = they stay so */
        /* ids of profiles that were read: copies count once; NULL = of one Convert */
        Intern *seen;
        /* may be NULL */
        void (*progress)(const char *name, uint64_t done, uint64_t size, void *userdata);
        /* gets a sentence, without a newline; NULL = the log */
        void (*notice)(const char *text, void *userdata);
        /* gets the closed window, before it is copied, and may name its frames. Return: 0, -ENOMEM */
        int (*closed)(Window *window, void *userdata);
        void *userdata;                 /* for progress, notice and closed */
} ConvertOptions;

typedef struct Convert {
        const ConvertOptions *options;
        Window *window;                 /* open until all inputs are read */
        Text *diagnostics;              /* remarks of readers on their inputs; NULL = not wanted */
        const char *first_path;         /* path of the first input, borrowed; NULL = none */
        const struct PageOptions *page;         /* texts of a page beside the samples; NULL = none */
        uint32_t n_inputs;              /* begun, for resources that have no identity */
        uint64_t start_ns, end_ns;      /* the inputs' own: earliest, latest */
        /* when inputs were last changed that say no time, for forms that must have one; 0 = not known */
        uint64_t untimed_ns;
        Intern seen;
        uint64_t n_repeated;            /* profiles left out since their id was seen before */
        /* an input was read whose times are still to be compared with start and end */
        bool times_open;
        WindowRank rank;                /* order of profiles; NULL = as they come */
        CopyCounts counts;              /* counts of the filter, after convert_close() */
        uint64_t n_timed;               /* events whose time is kept */
        bool times_dropped;             /* there were too many of them */
        uint64_t n_bytes;               /* bytes of all inputs, as they came */
        uint8_t **payloads;             /* lent to the window */
        uint32_t n_payloads;
        size_t payload_bytes;
} Convert;

enum {
        _CONVERT_E_SUCCESS,
        /* damaged or not of the format: @problem says where; what could be read was */
        CONVERT_E_INPUT,
        CONVERT_E_OUTPUT,               /* the window cannot be written in this format */
};

typedef struct ConvertReader {
        const char *name;
        /* Whether the input begins like that; the first reader that says so gets it. */
        bool (*recognize)(const uint8_t *data, size_t size);
        bool keeps_times;               /* reads only events between start and end */
        /* Adds to the window. Return: 0, CONVERT_E_INPUT, -ENOMEM. */
        int (*read)(Convert *convert, const Source *source, Text *problem);
} ConvertReader;

/* Takes the bytes of one document. Return: 0, or a code that ends the writing and is passed on. */
typedef int (*ConvertSink)(const uint8_t *data, size_t size, uint64_t n_events, void *userdata);

typedef struct ConvertWriter {
        const char *name;               /* value of --format */
        const char *suffixes;           /* words with one blank between */
        /* is read by people: frames without a name get one, if this machine knows it */
        bool names;
        bool lines;                     /* needs source lines, whether asked for or not */
        bool times;                     /* shows when something was: times are kept, however many there are */
        bool below_zero;                /* has a place for values below zero, as of a difference */
        /* Return: 0, CONVERT_E_OUTPUT, -ENOMEM, or the sink's code. */
        int (*write)(const Convert *convert, ConvertSink sink, void *userdata, Text *problem);
        /* Losses: what the form has no place for, as words for a notice, each with a number; may be NULL. */
        void (*losses)(const Convert *convert, Text *words);
} ConvertWriter;

/* All readers and writers, each defined in the room of its format. */
extern const ConvertReader convert_read_coro, convert_read_folded, convert_read_framed, convert_read_jfr,
        convert_read_otlp, convert_read_page, convert_read_perf_script, convert_read_pprof,
        convert_read_speedscope, convert_read_spool;
extern const ConvertWriter convert_write_otlp, convert_write_json, convert_write_folded, convert_write_pprof,
        convert_write_pgo, convert_write_html, convert_write_svg, convert_write_speedscope,
        convert_write_firefox;

/* For writers: adds `1 ONE` or `N MANY` to a list of losses, if there is one. */
void convert_loss(Text *words, uint64_t n, const char *one, const char *many);

/* Losses of forms that have stacks and their sums alone: folded, speedscope. */
void convert_stack_losses(const Convert *convert, Text *words);

/* For writers of forms that add numbers of samples: says where these stand for different times. */
void convert_say_uneven(const Convert *convert);

/* For readers and writers: what people should know of the result, beside its losses. */
_printf_(2, 3) void convert_notice(const Convert *convert, const char *format, ...);

/* For readers of lines: how many there were, and which ones were left out. */
typedef struct ConvertLines {
        uint64_t n, n_malformed, first_malformed;
} ConvertLines;

/* Counts a line. @r: what its parser says, which is @malformed for one that is left out. Return: 0, or @r. */
int convert_lines_add(ConvertLines *lines, int r, int malformed);

/*
 * @r: what ended the lines: 0, or a cap of the window. @are: `have no number`; what lines are that were left out.
 * Return: 0; CONVERT_E_INPUT with a problem.
 */
int convert_lines_judge(const ConvertLines *lines, int r, const char *are, Text *problem);

/* For readers: widens the time that the window covers. */
void convert_cover(Convert *convert, uint64_t start_ns, uint64_t end_ns);

/*
 * For readers: adds to a profile's original payload. @bytes: malloc()ed, becomes the conversion's. Return: 0,
 * -ENOMEM.
 */
int convert_add_payload(Convert *convert, uint32_t profile, const char *format, uint8_t *bytes, size_t size);

/* All of the source as one buffer with a NUL behind it. Return: 0, CONVERT_E_INPUT, -ENOMEM. */
int convert_read_all(const Source *source, size_t max, uint8_t **datap, size_t *sizep, Text *problem);
