/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Half
 *
 * The BPF object in the daemon's hands: sets its constants and the sizes of its maps, has the kernel verify
 * and load it, attaches its programs, reads its rings, keeps its process table, sums its counters. The only
 * file that knows libbpf.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/program-names.h"
#include "host/sampling/sample/sampler-config.h"

typedef struct KernelHalf KernelHalf;

/* Link of our program to an event, at each tick of which it runs. */
typedef struct bpf_link KernelHalfLink;

struct bpf_map;
struct bpf_object;

/*
 * Checks what would fail later with an unclear message: the kernel's type information.
 * Return: 0, SAMPLER_E_UNUSABLE (one line was logged).
 */
int kernel_half_check(const char *btf_path);

/* Text for a negative code of any call here. The loader has codes of its own beside the system's. */
const char *kernel_half_error_text(int r, char *text, size_t size);

/*
 * Logs one line: why the kernel answered @what ("open a perf event") with the negative code @r, and what is
 * missing. Return: SAMPLER_E_UNUSABLE, or @r if memory ran out.
 */
int kernel_half_refuse(const char *what, int r);

/*
 * Loads and verifies; nothing runs yet. @on_sample, @on_notice: read the rings' records; a negative value
 * ends the drain, which returns it. Return: 0, SAMPLER_E_UNUSABLE (one line was logged), -errno.
 */
int kernel_half_new(KernelHalf **halfp, const SamplerConfig *config, SamplerRecord on_sample,
                    SamplerRecord on_notice, void *userdata);
KernelHalf *kernel_half_free(KernelHalf *half);
DEFINE_CLEANUP(KernelHalf, kernel_half_free)

/* Number of CPUs that this kernel may ever have. */
/* CPUs that the machine may ever have, and those that it had at first: rings are for these. */
size_t kernel_half_n_cpus(const KernelHalf *half);
size_t kernel_half_n_online(const KernelHalf *half);

/* Notices of exec and exit flow from here on. Return: 0, SAMPLER_E_UNUSABLE. */
int kernel_half_watch(KernelHalf *half);

/*
 * Samples at each tick of the perf event @event_fd, until the link is freed. Return: 0, -errno (not traced).
 */
int kernel_half_attach(KernelHalf *half, int event_fd, KernelHalfLink **linkp);
/* The same for an event of page faults; where the config asked for them. */
int kernel_half_attach_faults(KernelHalf *half, int event_fd, bool is_major, KernelHalfLink **linkp);
KernelHalfLink *kernel_half_detach(KernelHalfLink *link);

/* Reads what is in a ring. Return: 0 or more, or the negative value of the callback. */
int kernel_half_drain_samples(KernelHalf *half);
int kernel_half_drain_notices(KernelHalf *half);
int kernel_half_drain_stacks(KernelHalf *half);

/* Sets what takes copies of stacks (struct abi_stack); NULL = they are dropped. */
void kernel_half_set_stacks(KernelHalf *half, SamplerRecord on_stack);

/*
 * sleep: whether records that matter wake a waiter on these descriptors, which are readable as long as there
 * are records. listen: whether the next sample of a target in unknown memory does, that one alone. hear:
 * whether the next thing does that is new of a target, that one alone; hears: it has not come yet. See
 * bpf/walk/wake.bpf.h.
 */
void kernel_half_sleep(KernelHalf *half, bool sleeps);
void kernel_half_listen(KernelHalf *half, bool listens);
void kernel_half_hear(KernelHalf *half, bool hears);
bool kernel_half_hears(const KernelHalf *half);
void kernel_half_change_names(KernelHalf *half, const ProgramNamesChange *change);
void kernel_half_settle_name(KernelHalf *half, const struct abi_settled_name *name, bool is_settled);
int kernel_half_samples_fd(const KernelHalf *half);
size_t kernel_half_ring_bytes(const KernelHalf *half);  /* the samples' ring */
int kernel_half_notices_fd(const KernelHalf *half);

/* As in sampler.h. */
int kernel_half_set_process(KernelHalf *half, uint32_t tgid, const struct abi_process *process);
int kernel_half_remove_process(KernelHalf *half, uint32_t tgid);

