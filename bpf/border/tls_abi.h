/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Thread-Local Storage
 *
 * Where a thread's variables are, from its thread pointer, by the processor (ELF Handling for Thread-Local
 * Storage, 3.4.1 and 3.4.2; ELF for the Arm 64-bit Architecture, "Thread-local storage"):
 *
 *     x86-64   … library │ executable │ tp: pointer to itself │ DTV
 *     arm64                             tp: DTV │ reserved │ executable │ library …
 *
 * The DTV is an array with a word or two for each module. musl on arm64 has its address below the thread
 * pointer (pthread_impl.h, TLS_ABOVE_TP).
 */

#include "border/unwind_abi.h"

enum {
#if UNWIND_ARM64
        TLS_IS_ABOVE = 1,               /* static variables lie above the thread pointer */
        TLS_DTV_MUSL = -8,              /* elsewhere it is the first word */
#else
        TLS_IS_ABOVE = 0,               /* the DTV's address is the second word, for musl, too */
        TLS_DTV_MUSL = 0,
#endif
        TLS_HEAD = 16,                  /* bytes of the head that the ABI reserves on arm64 */
};
