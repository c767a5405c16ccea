/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window
 *
 * Each producer of profiles fills a window, and each writer of profiles takes
 * one. It holds one export interval: shared tables of distinct strings, modules, functions, frames, stacks,
 * links and attributes, and the profiles of many resources (processes) that refer to them by index.
 *
 * Index 0 of every table is the empty row and means "not set". Rows are
 * distinct; adding equal bytes yields the same index. Samples with the same
 * identity {stack, set of attributes, link} are merged: values add up, times are kept.
 *
 * Strings that come in may be any bytes; they are repaired to UTF-8 here, once
 * (counter UTF8_REPAIRED). Every table has a cap, and so have the bytes in all. At a cap
 * the call returns WINDOW_E_FULL and adds no row; present rows are still
 * found, and the caller counts the sample as LOST_WINDOW_FULL. A window is used by one thread.
 *
 * Cost of each call: one hash lookup. Nothing is allocated for a sample whose identity is
 * known, except 12 bytes for its time (20 with values other than 1), in chunks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Window Window;

enum {
        _WINDOW_E_SUCCESS,
        WINDOW_E_FULL,                  /* a cap is reached */
};

/*
 * A native frame is one word. A frame that does not fit, or has a function or line, is an index into the
 * frame table, told by the mark FRAME_MARK_TABLE.
 */
typedef uint64_t FrameWord;

/*
 * A frame in one word, from the top: mark (3 bits) | module index (17 bits) | address (44 bits). Only
 * window_frame() and window_native_frame() make words. They mean nothing in another window, except
 * FRAME_WORD_EMPTY, row 0 of every frame table.
 */
typedef enum FrameMark {
        FRAME_MARK_NATIVE = 0,          /* user code in a module */
        FRAME_MARK_KERNEL = 1,
        FRAME_MARK_UNKNOWN = 2,         /* module 0, raw address of the process: nothing known behind it */
        FRAME_MARK_TABLE = 7,           /* the low 61 bits are an index into the frame table */
} FrameMark;

#define FRAME_WORD_EMPTY ((FrameWord)FRAME_MARK_TABLE << 61)

/* The word's row in the frame table; 0 = it has none, or is the empty one. */
static inline uint32_t window_frame_row(FrameWord word) {
        return word >> 61 == FRAME_MARK_TABLE ? (uint32_t)word : 0;
}

enum {
        FRAME_ADDRESS_BITS = 44,
        FRAME_MODULE_BITS = 17,
        WINDOW_MODULE_ATTRIBUTES = 4,   /* at most */
        WINDOW_MAX_STRING = 64 << 10,   /* longer ones are cut, at the border of a character */
        WINDOW_MAX_SET = 128,           /* attributes of one sample or resource */
        WINDOW_MAX_DEPTH = 64 << 10,    /* frames of one stack; more are WINDOW_E_FULL */
};

/* Identity of a module (a mapping, in OTLP). All strings are window strings. */
typedef struct WindowModule {
        /* path as the target sees it; `[vdso]`, `vmlinux`, a kernel module's name */
        uint32_t path;
        uint32_t build_id_gnu;          /* lower-case hex; 0 = none */
        uint32_t build_id_go;
        uint32_t build_id_htlhash;      /* 32 hex digits; 0 = none */
        uint64_t start, limit;          /* ELF addresses of the executable range; start < limit */
        uint64_t offset;                /* file offset of start */
        /* object_file_number(): tells files apart that are alike in all of this; 0 = not needed */
        uint64_t file;
} WindowModule;

typedef struct WindowFunction {
        uint32_t name, system_name, filename;   /* strings */
        int64_t start_line;
} WindowFunction;

typedef struct WindowFrame {
        uint32_t module;                /* 0 = none */
        uint32_t function;              /* 0 = none */
        uint64_t address;               /* ELF address in module, or raw without one */
        int64_t line;                   /* 0 = not known */
        uint32_t type;                  /* string: native, kernel, jvm, unknown … (profile.frame.type) */
        uint32_t attribute;             /* one more attribute of the location; 0 = none */
        /* into the next frame of its stack, at the same module and address (core/profile/location.h) */
        bool is_inlined;
} WindowFrame;

