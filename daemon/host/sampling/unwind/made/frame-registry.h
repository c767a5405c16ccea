/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Registered Frames
 *
 * Reads the call frame information that compilers at run time have handed to libgcc, or to LLVM's libunwind
 * (__register_frame), from outside of the process. Memory in; out come functions by where they lie, ready to
 * be a file's .eh_frame (made-image.h).
 *
 * The process may write anything, and at any time. A read counts if the mutex was free before, between and
 * behind two reads of everything, and both have found the same.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/process/made-areas.h"
#include "host/sampling/unwind/made/frame-variables.h"

enum {
        FRAME_REGISTRY_MAX_OBJECTS = 4096,      /* objects of both lists; named sections; LLVM's functions */
        FRAME_REGISTRY_MAX_SECTION = 4 << 20,   /* bytes of one section */
        FRAME_REGISTRY_MAX_BYTES = 16 << 20,    /* bytes of all sections, and of a set */
        FRAME_REGISTRY_MAX_NAMED = 4096,        /* functions that are known by name */
        FRAME_REGISTRY_MAX_CODE = 1 << 20,      /* bytes of one of them */
        FRAME_REGISTRY_MAX_FOLLOWED = 2 << 20,  /* bytes of all of them, followed at each look */
        FRAME_REGISTRY_MAX_CLUSTERS = MADE_MAX_PIECES,  /* areas that lie apart; more of them get no rows */
        FRAME_REGISTRY_MAX_RUNS = 4096,         /* runs of pages in an area; code in more has no rows */
        FRAME_REGISTRY_MAX_GAP = 16 << 20,      /* bytes between two pieces of code in one area */
        FRAME_REGISTRY_MAX_SPAN = 64 << 20,     /* bytes from the first to the last of them */
};

/* Addresses where the .eh_frame of an area lies in its file: as far behind the code as pointers may reach. */
#define FRAME_SECTION_DISTANCE (UINT64_C(1) << 30)

typedef struct FrameMemory {
        /* Reads up to 64 KiB of the process. Return: whether all of it was there. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
} FrameMemory;

/* An area of code. Behind it: `n_runs` MadeRun, then `size` bytes of .eh_frame, padded to 8. */
typedef struct FrameCluster {
        uint64_t low, high;             /* addresses of whole pages */
        uint32_t n_runs, size;
} FrameCluster;

typedef struct FrameSet {
        uint8_t *data;                  /* owned; clusters by address */
        uint32_t size;
        uint32_t n_clusters;
        uint32_t n_functions;           /* a long one that is followed may be several */
        uint32_t n_malformed;           /* sections and functions that make no sense */
        uint32_t n_over_cap;            /* the same that have no room */
} FrameSet;

void frame_set_deinit(FrameSet *set);

enum {
        _FRAME_REGISTRY_E_SUCCESS,
        FRAME_REGISTRY_E_CHANGED,       /* the lists were being changed, or their heads are gone: try again */
};

/*
 * @variables: in addresses of the process. @named: functions whose places are known another way; those of
 * them that nobody has registered get the rows that their code tells (made-code.h). Return: 0,
 * FRAME_REGISTRY_E_CHANGED, -ENOMEM.
 */
int frame_registry_read(const FrameMemory *memory, const FrameVariables *variables, const MadeRun *named,
                        uint32_t n_named, FrameSet *set);

/* Pure. Whether @data is a sound set of @n clusters. */
bool frame_set_check(const uint8_t *data, uint32_t size, uint32_t n);

/* A cluster of a sound set. */
typedef struct FrameView {
        FrameCluster cluster;
        const MadeRun *runs;
        const uint8_t *section;
        size_t size;                    /* bytes of it all in the set */
} FrameView;

/* The cluster that begins at @data, which is aligned by 8. */
FrameView frame_view(const uint8_t *data);
