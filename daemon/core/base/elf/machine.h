/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Machine of ELF Files
 *
 * The processor that this is built for: a daemon reads the programs of its own machine.
 */

#include <elf.h>

enum {
#if defined(__x86_64__)
        ELF_MACHINE = EM_X86_64,
        ELF_RELATIVE = R_X86_64_RELATIVE,       /* relocation: the word is an address of the file itself */
#elif defined(__aarch64__)
        ELF_MACHINE = EM_AARCH64,
        ELF_RELATIVE = R_AARCH64_RELATIVE,
#else
#error "no machine that is known"
#endif
};
