/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Handle of a JVM's Memory
 *
 * Two open files of /proc/PID, through which a worker without rights reads one process and no other: they
 * stay with its address space when the id is used again, and when it executes another program.
 */

#include <sys/types.h>

#include "runtime/hotspot/hotspot-reader.h"

typedef struct HotspotHandle {
        int mem, pagemap;               /* -1 = none */
} HotspotHandle;

/*
 * @start_time_ns: as for process_open(). Return: whether the process is there and may be read by us;
 * *handlep is owned by the caller.
 */
bool hotspot_handle_open(HotspotHandle *handlep, pid_t pid, uint64_t start_time_ns);
void hotspot_handle_close(HotspotHandle *handle);

/* A source for hotspot_new(). Pages that are not there are not made to come. @handle: a HotspotHandle. */
bool hotspot_handle_read(void *handle, uint64_t address, void *to, size_t size);
