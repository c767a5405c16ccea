/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Attributes
 *
 * The attributes of a sample (its thread, how its stack ended, its local root
 * span) → index of an attribute set in a window; a process → index of its resource.
 * Remembers those of the current window by the few bytes that decide them, so that
 * the usual sample costs one look-up each.
 */

#include <stdint.h>

#include "core/base/data/intern.h"
#include "core/profile/window.h"
#include "host/sampling/aggregate/context-attributes.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/sample/decode.h"

typedef struct AttributeCache {
        Intern keys;                    /* → number */
        uint32_t *indexes;              /* number → index in the window */
        uint32_t size;
} AttributeCache;

/* Whose a resource is in this window. */
typedef struct AttributeOwner {
        uint64_t generation;            /* of the first process that had it; 0 = of none yet */
        bool is_shared;                 /* by processes that are described alike */
        bool is_published;              /* a process context says it; until there is one, it is provisional */
        uint32_t later;                 /* resource that the process got then; 0 = this is its last */
} AttributeOwner;

/* Told of each program that a resource of a window is of. Return: 0, -ENOMEM. */
typedef struct AttributesNote {
        int (*note)(void *userdata, const Program *program, uint32_t resource); /* NULL = nobody is told */
        void *userdata;
} AttributesNote;

typedef struct Attributes {
        AttributeCache sets;                /* struct AttributeKey → attribute set */
        AttributeCache resources;           /* generation and context of a process → resource */
        AttributeOwner *owners;             /* by resource */
        uint32_t owners_room;
        bool has_later;                     /* some process got another resource */
        ContextAttributes context;
        AttributeFilter filter;
        AttributesNote note;
        uint64_t window_serial;
} Attributes;

void attributes_init(Attributes *attributes);
void attributes_deinit(Attributes *attributes);

/* @stack_end: how the stack ended, after the daemon's own judgement. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int attributes_of_sample(Attributes *attributes, Window *window, const Program *program,
                         const Sample *sample, enum abi_stack_end stack_end, uint32_t *setp);

/* Attributes of a suspended coroutine. Return: as above. */
int attributes_of_suspended(Attributes *attributes, Window *window, const SampleCoroutine *coroutine,
                            uint32_t *setp);

/*
 * The resource of a program, with what is known of it as attributes. A program that executes itself in place
 * is a new generation, but the same resource: nothing that is shipped tells the two apart. Return: 0,
 * WINDOW_E_FULL, -ENOMEM.
 */
int attributes_of_process(Attributes *attributes, Window *window, const Program *program,
                          uint32_t *resourcep);

/*
 * The resource that the owner of @resource got in this window with its first process context, which may come
 * late. One that was published stays itself, and so does one that several processes have.
 */
uint32_t attributes_last_resource(const Attributes *attributes, uint32_t resource);
