/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPANPROF_CONVERT_H
#define SPANPROF_CONVERT_H

/*
 * libspanprof-convert
 *
 * What `spanprof convert` does, and uses itself, for programs: recordings and profiles of many tools (JFR,
 * pprof, OTLP, folded stacks, traces of coroutines; packed or not) become one OTLP request, or another form.
 *
 *     spanprof_convert *convert;
 *
 *     if (spanprof_convert_open(&convert, NULL))
 *             return 1;
 *     if (spanprof_convert_add_file(convert, "app.jfr"))
 *             fprintf(stderr, "%s\n", spanprof_convert_problem(convert));
 *     if (spanprof_convert_write(convert, "otlp", write_to, stdout) < 0)
 *             fprintf(stderr, "%s\n", spanprof_convert_problem(convert));
 *     spanprof_convert_close(convert);
 *
 * One thread at a time may use a conversion; several conversions are independent. Nothing is printed. Memory
 * is bounded (some GiB for the largest inputs); a packed input of more than 16 MiB is unpacked into a file
 * without a name in TMPDIR. Inputs may be hostile.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spanprof_convert spanprof_convert;

enum spanprof_convert_flags {
        SPANPROF_CONVERT_PRETTY = 1,            /* JSON with line breaks */
        SPANPROF_CONVERT_NO_TIMES = 2,          /* sums alone, without the time of each event */
        SPANPROF_CONVERT_ALL_TIMES = 4,         /* every time, however many there are */
        SPANPROF_CONVERT_PAYLOAD = 8,           /* the input goes along, as original_payload */
        SPANPROF_CONVERT_ARGUMENTS = 16,        /* command lines of recordings may be passed on */
        SPANPROF_CONVERT_RELATIVE = 32,         /* start_ns and end_ns count from where the inputs begin */
        SPANPROF_CONVERT_NAMES = 64,            /* files of this machine name frames that have no name */
};

/*
 * Events that count, as the options of these names of `spanprof convert` say it. Each is a list of words,
 * ended by NULL; NULL = all. An event counts if each list that is given has a word that fits it.
 */
struct spanprof_convert_filter {
        const char *const *processes;   /* pids, or globs on the name of process or service */
        const char *const *services;    /* globs on service.name */
        const char *const *hosts;       /* globs on host.name */
        const char *const *threads;     /* ids, or globs on names */
        const char *const *spans;       /* hex digits */
        const char *const *traces;      /* the same */
        const char *const *operations;  /* globs on the operation of a span, by its attributes */
        const char *const *coroutines;  /* ids, or numbers of stations */
        const char *const *types;       /* globs on what is measured: samples, alloc … */
};

/* Is told now and then how far the reading of an input is, in bytes. */
typedef void (*spanprof_convert_progress)(const char *name, uint64_t done, uint64_t size, void *userdata);

/* All members may be zero. */
struct spanprof_convert_options {
        size_t size;                    /* sizeof(struct spanprof_convert_options), for later versions */
        unsigned flags;                 /* SPANPROF_CONVERT_* */
        uint64_t start_ns, end_ns;      /* events in [start, end) count, in ns since 1970; end 0 = all */
        const char *const *resource;    /* KEY=VALUE for each resource, ended by NULL; NULL = none; copied */
        const struct spanprof_convert_filter *filter;   /* NULL = all; its lists live until the close */
        spanprof_convert_progress progress;             /* NULL = nobody wants to know */
        void *userdata;                                 /* passed to progress */
};

/*
 * @options: NULL = none. Pair with spanprof_convert_close().
 * Return: 0, -EINVAL (an unknown flag, a size of a later version, no `=` in an attribute), -ENOMEM.
 */
int spanprof_convert_open(spanprof_convert **convertp, const struct spanprof_convert_options *options);
void spanprof_convert_close(spanprof_convert *convert);

/*
 * Adds an input; the first bytes tell its form. @path: `-` = standard input. @name: of memory, for messages.
 * Return: 0; 1 = it is damaged, unreadable or of no known form: what could be read counts, and
 * spanprof_convert_problem() says what is wrong; -EBUSY = behind the first write; -ENOMEM.
 */
int spanprof_convert_add_file(spanprof_convert *convert, const char *path);
int spanprof_convert_add_memory(spanprof_convert *convert, const char *name, const void *data, size_t size);

/*
 * Ends the reading: filters, names. The first write does so, too. Return: 0; -ENODATA = no input has an
 * event that counts; -ENOMEM.
 */
int spanprof_convert_finish(spanprof_convert *convert);

/* Gets the output in pieces. Return: 0, or another number, which ends the writing. */
typedef int (*spanprof_convert_sink)(const void *data, size_t size, void *userdata);

/*
 * Writes all inputs in one form: "otlp" (protobuf), "json" (OTLP), "pprof", "folded", "speedscope", "html",
 * "svg". May be called several times. Names of functions are those of the inputs, unless others are asked for.
 * Return: 0; -EINVAL = no such form; -ENODATA = no input has an event that counts; -EMSGSIZE = the form
 * cannot hold it; -ECANCELED = the sink has ended it; -ENOMEM. spanprof_convert_problem() has words for all
 * but the last.
 */
int spanprof_convert_write(spanprof_convert *convert, const char *form, spanprof_convert_sink sink,
                           void *userdata);

/* Says what was wrong with the last call, in UTF-8; "" = nothing. Valid until the next call. */
const char *spanprof_convert_problem(const spanprof_convert *convert);

/*
 * Says what @form cannot hold of the result, in words, behind finish or a write; "" = nothing. Valid until
 * the next call.
 */
const char *spanprof_convert_losses(spanprof_convert *convert, const char *form);

/* Returns notices about the result, a line each, so far; "" = nothing. Valid until the next call. */
const char *spanprof_convert_notices(const spanprof_convert *convert);

#ifdef __cplusplus
}
#endif

#endif
