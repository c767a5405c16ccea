/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Parts of annotate.html, with its style, before and behind the source. embed.py makes them. */
extern const char annotate_html_head[], annotate_html_tail[];
extern const size_t annotate_html_head_size, annotate_html_tail_size;
