/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Of annotate.html, with its style: what stands before the source, and behind it. Made by embed.py. */
extern const char annotate_html_head[], annotate_html_tail[];
extern const size_t annotate_html_head_size, annotate_html_tail_size;
