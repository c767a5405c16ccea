/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Foreign Files
 *
 * What people give to `report` that is no profile, by its first bytes: a name for it, and what helps.
 */

#include "desk/convert/source.h"

/* "a recording of perf: …" in a sentence; NULL = not known. */
const char *foreign_name(const Source *source);
