/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OpenMetrics
 *
 * The form of metrics that may have exemplars (OpenMetrics 1.0), made from Prometheus' older one. A scraper
 * says in its Accept header which one it prefers.
 */

#include <stdbool.h>

#include "core/base/util/text.h"

#define OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* @accept: a header's value, "" = none. */
bool openmetrics_is_wanted(const char *accept);

/* @page: text format 0.0.4, in which lines of counters may end in exemplars already. */
void openmetrics_convert(Text *text, const char *page);
