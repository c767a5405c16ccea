/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks for turns of 100 µs on the CPU, for this thread and what it starts from then on. Among many that
 * compute, one with short turns comes soon after it wakes up; its share is no larger. Linux before 6.12
 * ignores it; where it is refused, or the user has chosen another policy, turns stay as they are.
 */
void short_turns_take(void);

/*
 * For the other threads of such a process, from their start. Who wakes up does not take the CPU from one with
 * short turns, and has a ninth of its share where CPUs are scarce. Between two pieces of its work it calls
 * short_turns_offer(), which gives the CPU to who waits for it: else a turn lasts until the next tick, some
 * milliseconds.
 */
void short_turns_leave(void);
void short_turns_offer(void);
