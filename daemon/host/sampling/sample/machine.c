/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads small files of procfs and sysfs, and parses them by functions that take a text.
 */

#include "host/sampling/sample/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"

enum {
        CAPABILITY_DAC_READ_SEARCH = 2,
        CAPABILITY_SYS_PTRACE = 19,
        CAPABILITY_SYS_ADMIN = 21,      /* linux/capability.h */
        CAPABILITY_PERFMON = 38,
        CAPABILITY_SYSLOG = 34,
        CAPABILITY_BPF = 39,
        CAPABILITY_CHECKPOINT_RESTORE = 40,
        SMALL_FILE_MAX = 64 << 10,
};

/* The first PID namespace has a fixed inode: PROC_PID_INIT_INO in include/linux/proc_ns.h. */
static const uint32_t first_namespace = 0xEFFFFFFC;

int machine_parse_version(const char *release, uint32_t *versionp) {
        unsigned major, minor;

        if (sscanf(release, "%4u.%4u", &major, &minor) != 2)
                return MACHINE_E_MALFORMED;
        *versionp = MACHINE_VERSION(major, minor);
        return 0;
}

static int parse_range(const char **textp, unsigned long *firstp, unsigned long *lastp) {
        char *end;

        *firstp = *lastp = strtoul(*textp, &end, 10);
        if (end == *textp)
                return MACHINE_E_MALFORMED;
        if (*end == '-') {
                *textp = end + 1;
                *lastp = strtoul(*textp, &end, 10);
                if (end == *textp)
                        return MACHINE_E_MALFORMED;
        }
        *textp = end;
        return *lastp < *firstp ? MACHINE_E_MALFORMED : 0;
}

int machine_parse_cpus(const char *text, bool *online, size_t n) {
        unsigned long first, last;

        memset(online, 0, n * sizeof(*online));
        for (;;) {
                if (parse_range(&text, &first, &last))
                        return MACHINE_E_MALFORMED;
                for (unsigned long i = first; i <= last && i < n; i++)
                        online[i] = true;
                if (*text != ',')
                        break;
                text++;
        }
        return *text && *text != '\n' ? MACHINE_E_MALFORMED : 0;
}

const MachineCapability machine_capabilities[MACHINE_N_CAPABILITIES] = {
        { CAPABILITY_BPF, true, true, "CAP_BPF", "the kernel half cannot be loaded" },
        { CAPABILITY_PERFMON, true, true, "CAP_PERFMON", "no timer can be attached" },
        { CAPABILITY_SYS_PTRACE, false, false, "CAP_SYS_PTRACE", "no other user's process can be looked into" },
        /* map_files of another user's process is behind a folder that is theirs alone */
        { CAPABILITY_DAC_READ_SEARCH, false, false, "CAP_DAC_READ_SEARCH",
          "who publishes contexts as another user is not found; of other users' processes, deleted files, files on "
          "overlays (containers) and those that only their owner may read stay unknown" },
        /* without map_files, a path counts if the kernel has it in mind, which overlayfs does not tell */
        { CAPABILITY_CHECKPOINT_RESTORE, false, true, "CAP_CHECKPOINT_RESTORE",
          "deleted files, and files on overlays (containers), stay unknown" },
        { CAPABILITY_SYSLOG, false, false, "CAP_SYSLOG", "kernel frames have no names" },
};

bool machine_holds(uint64_t set, const MachineCapability *capability) {
        uint64_t enough = UINT64_C(1) << capability->number;

        if (capability->admin_too)
                enough |= UINT64_C(1) << CAPABILITY_SYS_ADMIN;
        return set & enough;
}

static int parse_effective(const char *status, uint64_t *setp) {
        const char *line = strstr(status, "\nCapEff:");
        unsigned long long set;

        if (!line || sscanf(line, "\nCapEff: %16llx", &set) != 1)
                return MACHINE_E_MALFORMED;
        *setp = set;
        return 0;
}

int machine_parse_lost_features(const char *status, char *text, size_t size) {
        size_t n = 0;
        uint64_t set;

        if (parse_effective(status, &set))
                return MACHINE_E_MALFORMED;
        text[0] = 0;
        for (size_t i = 0; i < ARRAY_SIZE(machine_capabilities) && n < size; i++) {
                const MachineCapability *each = &machine_capabilities[i];

                if (!each->is_needed && !machine_holds(set, each))
                        n += (size_t)snprintf(text + n, size - n, "%s%s: %s", n ? "; " : "", each->name, each->lost);
        }
        return 0;
}

