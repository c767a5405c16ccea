/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Uploads by Configuration: `symbols = upload`, and the options whose names begin with `upload-`. */

#include "core/base/sandbox/zygotes.h"
#include "host/naming/uploads.h"
#include "host/service/config/config.h"

enum {
        _SYMBOL_UPLOAD_E_SUCCESS,
        SYMBOL_UPLOAD_E_UNUSABLE,       /* the configuration; a message was logged */
};

/*
 * *uploadsp stays NULL if none are wanted, or if there are no workers without rights to make files (which is
 * logged). Return: 0, SYMBOL_UPLOAD_E_UNUSABLE, -ENOMEM.
 */
int symbol_upload_new(Uploads **uploadsp, const Config *config, Zygotes *zygotes);
