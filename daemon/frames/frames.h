/* SPDX-License-Identifier: Apache-2.0 */
/* Interim: user frames only, until the frames stage lands. */
#pragma once
#include "abi.h"
#include "profile/window.h"
#include "target/process.h"
typedef struct Frames Frames;
int frames_new(Frames **framesp);
Frames *frames_free(Frames *frames);
int frames_stack(Frames *frames, Window *window, Process *process, const uint64_t *kernel, size_t n_kernel, const uint64_t *user, size_t n_user, enum abi_stack_end *endp, uint32_t *stackp);
