/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Needs
 *
 * What the kernel half calls and is made of: functions of BPF, kinds of programs, kinds of maps. The kernel
 * is asked for each, by a load of two instructions or a map of one entry. Its version says less:
 * distributions add functions to old kernels.
 */

#include <stdbool.h>
#include <stddef.h>

typedef enum KernelAnswer {
        KERNEL_HAS,
        KERNEL_LACKS,
        KERNEL_SILENT,                  /* not permitted to ask, or out of memory or descriptors */
} KernelAnswer;

typedef enum KernelPart {
        KERNEL_PART_SAMPLES,            /* program at each tick */
        KERNEL_PART_EVENTS,             /* programs at exec, exit and switches of threads */
        KERNEL_PART_THREADS,            /* the look at all threads that `stacks` takes */
        KERNEL_PART_PROBES,             /* the program at probes of --allocations */
        KERNEL_PART_MAPS,
        N_KERNEL_PARTS,
} KernelPart;

typedef struct KernelNeed {
        KernelPart part;
        const char *name;               /* function without "bpf_", kind of map; "" = programs of this part */
        const char *since;              /* first Linux that has it */
        const char *substitute;         /* function that is used where the kernel lacks it; NULL = none */
} KernelNeed;

/* The kind of programs of a part, as the kernel calls it; "" for maps. */
const char *kernel_part_program(KernelPart part);

typedef void KernelNeedTold(const KernelNeed *need, KernelAnswer answer, void *userdata);

/* Asks the kernel for each need, part after part. */
void kernel_needs_ask(KernelNeedTold *tell, void *userdata);

/*
 * Writes what the kernel lacks for sampling and has no substitute of: "bpf_task_pt_regs() in perf_event
 * programs (since Linux 5.15), …", each function once. Return: whether there is any.
 */
bool kernel_needs_missing(char *text, size_t size);

/* Writes one need in those words. */
void kernel_need_text(const KernelNeed *need, char *text, size_t size);
