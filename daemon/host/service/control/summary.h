/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Summary
 *
 * What a run did, for people (log lines at its end) and for programs (a JSON
 * file): ticks, deliveries, losses by cause that add up, coverage, contexts, stacks.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/file/outfile.h"
#include "core/base/sandbox/sweeper.h"
#include "host/service/control/coverage.h"

typedef struct Summary {
        uint64_t duration_ns;
        uint32_t frequency;             /* Hz, nominal */
        uint32_t n_cpus;
        uint64_t target_cpu_ns;         /* CPU time of the targets while they were targets */
        uint64_t sampler_entries;
        double programmed;              /* samples that the periods stand for, on all CPUs */
        uint64_t n_boosted;             /* ticks that boosted processes had beyond these */
        uint64_t n_pending;             /* samples neither delivered nor lost: 0 after a stop */
        uint64_t first_sample_ns;       /* after start; 0 = none */
        uint64_t first_delivery_ns;
        const char *exports;            /* JSON of what each receiver got; NULL = none */
        double stolen;                  /* coverage_stolen() of the run */
        size_t map_bytes;               /* bytes of all BPF maps, unwind tables included */
} Summary;

/* Ticks that the targets' CPU time stands for. */
double summary_expected(const Summary *summary);

/* The rate that was really programmed, jitter included, Hz a CPU. */
double summary_rate(const Summary *summary);

/* Ticks ÷ (targets' CPU time × that rate); 0 when the targets used no CPU. */
double summary_coverage(const Summary *summary);

/* Cause of a coverage that is not nearly 1. */
CoverageCause summary_coverage_cause(const Summary *summary);

/* Writes a few lines to the log. */
void summary_log(const Summary *summary);

/*
 * Whether summary_write() could write @path now: better said at the start than at the end. Return: as
 * outfile_check().
 */
int summary_check(const char *path);

/*
 * Opens @path for a daemon that will not have the right to later. summary_write() fills what was opened, and
 * lets @sweeper, which must know of it, give it its name. Return: 0, OUTFILE_E_*, -errno.
 */
int summary_keep(const char *path);
const Outfile *summary_kept(void);                      /* NULL = there is no file that needs a name */
void summary_finish_by(Sweeper *sweeper);

/* Writes @path as JSON, replacing a file as a whole. Return: 0, OUTFILE_E_*, or -errno. */
int summary_write(const Summary *summary, const char *path);
