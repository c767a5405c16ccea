/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Asks for turns of 100 µs on the CPU, for this thread and what it starts from then on. Among many that
 * compute, one with short turns comes soon after it wakes up; its share is no larger. Linux before 6.12
 * ignores it; where it is refused, or the user has chosen another policy, turns stay as they are.
 */
void short_turns_take(void);
