/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads of Targets
 *
 * What each thread of the targets does at one moment, read from the kernel: its state, the system call that
 * it is in, the registers of its user code. No thread is stopped. The object is loaded beside the kernel half
 * when it is asked for first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/threads_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-half.h"

enum { KERNEL_THREADS_MAX = 16384 };

typedef struct KernelThreads KernelThreads;

/* @half: borrowed, lives longer. Return: 0, SAMPLER_E_UNUSABLE (one line was logged), -errno. */
int kernel_threads_new(KernelThreads **threadsp, const KernelHalf *half, const SamplerConfig *config);
KernelThreads *kernel_threads_free(KernelThreads *threads);
DEFINE_CLEANUP(KernelThreads, kernel_threads_free)

typedef struct ThreadsLook {
        struct abi_thread *threads;     /* by process and thread; to be freed */
        size_t n;
        uint64_t n_over_cap;            /* beyond KERNEL_THREADS_MAX */
        /* the scheduler's clock as the look began, ns; 0 = not known: no arrival can be compared */
        uint64_t scheduler_ns;
} ThreadsLook;

/* Runtimes of a process, as its rows in the kernel half say. */
typedef struct ThreadsRuntimes {
        bool has_hotspot, has_python, has_v8, has_php, has_ruby, has_beam;
        struct hotspot_process hotspot;
        struct python_process python;
        struct v8_process v8;
        struct php_process php;
        struct ruby_process ruby;
        struct beam_process beam;
} ThreadsRuntimes;

/* @generation: of the process' row; what is of another program does not count. */
void kernel_threads_runtimes(const KernelHalf *half, uint32_t tgid, uint64_t generation,
                             ThreadsRuntimes *runtimes);

/* Return: 0, -errno. */
int kernel_threads_look(KernelThreads *threads, ThreadsLook *look);
