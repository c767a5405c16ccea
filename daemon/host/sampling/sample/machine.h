/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Machine
 *
 * Facts about the running kernel that the sampler needs, and that explain a refusal: version, capabilities,
 * sample rate, CPUs, PID namespace. Texts of procfs and sysfs are parsed by pure functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _MACHINE_E_SUCCESS,
        MACHINE_E_MALFORMED,            /* a text that no kernel prints */
        MACHINE_E_UNREADABLE,           /* a file that is not there or may not be read */
};

/* Version of "6.1.0-13-amd64" and the like, as major << 16 | minor. Return: 0, MACHINE_E_MALFORMED. */
int machine_parse_version(const char *release, uint32_t *versionp);
#define MACHINE_VERSION(_major, _minor) ((uint32_t)(_major) << 16 | (_minor))

/*
 * Sets online[cpu] for each CPU in a list like "0-3,8,10-11"; CPUs from @n on are left out. Return: 0,
 * MACHINE_E_MALFORMED.
 */
int machine_parse_cpus(const char *text, bool *online, size_t n);

/* A capability that sampling needs or uses, and what is lost without it. */
typedef struct MachineCapability {
        unsigned number;                /* linux/capability.h */
        bool is_needed;                 /* nothing works without it */
        bool admin_too;                 /* CAP_SYS_ADMIN, of which it was once a part, stands for it */
        const char *name, *lost;
} MachineCapability;

enum { MACHINE_N_CAPABILITIES = 6 };
extern const MachineCapability machine_capabilities[MACHINE_N_CAPABILITIES];

/* Whether a set, as a word of bits, has it. */
bool machine_holds(uint64_t set, const MachineCapability *capability);

/*
 * Names the capabilities that sampling needs and that the text of /proc/PID/status
 * does not have in CapEff, separated by blanks: "CAP_BPF CAP_PERFMON". CAP_SYS_ADMIN
 * stands for both. Return: 0, MACHINE_E_MALFORMED.
 */
int machine_parse_missing_capabilities(const char *status, char *text, size_t size);

/*
 * Says what is lost without each capability that is useful, but not needed, and that the text of
 * /proc/PID/status does not have: "CAP_SYSLOG: kernel frames have no names; …", "" = nothing. Return: 0,
 * MACHINE_E_MALFORMED.
 */
int machine_parse_lost_features(const char *status, char *text, size_t size);

/* The same facts about the running kernel and process. */
uint32_t machine_version(void);
int machine_online_cpus(bool *online, size_t n);
void machine_missing_capabilities(char *text, size_t size);
void machine_lost_features(char *text, size_t size);

/* Switches of threads on all CPUs since the machine has started. Return: 0, MACHINE_E_*. */
int machine_switches(uint64_t *np);

/* Reads a number from a file under /proc/sys/kernel/. Return: 0, MACHINE_E_*. */
int machine_setting(const char *name, int64_t *valuep);

/* Inode of our own PID namespace, 0 if it is the machine's first one. Return: 0, MACHINE_E_UNREADABLE. */
int machine_namespace(uint32_t *inodep);

/*
 * Whether our clocks are those of the kernel. In a time namespace with an offset (restored containers) /proc
 * and clock_gettime() have other times than samples and processes. @text: /proc/self/timens_offsets; NULL =
 * read it, and older kernels have none.
 */
bool machine_has_own_time(const char *text);

/* Whether our ids of users are those of the first user namespace, all of them. */
bool machine_has_all_users(void);

/*
 * Size of a transparent huge page, and whether memory has them that does not ask for it. 0 and false where
 * the kernel has none.
 */
void machine_huge_pages(uint64_t *bytesp, bool *is_alwaysp);

/* Memory of the BPF map behind our descriptor @fd, bytes; 0 if the kernel does not tell. */
size_t machine_memlock(int fd);
