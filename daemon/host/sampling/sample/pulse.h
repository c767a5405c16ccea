/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pulse
 *
 * Tells whether the timer of a CPU still ticks. An event whose CPU goes offline never ticks again, not even
 * when the CPU is back a moment later. Then the list of CPUs looks as before, and only the missing ticks
 * tell. But an idle CPU need not tick either (some virtual machines leave it out). So a silent event is asked
 * twice how long it has been enabled; a stopped one answers the same:
 *
 *     t      ticks of CPU 3   enabled_ns     verdict
 *     0 s    10,412           –              ticks
 *     1 s    10,412           –              silent for 1 s: too short to ask
 *     2 s    10,412           8,100,000,000  silent: asked once
 *     3 s    10,412           8,100,000,000  the clock of the event stands still: stopped, open it again
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct Pulse {
        /* entries of the sampler on that CPU, at the last look that saw new ones */
        uint64_t entries;
        uint64_t since_ns;              /* time of that look; 0 = there was none */
        uint64_t enabled_ns;            /* first answer of a silent event; 0 = not asked yet */
} Pulse;

/* For an event that has just been opened or closed. */
void pulse_reset(Pulse *pulse);

/*
 * @entries: entries of the sampler on that CPU so far. @period_ns: nominal period. Return: whether there were
 * no new ones for longer than chance can explain. Then read the event's enabled time and give it to
 * pulse_has_stopped().
 */
bool pulse_is_silent(Pulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns);

/*
 * @enabled_ns: time that the silent event has been enabled in all. Return: whether it does not grow any more.
 */
bool pulse_has_stopped(Pulse *pulse, uint64_t enabled_ns);
