/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Record of a Thread
 *
 * Reads the context record of one thread, which must not run meanwhile: it is stopped (thread-look.h), or it
 * waits (host/sampling/walks/thread-waits.c).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "border/abi.h"
#include "host/sampling/context/thread-context.h"
#include "spanprof/thread.h"

typedef enum ThreadLookOutcome {
        /* the thread did not stop in time, is traced by another, or is gone */
        THREAD_LOOK_NOT,
        THREAD_LOOK_ASLEEP,             /* left alone: a stop would end the system call that it sleeps in */
        THREAD_LOOK_PRESENT,
        THREAD_LOOK_NONE,               /* no record, or no ids in it */
        THREAD_LOOK_INVALID,            /* a record that says not to read it: no span, or being written */
        THREAD_LOOK_UNREADABLE,         /* the way to the record is missing, or wrong */
} ThreadLookOutcome;

typedef struct ThreadLook {
        uint32_t tid;
        uint32_t outcome;               /* ThreadLookOutcome */
        uint64_t record;                /* address of the record; 0 = there is none */
        struct spanprof_thread_record head;     /* of the form of OpenTelemetry, if it could be read */
        bool is_changed;                /* while its thread stood still; by thread_look_all() */
        struct abi_span span;           /* if PRESENT */
        uint16_t attributes_size;       /* set without a span, too */
        /* as a sample has them; of ABI_FORM_LABELS without the ids that are in `span` */
        uint8_t attributes[ABI_MAX_ATTRIBUTES_SIZE];
} ThreadLook;

/* An attribute of a record: {index of its key, length, bytes}. */
typedef struct ThreadAttribute {
        uint8_t key, size;
        const uint8_t *value;
} ThreadAttribute;

/* Takes the entry at *@at of @size bytes, and moves *@at. Return: false = no whole one is there. */
static inline bool thread_attributes_next(const uint8_t *bytes, size_t size, size_t *at,
                                          ThreadAttribute *attribute) {
        const uint8_t *entry = bytes + *at;
        size_t left = size - *at;

        if (left < 2 || left - 2 < entry[1])
                return false;
        *attribute = (ThreadAttribute){ entry[0], entry[1], entry + 2 };
        *at += 2 + (size_t)entry[1];
        return true;
}

/* The memory of one process, and how the contexts of its threads are reached (borrowed; it has a form). */
typedef struct ThreadMemory {
        const ThreadContext *thread;
        int memory, pages;              /* /proc/PID/mem and pagemap; -1 = not readable for us */
} ThreadMemory;

/* @start_time_ns: as for process_open(). What cannot be opened is unreadable later. */
void thread_memory_open(ThreadMemory *memory, pid_t pid, uint64_t start_time_ns,
                        const ThreadContext *thread);
void thread_memory_close(ThreadMemory *memory);

/* @pointer: the thread pointer. Sets all of *look but the thread's id. */
void thread_record_read(const ThreadMemory *memory, uint64_t pointer, ThreadLook *look);
