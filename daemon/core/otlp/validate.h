/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Validator
 *
 * Holds one request of profiles against every rule that checkers and readers of OTLP profiles enforce,
 * by any sender. An error is what some reader refuses or misreads; a warning is what passes today but need
 * not: fields of another version of the protocol, and shapes that only some readers take.
 *
 * Paths are in the words of the protocol:
 * `resource_profiles[0].scope_profiles[0].profiles[2].samples[17].stack_index`.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/otlp/finding.h"

const char *validate_rule_name(ValidateRule rule);

/*
 * Checks a request, protobuf or JSON. @sink: NULL = only count. Bytes that cannot be decoded are a finding
 * too. Return: 0 and *countsp, -ENOMEM.
 */
int otlp_validate(const uint8_t *data, size_t size, ValidateSink sink, void *userdata,
                  ValidateCounts *countsp);

/* With what one backend refuses, too. */
int otlp_validate_for(ValidateFor backend, const uint8_t *data, size_t size, ValidateSink sink,
                      void *userdata, ValidateCounts *countsp);
