/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Map
 *
 * Which executable files lie where in the memory of processes that have a region of stations mapped, as long
 * as they live. Nothing is forgotten: what was mapped once stays in the list, so that addresses in a trace
 * can be told later. A process that executes another program is another one from then on.
 *
 * Everything is asked of the kernel, nothing of the process; only reading its memory can be held up by it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util/macro.h"
#include "coro/trace/trace-rows.h"

typedef struct CodeMap CodeMap;

enum {
        CODE_MAP_MAX_PROCESSES = 1024,
        CODE_MAP_NONE = -1,             /* instead of a process: it is not known */
};

int code_map_new(CodeMap **mapp);
CodeMap *code_map_free(CodeMap *map);
DEFINE_CLEANUP(CodeMap, code_map_free)

/*
 * Until the next call of this, what a thread was found to belong to is not asked again: three system calls,
 * for each of thousands of stations that it has run.
 */
void code_map_begin_look(CodeMap *map);

/*
 * The process that this thread (id in our namespace) belongs to, if it has the file with this inode mapped,
 * as a region is; of a thread that has ended, the one that it was last seen in.
 * Return: its number in the list, CODE_MAP_NONE.
 */
int code_map_process(CodeMap *map, pid_t tid, uint64_t region_inode);

/*
 * If there has never been more than one process: that one. Else CODE_MAP_NONE. *is_nestedp: it counts threads
 * otherwise than we do.
 */
int code_map_only(const CodeMap *map, bool *is_nestedp);

/* Whether code of a file lies there, as far as it was seen. */
bool code_map_has(const CodeMap *map, int process, uint64_t address);

/* What a word of its memory holds. Return: 0, 1 = it cannot be read. */
int code_map_read_word(const CodeMap *map, int process, uint64_t address, uint64_t *wordp);

/* Looks for mappings that are new, not more often than is worth it. */
void code_map_look_again(CodeMap *map, int process, uint64_t now_ns);

/* How the trace calls the process; 0 = CODE_MAP_NONE. */
uint64_t code_map_number(const CodeMap *map, int process);

size_t code_map_n_mappings(const CodeMap *map);
const TraceMapping *code_map_mapping(const CodeMap *map, size_t i);

/* What found no room. */
uint64_t code_map_n_left_out(const CodeMap *map);
