/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of a Window, shared by window.c (life, reading), window-rows.c and window-frames.c (tables) and
 * samples.c (profiles, events, closing). No other file includes this header.
 */

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/profile/window.h"

enum {
        EVENTS_PER_CHUNK = 1024,
        MAX_FRAME_TYPES = 64,
};

/* Events in order of arrival; sorted by sample when the window is closed, then given back. */
typedef struct EventChunk EventChunk;
struct EventChunk {
        EventChunk *next;
        uint32_t n;
        uint32_t samples[EVENTS_PER_CHUNK];
        uint64_t times_ns[EVENTS_PER_CHUNK];
        int64_t *values;                /* NULL = all are 1, as on the CPU */
};

/* Key of WindowTables.samples. */
/* Sums of a sample's events, one for each key. */
typedef struct SampleSum {
        int64_t value;
        uint32_t n_times, n_events;
        uint32_t first_time;            /* index into WindowSorted.times_ns, once closed */
        bool is_moved;                  /* events belong to another sample, with other attributes */
} SampleSum;

/* A value of profile.frame.type that some frame has: a handful. */
typedef struct FrameType {
        uint32_t string, attribute;
        FrameMark mark;                 /* FRAME_MARK_TABLE = none of its own */
} FrameType;

/* Names that a frame without a function was given: a function alone, or words of frames, innermost first. */
typedef struct FrameNames {
        uint32_t function;              /* function that the code lies in */
        uint32_t n;                     /* 0 = the function is all */
        FrameWord words[];
} FrameNames;

/* A stack that has more frames by now than it came with. */
typedef struct SpreadStack {
        const FrameWord *words;         /* NULL = it has not */
        size_t n;
} SpreadStack;

typedef struct Resource {
        const uint32_t *attributes;     /* attributes, in the arena */
        uint32_t n_attributes;
        uint32_t profiles[PROFILE_N_TYPES];     /* index + 1 */
} Resource;

typedef struct ProfileKey {
        uint32_t resource;
        WindowProfileNames names;
        uint32_t is_boost;              /* bool: PROFILE_BOOST has the names of PROFILE_CPU */
} ProfileKey;

/* Each holds its empty row at 0, except profile_keys and samples. */
typedef struct WindowTables {
        Intern strings, modules, functions, frames, stacks, links, attributes, sets, resource_keys,
                profile_keys, samples;
} WindowTables;

typedef struct FrameTypes {
        FrameType rows[MAX_FRAME_TYPES];
        uint32_t n;
        uint32_t by_mark[FRAME_MARK_TABLE];     /* string of a native frame's mark, made on first use */
} FrameTypes;

/* Events with a time, in order of arrival. */
typedef struct WindowEvents {
        Arena arena;
        EventChunk *first, *last;
        uint64_t n_times;
        int has_values;
} WindowEvents;

/* Arrays that are made when the window is closed. */
typedef struct WindowSorted {
        uint64_t *times_ns;
        int64_t *values;
        uint32_t *order;                /* samples by profile */
        uint32_t *profile_first;        /* index of a profile's first sample in order */
} WindowSorted;

struct Window {
        uint64_t serial;
        uint64_t start_ns, end_ns;
        int64_t realtime_offset_ns;
        WindowLimits limits;
        uint64_t n_events;
        int closed;
        int full;                       /* over max_bytes: the tables take no new rows */
        uint32_t refused;               /* parts, by their bits: window_refuse_rows() */
        bool has_first_id;
        bool has_inlined;               /* frames that are inlined into others */
        uint8_t first_id[16];           /* id of profile 0 */

        WindowTables tables;
        Arena arena;                    /* attributes of resources */
        Resource *resources;            /* room for resources_size */
        WindowProfile *profiles;
        SampleSum *sums;
        uint32_t resources_size, profiles_size, sums_size;
        int64_t periods[PROFILE_N_TYPES];
        FrameTypes types;
        Hashmap names;                          /* frame word → FrameNames that it was given */
        SpreadStack *spread;                    /* stacks with inlined frames, by index; NULL = none */
        Hashmap alike;                          /* hash of a module without its file → how many there are */
        uint32_t *module_attributes;            /* set of attributes of each module */
        uint32_t module_attributes_size;

        WindowEvents events;
        WindowSorted sorted;
};

/* A row with every byte of padding zero: rows are looked up as bytes. */
#define WINDOW_ROW(_type, _name) \
        _type _name; \
        memset(&_name, 0, sizeof(_name))

/* intern_add() with the window's rules. Return: 0 (new or found), WINDOW_E_FULL, -ENOMEM. */
int window_add_row(Window *window, Intern *table, const void *data, size_t size, uint32_t *indexp);