typedef struct WindowLink {
        uint8_t trace_id[16];           /* big endian, as on the wire */
        uint8_t span_id[8];
} WindowLink;

typedef enum AttributeKind {
        ATTRIBUTE_STRING,
        ATTRIBUTE_INT,
        ATTRIBUTE_BOOL,
        ATTRIBUTE_DOUBLE
} AttributeKind;

typedef struct WindowAttribute {
        uint32_t key;                   /* string */
        uint32_t unit;                  /* string */
        uint32_t kind;                  /* AttributeKind */
        uint32_t string;                /* ATTRIBUTE_STRING */
        /* ATTRIBUTE_INT, ATTRIBUTE_BOOL (0, 1), ATTRIBUTE_DOUBLE (its bits) */
        int64_t integer;
} WindowAttribute;

typedef enum ProfileType {
        PROFILE_CPU,                    /* samples/count; period cpu/nanoseconds */
        PROFILE_OFF_CPU,                /* off_cpu/nanoseconds, a value for each event */
        PROFILE_WALL,                   /* wall/nanoseconds */
        PROFILE_LOCK,                   /* lock_contention/nanoseconds */
        PROFILE_ALLOC_SPACE,            /* alloc_space/bytes; period space/bytes */
        PROFILE_ALLOC_OBJECTS,          /* alloc_objects/count; period space/bytes */
        PROFILE_INUSE_SPACE,            /* inuse_space/bytes, as a window closes; period space/bytes */
        PROFILE_INUSE_OBJECTS,          /* inuse_objects/count, the same; period objects/count */
        PROFILE_SUSPENDED,              /* suspended/nanoseconds, of coroutines; a value for each event */
        /* off_cpu_waker/nanoseconds: waits under the stacks of who ended them; a value for each event */
        PROFILE_WAKER,
        PROFILE_GOROUTINES,             /* goroutines/count that wait, at looks; period wall/nanoseconds */
        PROFILE_PAGE_FAULTS,            /* page_faults/count; period the same, 1: a value for each event */
        PROFILE_CRASHES,                /* crashes/count; period the same, 1 */
        /* ticks between those of PROFILE_CPU, which they become in the flight recorder: never encoded */
        PROFILE_FINE,
        /* as PROFILE_CPU in all but its period: a profile beside that of the same resource */
        PROFILE_BOOST,
        PROFILE_OTHER,                  /* whatever window_profile_named() was told */
        PROFILE_N_TYPES = PROFILE_OTHER,
} ProfileType;

/* Whether samples are the ticks that count. */
static inline bool profile_is_cpu(ProfileType type) {
        return type == PROFILE_CPU || type == PROFILE_BOOST;
}

/* The longer of two periods through the other: jitter alone makes 1.67 of it, a boost two and more. */
#define WINDOW_PERIODS_ALIKE 1.7

/* Before the type of what the flight recorder has shipped. */
#define PROFILE_KEPT "kept_"

/* Type and unit of a measurement, in OTLP's words. All are window strings. */
typedef struct WindowProfileNames {
        uint32_t type, unit, period_type, period_unit;
} WindowProfileNames;

/* What tells samples apart. */
typedef struct WindowSampleKey {
        uint32_t profile, stack, attributes, link;      /* `attributes` is an index of a set */
} WindowSampleKey;

typedef struct WindowSample {
        uint32_t stack, attributes, link;       /* identity; `attributes` is an index of a set */
        uint32_t n_times, n_events;     /* n_events: merged into it, with a time or without */
        int64_t value;                  /* sum */
        const uint64_t *times_ns;       /* MONOTONIC, in order of arrival; one for each event with a time */
        /* one for each time; NULL = every event of the window had the value 1 */
        const int64_t *values;
} WindowSample;

typedef struct WindowProfile {
        uint32_t resource;
        ProfileType type;
        WindowProfileNames names;
        int64_t period;
        uint8_t id[16];                 /* random, kept for the life of the data */
        uint32_t n_samples;
        uint64_t n_events;              /* events merged into the samples */
        double total;                   /* sum of their values, about: a weight */
        uint64_t first_ns, last_ns;     /* range of the samples' times */
        const char *payload_format;     /* borrowed; NULL = no payload */
        const void *payload;
        size_t payload_size;
} WindowProfile;

