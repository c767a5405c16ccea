/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Constants of a chunk as rows of a Window: strings, classes, methods, frames, stacks and threads.
 *
 * Each constant is turned into its row when something first refers to it, and the row's index is kept beside
 * it (JfrConstant.known): a stack that a thousand samples share is looked at once.
 */

#include "core/profile/window.h"
#include "core/jfr/chunk.h"

enum { JFR_FRAME_CACHE_FIRST_BITS = 12, JFR_FRAME_CACHE_BITS = 17 };

/* What constants are known as. */
typedef enum JfrUse {
        JFR_AS_TEXT = 1,
        JFR_AS_CLASS,
        JFR_AS_METHOD,
        JFR_AS_FRAME_TYPE,
        JFR_AS_STACK,
        JFR_AS_THREAD,
} JfrUse;

typedef struct JfrLibrary {
        uint32_t build_id;              /* window strings */
        uint32_t path;
} JfrLibrary;

typedef struct JfrCounts {
        uint64_t n_frames, n_remote_frames;     /* frames of new stacks */
        uint64_t n_stacks, n_truncated;
        uint64_t n_stacks_missing;      /* samples whose stack is in no pool, or has no frames */
        uint64_t n_frames_missing;      /* different references to frames and methods that are in no pool */
} JfrCounts;

typedef struct JfrThread {
        uint32_t id, name;              /* attributes; 0 = none */
} JfrThread;

typedef struct JfrMethod {
        uint32_t function;              /* window row */
        uint32_t module;                /* module of a remote frame */
        uint64_t address;
        bool remote, java;              /* java: it has a descriptor that the JVM would take */
} JfrMethod;

/* A frame as it stands in a stack. */
typedef struct JfrRawFrame {
        uint64_t method, line, type;
} JfrRawFrame;

/*
 * Frames of this chunk that were seen before, by their bytes: small, since its place is a matter of chance,
 * and a CPU's cache holds only so many. The few that do not fit are made again each time.
 */
typedef struct JfrFrameEntry {
        uint64_t key;                   /* 0 = free */
        FrameWord word;
} JfrFrameEntry;

/* Where a stack's class keeps its frames, and a frame its fields. */
typedef struct JfrFrameLayout {
        const JfrClass *stack;
        const JfrField *frames;         /* frames themselves, or references to them */
        /* a frame in a stack is so many compressed integers, and nothing else; 0 = it is not */
        uint32_t n_quick;
        bool integers;                  /* a frame's fields are such integers */
        int method, line, type;         /* numbers of the frame's fields; -1 = there is none */
} JfrFrameLayout;

typedef struct JfrNames {
        Window *window;
        const JfrMetadata *metadata;
        JfrPools *pools;
        const JfrClass *text_class;     /* java.lang.String */
        JfrFrameLayout layout;
        JfrThread *threads;
        uint32_t n_threads, threads_size;
        JfrMethod *methods;
        uint32_t n_methods, methods_size;
        FrameWord *words;               /* frames of the stack that is being read */
        JfrFrameEntry *cache;
        unsigned cache_bits;            /* grows with what was put in */
        uint32_t n_cached;
        const JfrLibrary *libraries;
        uint32_t n_libraries;
        uint32_t kind_strings[4];       /* strings of frame types; made on first use */
        Text text, text2, text3;        /* scratch */
        JfrCounts *counts;
} JfrNames;

/* Marks the classes whose pools are needed for a field: its own, and those that its values refer to. */
void jfr_names_want(const JfrField *field);

/* Return: 0, -ENOMEM. The caches live on from chunk to chunk. */
int jfr_names_init(JfrNames *names, Window *window, JfrCounts *counts);
void jfr_names_deinit(JfrNames *names);
void jfr_names_begin(JfrNames *names, const JfrMetadata *metadata, JfrPools *pools);

/*
 * For stacks.c: a constant's text, appended; of a class as people write it. Return: 0, -ENOMEM.
 */
int jfr_names_append(JfrNames *names, const JfrClass *class, uint64_t index, Text *text);
int jfr_names_append_class(JfrNames *names, const JfrClass *class, uint64_t index, Text *text);

/* Each: 0 and the row (0 = not known), WINDOW_E_FULL, -ENOMEM. */
int jfr_names_text(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp);
int jfr_names_class(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stringp);
/* *missingp: the index is one, and yields no frames. */
int jfr_names_stack(JfrNames *names, const JfrClass *class, uint64_t index, uint32_t *stackp,
                    bool *truncatedp, bool *missingp);
int jfr_names_thread(JfrNames *names, const JfrClass *class, uint64_t index, JfrThread *threadp);
