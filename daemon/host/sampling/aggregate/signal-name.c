/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Codes above 0 are the kernel's, and mean something by the signal. SI_USER and all below are of a process
 * that has sent the signal: kill(), tgkill() as abort() uses it, sigqueue().
 */

#include "host/sampling/aggregate/signal-name.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/util/macro.h"

static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",     [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
        [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT",   [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
        [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1",   [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
        [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM",   [SIGTERM] = "SIGTERM", [SIGSTKFLT] = "SIGSTKFLT",
        [SIGCHLD] = "SIGCHLD", [SIGCONT] = "SIGCONT",   [SIGSTOP] = "SIGSTOP", [SIGTSTP] = "SIGTSTP",
        [SIGTTIN] = "SIGTTIN", [SIGTTOU] = "SIGTTOU",   [SIGURG] = "SIGURG",   [SIGXCPU] = "SIGXCPU",
        [SIGXFSZ] = "SIGXFSZ", [SIGVTALRM] = "SIGVTALRM", [SIGPROF] = "SIGPROF", [SIGWINCH] = "SIGWINCH",
        [SIGIO] = "SIGIO",     [SIGPWR] = "SIGPWR",     [SIGSYS] = "SIGSYS",
};

enum {
        KERNEL_RTMIN = 32,              /* SIGRTMIN of programs is greater by what the C library has taken */
        LIBRARY_SIGNALS = 2,            /* glibc's; musl takes one more */
        CODE_SI_KERNEL = -128,          /* low byte of SI_KERNEL, 0x80 */
        N_CODES = 6,
};

static const struct {
        uint8_t number;
        const char *names[N_CODES];     /* by code - 1 */
} codes[] = {
        { SIGSEGV, { "SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR" } },
        { SIGBUS, { "BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR", "BUS_MCEERR_AR", "BUS_MCEERR_AO" } },
        { SIGFPE, { "FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF", "FPE_FLTUND", "FPE_FLTRES" } },
        { SIGILL, { "ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP", "ILL_PRVOPC", "ILL_PRVREG" } },
        { SIGTRAP, { "TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT" } },
        { SIGSYS, { "SYS_SECCOMP" } },
        { SIGKILL, { "out of memory" } },
};

const char *signal_name(uint8_t number, char name[SIGNAL_NAME_SIZE]) {
        if (number < ARRAY_SIZE(names) && names[number])
                snprintf(name, SIGNAL_NAME_SIZE, "%s", names[number]);
        else if (number >= KERNEL_RTMIN + LIBRARY_SIGNALS)
                snprintf(name, SIGNAL_NAME_SIZE, "SIGRTMIN+%d", number - KERNEL_RTMIN - LIBRARY_SIGNALS);
        else
                snprintf(name, SIGNAL_NAME_SIZE, "signal %d", number);
        return name;
}

const char *signal_code_name(uint8_t number, int8_t code) {
        switch (code) {
        case SI_USER:
                return number == SIGKILL ? NULL : "SI_USER";
        case SI_QUEUE:
                return "SI_QUEUE";
        case SI_TIMER:
                return "SI_TIMER";
        case SI_TKILL:
                return "SI_TKILL";
        case CODE_SI_KERNEL:
                return "SI_KERNEL";
        }
        for (size_t i = 0; i < ARRAY_SIZE(codes) && code > 0 && code <= N_CODES; i++)
                if (codes[i].number == number)
                        return codes[i].names[code - 1];
        return NULL;
}

bool signal_has_address(uint8_t number, int8_t code) {
        return code > 0 && (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE ||
                            number == SIGTRAP);
}

uint64_t signal_memory_bytes(const struct abi_sample *header) {
        if (header->signal != SIGKILL || header->signal_code != ABI_CRASH_NO_MEMORY)
                return 0;
        return header->value * (uint64_t)sysconf(_SC_PAGESIZE);
}