typedef struct WindowLimits {
        uint32_t max_strings, max_modules, max_functions, max_frames, max_stacks, max_links, max_attributes,
                max_samples, max_resources;
        uint64_t max_times;             /* timestamps in all */
        /* memory of everything that is filled; closing adds up to 20 bytes an event */
        size_t max_bytes;
} WindowLimits;

/* Limits that keep a window under 64 MiB whatever targets do; a copy may be changed. */
extern const WindowLimits window_default_limits;

/*
 * @start_ns: MONOTONIC. @realtime_offset_ns: REALTIME - MONOTONIC for every time in this window.
 * @limits: NULL = window_default_limits. Return: 0, -ENOMEM.
 */
int window_new(Window **windowp, uint64_t start_ns, int64_t realtime_offset_ns, const WindowLimits *limits);
Window *window_free(Window *window);
DEFINE_CLEANUP(Window, window_free)

/* Moves the start, for producers that learn it only while they read. */
void window_move_start(Window *window, uint64_t start_ns);

/* A number that no other window of this process has: for caches of indexes held outside. Never 0. */
uint64_t window_serial(const Window *window);

/*
 * Closes the window: nothing but names (window_name_frame()) may be added after it. Samples later than
 * @end_ns move the end. Sorts the events by sample, so that window_get_sample() works from here on. Return:
 * 0, -ENOMEM (the window is closed, but without its samples: free it and count window_n_events()).
 */
int window_close(Window *window, uint64_t end_ns);

/*
 * Puts the profiles of a closed window in order of their rank, equal ones as they are. Numbers of profiles
 * change. Return: 0, -ENOMEM (nothing changed).
 */
typedef unsigned (*WindowRank)(const Window *window, const WindowProfile *profile);
int window_order_profiles(Window *window, WindowRank rank);

/*
 * Filling. Each returns 0, WINDOW_E_FULL or -ENOMEM, and sets *indexp (1 or higher, or 0 for the
 * empty row) on success only.
 *
 * Rows are put into one canonical form here, so that what is equal in OTLP is equal in the window:
 * a module without a build id is index 0 (OTLP wants one on each mapping: use a raw address then), a
 * range that is not start < limit is none, half a link is none, a negative line is 0, a frame
 * outside its module's range loses the module (counter FRAMES_OUTSIDE_MODULE), and a frame without
 * function and line is the same word from either call.
 */
int window_string(Window *window, const char *text, size_t size, uint32_t *indexp);
int window_module(Window *window, const WindowModule *module, uint32_t *indexp);
int window_function(Window *window, const WindowFunction *function, uint32_t *indexp);
int window_frame(Window *window, const WindowFrame *frame, FrameWord *wordp);
int window_native_frame(Window *window, FrameMark mark, uint32_t module, uint64_t address, FrameWord *wordp);
int window_stack(Window *window, const FrameWord *frames, size_t n_frames, uint32_t *indexp);
int window_link(Window *window, const WindowLink *link, uint32_t *indexp);

/*
 * Gives a frame that came without a function one, wherever it stands in the window; readers see it as if it
 * had been there from the start. The one thing, with the strings and functions for it, that may be added to a
 * closed window.
 */
int window_name_frame(Window *window, FrameWord word, uint32_t function);

/* A function that runs at the place of a frame, and the line in it. */
typedef struct WindowName {
        uint32_t function;
        int64_t line;                   /* 0 = not known */
} WindowName;

/*
 * The same with lines, and with the functions that were inlined there: the innermost first, and last the one
 * that the code lies in. Stacks have a frame for each once window_spread_names() was called.
 */
int window_name_inlined(Window *window, FrameWord word, const WindowName *names, size_t n);

/*
 * Gives each stack of a closed window the frames of window_name_inlined(), after the last call of it. A stack
 * that finds no room has the outermost function alone; *n_lostp: how many. Return: 0, -ENOMEM.
 */
int window_spread_names(Window *window, uint32_t *n_lostp);
int window_attribute_string(Window *window, const char *key, const char *value, size_t size,
                            uint32_t *indexp);
