/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Object
 *
 * One ELF file (or the vdso's image) as frames need it: build ids, PT_LOAD
 * segments, entry point. Shared by all mappings of the same file: the cache
 * knows files by what the kernel says of them (ObjectFile), keeps a bounded
 * number and drops those without users, least recently used first.
 *
 * Files are chosen by targets, so they are opened with care: nothing but
 * regular files, never one whose filesystem may leave a read unanswered.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/util/macro.h"
#include "core/symbol/object/maps.h"
#include "core/symbol/object/object-file.h"
#include "host/sampling/process/elf.h"
#include "host/sampling/process/thread-symbol.h"

enum {
        OBJECT_MAX_SEGMENTS = ELF_MAX_SEGMENTS, /* PT_LOADs; more: the file is unsupported */
        OBJECT_MAX_BUILD_ID = ELF_MAX_BUILD_ID,
};

typedef ElfSegment Segment;

enum { OBJECT_MAX_SAYS = 48 };

/* Runtimes that the file is of, and what it says of itself. */
typedef struct ObjectRuntimes {
        uint32_t bits;                  /* RUNTIME_HAS_* */
        char says[OBJECT_MAX_SAYS];     /* printable; "" = nothing */
} ObjectRuntimes;

/* Whether a worker looks into the file, or has done so. */
enum object_look {
        OBJECT_LOOK_NONE,               /* no worker was asked */
        OBJECT_LOOK_ASKED,
        OBJECT_LOOK_KNOWN,              /* runtimes are known */
        OBJECT_LOOK_FAILED,             /* nothing will become known */
        OBJECT_LOOK_REFUSED,            /* the file found too many others waiting: it is asked for again */
};

/* What alloc-probes.c has made of the file's probes. */
enum object_probes {
        OBJECT_PROBES_UNKNOWN,          /* it was not looked into */
        OBJECT_PROBES_KNOWN,
        OBJECT_PROBES_LEFT,             /* there was no place for all of them */
};

typedef struct Object {
        uint64_t id;                    /* never reused in this process; for caches outside */
        /* object_file_number(): the same for a file that is read again; 0 = the vdso */
        uint64_t file;
        unsigned n_refs;
        bool readable;                  /* false: no ELF64; kept so that it is not read again */
        char build_id_gnu[2 * OBJECT_MAX_BUILD_ID + 1];         /* lower-case hex; "" = none */
        char build_id_go[2 * OBJECT_MAX_BUILD_ID + 1];          /* as the Go tool prints it; "" = none */
        char htlhash[33];               /* 32 hex digits; "" for the vdso */
        /*
         * ELF address where goroutines begin (host/sampling/frames/goexit.h); 0 = not known. A read of the
         * file finds it, so it stays here as long as the file is known: in a table of frames each new stack
         * would pay for a look-up.
         */
        uint64_t goexit;
        uint32_t n_goexit_looks;
        Segment segments[OBJECT_MAX_SEGMENTS];
        uint32_t n_segments;
        uint64_t entry;                 /* e_entry */
        ThreadSymbol thread_symbol;     /* form 0 = none */
        ObjectRuntimes runtimes;        /* if KNOWN */
        enum object_look look;
        enum object_probes probes;
} Object;

typedef struct ObjectCache ObjectCache;

/* @max_objects: cap of files that are kept without a user. Return: 0, -ENOMEM. */
int object_cache_new(ObjectCache **cachep, size_t max_objects);

/*
 * Lets a worker look into a file: takes @fd, and sets object->thread_symbol, runtimes and look whenever it
 * knows. @owner: the process that the file was first met in. Without such a function thread symbols are read
 * here. Return (of @ask): 0, -ENOMEM.
 */
typedef int (*ObjectAskFunc)(void *userdata, Object *object, int fd, uint64_t size, const ShareOwner *owner);

void object_cache_set_ask(ObjectCache *cache, ObjectAskFunc ask, void *userdata);

static inline bool object_is_awaited(const Object *object) {
        return object->look == OBJECT_LOOK_ASKED || object->look == OBJECT_LOOK_REFUSED;
}

/* Every reference must have been given back. */
ObjectCache *object_cache_free(ObjectCache *cache);
DEFINE_CLEANUP(ObjectCache, object_cache_free)

/*
 * The object that is mapped at @source; one reference. A file that turned out to be no
 * ELF64 gives OBJECT_E_UNREADABLE without being read again. Return: 0, OBJECT_E_*, -ENOMEM.
 */
int object_open(ObjectCache *cache, ObjectSource *source, Object **objectp);

/*
 * The vdso as this kernel gives it to 64-bit processes, read from our own memory; *sizep: bytes of its
 * mapping.
 */
int object_vdso(ObjectCache *cache, Object **objectp, uint64_t *sizep);

/*
 * The file of @object again, for another reader: opened where a process has it mapped, and only if it still
 * is the same file. @proc_fd: directory /proc/PID. Not for the vdso. Return: 0 and *fdp (owned by the
 * caller), OBJECT_E_MOVED, OBJECT_E_UNREADABLE.
 */
int object_reopen(const Object *object, int proc_fd, uint64_t start, uint64_t end, const char *path,
                  int *fdp);

/* The same in two steps: object_file_open() may be called by another thread, and when the object is gone. */
ObjectFile object_file(const Object *object);

/* Begins another turn: files may have changed since they were last looked at. */
void object_cache_begin_turn(ObjectCache *cache);

/*
 * A readable file of this device and inode that was opened in this turn; one reference. A notice that was
 * there before the turn means the same file as it was found. Return: whether there is one.
 */
bool object_find_seen(ObjectCache *cache, uint32_t major, uint32_t minor, uint64_t inode, Object **objectp);

/*
 * The file at @path in our own root, as far as the kernel has its name in its cache; one reference. The
 * caller checks that it is the one that is meant. @pid: of a process that has it mapped, whose user is
 * charged for the look into it; 0 = none. Return: 0, OBJECT_E_*, -ENOMEM.
 */
int object_open_path(ObjectCache *cache, const char *path, uint32_t pid, Object **objectp);

/*
 * Whether it may be a virtual machine's file, or a program of Go: by its size of code, and the build id.
 * Others are not looked into for runtimes.
 */
bool object_may_be_runtime(const Object *object);

/* Whether it has as much code as a virtual machine. */
bool object_is_large(const Object *object);

/* Whether it is the file with this device and inode. */
bool object_is_file(const Object *object, uint32_t major, uint32_t minor, uint64_t inode);

Object *object_ref(Object *object);
Object *object_unref(Object *object);

/* Objects known, used or not. */
size_t object_cache_count(const ObjectCache *cache);

/*
 * ELF address of @offset in the file: translated through the PT_LOAD that holds it.
 * Return: 0 with *addressp and *segmentp, or 1 = in no segment.
 */
int object_address(const Object *object, uint64_t offset, uint64_t *addressp, uint32_t *segmentp);
