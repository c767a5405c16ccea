/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Operations of the Example Service
 *
 * Three kinds of request, each with work of its own: checkout hashes receipts,
 * search sorts hits, health renders and parses a report. How much of it one
 * request does is measured at start, so that out of 100 CPU seconds of requests
 * in equal number, checkout takes 70, search 20 and health 10 on any machine.
 *
 * Each step is a function that is never inlined: a profile shows it by name.
 */

#include <stdint.h>

typedef enum OperationKind {
        OPERATION_CHECKOUT,
        OPERATION_SEARCH,
        OPERATION_HEALTH,
        N_OPERATIONS,
} OperationKind;

/* Memory that one worker works in; nothing is shared, nothing is allocated by a request. */
typedef struct Workbench {
        uint64_t state;                 /* feeds every step, so that none can be left out by the compiler */
        uint64_t prices[128];
        uint8_t receipt[2048];
        uint32_t hits[256];
        char report[2048];
} Workbench;

const char *operation_name(OperationKind kind);

/* CPU time that one request is meant to take, ns. */
uint64_t operation_nominal_ns(OperationKind kind);

/* Finds out how much work makes the nominal costs. About 0.1 s of CPU; before the first request. */
void operations_calibrate(void);

/* Serves one request. */
void operation_serve(OperationKind kind, Workbench *bench);
