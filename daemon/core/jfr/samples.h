/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Samples of a Chunk
 *
 * The events of a chunk become samples of the window, and its events about the recording go to recording.c.
 */

#include "core/jfr/reader.h"

/* Reads all events of the reader's chunk. Return: 0, JFR_E_FULL, -ENOMEM. */
int jfr_samples_read(JfrReader *reader);
