/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Import
 *
 * Decoded requests → a Window, so that whatever takes a window (report, convert) takes OTLP
 * files too. Strict about indexes and shapes: the first wrong one ends it, with its path.
 *
 * What a window has no place for is left out: column numbers, schema URLs, attributes of profiles, of scopes
 * and of mappings other than build ids, of locations other than profile.frame.type, original payloads. Array,
 * list and bytes values become text. Mappings without a build id are no modules (see window.h). Each line of
 * a location becomes a frame, all but the last one inlined. Times become the window's: it runs from the
 * earliest profile to the latest end.
 */

#include <stddef.h>

#include "core/otlp/messages.h"
#include "core/profile/window.h"

enum {
        _OTLP_IMPORT_E_SUCCESS,
        OTLP_IMPORT_E_INDEX,            /* an index outside its table */
        OTLP_IMPORT_E_SHAPE,            /* a sample's values and times, or an id's size */
        OTLP_IMPORT_E_FULL,             /* a cap of the window is reached */
};

/*
 * Adds one request to an open window whose times are REALTIME (offset 0). Resources with equal attributes
 * become one, as do profiles of one type in one resource; so the parts of a split window come together again.
 * *startp, *endp: what its profiles cover. @where (@where_size bytes): what is wrong, with its path.
 * Return: 0, OTLP_IMPORT_E_*, -ENOMEM; on a mistake, what stands before it is in the window.
 */
int otlp_import_add(Window *window, const OtlpRequest *request, uint64_t *startp, uint64_t *endp, char *where,
                    size_t where_size);
