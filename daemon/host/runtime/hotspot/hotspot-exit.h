/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ways Out of Compiled Code
 *
 * Branches to slow paths, and loads that may meet a null: what they lead to says whose code they are.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-code.h"
#include "host/runtime/hotspot/hotspot-flow.h"

/*
 * Pure but for its reader. Adds to @exits, in their order, loads in [@from, @to) of the nmethod @in that
 * stand for a null check; of many the last ones if @is_last, else the first.
 */
void hotspot_exit_null_checks(HotspotExits *exits, const HotspotCompiled *in, uint64_t from, uint64_t to,
                              bool is_last);

/*
 * Pure but for its reader. Whether @exit leads straight to a call of the VM for the code that it leaves;
 * then *returnp is that call's return address, which has a description.
 */
bool hotspot_exit_follow(const HotspotExit *exit, const HotspotCompiled *in, const HotspotPlaces *places,
                         uint64_t *returnp);
