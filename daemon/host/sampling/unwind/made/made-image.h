/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image of Made Code
 *
 * An ELF file that stands for an area of code made at run time, so that its rows are made as those of any
 * file: a segment of code at the addresses of the process, and an .eh_frame. The code itself is a hole.
 */

#include "host/sampling/unwind/made/frame-registry.h"

/* *fdp: a memfd, the caller's. Return: 0, -errno. */
int made_image_write(const FrameView *view, int *fdp);
