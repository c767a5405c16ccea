/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Thread Context
 *
 * How a process' threads reach their context (spanprof/thread.h): found in the
 * process' own words, since the access model is decided when a file is loaded.
 * The variable itself is read by the kernel half, at each sample.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/abi.h"
#include "host/sampling/process/process.h"

typedef struct ThreadContext {
        uint8_t form;                   /* enum abi_form, 0 = none */
        uint8_t model;                  /* enum abi_thread_model */
        uint32_t module;                /* 0 in the STATIC model */
        int64_t offset;                 /* as in struct abi_process */
        struct node_layout node;        /* as the process context has it; for ABI_FORM_NODE */
} ThreadContext;

/* Whether of a file that @process has mapped it is not known yet what it has. */
bool thread_context_waits(const Process *process);

/*
 * Looks through the files that @process has mapped. *unreadp: NULL, or why a form that is there is not read;
 * a text for people, static.
 */
ThreadContext thread_context_find(const Process *process, const char **unreadp);
