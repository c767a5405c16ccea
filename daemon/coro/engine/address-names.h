/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * AddressNames
 *
 * Learns, while coroutines run, what their addresses will need to have names when the program is gone: which
 * process each station is of, where its code lies (code-map.h), and, of an address that is a coroutine's
 * frame (what C++20 has), the function that will go on, which is the frame's first word. That word is
 * believed only of a coroutine that was suspended there before and after it was read, and if it is an address
 * of code: memory may be used again.
 *
 * A thread of its own looks through the stations when there were events, for a hundredth of its time or so.
 * What ends within 20 ms of its last event, or some seconds with a million stations, may stay without a name.
 */

#include <stddef.h>
#include <stdint.h>

#include "coro/station/region-scan.h"
#include "coro/trace/trace-rows.h"

typedef struct AddressNames AddressNames;

/* Of @scans only the regions and ids of processes are looked at; both must stay. Return: 0, -errno. */
int address_names_new(AddressNames **namesp, const RegionScan *scans, size_t n_scans);

/* A process that has a region of these. */
void address_names_add_process(AddressNames *places, pid_t pid);

/* There were events. Costs next to nothing. */
void address_names_poke(AddressNames *places);

/*
 * The last look; ends the thread. What hangs in a process that does not let itself be read is left behind:
 * nothing that it has learned counts then, and false is returned.
 */
bool address_names_finish(AddressNames *places);

/* After address_names_finish(). */
StationCode address_names_station(const AddressNames *places, size_t scan, uint32_t station);
size_t address_names_n_mappings(const AddressNames *places);
const TraceMapping *address_names_mapping(const AddressNames *places, size_t i);

AddressNames *address_names_free(AddressNames *places);
DEFINE_CLEANUP(AddressNames, address_names_free)
