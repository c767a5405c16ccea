/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code of Erlang's JIT
 *
 * Where a process keeps its modules and schedulers, and from the words of a frame to a function, file and
 * line. What the process wrote is no length and no address before a check, and code that is not the sample's
 * any more has no name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"
#include "host/runtime/beam/beam-program.h"

enum { BEAM_MAX_TEXT = 1024 };          /* bytes, as UTF-8, with the NUL; longer ones are cut */

typedef struct BeamReader {
        /* Reads @size bytes at @address, 64 KiB at most. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        /* addresses of the process, as in struct beam_process; the table of atoms */
        uint64_t ranges, active, modules, atoms;
} BeamReader;

typedef struct BeamFunction {
        char name[BEAM_MAX_TEXT];       /* `lists:map/2`, `MyApp.Repo.all/2`, `(scheduler)` */
        char file[BEAM_MAX_TEXT];       /* "" = not known */
        uint32_t line;                  /* 0 = not known */
} BeamFunction;

enum {
        _BEAM_CODE_E_SUCCESS,
        BEAM_CODE_E_GONE,               /* other code, or no function's */
        BEAM_CODE_E_LATER,              /* the process has just begun */
        BEAM_CODE_E_UNKNOWN,            /* layout is another one */
        BEAM_CODE_E_MANY,               /* too many schedulers */
        BEAM_CODE_E_POINTERS,           /* its stacks have frame pointers */
        BEAM_CODE_E_N,
};

/*
 * Looks where a process of @opened, with its file at @bias, keeps its modules and schedulers. Reads by
 * @reader->read alone. Return: 0 with *process, but for its generation; or BEAM_CODE_E_LATER, _UNKNOWN,
 * _MANY, _POINTERS.
 */
int beam_code_find(const BeamReader *reader, const BeamOpened *opened, uint64_t bias,
                   struct beam_process *process);

/* Pure. Whether what another process says of one may be so. */
bool beam_code_check(const struct beam_process *process);

/* @words: of a frame (bpf/border/runtime_abi.h). Return: 0 with *function, BEAM_CODE_E_GONE. */
int beam_code_name(const BeamReader *reader, const uint64_t *words, BeamFunction *function);
