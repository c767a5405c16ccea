/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What print.c and print-tables.c share: where a table prints to and what it counts. */

#include "formats/report/report-private.h"
#include "formats/report/sheet.h"

typedef struct Printer {
        const Report *report;
        Sheet sheet;
        uint32_t top;
        uint32_t section;
        const char *unit;
        uint64_t value;                 /* of the section: what shares are of */
} Printer;

int print_functions(const Printer *printer, uint32_t operation, const char *title);
int print_stacks(const Printer *printer);
int print_spans(const Printer *printer);
int print_coroutines(const Printer *printer);
int print_objects(const Printer *printer);
int print_operations(const Printer *printer);
int print_attributes(const Printer *printer, uint32_t process);
int print_process_list(const Printer *printer, const uint32_t *sections, size_t n);

/* What a process is called in a heading: `checkout (pid 4711)`. */
void print_process_name(const Report *report, uint32_t process, char *to, size_t size);
