/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go's Heap Profile
 *
 * Reads the profile of allocations that Go's runtime keeps of itself, from outside: nothing is stopped or
 * written. Memory is read by a callback, so tests and the fuzzer give any.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/go/go-heap-code.h"
#include "host/runtime/go/goroutine.h"

enum {
        GO_HEAP_MAX_BUCKETS = 1 << 18,  /* a program with more is not read */
        GO_HEAP_MAX_WORDS = 1 << 23,    /* the same of addresses in all stacks */
        GO_HEAP_MAX_DEPTH = 1026,       /* addresses of one stack, whatever GODEBUG=profstackdepth says */
};

#define GO_HEAP_MAX_BYTES (INT64_MAX / 2)   /* of a bucket, all its objects together */

/* Allocations of one size by one stack. */
typedef struct GoHeapBucket {
        uint64_t address;
        uint64_t size;                  /* bytes of each object */
        uint64_t allocs, frees;         /* objects, of those that were sampled */
        uint32_t stack, n_stack;        /* in GoHeap.words, the innermost first */
} GoHeapBucket;

typedef struct GoHeapCache GoHeapCache;

typedef struct GoHeap {
        GoHeapPlaces places;            /* in the process */
        bool has_bytes;                 /* records have bytes beside each count: up to Go 1.26 */
        const GoMemory *memory;
        GoHeapCache *cache;
        GoHeapBucket *buckets;          /* older looks' first, then the new ones */
        uint32_t n_buckets, buckets_room;
        uint64_t *words;                /* return addresses in the process */
        uint32_t n_words, words_room;
        uint64_t head;                  /* newest bucket that is known; 0 = none */
} GoHeap;

/* Facts of a look. */
typedef struct GoHeapLook {
        int64_t rate;                   /* mean distance of two samples, bytes; 0 or below = it is off */
        uint32_t cycle;                 /* the collection that ended last, as the runtime counts them */
        bool is_early;                  /* nothing was published yet: counts are of now, not of one moment */
} GoHeapLook;

enum {
        _GO_HEAP_E_SUCCESS,
        GO_HEAP_E_MOVING,               /* the runtime was at it: look again */
        GO_HEAP_E_UNREADABLE,           /* memory is not there */
        GO_HEAP_E_DAMAGED,              /* the list, or a record in it, is none of Go's */
        GO_HEAP_E_MANY,                 /* more than the two caps above */
        GO_HEAP_E_OFF,                  /* the rate is 0: nothing is sampled */
};

/* @places: in the process. @minor: version of Go, 18 to 27. @memory: borrowed. Return: 0, -ENOMEM. */
int go_heap_init(GoHeap *heap, const GoHeapPlaces *places, uint32_t minor, const GoMemory *memory);
void go_heap_deinit(GoHeap *heap);

/*
 * Looks once: counts of all buckets are as of one moment, unless look->is_early. Later looks read stacks of
 * new buckets alone. Return: 0, GO_HEAP_E_* (no count is valid then), -ENOMEM.
 */
int go_heap_look(GoHeap *heap, GoHeapLook *look);
