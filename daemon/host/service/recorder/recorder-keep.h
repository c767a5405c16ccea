/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeping
 *
 * The part of one request of the recorder that is meant, as a window that can be exported beside all others:
 * its types begin with `kept_`, so that nobody adds it to the ticks that were exported before, and each
 * resource says why it was kept.
 */

#include "host/service/recorder/recorder-ask.h"

#define RECORDER_KEEP_REASON "profile.kept.reason"

enum {
        _RECORDER_KEEP_E_SUCCESS,
        RECORDER_KEEP_E_NOTHING,        /* no sample of it is meant */
};

/* *windowp: closed. Return: 0, RECORDER_KEEP_E_NOTHING, -ENOMEM. */
int recorder_keep(const RecorderRequest *request, const RecorderAsk *ask, Window **windowp);
