/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spans of OpenTelemetry's SDK
 *
 * Where a process keeps the span that a thread works for, so that the kernel half can follow
 * (bpf/runtimes/python_spans.bpf.h). All of it is found by the names that the SDK and CPython give it.
 */

#include "host/runtime/python/python-program.h"
#include "host/runtime/python/python-reader.h"

/* An interpreter that was opened, as its process has it. All is borrowed. */
typedef struct PythonSubject {
        const PythonProgram *program;
        const PythonLayout *layout;
        uint64_t bias;                  /* address in the process - ELF address */
} PythonSubject;

/*
 * Fills what the kernel half needs to say that there may be spans: spans->variable is 0. @type: address of
 * PyContext_Type, 0 = not known: then nothing is read.
 */
void python_span_begin(const PythonLayout *layout, uint64_t type, struct python_spans *spans);

enum {
        _PYTHON_SPAN_E_SUCCESS,
        PYTHON_SPAN_E_NONE,             /* OpenTelemetry's packages are not loaded (yet) */
        PYTHON_SPAN_E_SOON,             /* they are, and something that is needed was not made */
};

/*
 * Learns where spans are, in a process that runs on. What does not agree with itself is not there. Return: 0
 * with all of *spans, PYTHON_SPAN_E_*.
 */
int python_span_learn(const PythonReader *reader, const PythonSubject *subject, struct python_spans *spans);

/* Pure. Whether the kernel half may go by it: a worker has said it. */
bool python_span_check(const struct python_spans *spans);
