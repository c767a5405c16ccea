/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Probes of the provider `otel_memory`
 *
 * A probe is a nop, and a note in the ELF section .note.stapsdt that says where it is, what it is called and
 * in which registers its arguments lie. Who looks puts a breakpoint there, and counts the semaphore up as
 * long as it looks. The few lines below are all of <sys/sdt.h> that two probes need, so that nobody needs
 * that header to build this file (systemtap: "UserSpaceProbeImplementation").
 *
 *     .note.stapsdt   lengths, type 3 | "stapsdt" | address of the nop, of the base, of the semaphore |
 *                     provider, name, arguments
 *     .stapsdt.base   a byte, whose address in the note and in the file tells what prelink has moved
 */
#include <stddef.h>
#include <stdint.h>

/* Counted up by who looks; so not of this library's making, and volatile. */
extern volatile unsigned short spanprof_alloc_semaphore, spanprof_free_semaphore;

#if defined(__x86_64__)
#define PROBE_REGISTER_0 "rdi"
#define PROBE_REGISTER_1 "rsi"
#define PROBE_REGISTER_2 "rdx"
#define PROBE_ARGUMENT(name) "8@%%" name
#elif defined(__aarch64__)
#define PROBE_REGISTER_0 "x0"
#define PROBE_REGISTER_1 "x1"
#define PROBE_REGISTER_2 "x2"
#define PROBE_ARGUMENT(name) "8@" name
#else
#error "no probes for this processor"
#endif

#define PROBE(name, semaphore, arguments) \
        "990:   nop\n" \
        "       .pushsection .note.stapsdt, \"\", %%note\n" \
        "       .balign 4\n" \
        "       .4byte 992f - 991f, 994f - 993f, 3\n" \
        "991:   .asciz \"stapsdt\"\n" \
        "992:   .balign 4\n" \
        "993:   .8byte 990b, _.stapsdt.base, " semaphore "\n" \
        "       .asciz \"otel_memory\", \"" name "\", \"" arguments "\"\n" \
        "994:   .balign 4\n" \
        "       .popsection\n" \
        "       .ifndef _.stapsdt.base\n" \
        "       .pushsection .stapsdt.base, \"aG\", %%progbits, .stapsdt.base, comdat\n" \
        "       .weak _.stapsdt.base\n" \
        "       .hidden _.stapsdt.base\n" \
        "_.stapsdt.base:\n" \
        "       .space 1\n" \
        "       .size _.stapsdt.base, 1\n" \
        "       .popsection\n" \
        "       .endif\n"

/* An allocation that was drawn: @weight bytes of the program's allocations are told by this one. */
static inline void probe_alloc(const void *pointer, size_t size, uint64_t weight) {
        register const void *argument_0 __asm__(PROBE_REGISTER_0) = pointer;
        register size_t argument_1 __asm__(PROBE_REGISTER_1) = size;
        register uint64_t argument_2 __asm__(PROBE_REGISTER_2) = weight;

        __asm__ volatile(PROBE("alloc", "spanprof_alloc_semaphore",
                               PROBE_ARGUMENT(PROBE_REGISTER_0) " " PROBE_ARGUMENT(PROBE_REGISTER_1) " "
                               PROBE_ARGUMENT(PROBE_REGISTER_2))
                         : : "r"(argument_0), "r"(argument_1), "r"(argument_2) : "memory");
}

/* An allocation that was told goes. */
static inline void probe_free(const void *pointer) {
        register const void *argument_0 __asm__(PROBE_REGISTER_0) = pointer;

        __asm__ volatile(PROBE("free", "spanprof_free_semaphore", PROBE_ARGUMENT(PROBE_REGISTER_0))
                         : : "r"(argument_0) : "memory");
}
