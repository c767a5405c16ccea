/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "desk/page/model.h"

/* All that the page's script reads, as bytes; the top of page-encode.c says how. Return: 0, -ENOMEM. */
int page_encode(const PageModel *model, uint8_t **datap, size_t *sizep);
