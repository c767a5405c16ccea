/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Object
 *
 * One ELF file (or the vdso's image) as frames need it: build ids, PT_LOAD
 * segments, entry point. Shared by all mappings of the same file: the cache
 * knows files by (dev, inode, mtime, size), keeps a bounded number and drops
 * those without users, least recently used first.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/macro.h"

enum {
        OBJECT_MAX_SEGMENTS = 16,       /* PT_LOADs; more: the file is unsupported */
        OBJECT_MAX_BUILD_ID = 64,
};

typedef struct Segment {
        uint64_t address;               /* p_vaddr */
        uint64_t offset;                /* p_offset */
        uint64_t file_size, memory_size;
        uint32_t flags;                 /* PF_X … */
} Segment;

typedef struct Object {
        uint64_t id;                    /* never reused in this process; for caches outside */
        unsigned n_refs;
        char build_id_gnu[2 * OBJECT_MAX_BUILD_ID + 1];         /* lower-case hex; "" = none */
        char build_id_go[2 * OBJECT_MAX_BUILD_ID + 1];          /* as the Go tool prints it; "" = none */
        char htlhash[33];               /* 32 hex digits; "" for the vdso */
        Segment segments[OBJECT_MAX_SEGMENTS];
        uint32_t n_segments;
        uint64_t entry;                 /* e_entry */
        uint64_t window_serial;         /* scratch for frames: the window whose module index is below */
        uint32_t window_module[OBJECT_MAX_SEGMENTS];
} Object;

typedef struct ObjectCache ObjectCache;

/* @max_objects: cap of files that are kept though nobody uses them. Return: 0, -ENOMEM. */
int object_cache_new(ObjectCache **cachep, size_t max_objects);
ObjectCache *object_cache_free(ObjectCache *cache);
DEFINE_CLEANUP(ObjectCache, object_cache_free)

Object *object_ref(Object *object);
Object *object_unref(Object *object);

/*
 * ELF address of @offset in the file: translated through the PT_LOAD that holds it.
 * Return: 0 with *addressp and *segmentp, or 1 = in no segment.
 */
int object_address(const Object *object, uint64_t offset, uint64_t *addressp, uint32_t *segmentp);
