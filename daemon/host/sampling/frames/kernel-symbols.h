/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Frames
 *
 * Turns an address of the running kernel into a frame: the function's name,
 * `vmlinux` or the kernel module with its build id, and the address as it was
 * linked. The kernel is loaded at a random place (KASLR); a raw address would
 * give that away, so none ever gets into a frame.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/profile/window.h"

typedef struct Kernel Kernel;

/* Where it reads; tests give their own. */
typedef struct KernelPaths {
        const char *kallsyms;
        const char *modules;            /* /proc/modules */
        const char *notes;              /* /sys/kernel/notes */
        const char *module_directory;   /* /sys/module */
        const char *system_map;         /* NULL = /boot/System.map-RELEASE */
} KernelPaths;

/*
 * Reads all but the modules' notes. Files that are missing make frames poorer, not an error. Return: 0,
 * -ENOMEM.
 */
int kernel_new(Kernel **kernelp, const KernelPaths *paths);
Kernel *kernel_free(Kernel *kernel);
DEFINE_CLEANUP(Kernel, kernel_free)

/*
 * The frame of the instruction at @address (for a caller: its return address - 1). An address without a name
 * gives a frame of type `kernel` with nothing else, counted. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int kernel_frame(Kernel *kernel, Window *window, uint64_t address, FrameWord *wordp);

/* How many functions have a name. */
size_t kernel_n_symbols(const Kernel *kernel);
