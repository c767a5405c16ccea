/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sampler Configuration
 *
 * What the sampler is asked to do, and what it answers with: types that sampler.h and the kernel half under
 * it (kernel-half.h) share.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/offcpu_abi.h"
#include "host/sampling/sample/event-opener.h"

/* File in which the kernel describes its own types. */
#define SAMPLER_BTF_PATH "/sys/kernel/btf/vmlinux"

enum { SAMPLER_MAX_HELPERS = ABI_HELPER_NAMES };

/* Processes whose samples found the ring full. */
typedef struct SamplerLosers {
        uint32_t n_processes;           /* 512 at most */
        uint32_t most_pid;              /* process that lost most of them, and what it lost */
        struct abi_lost_ticks most;
} SamplerLosers;

typedef struct SamplerConfig {
        uint32_t frequency;             /* ticks, Hz: 1 … 10,000 */
        uint32_t ticks_per_sample;      /* entries of a CPU for one of kind CPU. 0 = 1 */
        bool recorder;                  /* others are of kind FINE; else they are left out */
        uint32_t depth;                 /* user frames, 1 … ABI_MAX_FRAMES */
        bool kernel_stacks;
        bool page_faults;               /* sample them, too (fault-events.h) */
        bool allocated;                 /* ticks read how much their thread of Java has allocated */
        bool jitter;
        uint32_t default_state;         /* enum abi_state of a process without a row */
        bool watch_targets;             /* post MAPPINGS notices for targets without a ring or context */
        uint32_t names;                 /* enum abi_names: what sampler_reject_name() goes by */
        bool watch_non_targets;         /* post MAPPINGS notices for processes that are no targets */
        bool names_choose;              /* a program of a known name may be a target from its exec on */
        uint32_t starts;                /* enum abi_starts: what new processes say of themselves is sent */
        uint64_t start_wait_ns;         /* age up to which those of settled names do not call */
        uint32_t self_tgid;             /* the daemon itself, which is never sampled */
        /* names of its children that are not sampled, SAMPLER_MAX_HELPERS at most; NULL = sample all */
        const char *const *helper_comms;
        uint32_t ring_bytes;            /* size of the samples' ring, a power of two of pages; 0 = by load */
        bool is_patient;                /* the daemon may be held up for seconds, and nothing shall be lost */
        uint32_t stack_bytes;           /* bytes of stack copies, a second and CPU; 0 = none are made */
        bool crashes;                   /* tell of targets that a signal ends (kernel-events.h) */
        bool allocations;               /* those that probes tell are samples, too (alloc-probes.h) */
        bool waits;                     /* count what threads of targets wait for (kernel-waits.h) */
        uint32_t wait_walks;            /* walks of their stacks, a second and CPU */
        uint64_t wait_long_ns;          /* waits from this length on have their stack anyway; 0 = none has */
        /* bit N: the first argument of system call N is a descriptor; WAIT_FILE_CALLS_WORDS, NULL = none */
        const uint64_t *wait_file_calls;
        EventOpener *opener;            /* borrowed; NULL = none */
        const char *obi_map;            /* path of OBI's map, borrowed; NULL or "" = it is not read */
        const char *btf_path;           /* types of the kernel; NULL = SAMPLER_BTF_PATH */
} SamplerConfig;

enum {
        _SAMPLER_E_SUCCESS,
        SAMPLER_E_UNUSABLE,             /* the kernel refuses something that is needed; one line was logged */
        SAMPLER_E_FULL,                 /* the process table is full */
};

/* How it is with the walk over frames of runtimes (runtime-walk.c). */
enum runtime_walk {
        RUNTIME_WALK_UNWANTED,
        RUNTIME_WALK_LOADING,
        RUNTIME_WALK_ON,                /* each tick from now on goes over runtimes' frames */
        RUNTIME_WALK_REFUSED,           /* kernel or control group do not take it; one line was logged */
};

/* Memory of our control group, bytes. */
typedef struct SamplerMemory {
        uint64_t limit;                 /* 0 = there is none */
        uint64_t room;                  /* what is left of it; UINT64_MAX = no limit, or not known */
} SamplerMemory;

typedef SamplerMemory (*SamplerReadMemory)(const void *userdata);

/* Takes one record, in the order of its ring. Return: 0, or negative to end the drain. */
typedef int (*SamplerRecord)(const void *data, size_t size, void *userdata);

/* Takes one sum of waits. Return: as above. */
typedef int (*SamplerWaitSum)(const struct abi_wait_key *key, const struct abi_wait_sum *sum, void *userdata);
