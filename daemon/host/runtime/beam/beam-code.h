/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code of Erlang's JIT
 *
 * From the words of a frame to a function, file and line. What the process wrote is no length and no address
 * before a check, and code that is not the sample's any more has no name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/runtime_abi.h"
#include "host/runtime/beam/beam-layout.h"
#include "host/runtime/reader/reader-function.h"

enum {
        BEAM_MAX_TEXT = READER_MAX_TEXT,
        BEAM_MAX_PID = 48,
};

typedef struct BeamReader {
        /* Reads @size bytes at @address, 64 KiB at most. Return: whether all of them could be read. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
        const BeamLayout *layout;
        /* addresses of the process, as in struct beam_process; the table of atoms */
        uint64_t ranges, active, modules, atoms;
} BeamReader;

/* As the machine has it: a table of ranges, and one of them. */
typedef struct BeamTable {
        uint64_t first, n, room, middle;
} BeamTable;

typedef struct BeamRange {
        uint64_t begin, end;
} BeamRange;

enum {
        _BEAM_CODE_E_SUCCESS,
        BEAM_CODE_E_GONE,               /* other code, or no function's */
        BEAM_CODE_E_LATER,              /* the process has just begun */
        BEAM_CODE_E_UNKNOWN,            /* layout is another one */
        BEAM_CODE_E_MANY,               /* too many schedulers */
        BEAM_CODE_E_POINTERS,           /* this emulator: its stacks have frame pointers */
        BEAM_CODE_E_N,
};

/*
 * @words: of a frame (bpf/border/runtime_abi.h). A function is `lists:map/2`, `MyApp.Repo.all/2`, or
 * `(scheduler)`. Return: 0 with *function, BEAM_CODE_E_GONE.
 */
int beam_code_name(const BeamReader *reader, const uint64_t *words, ReaderFunction *function);

/* @task: what tells a process (BEAM_TASK_*). Return: 0 with function->name, BEAM_CODE_E_GONE. */
int beam_code_task(const BeamReader *reader, uint64_t task, ReaderFunction *function);

/* Pure. Writes the pid of a process, `<0.123.0>`, by its term; "" = it is none. Return: whether it is one. */
bool beam_code_pid(const BeamLayout *layout, uint64_t term, char to[BEAM_MAX_PID]);

/* Return: whether all @size bytes could be read. */
bool beam_read(const BeamReader *reader, uint64_t address, void *to, size_t size);
bool beam_read_word(const BeamReader *reader, uint64_t address, uint64_t *word);

/* Reads the text of an atom, by reader->layout and atoms. Return: its bytes as UTF-8, 0 = it has none. */
size_t beam_read_atom(const BeamReader *reader, uint64_t term, char to[BEAM_MAX_TEXT]);

/* Reads range @i of a table. Return: whether it may be one. */
bool beam_read_range(const BeamReader *reader, const BeamTable *table, uint64_t i, BeamRange *range);

/* Pure. Whether these words may be a table of ranges. */
bool beam_table_may_be(const BeamTable *table);
