/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot
 *
 * One JVM: its layout, its code, and names for the frames that the kernel half writes. Reads by bounded
 * calls, and never writes to the JVM or stops it. Not for several threads at once.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-code.h"
#include "host/runtime/hotspot/hotspot-layout.h"
#include "host/runtime/hotspot/hotspot-memory.h"
#include "host/runtime/hotspot/hotspot-method.h"
#include "host/runtime/hotspot/hotspot-scopes.h"
#include "host/sampling/runtime/runtime-lock.h"

enum {
        HOTSPOT_MAX_METHODS = 1024,     /* names that are kept, 0.5 MiB; with more, all are read again */
};

typedef enum HotspotFrameKind {
        HOTSPOT_FRAME_INTERPRETED,
        HOTSPOT_FRAME_COMPILED,         /* by C2; or by a compiler that cannot be told any more */
        HOTSPOT_FRAME_INLINED,          /* into the compiled frame that follows */
        HOTSPOT_FRAME_STUB,
        HOTSPOT_FRAME_C1,               /* as COMPILED, by the quick compiler */
        HOTSPOT_N_FRAME_KINDS,
} HotspotFrameKind;

/* Texts live until the next call with the same Hotspot. */
typedef struct HotspotFrame {
        HotspotFrameKind kind;
        const char *name;               /* `package.Class.method`; of a stub, the VM's own name of it */
        const char *signature;          /* `(int, java.lang.String)`; "" = unknown */
        const char *file;               /* "" = unknown */
        uint32_t line;                  /* 0 = unknown */
        int32_t bci;                    /* -1 = unknown, or the entry */
} HotspotFrame;

typedef struct HotspotFrames {
        uint32_t n;
        HotspotFrame frames[HOTSPOT_MAX_INLINED];       /* the innermost first */
        bool is_short;                  /* methods that were inlined into it are not known to the end */
} HotspotFrames;

typedef struct Hotspot Hotspot;

enum {
        _HOTSPOT_E_SUCCESS,
        HOTSPOT_E_NO_JVM,               /* the file is no HotSpot */
        HOTSPOT_E_LATER,                /* the JVM is not that far yet, or it has gone */
        HOTSPOT_E_UNKNOWN,              /* @reason says what is not known of it */
        HOTSPOT_E_UNLOADED,             /* a class was unloaded since the tick, perhaps that of this frame */
        HOTSPOT_E_NAMELESS,             /* no name for this frame: what it was has gone */
        HOTSPOT_E_GONE,                 /* the worker has ended or was too slow (hotspot-link.h) */
};

/*
 * @source, @fd, @size, @bias: as for hotspot_memory_new(). Return: 0 with *hotspotp, HOTSPOT_E_* with
 * @reason, -ENOMEM.
 */
int hotspot_new(Hotspot **hotspotp, const HotspotReader *source, int fd, uint64_t size, uint64_t bias,
                char reason[HOTSPOT_MAX_REASON]);

/*
 * The same over any memory; @reader and what it needs live longer. @symbols: as for hotspot_layout_read().
 * Return: as above, without HOTSPOT_E_NO_JVM.
 */
int hotspot_new_over(Hotspot **hotspotp, const HotspotReader *reader,
                     const uint64_t symbols[HOTSPOT_N_SYMBOLS], uint64_t bias,
                     char reason[HOTSPOT_MAX_REASON]);
Hotspot *hotspot_free(Hotspot *hotspot);
DEFINE_CLEANUP(Hotspot, hotspot_free)

const HotspotLayout *hotspot_layout(const Hotspot *hotspot);
const HotspotCode *hotspot_code(const Hotspot *hotspot);
const HotspotReader *hotspot_reader(const Hotspot *hotspot);
HotspotMemory *hotspot_memory(const Hotspot *hotspot);        /* NULL: it was made over a reader */

/*
 * Begins a batch of frames: pages of the JVM that are read for one frame serve the others of the batch, and
 * are as old as the batch at the most.
 */
void hotspot_begin(Hotspot *hotspot);

/*
 * Names of one frame of the wire (docs/RUNTIMES.md): several if others were inlined into it. Return: 0,
 * HOTSPOT_E_UNLOADED, HOTSPOT_E_NAMELESS, -ENOMEM.
 */
int hotspot_frames(Hotspot *hotspot, const uint64_t words[HOTSPOT_WORDS], HotspotFrames *framesp);

/* Reads again what threads of the JVM wait for: hotspot_locks_read(). */
void hotspot_locks(Hotspot *hotspot, RuntimeLocks *locks);
