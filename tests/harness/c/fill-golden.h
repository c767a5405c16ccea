/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The window whose request is tests/unit/golden-request.h, by the facts of tests/interop/make-golden.py. */

#include "fill-window.h"

static inline Window *fill_golden(void) {
        uint8_t id[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
        WindowLink link = { .trace_id = { 1, [15] = 2 }, .span_id = { 3, [7] = 4 } };
        uint32_t resource, profile, function, stacks[2], set, links[1], attributes[2];
        WindowFrame kernel = { .address = 0xffffffff81000040 };
        FrameWord words[2];
        Window *window;
        uint32_t exe;

        FILL(window_new(&window, FILL_START_NS, INT64_C(1700000000000000000) - (int64_t)FILL_START_NS, NULL));
        exe = fill_module(window, "/usr/bin/shop", "aa11bb22", 0x1000, 0x9000);
        fill_string(window, "not used by any sample");
        attributes[0] = fill_attribute(window, "service.name", "shop");
        attributes[1] = fill_int(window, "process.pid", 7);
        FILL(window_resource(window, 99, &resource));
        FILL(window_resource_attributes(window, resource, attributes, 2));
        FILL(window_profile(window, resource, PROFILE_CPU, &profile));
        window_set_profile_id(window, profile, id);
        window_set_period(window, PROFILE_CPU, 10101010);

        FILL(window_function(window, &(WindowFunction){ .name = fill_string(window, "do_syscall_64") },
                             &function));
        kernel.function = function;
        kernel.type = fill_string(window, "kernel");
        FILL(window_frame(window, &kernel, &words[1]));
        words[0] = fill_native(window, FRAME_MARK_NATIVE, exe, 0x1010);
        FILL(window_stack(window, words, 2, &stacks[0]));
        words[0] = fill_native(window, FRAME_MARK_NATIVE, exe, 0x2020);
        FILL(window_stack(window, words, 2, &stacks[1]));
        FILL(window_link(window, &link, &links[0]));
        attributes[0] = fill_int(window, "thread.id", 8);
        attributes[1] = fill_attribute(window, "thread.name", "worker");
        FILL(window_attribute_set(window, attributes, 2, &set));

        FILL(window_sample(window, profile, stacks[0], set, links[0], 1, FILL_START_NS + 100));
        FILL(window_sample(window, profile, stacks[1], 0, 0, 1, FILL_START_NS + 200));
        FILL(window_sample(window, profile, stacks[0], set, links[0], 1, FILL_START_NS + 300));
        FILL(window_close(window, FILL_START_NS + 500000000));
        return window;
}
