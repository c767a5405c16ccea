/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Settings
 *
 * Written by the daemon before the programs are loaded, constants for the
 * verifier afterwards: what is switched off costs nothing.
 */

#include "border/abi.h"

/* User frames of one sample, 1 … ABI_MAX_FRAMES. */
const volatile uint32_t setting_depth = ABI_DEFAULT_FRAMES;

/* enum abi_state of a process without a row. */
const volatile uint32_t setting_default_state = ABI_STATE_REJECTED;

/* The daemon's own tgid, never sampled. */
const volatile uint32_t setting_self_tgid = 0;

/* Names of the daemon's children, and of theirs, that are never sampled either; "" = no more of them. */
const volatile char setting_helper_comms[ABI_HELPER_NAMES][KERNEL_COMM_SIZE] = {};

/* The daemon's PID namespace, 0 if that is the first one (level 0). */
const volatile uint32_t setting_namespace = 0;

/* enum abi_names: whether names that no selector chooses are kept in `rejected_names`. */
const volatile uint32_t setting_names = ABI_NAMES_NONE;

const volatile bool setting_kernel_stacks = false;
/*
 * Whether notices of changed mappings are posted: for targets that publish nothing yet; for processes that
 * are no targets, since publishing may choose them.
 */
const volatile bool setting_watch_targets = false;
const volatile bool setting_watch_non_targets = false;

/* Whether ticks between two of kind CPU are FINE; else they are left out. */
const volatile bool setting_recorder = false;

/* Whether ticks tell offcpu.bpf.c which spans they have met (run-ticks.bpf.h). */
const volatile bool setting_run_ticks = false;

/* Whether ticks read how much their thread of Java has allocated (hotspot_bytes.bpf.h). */
const volatile bool setting_allocated = false;

/* Bytes of stack copies, of a second and CPU; 0 = none are made (defer.bpf.h). */
const volatile uint64_t setting_stack_bytes = 0;

/* Whether the exec of a program of a known name calls: processes are chosen by name, and not all of them. */
const volatile bool setting_names_choose = false;

/* enum abi_starts: what a new process says of itself is sent with its first sample (start.bpf.h). */
const volatile uint32_t setting_starts = ABI_STARTS_NONE;

/* Age of a process from which on its first sample does not wait, ns. */
const volatile uint64_t setting_start_wait_ns = 0;

/* Entries that leavers has room for: below Linux 6.1 fewer. */
const volatile uint32_t setting_leavers = 4096;

/* Entries that ring_threads and ring_slots have room for, together (slots.bpf.h). */
const volatile uint32_t setting_ring_entries = ABI_RING_ENTRIES;

/*
 * Section of the variables that change while the programs run. An object that is loaded later takes this map
 * over from the first one, so that both see the same (offcpu.bpf.c).
 */
#define SETTINGS_SHARED SEC(".data.shared")

/* Depth of setting_namespace in the tree; found by identify(), which runs in the daemon once. */
uint32_t namespace_level SETTINGS_SHARED = 0;

/*
 * The daemon sleeps until a record wakes it. The daemon sets it; the waking program or the daemon clears it
 * (wake.bpf.h).
 */
volatile uint32_t daemon_sleeps SETTINGS_SHARED = 0;

/*
 * The daemon comes at once if it is called. The daemon sets it; the calling program or the daemon clears it
 * (wake.bpf.h).
 */
volatile uint32_t daemon_listens SETTINGS_SHARED = 0;

/*
 * The daemon comes at once if something of a target is new. The daemon sets it; the calling program or the
 * daemon clears it (wake.bpf.h).
 */
volatile uint32_t daemon_hears SETTINGS_SHARED = 0;

/*
 * Counts changes of `processes` and `row_nodes`. Who changes a row or a node adds 1 afterwards: the daemon,
 * and who marks a row as replaced (spaces.bpf.h).
 */
volatile uint64_t rows_version SETTINGS_SHARED = 1;

/* Ticks of a CPU from one of kind CPU to the next. 1 = there is none between. The daemon sets it. */
volatile uint32_t ticks_per_sample SETTINGS_SHARED = 1;

/* There is a process with a runtime, and sample_runtimes is there to walk it. The daemon sets it. */
volatile uint32_t runtimes_on SETTINGS_SHARED = 0;

/* RUNTIME_HAS_*: of which runtimes there is a process. The daemon sets it. */
volatile uint32_t runtime_kinds SETTINGS_SHARED = 0;

/*
 * OBI's map is in its slot, and what it held before is known. The daemon sets it; it or the sampler clears it
 * (obi.bpf.h).
 */
volatile uint32_t obi_on SETTINGS_SHARED = 0;

/* By abi_obi_mark(): 1 = an entry that was there before has such a key. Daemon and births write. */
volatile uint8_t obi_marks[ABI_OBI_MARKS] SETTINGS_SHARED = {};

/* Entries of ring_threads and ring_slots that count for somebody (slots.bpf.h). */
uint32_t ring_used SETTINGS_SHARED = 0;
