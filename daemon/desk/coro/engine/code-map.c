/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The list has a row for each executable segment of each file that was seen mapped:
 *
 *      /proc/812/maps      55a409b5d000-55a409b5f000 r-xp 00002000 … /srv/server
 *      segment of the ELF  offset 0x2000, address 0x2000, size 0x1845, R E
 *      row                 start 0x55a409b5d000, end 0x55a409b5e845, address 0x2000, offset 0x2000, build ids
 *
 * An event names a thread, not a process. The thread's process is read from /proc/TID/status, and counts only
 * if it has the region mapped. A process is open by a descriptor of its directory in /proc, which never leads
 * to another one. After an exec its old memory file reads nothing, and the process is entered again under a
 * new number. A frame may lie in a library that was just loaded: a word that is no known code makes the maps
 * read again, at most every 100 ms, and half as often after each look in vain.
 */

#include "desk/coro/engine/code-map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/file/file.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/short-turns.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

enum { MAX_OBJECTS = 256 };

/* time between two looks at the mappings of one process, doubled by each look in vain */
#define LOOK_FIRST_NS (100 * NS_PER_MS)
#define LOOK_LAST_NS (10 * NS_PER_SEC)

typedef struct Row {
        TraceMapping mapping;
        uint64_t offset, inode;
} Row;

typedef struct CodeProcess {
        uint64_t number;
        pid_t pid;
        int proc_fd, memory_fd;         /* -1 = the process is gone; memory_fd also: it may not be read */
        Row *rows;                      /* by start */
        size_t n_rows, room;
        Mounts mounts;
        uint64_t looked_ns, wait_ns;
        bool is_nested;                 /* in a namespace of processes of its own */
} CodeProcess;

struct CodeMap {
        CodeProcess *processes;         /* CODE_MAP_MAX_PROCESSES of them */
        int n_processes;
        ObjectCache *objects;
        Hashmap by_tid;                 /* thread → index of its process + 1 */
        /* thread → number of the look in which it was asked last, as a pointer */
        Hashmap checked;
        uintptr_t look;
        Arena texts;
        size_t n_rows;
        uint64_t n_left_out, last_number;
};

int code_map_new(CodeMap **mapp) {
        _cleanup_(code_map_freep) CodeMap *map = calloc(1, sizeof(*map));
        int r;

        if (!map || !(map->processes = calloc(CODE_MAP_MAX_PROCESSES, sizeof(*map->processes))))
                return error_origin(-ENOMEM);
        r = object_cache_new(&map->objects, MAX_OBJECTS);
        if (r)
                return error_fold(r);
        map->look = 1;
        *mapp = take(map);
        return 0;
}

/* Closes the descriptors of a process that is gone; its rows stay. */
static void leave(CodeProcess *process) {
        closep(&process->proc_fd);
        closep(&process->memory_fd);
        process->proc_fd = process->memory_fd = -1;
        mounts_deinit(&process->mounts);
}

CodeMap *code_map_free(CodeMap *map) {
        if (!map)
                return NULL;
        for (int i = 0; i < map->n_processes; i++) {
                leave(&map->processes[i]);
                free(map->processes[i].rows);
        }
        object_cache_free(map->objects);
        hashmap_deinit(&map->by_tid);
        hashmap_deinit(&map->checked);
        arena_deinit(&map->texts);
        free(map->processes);
        free(map);
        return NULL;
}

/* Mappings */

static int compare_rows(const Row *a, const Row *b) {
        const uint64_t x[] = { a->mapping.start, a->mapping.end, a->offset, a->inode },
                       y[] = { b->mapping.start, b->mapping.end, b->offset, b->inode };

        for (size_t i = 0; i < ARRAY_SIZE(x); i++)
                if (x[i] != y[i])
                        return x[i] < y[i] ? -1 : 1;
        return 0;
}

