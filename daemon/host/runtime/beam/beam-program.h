/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Erlang Programs
 *
 * What the file of Erlang's virtual machine says of itself: its release, and where its variables lie.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        BEAM_MAX_REASON = 96,
        BEAM_MAX_DATA = 4 << 20,        /* bytes of its variables */
};

typedef struct BeamOpened {
        uint64_t atoms;                 /* ELF address of the text that the table of atoms is called by */
        uint64_t data, data_size;       /* ELF address, bytes of all variables */
        uint64_t frame_layout;          /* ELF address of the layout of frames; 0 = it has no symbol */
        uint32_t release, reserved;
        char reason[BEAM_MAX_REASON];   /* `Erlang/OTP 25`; if the result is not 0, what is not known */
} BeamOpened;

enum {
        _BEAM_OPEN_E_SUCCESS,
        BEAM_OPEN_E_UNKNOWN,
};

/*
 * Whether the ELF file exports what extensions of Erlang's machine call. @fd: borrowed, or -1: bytes are at
 * @data.
 */
bool beam_recognises(int fd, const void *data, uint64_t size);

/*
 * @fd: as in beam_recognises(). Return: 0 with *opened, BEAM_OPEN_E_UNKNOWN with opened->reason. No byte of
 * *opened is left as it was.
 */
int beam_open(int fd, const void *data, uint64_t size, BeamOpened *opened);

/* Pure. Whether what another process says of a file may be so. */
bool beam_opened_is_sound(const BeamOpened *opened);
