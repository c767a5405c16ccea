/* SPDX-License-Identifier: Apache-2.0 */
/* Interim: user frames only, until the frames stage lands. */
#include "frames/frames.h"
#include <string.h>
struct Frames { int x; };
int frames_new(Frames **framesp) { *framesp = calloc(1, sizeof(Frames)); return 0; }
Frames *frames_free(Frames *f) { free(f); return NULL; }
int frames_stack(Frames *frames, Window *window, Process *process, const uint64_t *kernel, size_t n_kernel, const uint64_t *user, size_t n_user, enum abi_stack_end *endp, uint32_t *stackp) {
        FrameWord words[2048]; size_t n = 0; int r;
        for (size_t i = 0; i < n_user; i++) {
                uint64_t pc = user[i] - (i > 0), address; uint32_t segment, module = 0;
                const Mapping *m = process_find_mapping(process, pc);
                if (m && m->object && !object_address(m->object, pc - m->start + m->offset, &address, &segment)) {
                        WindowModule mod = { .start = m->object->segments[segment].address, .limit = m->object->segments[segment].address + m->object->segments[segment].memory_size, .offset = m->object->segments[segment].offset };
                        if ((r = window_string(window, m->path, strlen(m->path), &mod.path))) return r;
                        if ((r = window_string(window, m->object->build_id_gnu, strlen(m->object->build_id_gnu), &mod.build_id_gnu))) return r;
                        if ((r = window_string(window, m->object->htlhash, strlen(m->object->htlhash), &mod.build_id_htlhash))) return r;
                        if ((r = window_module(window, &mod, &module))) return r;
                        if ((r = window_native_frame(window, FRAME_MARK_NATIVE, module, address, &words[n++]))) return r;
                } else if ((r = window_native_frame(window, FRAME_MARK_UNKNOWN, 0, pc, &words[n++]))) return r;
        }
        return window_stack(window, words, n, stackp);
}
