/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot Wire
 *
 * The conversation with a worker without rights that reads one JVM (core/base/sandbox/worker-session.h). The
 * worker has libjvm's file and the memory of this process, both to read. What it says is not trusted.
 *
 *     request   ReaderRequest, descriptor of libjvm's file; then a ReaderHandle
 *     answer    HotspotSaid: HOTSPOT_SAID_OPEN
 *     question  HotspotQuestion: a frame
 *     answer    HotspotSaid: HOTSPOT_SAID_FRAMES
 *     question  HotspotQuestion: what its threads wait for
 *     answer    HotspotSaid: HOTSPOT_SAID_LOCKS
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot.h"
#include "host/runtime/reader/reader-handle.h"

enum {
        HOTSPOT_WIRE_MAGIC = 0x48535031,
        /* bytes of the texts of a frame, each three for one that is no UTF-8, and their NULs */
        HOTSPOT_WIRE_MAX_TEXT = 3 * (HOTSPOT_MAX_CLASS + HOTSPOT_MAX_METHOD + HOTSPOT_MAX_SIGNATURE +
                                     HOTSPOT_MAX_FILE) + 8,
};

typedef enum HotspotSaidKind {
        HOTSPOT_SAID_OPEN = 1,          /* HotspotOpened follows */
        HOTSPOT_SAID_FRAMES,            /* n times {HotspotWireFrame, texts} follow */
        HOTSPOT_SAID_LOCKS,             /* RuntimeLocks follows, with n locks; no more of it is sent */
} HotspotSaidKind;

typedef struct HotspotSaid {
        uint32_t magic, kind;
        int32_t result;                 /* 0, HOTSPOT_E_* */
        uint32_t n, is_short;           /* FRAMES; @n of LOCKS, too */
} HotspotSaid;

typedef struct HotspotOpened {
        HotspotLayout layout;
        HotspotCode code;
        uint64_t interpreter_blob;      /* CodeBlob of the interpreter; 0 = it has none yet */
        char reason[HOTSPOT_MAX_REASON];        /* if the result is not 0 */
} HotspotOpened;

typedef struct HotspotQuestion {
        uint32_t magic;
        uint32_t kind;                  /* HOTSPOT_SAID_*: of the answer */
        uint32_t is_first;              /* frame: first of a batch (hotspot_begin()) */
        uint32_t zero;
        uint64_t words[HOTSPOT_WORDS];
} HotspotQuestion;

typedef struct HotspotWireFrame {
        uint32_t kind, line;
        int32_t bci;
        uint16_t n_name, n_signature, n_file, zero;     /* bytes of each text, with its NUL */
} HotspotWireFrame;

_Static_assert(sizeof(HotspotSaid) == 20 && sizeof(HotspotQuestion) == 40 && sizeof(HotspotWireFrame) == 20,
               "no hidden bytes");

extern const WorkerQuestion hotspot_open_question, hotspot_frames_question, hotspot_locks_question;

/* Pure. Whether an answer is one that may come. */
bool hotspot_wire_check(const HotspotSaid *said);

/* Pure. Whether a code cache may lie so. The offsets of a layout are harmless, whatever they are. */
bool hotspot_wire_check_opened(const HotspotOpened *opened);

/* Describes a JVM that hotspot_new() has opened. Zeroes what is not used. */
void hotspot_wire_describe(HotspotOpened *to, const Hotspot *hotspot, const char *reason);

/* Pure. Makes @to of a frame, whose texts are at @text, which @to borrows. Return: whether it is sound. */
bool hotspot_wire_take(HotspotFrame *to, const HotspotWireFrame *frame, const char *text);

/* The worker's side: answers until the daemon closes the socket. @fd: libjvm's file. */
void hotspot_serve(int socket, int fd, const ReaderRequest *first);
