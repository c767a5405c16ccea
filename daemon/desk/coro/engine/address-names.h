/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Address Names
 *
 * Learns, while coroutines run, what the addresses of a trace need to have names when the program is gone:
 * the process of each station, the mappings of its code (code-map.h), and for a coroutine's frame the
 * function that goes on there. A thread of its own does it, in about a hundredth of its time. A coroutine
 * that ends within 20 ms of its last event (5 s with a million stations) may stay without a name.
 */

#include <stddef.h>
#include <stdint.h>

#include "desk/coro/trace/trace-rows.h"
#include "host/coro/region-scan.h"

typedef struct AddressNames AddressNames;

/* Reads the regions and process ids of @scans, which must stay. Return: 0, -errno. */
int address_names_new(AddressNames **namesp, const RegionScan *scans, size_t n_scans);

/* Looks at a process that has one of the regions. */
void address_names_add_process(AddressNames *names, pid_t pid);

/* Says that there were events. Costs some nanoseconds. */
void address_names_poke(AddressNames *names);

/*
 * Looks a last time and ends the thread. Return: false = the thread hangs, since a process does not let its
 * memory be read: it is left behind, and nothing that it has learned counts.
 */
bool address_names_finish(AddressNames *names);

/* Results, after address_names_finish(). */
StationCode address_names_station(const AddressNames *names, size_t scan, uint32_t station);
size_t address_names_n_mappings(const AddressNames *names);
const TraceMapping *address_names_mapping(const AddressNames *names, size_t i);

AddressNames *address_names_free(AddressNames *names);
DEFINE_CLEANUP(AddressNames, address_names_free)
