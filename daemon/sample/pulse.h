/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulse
 *
 * Whether the timer of a CPU still ticks. An event whose CPU goes offline never ticks again, not even when the CPU is
 * back a moment later: then the list of CPUs looks as before, and only the missing ticks tell.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Pulse {
        uint64_t entries;               /* of the sampler on that CPU, at the last look that saw new ones */
        uint64_t since_ns;              /* that look; 0 = there was none */
} Pulse;

/* Of an event that has just been opened, or closed. */
void pulse_reset(Pulse *pulse);

/*
 * @entries: of the sampler on that CPU so far. @period_ns: nominal.
 * Return: whether there were none for so long that chance cannot be why.
 */
bool pulse_has_stopped(Pulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns);
