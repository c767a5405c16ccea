/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames
 *
 * Addresses of one sample + Process → a stack in the current Window. A frame is
 * (object, address in the object): the leaf's address is exact, a caller's is
 * its return address - 1. What cannot be placed in an object keeps its raw
 * address and is counted, see FRAMES_*.
 *
 * A stack that the window has seen costs one hash and one compare.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/profile/window.h"
#include "host/sampling/frames/kernel-symbols.h"
#include "host/sampling/process/process.h"
#include "host/sampling/runtime/runtimes.h"

typedef struct Frames Frames;

/* Return: 0, -ENOMEM. */
int frames_new(Frames **framesp);
Frames *frames_free(Frames *frames);
DEFINE_CLEANUP(Frames, frames_free)

/*
 * Called when a frame lies outside of all mappings: reads them again (targets_refresh()).
 * Return: 0 = done, > 0 = not now, < 0 = fatal, passed up.
 */
typedef int (*FramesRefresh)(void *userdata, Process *process);
void frames_set_refresh(Frames *frames, FramesRefresh refresh, void *userdata);

/* Called once a window for each file, and path of it, that a sample is in. */
typedef void (*FramesSampled)(void *userdata, const Process *process, const Mapping *mapping);
void frames_set_sampled(Frames *frames, FramesSampled sampled, void *userdata);

enum {
        _FRAMES_E_SUCCESS,
        FRAMES_E_UNNAMED,               /* from FramesNaming.code: the name is not known */
        /* the name may be known in a moment: the stack is made again for the next sample */
        FRAMES_E_LATER,
};

/* A frame in a file. */
typedef struct FileFrame {
        const Mapping *mapping;         /* has an object */
        uint64_t address;               /* in the object */
        FrameWord word;
} FileFrame;

/* Where frames get names from. Each may be NULL: then they get none. */
typedef struct FramesNaming {
        /*
         * Code that the process made while it ran: in memory without a file. The name is not terminated and
         * lives until the next call; *is_pastp: something else is there by now. Return: 0, FRAMES_E_*,
         * -ENOMEM.
         */
        int (*code)(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                    const char **namep, size_t *sizep, bool *is_pastp);
        /* The same: where the function begins that is there still. */
        int (*start)(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                     uint64_t *startp);
        /* A number that is another one when a name of code of the process may be. Return: 0, -ENOMEM. */
        int (*serial)(void *userdata, const Process *process, uint64_t *serialp);
        /*
         * Told of the frames in files, of a stack that the window has not seen; they are named, or not, when
         * the window closes. Return: 0, -ENOMEM.
         */
        int (*files)(void *userdata, const Window *window, const Process *process, const FileFrame *frames,
                     size_t n);
        void *userdata;
} FramesNaming;

void frames_set_naming(Frames *frames, const FramesNaming *naming);

/* Sets what names frames of runtimes; borrowed; NULL = they stay unnamed. */
void frames_set_runtimes(Frames *frames, Runtimes *runtimes);

/* As runtimes_task_name(), runtimes_task_id() and runtimes_span_name(). */
const char *frames_task_name(Frames *frames, const Process *process, const uint8_t *task, size_t size);
const char *frames_task_id(Frames *frames, const Process *process, const uint8_t *task, size_t size);
const char *frames_span_name(Frames *frames, const Process *process, const uint8_t *object, size_t size);

/* The addresses of one sample, as the kernel half walked them. All is borrowed. */
typedef struct StackInput {
        Process *process;
        uint64_t time_ns;               /* MONOTONIC: addresses are resolved by the mappings of this time */
        const uint64_t *kernel;         /* leaf first */
        const uint64_t *user;           /* words, leaf first; no frame is cut */
        size_t n_kernel;                /* 0 … ABI_MAX_KERNEL_FRAMES */
        size_t n_user;                  /* words: 0 … ABI_MAX_USER_WORDS */
        /* the stack is not made while names of its runtime are late, or the proof of a frame is */
        bool may_wait;
} StackInput;

/*
 * The stack of a sample: kernel frames, then user frames. @endp: how the user part ended; FP_END becomes
 * COMPLETE if its last frame is a root. Where the walk may have used the rows of a mapping that was gone by
 * then, the stack is cut and becomes STALE. A stack without frames is index 0.
 * Return: 0, WINDOW_E_FULL, -ENOMEM. If frames_are_late() then, there is no stack: *stackp is 0.
 */
int frames_stack(Frames *frames, Window *window, const StackInput *input, enum abi_stack_end *endp,
                 uint32_t *stackp);

/*
 * The counter of why the innermost user frame of that stack has no name; COUNTER_N = it has one, there is no
 * such frame, or it is in a file, whose names come when the window closes.
 */
enum counter frames_nameless(const Frames *frames);

/* Whether the last input might wait, and what it may wait for was late. No frame of it was counted. */
bool frames_are_late(const Frames *frames);

/*
 * A stack of the one frame at @address, an instruction or any other place in the process; 0 = index 0. For
 * places that no stack was walked to: it keeps nothing. Return: as frames_stack().
 */
int frames_place(Frames *frames, Window *window, Process *process, uint64_t time_ns, uint64_t address,
                 uint32_t *stackp);

/*
 * Whether @pc lies in the first instructions of the executable or of its loader, or where goroutines begin:
 * nothing calls these. @mapping: holds @pc; NULL = none does.
 */
bool frames_is_root(const Process *process, const Mapping *mapping, uint64_t pc);

/* Functions of the kernel that have a name here; 0 = none, or no kernel frame has come yet (*loadedp). */
size_t frames_kernel_symbols(const Frames *frames, bool *loadedp);
