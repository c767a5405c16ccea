/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Side-Band
 *
 * Notices of the kernel itself about executable mappings (mmap(), mprotect(), exec) and about forks, whose
 * child has its parent's mappings without a notice of its own. One event on each CPU counts nothing and has a
 * ring for these records. No record wakes the daemon, which drains the rings. A process pays 0.6 to 1 µs for
 * each executable mapping that it makes, and nothing for anything else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/mapping.h"
#include "host/sampling/sample/event-opener.h"

typedef enum SidebandKind {
        SIDEBAND_MAPPING,               /* `mapping` is set */
        SIDEBAND_EXEC,                  /* a new program begins, nothing of it is mapped yet */
        SIDEBAND_FORK,                  /* a new process: it runs what `parent` ran; no threads */
        SIDEBAND_LOST,                  /* the ring was full */
} SidebandKind;

typedef struct SidebandRecord {
        SidebandKind kind;
        uint64_t time_ns;               /* MONOTONIC */
        uint32_t pid;                   /* not for LOST */
        uint32_t parent;                /* FORK only */
        char comm[ABI_COMM_SIZE];       /* EXEC only: of the new program; any bytes, NUL-terminated */
        uint64_t n_lost;
        MappingNotice mapping;          /* a mapping, whose path points into the record */
} SidebandRecord;

enum {
        _SIDEBAND_E_SUCCESS,
        SIDEBAND_E_MALFORMED,           /* no kernel writes this */
        SIDEBAND_E_OTHER,               /* a record that is of no use here */
};

/* Pure. @data: one record of @size bytes, 8-aligned. Return: 0, SIDEBAND_E_*; *recordp is set on 0 only. */
int sideband_parse(const void *data, size_t size, SidebandRecord *recordp);

typedef struct Sideband Sideband;

/* Pure. Bytes of a CPU's ring where that many CPUs have one: a power of two, one page or more. */
size_t sideband_ring_bytes(size_t n_cpus, size_t page_size);

/* @n_cpus: that there may ever be. @n_online: as it begins. Return: 0, -errno. Nothing runs yet. */
int sideband_new(Sideband **sidebandp, size_t n_cpus, size_t n_online);
Sideband *sideband_free(Sideband *sideband);
DEFINE_CLEANUP(Sideband, sideband_free)

/*
 * Opens the event of a CPU, or closes it. What a closed one still held is dropped. @opener: NULL = none.
 * Return: 0, -errno (-ENODEV: the CPU is offline), not traced: the caller knows what it means.
 */
int sideband_open(Sideband *sideband, EventOpener *opener, size_t cpu);
void sideband_close(Sideband *sideband, size_t cpu);
bool sideband_is_open(const Sideband *sideband, size_t cpu);

/* The record lives until the call returns. Return: 0, or negative to end the drain. */
typedef int (*SidebandVisit)(void *userdata, const SidebandRecord *record);

/* Hands over what the rings hold at the call, in the order of time. Return: 0 or the visit's code. */
int sideband_drain(Sideband *sideband, SidebandVisit visit, void *userdata);

/* Whether any ring holds something. Costs no system call. */
bool sideband_has_records(const Sideband *sideband);

/* Readable once after each half of a ring that was written; belongs to the Sideband. */
int sideband_fd(const Sideband *sideband);
