/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Places
 *
 * Learns, while coroutines run, what their addresses will need to have names when the program is gone: which process each
 * station is of, where its code lies (code-map.h), and, of an address that is a coroutine's frame (what C++20 has), the function
 * that will go on, which is the frame's first word. That word is believed only of a coroutine that was suspended there
 * before and after it was read, and if it is an address of code: memory may be used again.
 *
 * A thread of its own looks through the stations when there were events, for a hundredth of its time or so. What ends within
 * 20 ms of its last event, or some seconds with a million stations, may stay without a name.
 */

#include <stddef.h>
#include <stdint.h>

#include "coro/harvest.h"
#include "coro/trace.h"

typedef struct Places Places;

/* Of @harvests only the regions and ids of processes are looked at; both must stay. Return: 0, -errno. */
int places_new(Places **placesp, const Harvest *harvests, size_t n_harvests);

/* A process that has a region of these. */
void places_add_process(Places *places, pid_t pid);

/* There were events. Costs next to nothing. */
void places_poke(Places *places);

/*
 * The last look; ends the thread. What hangs in a process that does not let itself be read is left behind: nothing that
 * it has learned counts then, and false is returned.
 */
bool places_finish(Places *places);

/* After places_finish(). */
StationCode places_station(const Places *places, size_t harvest, uint32_t station);
size_t places_n_mappings(const Places *places);
const TraceMapping *places_mapping(const Places *places, size_t i);

Places *places_free(Places *places);
DEFINE_CLEANUP(Places, places_free)