/* From now on no tick is taken of processes of this name that have no row. Return: 0, -errno. */
int kernel_half_reject_name(KernelHalf *half, const struct abi_name *name);

/* Tells of a thread that was there before its process' ring was found. Return: 0, -errno. */
int kernel_half_adopt(KernelHalf *half, const struct abi_adoption *adoption);
int kernel_half_processes_fd(const KernelHalf *half);
/* As sampler_take_losers(). */
void kernel_half_take_losers(KernelHalf *half, SamplerLosers *losers);
int kernel_half_row_tables_fd(const KernelHalf *half);
int kernel_half_row_nodes_fd(const KernelHalf *half);
uint64_t *kernel_half_rows_version(const KernelHalf *half);
/* @bit: RUNTIME_HAS_*. Return: -1 = the kernel half looks no process of it up. */
int kernel_half_runtime_fd(const KernelHalf *half, uint32_t bit);

/*
 * Loads the walk over frames of runtimes and switches it on: ticks are taken by it from then on. Once, from
 * any thread. Return: 0, a negative code (not traced): nothing has changed.
 */
int kernel_half_load_runtimes(KernelHalf *half);

/*
 * read_obi: whether the map in the slot of OBI's is read (bpf/walk/obi.bpf.h); the kernel half ends that
 * itself once nobody holds the map; reads_obi: it has not. obi_is_held: somebody does. mark_obi: the keys of
 * all entries that were there before (abi_obi_mark()).
 */
void kernel_half_read_obi(KernelHalf *half, bool reads);
void kernel_half_mark_obi(KernelHalf *half, const uint64_t *keys, size_t n);
bool kernel_half_reads_obi(const KernelHalf *half);
bool kernel_half_obi_is_held(const KernelHalf *half);

/* Ticks of a CPU for one that is exported of processes that are not boosted, 1 or more. */
void kernel_half_set_ticks(KernelHalf *half, uint32_t ticks_per_sample);

/* There is a process of this runtime, RUNTIME_HAS_*: it is looked up from now on. */
void kernel_half_add_runtime(KernelHalf *half, uint32_t bit);
size_t kernel_half_map_bytes(const KernelHalf *half);

/* A map before it is loaded. @max_entries: 0 = as many as it has. */
typedef struct KernelHalfMap {
        struct bpf_map *map;
        uint32_t max_entries;
} KernelHalfMap;

/*
 * Programs of perf events and of the scheduler may take elements from preallocated memory alone before Linux
 * 6.1. There, each of @maps gets that, and room for fewer. The last one's map is NULL.
 */
void kernel_half_preallocate(const KernelHalfMap *maps);

/*
 * Prepares another object beside this one (kernel-waits.h), before it is loaded. A map that both have is one
 * map, and so is one that @first has, which is loaded (NULL: none). A program that both have is attached
 * already, and is not loaded again. @is_own: says which maps are the object's own all the same; NULL = its
 * `scratches`, since a tick may come while they are in use. Return: 0, SAMPLER_E_UNUSABLE, -ENOMEM.
 */
int kernel_half_join(const KernelHalf *half, struct bpf_object *object, const struct bpf_object *first,
                     bool (*is_own)(const struct bpf_map *map));

/* For such an object: the map of that name, −1 = there is none; our PID namespace, 0 = the first one. */
int kernel_half_map_fd(const KernelHalf *half, const char *name);
uint32_t kernel_half_namespace(const KernelHalf *half);

/*
 * A file of the kernel's types that our objects name, for the loader. *fdp: to be closed once the object is
 * loaded. @path: memory for the result, 32 bytes. Return: the path, or NULL = the loader finds them itself.
 */
const char *kernel_half_open_types(const char *custom, int *fdp, char *path, size_t path_size);

/*
 * Reads the kernel half's counters, each over all CPUs. @entries: NULL, or room for kernel_half_n_cpus()
 * numbers: entries of the sampler on each CPU. Return: 0, -errno.
 */
int kernel_half_read_counters(const KernelHalf *half, uint64_t sums[COUNTER_N_KERNEL], uint64_t *entries);