static size_t find_place(const CodeProcess *process, const Row *row) {
        size_t low = 0, high = process->n_rows;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (compare_rows(&process->rows[middle], row) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* Return: whether the row is new. */
static bool add_row(CodeMap *map, CodeProcess *process, const Row *row) {
        size_t at = find_place(process, row);

        if (map->n_rows == TRACE_MAX_MAPPINGS) {
                map->n_left_out++;
                return false;
        }
        if (array_reserve(&process->rows, &process->room, process->n_rows + 1, 32)) {
                map->n_left_out++;
                return false;
        }
        memmove(&process->rows[at + 1], &process->rows[at], (process->n_rows - at) * sizeof(*row));
        process->rows[at] = *row;
        process->n_rows++;
        map->n_rows++;
        return true;
}

/* Cuts the row to an executable segment, with the address that the file has for it. */
static bool cut_to_segment(Row *row, const Segment *segment) {
        uint64_t size = row->mapping.end - row->mapping.start, begin = MAX(row->offset, segment->offset);
        uint64_t end = MIN(row->offset + size, segment->offset + segment->file_size);

        if (!(segment->flags & 1) || begin >= end)
                return false;
        row->mapping.address = segment->address + (begin - segment->offset);
        row->mapping.offset = begin;
        row->mapping.end = row->mapping.start + (end - row->offset);
        row->mapping.start += begin - row->offset;
        return true;
}

static const char *keep(CodeMap *map, const char *text) {
        const char *copy = *text ? arena_string(&map->texts, text, strlen(text)) : "";

        return copy ? copy : "";
}

static bool add_segments(CodeMap *map, CodeProcess *process, Row *row, const Object *object) {
        bool new = false;

        row->mapping.build_id_gnu = keep(map, object->build_id_gnu);
        row->mapping.build_id_go = keep(map, object->build_id_go);
        row->mapping.build_id_htlhash = keep(map, object->htlhash);
        for (uint32_t i = 0; i < object->n_segments; i++) {
                Row piece = *row;

                if (cut_to_segment(&piece, &object->segments[i]))
                        new |= add_row(map, process, &piece);
        }
        return new;
}

/* Whether rows of this file begin at this mapping. */
static bool is_known(const CodeProcess *process, const MapsEntry *entry) {
        for (size_t i = find_place(process, &(Row){ .mapping.start = entry->start }); i < process->n_rows;
             i++) {
                const Row *row = &process->rows[i];

                if (row->mapping.start >= entry->end)
                        return false;
                if (row->inode == entry->inode && row->offset == entry->offset)
                        return true;
        }
        return false;
}

/*
 * Adds a mapping. A file that cannot be read, or is no ELF file, has no build id. Return: whether it is new.
 */
static bool add_mapping(CodeMap *map, CodeProcess *process, const MapsEntry *entry) {
        char path[MAPS_MAX_NAME];
        ObjectSource source = {
                .proc_fd = process->proc_fd, .entry = entry, .path = path, .mounts = &process->mounts
        };
        Row row = { .offset = entry->offset,
                    .inode = entry->inode,
                    .mapping = { .process = process->number,
                                 .pid = (uint32_t)process->pid,
                                 .start = entry->start,
                                 .end = entry->end,
                                 .offset = entry->offset,
                                 .build_id_gnu = "",
                                 .build_id_go = "",
                                 .build_id_htlhash = "" } };
        Object *object = NULL;
        bool new;
        int r;

        if (is_known(process, entry))
                return false;
        maps_path(entry, path, NULL);
        row.mapping.path = keep(map, path);
        r = object_open(map->objects, &source, &object);
        new = r ? add_row(map, process, &row) : add_segments(map, process, &row, object);
        object_unref(object);
        return new;
}

/*
 * Reads all mappings. *has_regionp (may be NULL): whether the region is among them. Return: whether one was
 * new.
 */
static bool read_mappings(CodeMap *map, CodeProcess *process, uint64_t region_inode, bool *has_regionp) {
        _cleanup_(closep) int fd = openat(process->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        _cleanup_(freep) MapsReader *reader = malloc(sizeof(*reader));
        bool new = false, has_region = false;
        MapsEntry entry;
        int r;

        if (reader && fd >= 0) {
                maps_reader_init(reader, fd);
                while ((r = maps_reader_next(reader, &entry)) != MAPS_E_EOF && r != MAPS_E_FAILED) {
                        if (r)
                                continue;
                        has_region |= entry.inode == region_inode && maps_is_stations(&entry);
                        if (!entry.executable || !maps_is_file(&entry))
                                continue;
                        new |= add_mapping(map, process, &entry);
                        short_turns_offer();
                }
        }
        if (has_regionp)
                *has_regionp = has_region;
        return new;
}

void code_map_look_again(CodeMap *map, int number, uint64_t now_ns) {
        CodeProcess *process = &map->processes[number];

        if (process->proc_fd < 0 || now_ns - process->looked_ns < process->wait_ns)
                return;
        process->looked_ns = now_ns;
        process->wait_ns = read_mappings(map, process, 0, NULL) ? LOOK_FIRST_NS
                                                                : MIN(2 * process->wait_ns, LOOK_LAST_NS);
}

/* Processes */

/* Whether it still runs the program that was looked at: the memory file can be read for as long. */
static bool is_same_program(const CodeProcess *process) {
        char byte;

        if (process->proc_fd < 0 || faccessat(process->proc_fd, "task", F_OK, 0))
                return false;
        return process->memory_fd < 0 || !process->n_rows ||
               pread(process->memory_fd, &byte, 1, (off_t)process->rows[0].mapping.start) != 0;
}

static bool has_thread(const CodeProcess *process, pid_t tid) {
        char path[32];

        snprintf(path, sizeof(path), "task/%d", (int)tid);
        return !faccessat(process->proc_fd, path, F_OK, 0);
}

static int find_process(CodeMap *map, pid_t tid) {
        for (int i = 0; i < map->n_processes; i++) {
                if (map->processes[i].proc_fd < 0)
                        continue;
                if (!is_same_program(&map->processes[i]))
                        leave(&map->processes[i]);
                else if (has_thread(&map->processes[i], tid))
                        return i;
        }
        return CODE_MAP_NONE;
}

/* The process of a thread. Return: 0 = there is none. */
static pid_t group_of(pid_t tid, bool *is_nestedp) {
        _cleanup_(freep) char *text = NULL;
        const char *group, *inside;
        char path[48];
        size_t size;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
        if (file_read(path, 64 << 10, &text, &size))
                return 0;
        group = strstr(text, "\nTgid:");
        inside = strstr(text, "\nNSpid:");
        *is_nestedp = inside && strcspn(inside + 8, "\t") < strcspn(inside + 8, "\n");
        return group ? (pid_t)strtol(group + 6, NULL, 10) : 0;
}

static int add_process(CodeMap *map, pid_t tid, uint64_t region_inode) {
        CodeProcess *process = &map->processes[map->n_processes];
        uint64_t now_ns = clock_monotonic_ns();
        bool has_region = false;

        if (map->n_processes == CODE_MAP_MAX_PROCESSES) {
                map->n_left_out++;
                return CODE_MAP_NONE;
        }
        *process = (CodeProcess){ .number = MAX(now_ns, map->last_number + 1), .proc_fd = -1, .memory_fd = -1,
                                  .looked_ns = now_ns, .wait_ns = LOOK_FIRST_NS };
        process->pid = group_of(tid, &process->is_nested);
        if (!process->pid || process_open_living(process->pid, 0, &process->proc_fd, NULL))
                return CODE_MAP_NONE;
        process->memory_fd = openat(process->proc_fd, "mem", O_RDONLY | O_CLOEXEC);
        read_mappings(map, process, region_inode, &has_region);
        if (has_region) {
                map->last_number = process->number;
                return map->n_processes++;
        }
        map->n_rows -= process->n_rows;
        free(take(process->rows));
        leave(process);
        return CODE_MAP_NONE;
}

void code_map_begin_look(CodeMap *map) {
        map->look++;
}

/* A thread that has ended belongs to the process that it was last seen in. */
static int find_again(CodeMap *map, pid_t tid, uint64_t region_inode, int before) {
        int found;

        if (before != CODE_MAP_NONE && is_same_program(&map->processes[before]) &&
            has_thread(&map->processes[before], tid))
                return before;
        found = find_process(map, tid);
        if (found == CODE_MAP_NONE)
                found = add_process(map, tid, region_inode);
        return found == CODE_MAP_NONE ? before : found;
}

int code_map_process(CodeMap *map, pid_t tid, uint64_t region_inode) {
        int found = (int)(uintptr_t)hashmap_get(&map->by_tid, (uint64_t)tid) - 1;

        if ((uintptr_t)hashmap_get(&map->checked, (uint64_t)tid) == map->look)
                return found;
        found = find_again(map, tid, region_inode, found);
        if (found == CODE_MAP_NONE)
                return found;
        hashmap_put(&map->by_tid, (uint64_t)tid, (void *)(uintptr_t)(found + 1));
        hashmap_put(&map->checked, (uint64_t)tid, (void *)map->look);
        return found;
}

int code_map_only(const CodeMap *map, bool *is_nestedp) {
        *is_nestedp = map->n_processes == 1 && map->processes[0].is_nested;
        return map->n_processes == 1 ? 0 : CODE_MAP_NONE;
}

bool code_map_has(const CodeMap *map, int number, uint64_t address) {
        const CodeProcess *process = &map->processes[number];
        size_t i = find_place(process, &(Row){ .mapping = { .start = address, .end = UINT64_MAX } });

        /* rows may overlap where a mapping was replaced: a few of them before the address are enough */
        for (size_t n = 0; i-- > 0 && n < 16; n++)
                if (address >= process->rows[i].mapping.start && address < process->rows[i].mapping.end)
                        return true;
        return false;
}

int code_map_read_word(const CodeMap *map, int number, uint64_t address, uint64_t *wordp) {
        const CodeProcess *process = &map->processes[number];
        uint64_t word;

        if (process->memory_fd < 0 || address > INT64_MAX ||
            file_pread(process->memory_fd, &word, sizeof(word), address) != sizeof(word))
                return 1;
        *wordp = word;
        return 0;
}

uint64_t code_map_number(const CodeMap *map, int process) {
        return process == CODE_MAP_NONE ? 0 : map->processes[process].number;
}

size_t code_map_n_mappings(const CodeMap *map) {
        return map->n_rows;
}

const TraceMapping *code_map_mapping(const CodeMap *map, size_t i) {
        int process = 0;

        while (i >= map->processes[process].n_rows)
                i -= map->processes[process++].n_rows;
        return &map->processes[process].rows[i].mapping;
}

uint64_t code_map_n_left_out(const CodeMap *map) {
        return map->n_left_out;
}
