/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Map
 *
 * The executable files in the memory of processes that have a region of stations mapped. Mappings are never
 * forgotten, so that addresses in a trace can be resolved later. A process that executes another program is
 * another process from then on.
 *
 * Everything is asked of the kernel, nothing of the process; only a read of its memory can hang.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"
#include "desk/coro/trace/trace-rows.h"

typedef struct CodeMap CodeMap;

enum {
        CODE_MAP_MAX_PROCESSES = 1024,
        CODE_MAP_NONE = -1,             /* no process is known */
};

int code_map_new(CodeMap **mapp);
CodeMap *code_map_free(CodeMap *map);
DEFINE_CLEANUP(CodeMap, code_map_free)

/*
 * Begins a look: the process of a thread is asked once in a look, since that takes three system calls and a
 * thread may have run thousands of stations.
 */
void code_map_begin_look(CodeMap *map);

/*
 * The process of this thread (id in our namespace), if it has the file with this inode mapped, as a region
 * is; for a thread that has ended, the process that it was last seen in. Return: the number of the process in
 * the list, CODE_MAP_NONE.
 */
int code_map_process(CodeMap *map, pid_t tid, uint64_t region_inode);

/*
 * The process if there has never been a second one, else CODE_MAP_NONE. *is_nestedp: it has a namespace of
 * its own, so its thread ids are not ours.
 */
int code_map_only(const CodeMap *map, bool *is_nestedp);

/* Whether code of a file is known to lie there. */
bool code_map_has(const CodeMap *map, int process, uint64_t address);

/* Reads a word of its memory. Return: 0, 1 = it cannot be read. */
int code_map_read_word(const CodeMap *map, int process, uint64_t address, uint64_t *wordp);

/* Looks for new mappings, ever less often after looks in vain. */
void code_map_look_again(CodeMap *map, int process, uint64_t now_ns);

/* The number of the process in the trace (TraceMapping); 0 = CODE_MAP_NONE. */
uint64_t code_map_number(const CodeMap *map, int process);

size_t code_map_n_mappings(const CodeMap *map);
const TraceMapping *code_map_mapping(const CodeMap *map, size_t i);

/* Processes and mappings that found no room. */
uint64_t code_map_n_left_out(const CodeMap *map);
