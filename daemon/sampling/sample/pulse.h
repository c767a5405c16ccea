/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulse
 *
 * Whether the timer of a CPU still ticks. An event whose CPU goes offline never ticks again, not even when
 * the CPU is back a moment later: then the list of CPUs looks as before, and only the missing ticks tell. But
 * an idle CPU need not tick either (some virtual machines leave it out): who is silent is asked how long it
 * has been enabled, twice.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Pulse {
        uint64_t entries;               /* of the sampler on that CPU, at the last look that saw new ones */
        uint64_t since_ns;              /* that look; 0 = there was none */
        uint64_t enabled_ns;            /* the first answer of a silent one; 0 = not asked yet */
} Pulse;

/* Of an event that has just been opened, or closed. */
void pulse_reset(Pulse *pulse);

/*
 * @entries: of the sampler on that CPU so far. @period_ns: nominal.
 * Return: whether there were none for so long that chance cannot be why; ask it then, and tell
 * pulse_has_stopped().
 */
bool pulse_is_silent(Pulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns);

/*
 * @enabled_ns: how long the silent event has been enabled in all. Return: whether that does not grow any
 * more.
 */
bool pulse_has_stopped(Pulse *pulse, uint64_t enabled_ns);
