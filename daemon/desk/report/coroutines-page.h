/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Of coroutines.html, with style and script inside: what stands before the data, and behind it. Made by
 * desk/page/embed.py.
 */
extern const char coroutines_html_head[], coroutines_html_tail[];
extern const size_t coroutines_html_head_size, coroutines_html_tail_size;
