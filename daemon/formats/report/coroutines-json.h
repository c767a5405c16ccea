/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/util/json-writer.h"
#include "formats/report/coroutines.h"

/* One object; with a timeline for each coroutine if asked. Return: 0, -ENOMEM. */
int coroutines_write_json(JsonWriter *json, CoroutineReport *report, const CoroutineFormat *format,
                          bool timelines);
