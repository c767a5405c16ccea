/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * pprof Parser
 *
 * A profile.proto of any program (unpacked) → events of a window. Bytes in, rows out: nothing is
 * opened, and no index, id or size is believed. Each value column becomes a profile of its own; labels become
 * attributes, but for those that tell the process (process.pid, service.name: its resource) and the span
 * (trace_id, span_id: its link), as our own writer puts them. Samples have no times of their own.
 *
 * Ids of locations, functions and mappings are any numbers, and tables may come behind the samples that use
 * them: the message is gone through more than once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "core/profile/window.h"

enum {
        _PPROF_E_SUCCESS,
        PPROF_E_MALFORMED,              /* @problem says where; what came before is in the window */
        PPROF_E_FULL,                   /* a cap of the window is reached */
};

typedef struct PprofResult {
        uint64_t start_ns, end_ns;      /* REALTIME; 0 = the file does not say */
        uint64_t n_samples, n_dropped;  /* dropped: with an id or a string that the file does not have */
        uint64_t n_deep;                /* samples with more frames than a stack may have; dropped, too */
        uint64_t n_negative;            /* values below zero, as differences have them: left out */
        uint64_t n_labels_cut;          /* labels beyond those that a sample may have */
        bool hides_unknown;             /* drop_frames or keep_frames is not understood, and not applied */
} PprofResult;

/*
 * Whether the first bytes of a file are those of a profile.proto, and not of an OTLP request, which is
 * protobuf too.
 */
bool pprof_recognize(const uint8_t *data, size_t size);

/*
 * @key: tells the resources of this input from those of others. @below_zero: keep such values. Return: 0,
 * PPROF_E_*, -ENOMEM.
 */
int pprof_import(Window *window, const uint8_t *data, size_t size, uint64_t key, bool below_zero,
                 PprofResult *result, Text *problem);