int window_attribute_int(Window *window, const char *key, int64_t value, uint32_t *indexp);

int window_attribute(Window *window, const WindowAttribute *attribute, uint32_t *indexp);

/*
 * A set of attributes: order and doubles do not matter; of two with one key the first wins. @n = 0 is
 * index 0; more than WINDOW_MAX_SET are WINDOW_E_FULL.
 */
int window_attribute_set(Window *window, const uint32_t *attributes, size_t n, uint32_t *indexp);

/* A resource by its caller's identity @key (a process generation): the same key yields the same index. */
int window_resource(Window *window, uint64_t key, uint32_t *indexp);

/*
 * Replaces the attributes of a resource (indexes of window_attribute_*; no key twice: the first wins; order
 * is kept).
 */
int window_resource_attributes(Window *window, uint32_t resource, const uint32_t *attributes, size_t n);

/* The profile of this type for the resource; made on first use. */
int window_profile(Window *window, uint32_t resource, ProfileType type, uint32_t *indexp);

/* The same by names. Ticks whose periods differ much are in two, PROFILE_CPU and PROFILE_BOOST. */
int window_profile_named(Window *window, uint32_t resource, const WindowProfileNames *names, int64_t period,
                         uint32_t *indexp);

/* The period of all profiles of @type in this window, made before or after the call. */
void window_set_period(Window *window, ProfileType type, int64_t period);

/*
 * Renames a profile, for producers that learn its names only while they read. It goes out with the new names,
 * and is still found by the old ones.
 */
void window_rename_profile(Window *window, uint32_t profile, const WindowProfileNames *names);

/* The period of one profile. */
void window_set_profile_period(Window *window, uint32_t profile, int64_t period);

/*
 * The same for a profile of several sources: values that came since its total was @before stand for @period
 * each, and those before for its period. It gets the mean, so that what all stand for is right in sum.
 */
void window_mix_profile_period(Window *window, uint32_t profile, double before, int64_t period);

/* Sets the payload that a profile was made from (original_payload). Both are borrowed. */
void window_set_profile_payload(Window *window, uint32_t profile, const char *format, const void *data,
                                size_t size);

/* Gives a profile the id that it was read with. */
void window_set_profile_id(Window *window, uint32_t profile, const uint8_t id[static 16]);

/* Gives it an id that no other has had, as if it were made in this window. */
void window_renew_profile_id(Window *window, uint32_t profile);

/* One event, at @time_ns, with @value (what it counts is the profile's matter). */
int window_sample(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes, uint32_t link,
                  int64_t value, uint64_t time_ns);

/*
 * Adds a sample in two steps, for producers that know an identity again: first the sample's number, then its
 * events. @timed: whether its time is kept.
 */
int window_sample_number(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes, uint32_t link,
                         uint32_t *samplep);
int window_sample_event(Window *window, uint32_t profile, uint32_t sample, int64_t value, uint64_t time_ns,
                        bool timed);

typedef struct WindowEvent {
        uint32_t profile, sample;
        int64_t value;
        uint64_t time_ns;
        bool timed;
} WindowEvent;

/* Many of them; unless @timed, no time is kept. *n_donep: how many were added, all unless it fails. */
int window_sample_events(Window *window, const WindowEvent *events, size_t n, bool timed, size_t *n_donep);

/* @n events whose values add up to @value, without times; from when to when all such of a profile are. */
void window_sample_sum(Window *window, uint32_t profile, uint32_t sample, int64_t value, uint32_t n);
void window_profile_covers(Window *window, uint32_t profile, uint64_t first_ns, uint64_t last_ns);

/*
 * Changes what samples are, before the window is closed. @change is asked of each sample so far, in the order
 * of their first events, and leaves *key or sets profile and attributes to others; asked of the result, it
 * would leave that. Samples that become equal are one. Return: 0; WINDOW_E_FULL = some stay as they were;
 * -ENOMEM; or what @change returned.
 */
typedef int (*WindowChangeKey)(void *userdata, WindowSampleKey *key);
int window_change_keys(Window *window, WindowChangeKey change, void *userdata);

/* Forgets the times of all events so far: from here on the samples are sums. */
void window_drop_times(Window *window);

