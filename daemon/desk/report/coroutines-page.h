/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Parts of coroutines.html, with style and script inside, before and behind the data. desk/page/embed.py
 * makes them.
 */
extern const char coroutines_html_head[], coroutines_html_tail[];
extern const size_t coroutines_html_head_size, coroutines_html_tail_size;
