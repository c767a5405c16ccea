/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Validation for a Backend
 *
 * What a valid request has that one backend refuses (errors), or leaves out or stores badly (warnings).
 */

#include "core/otlp/check.h"

void check_resource_for(Check *check, const Place *here, const OtlpResource *resource);
void check_profile_for(Check *check, const Place *here, const OtlpProfile *profile);
void check_request_for(Check *check);