/* Adds a sample without a time: data that was summed up elsewhere. It counts as one event. */
int window_sample_untimed(Window *window, uint32_t profile, uint32_t stack, uint32_t attributes,
                          uint32_t link, int64_t value);

/*
 * Reading. Indexes in range are the caller's duty; pointers live until the next fill or free. n_x counts
 * row 0; resources count from 1 too (n_resources is one more than there are), profiles from 0.
 */
uint64_t window_start_ns(const Window *window);
uint64_t window_end_ns(const Window *window);
int64_t window_realtime_offset_ns(const Window *window);

uint32_t window_n_strings(const Window *window);
uint32_t window_n_modules(const Window *window);
uint32_t window_n_functions(const Window *window);
uint32_t window_n_frames(const Window *window);         /* rows of the frame table, not frame words */
uint32_t window_n_stacks(const Window *window);
uint32_t window_n_links(const Window *window);
uint32_t window_n_attributes(const Window *window);
uint32_t window_n_attribute_sets(const Window *window);
uint32_t window_n_resources(const Window *window);
uint32_t window_n_profiles(const Window *window);
uint64_t window_n_events(const Window *window);         /* events of all profiles */
uint64_t window_n_events_of(const Window *window, ProfileType type);

const char *window_get_string(const Window *window, uint32_t index, size_t *sizep);
const WindowModule *window_get_module(const Window *window, uint32_t index);
const WindowFunction *window_get_function(const Window *window, uint32_t index);
const WindowFrame *window_get_frame(const Window *window, uint32_t index);
const FrameWord *window_get_stack(const Window *window, uint32_t index, size_t *n_framesp);
const WindowLink *window_get_link(const Window *window, uint32_t index);
const WindowAttribute *window_get_attribute(const Window *window, uint32_t index);
const uint32_t *window_get_attribute_set(const Window *window, uint32_t index, size_t *np);
/*
 * The set with the build ids of a module as process.executable.build_id.*, made with the module. The second
 * and later ones of those that differ in the file alone have a number as well, spanprof.file.
 */
uint32_t window_get_module_attributes(const Window *window, uint32_t module);
/* The attribute profile.frame.type of a frame's type; 0 for none. */
uint32_t window_get_type_attribute(const Window *window, uint32_t type);
const uint32_t *window_get_resource(const Window *window, uint32_t index, size_t *n_attributesp);
/* The text of a resource's attribute; "" = it has none with this key. Borrowed, as all strings. */
const char *window_get_resource_text(const Window *window, uint32_t index, const char *key);
/* Return: whether it has such a number. */
bool window_get_resource_integer(const Window *window, uint32_t index, const char *key, int64_t *valuep);
const WindowProfile *window_get_profile(const Window *window, uint32_t index);          /* @index from 0 */
/* closed */
void window_get_sample(const Window *window, uint32_t profile, uint32_t index, WindowSample *samplep);

/* Takes a frame word apart into the same form for all frames. */
WindowFrame window_expand_frame(const Window *window, FrameWord word);

/* Whether any frame is inlined into another. */
bool window_has_inlined(const Window *window);

/* Bytes that the window holds. */
size_t window_memory(const Window *window);

enum {
        WINDOW_FILL_MAX = 1 << 20,      /* there is no room */
        WINDOW_N_TABLES = 11,
        WINDOW_MEMORY = WINDOW_N_TABLES,        /* a part of a window, as each of its tables is */
        WINDOW_TIMES,                           /* the same */
        WINDOW_N_PARTS,
        WINDOW_ALL_TABLES = (1 << WINDOW_N_TABLES) - 1, /* bits by their numbers */
};

/*
 * How full each part is. Of the memory that is what rows need that are there; `memory` is what is taken, with
 * room for further rows.
 */
typedef struct WindowFill {
        uint32_t parts[WINDOW_N_PARTS], memory;
} WindowFill;

void window_fill(const Window *window, WindowFill *fill);

/*
 * Until the next call, tables of @parts are as if they were full, and with WINDOW_MEMORY or WINDOW_TIMES all
 * are: rows that are there are found, and none is added. With WINDOW_TIMES there is no event with a time.
 */
void window_refuse_rows(Window *window, uint32_t parts);
