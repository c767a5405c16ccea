/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory Maps
 *
 * Reads the text of /proc/PID/maps, one mapping at a time. Text in, mappings
 * out: it opens no file, so tests and the fuzzer feed it plain strings. The
 * reader at the end brings the text of a real file in small pieces, since a
 * process may have 65,530 mappings.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        _MAPS_E_SUCCESS,
        MAPS_E_EOF,                     /* the text is used up */
        MAPS_E_MALFORMED,               /* a line that no kernel prints; it was skipped */
        MAPS_E_FAILED,                  /* from maps_reader_next(): read failed, the process is gone */
        /* from maps_reader_next(): enough for this turn; call again in another one */
        MAPS_E_PAUSED,
};

enum {
        MAPS_MAX_NAME = 4096,           /* PATH_MAX, decoded */
        MAPS_MAX_LINE = 4 * MAPS_MAX_NAME + 128,        /* every byte of the name as \012 */
        MAPS_READER_TEXT = MAPS_MAX_LINE + 4096,
        /* text of one reader: about 60 ms, and six times the text of 65,530 mappings with usual names */
        MAPS_MAX_TEXT = 32 << 20,
};

typedef struct MapsCursor {
        const char *text;
        size_t size, at;
} MapsCursor;

typedef struct MapsEntry {
        uint64_t start, end;            /* start < end */
        uint64_t offset;
        uint64_t inode;
        uint32_t major, minor;
        bool readable, writable, executable, shared;
        const char *name;               /* as printed, not terminated, points into the text */
        size_t name_size;               /* 0 = none */
} MapsEntry;

static inline MapsCursor maps_cursor(const char *text, size_t size) {
        return (MapsCursor){ .text = text, .size = size };
}

/* The next mapping. Return: 0, MAPS_E_EOF, MAPS_E_MALFORMED (*entryp untouched; go on with the next). */
int maps_next(MapsCursor *cursor, MapsEntry *entryp);

/*
 * Whether the entry is the kernel's page for probes on functions: no rows, and no frames
 * (bpf/walk/rules.bpf.h goes through it).
 */
bool maps_is_probes(const MapsEntry *entry);

/* Whether the entry is a file with a path, ` (deleted)` and memfd included. */
bool maps_is_file(const MapsEntry *entry);

/* Whether it is a piece of a memfd: nothing but memory, though it looks like a file. */
bool maps_is_memfd(const MapsEntry *entry);

/*
 * Whether the entry may begin with stations of coroutines: a file, mapped for all to write, from its first
 * byte on.
 */
bool maps_is_stations(const MapsEntry *entry);

/* Private, readable and writable memory without a file, the main stack excepted. */
bool maps_is_private_memory(const MapsEntry *entry);

/* Whether anonymous memory or a memfd carries exactly this @name ([anon:…], [anon_shmem:…], /memfd:…). */
bool maps_has_name(const MapsEntry *entry, const char *name);

/* The same for a name that begins with @name. */
bool maps_has_prefix(const MapsEntry *entry, const char *name);

/*
 * The name with \012 decoded and ` (deleted)` removed. @to has MAPS_MAX_NAME bytes.
 * Return: its length, *deletedp (may be NULL) tells whether the mark was there.
 */
size_t maps_path(const MapsEntry *entry, char *to, bool *deletedp);

/* Feeds the cursor from a descriptor of /proc/PID/maps; about 20 KiB, so not for the stack of a callback. */
typedef struct MapsReader {
        int fd;                         /* borrowed */
        bool end;
        /* bytes that may still be read; then it ends early, which is counted */
        size_t left;
        size_t allowed, used, free;     /* in this turn */
        size_t size, at;                /* bytes in the buffer, bytes used */
        char buffer[MAPS_READER_TEXT];
} MapsReader;

/* Without end, as far as turns are concerned. */
void maps_reader_init(MapsReader *reader, int fd);

/* With all of its text, at most MAPS_READER_TEXT bytes, read already. It is copied. */
void maps_reader_init_text(MapsReader *reader, const char *text, size_t size);

/* From the start again, once more as many bytes; the turn goes on. The caller rewinds the descriptor. */
void maps_reader_rewind(MapsReader *reader);

/* The same without a read, where the buffer has all of the text. Return: whether it has. */
bool maps_reader_again(MapsReader *reader);

/*
 * Begins a turn of reading. A loop that has other things to do stops after a part of the maps, and goes on in
 * a later turn: 65,530 mappings take 20 ms and more. All readers in one turn share *@leftp bytes (NULL =
 * without end); the first @free bytes of each are not counted, since many small processes have always to be
 * read. Beyond them, a process that lets us wait for its maps pays for that time too. What is read at once is
 * consistent in itself, no more.
 */
void maps_reader_begin_turn(MapsReader *reader, size_t free, const size_t *leftp);
void maps_reader_end_turn(MapsReader *reader, size_t *leftp);

/* Work of the caller's, worth so many bytes. */
void maps_reader_charge(MapsReader *reader, size_t size);

/* As maps_next(); the entry's name is good until the next call. Return: also MAPS_E_FAILED. */
int maps_reader_next(MapsReader *reader, MapsEntry *entryp);
