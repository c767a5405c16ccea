/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Locks of a JVM
 *
 * What each thread of a JVM waits for, and which thread has it: monitors, and java.util.concurrent's locks
 * that know an owner.
 */

#include "host/runtime/hotspot/hotspot-layout.h"
#include "host/sampling/runtime/runtime-lock.h"

/*
 * Pure but for @reader. @bias: where libjvm is loaded. One look at memory that changes meanwhile: what is
 * found in two looks alike is so. @locks->text says which part of the layout is not known, or that threads
 * were left out.
 */
void hotspot_locks_read(RuntimeLocks *locks, const HotspotLayout *layout, const HotspotReader *reader,
                        uint64_t bias);
