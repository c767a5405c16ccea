/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Deny BPF (LD_PRELOAD)
 *
 * Makes the kernel one that lacks parts of BPF: numbers of functions in DENY_FUNCTIONS, kinds of maps in
 * DENY_MAPS, kinds of programs in DENY_PROGRAMS (linux/bpf.h; commas between). Each becomes a number that no
 * kernel has, so the real verifier refuses it in its own words, and passes over code that is never reached.
 * DENY_ENTRIES makes maps small: NAME=ENTRIES, commas between. DENY_RELEASE is what uname() says. libbpf
 * makes its calls by syscall() of the C library.
 */
#include <dlfcn.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { NO_NUMBER = 99999, MAX_CODE = 1 << 20 };

#define REAL(_name) ((__typeof__(&_name))dlsym(RTLD_NEXT, #_name))

static int is_denied(const char *variable, long number) {
        const char *list = getenv(variable);
        char *end;

        for (; list && *list; list = *end ? end + 1 : end)
                if (strtol(list, &end, 10) == number)
                        return 1;
        return 0;
}

/* Entries that a map of this name has; 0 = as it says. */
static unsigned entries_of(const char *map) {
        const char *list = getenv("DENY_ENTRIES");
        size_t size = strlen(map);

        for (; list && *list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
                if (!strncmp(list, map, size) && list[size] == '=')
                        return (unsigned)strtoul(list + size + 1, NULL, 10);
        return 0;
}

/* The program's instructions, with calls of what is denied changed; the caller frees them. */
static struct bpf_insn *changed_code(const union bpf_attr *attr) {
        size_t size = attr->insn_cnt * sizeof(struct bpf_insn);
        struct bpf_insn *code = attr->insn_cnt <= MAX_CODE ? malloc(size) : NULL;

        if (!code)
                abort();
        memcpy(code, (const void *)(uintptr_t)attr->insns, size);
        for (uint32_t i = 0; i < attr->insn_cnt; i++)
                if (code[i].code == (BPF_JMP | BPF_CALL) && !code[i].src_reg &&
                    is_denied("DENY_FUNCTIONS", code[i].imm))
                        code[i].imm = NO_NUMBER;
        return code;
}

static long deny(long command, const union bpf_attr *attr, long size) {
        union bpf_attr changed = { 0 };
        struct bpf_insn *code = NULL;
        long r;

        memcpy(&changed, attr, (size_t)size < sizeof(changed) ? (size_t)size : sizeof(changed));
        if (command == BPF_MAP_CREATE && is_denied("DENY_MAPS", changed.map_type))
                changed.map_type = NO_NUMBER;
        if (command == BPF_MAP_CREATE && entries_of(changed.map_name))
                changed.max_entries = entries_of(changed.map_name);
        if (command == BPF_PROG_LOAD) {
                if (is_denied("DENY_PROGRAMS", changed.prog_type))
                        changed.prog_type = NO_NUMBER;
                changed.insns = (uintptr_t)(code = changed_code(attr));
        }
        r = REAL(syscall)(SYS_bpf, command, &changed, size, 0, 0, 0);
        free(code);
        return r;
}

long syscall(long number, ...) {
        long a[6];
        va_list args;

        va_start(args, number);
        for (int i = 0; i < 6; i++)
                a[i] = va_arg(args, long);
        va_end(args);
        if (number == SYS_bpf && (a[0] == BPF_MAP_CREATE || a[0] == BPF_PROG_LOAD))
                return deny(a[0], (const union bpf_attr *)a[1], a[2]);
        return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int uname(struct utsname *name) {
        const char *release = getenv("DENY_RELEASE");
        int r = REAL(uname)(name);

        if (!r && release)
                strncpy(name->release, release, sizeof(name->release) - 1);
        return r;
}
