/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The text of page.html, with style and script inside, before the data and behind it. Made by embed.py.
 */
extern const char page_html_head[], page_html_tail[];
extern const size_t page_html_head_size, page_html_tail_size;