int machine_parse_missing_capabilities(const char *status, char *text, size_t size) {
        size_t n = 0;
        uint64_t set;

        if (parse_effective(status, &set))
                return MACHINE_E_MALFORMED;
        text[0] = 0;
        for (size_t i = 0; i < ARRAY_SIZE(machine_capabilities) && n < size; i++) {
                const MachineCapability *each = &machine_capabilities[i];

                if (each->is_needed && !machine_holds(set, each))
                        n += (size_t)snprintf(text + n, size - n, "%s%s", n ? " " : "", each->name);
        }
        return 0;
}

uint32_t machine_version(void) {
        struct utsname name;
        uint32_t version = 0;

        if (!uname(&name))
                machine_parse_version(name.release, &version);
        return version;
}

static int read_small(const char *path, char **textp) {
        size_t size;

        return file_read(path, SMALL_FILE_MAX, textp, &size) ? MACHINE_E_UNREADABLE : 0;
}

int machine_online_cpus(bool *online, size_t n) {
        _cleanup_(freep) char *text = NULL;

        if (read_small("/sys/devices/system/cpu/online", &text))
                return MACHINE_E_UNREADABLE;
        return machine_parse_cpus(text, online, n);
}

void machine_missing_capabilities(char *text, size_t size) {
        _cleanup_(freep) char *status = NULL;

        text[0] = 0;
        if (!read_small("/proc/self/status", &status))
                machine_parse_missing_capabilities(status, text, size);
}

void machine_lost_features(char *text, size_t size) {
        _cleanup_(freep) char *status = NULL;

        text[0] = 0;
        if (!read_small("/proc/self/status", &status))
                machine_parse_lost_features(status, text, size);
}

int machine_setting(const char *name, int64_t *valuep) {
        _cleanup_(freep) char *text = NULL;
        char path[128], *end;
        long long value;

        snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
        if (read_small(path, &text))
                return MACHINE_E_UNREADABLE;
        value = strtoll(text, &end, 10);
        if (end == text)
                return MACHINE_E_MALFORMED;
        *valuep = value;
        return 0;
}

/* `always [madvise] never`: the one in force is in brackets. */
void machine_huge_pages(uint64_t *bytesp, bool *is_alwaysp) {
        _cleanup_(freep) char *size = NULL, *enabled = NULL;

        *bytesp = 0;
        *is_alwaysp = false;
        if (read_small("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", &size) ||
            read_small("/sys/kernel/mm/transparent_hugepage/enabled", &enabled) || strstr(enabled, "[never]"))
                return;
        *bytesp = strtoull(size, NULL, 10);
        *is_alwaysp = strstr(enabled, "[always]");
}

/* proc_stat(5): `ctxt N`. The list of interrupts before it may be long. */
int machine_switches(uint64_t *np) {
        FILE *file = fopen("/proc/stat", "re");
        _cleanup_(freep) char *line = NULL;
        unsigned long long n = 0;
        bool found = false;
        size_t room = 0;

        if (!file)
                return MACHINE_E_UNREADABLE;
        while (!found && getline(&line, &room, file) > 0)
                found = sscanf(line, "ctxt %llu", &n) == 1;
        fclose(file);
        *np = n;
        return found ? 0 : MACHINE_E_MALFORMED;
}

int machine_namespace(uint32_t *inodep) {
        struct stat st;

        if (stat("/proc/self/ns/pid", &st) < 0)
                return MACHINE_E_UNREADABLE;
        *inodep = (uint32_t)st.st_ino == first_namespace ? 0 : (uint32_t)st.st_ino;
        return 0;
}

bool machine_has_own_time(const char *text) {
        _cleanup_(freep) char *read = NULL;
        long long seconds, ns;
        int size;

        if (!text && read_small("/proc/self/timens_offsets", &read))
                return true;
        for (text = text ?: read; sscanf(text, "%*s %lld %lld%n", &seconds, &ns, &size) == 2; text += size)
                if (seconds || ns)
                        return false;
        return true;
}

bool machine_has_all_users(void) {
        _cleanup_(freep) char *text = NULL;
        unsigned long inside, outside, n;

        return !read_small("/proc/self/uid_map", &text) &&
               sscanf(text, "%lu %lu %lu", &inside, &outside, &n) == 3 && !inside && !outside &&
               n == UINT32_MAX;
}

size_t machine_memlock(int fd) {
        _cleanup_(freep) char *text = NULL;
        size_t memlock = 0;
        const char *line;
        char path[64];

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        if (read_small(path, &text))
                return 0;
        line = strstr(text, "memlock:");
        if (line)
                sscanf(line, "memlock: %zu", &memlock);
        return memlock;
}
