/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A window with at least one of everything that a request can hold: several processes, profile types and
 * shapes, native, kernel, vdso and named frames, modules that share a build id, links, merged samples, a
 * sample older than the window, a thread name that is no UTF-8. Always the same, profile ids included.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile/window.h"

#define FILL_START_NS UINT64_C(1000000000000)
#define FILL_OFFSET_NS INT64_C(1700000000000000000)

/* A full table is a mistake of the test that filled it. */
#define FILL(_call) \
        do { \
                if (_call) { \
                        fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #_call); \
                        abort(); \
                } \
        } while (0)

static inline uint32_t fill_string(Window *window, const char *text) {
        uint32_t index;

        FILL(window_string(window, text, strlen(text), &index));
        return index;
}

static inline uint32_t fill_attribute(Window *window, const char *key, const char *value) {
        uint32_t index;

        FILL(window_attribute_string(window, key, value, strlen(value), &index));
        return index;
}

static inline uint32_t fill_int(Window *window, const char *key, int64_t value) {
        uint32_t index;

        FILL(window_attribute_int(window, key, value, &index));
        return index;
}

static inline uint32_t fill_module(Window *window, const char *path, const char *build_id, uint64_t start,
                                   uint64_t limit) {
        WindowModule module = { .path = fill_string(window, path),
                                .build_id_gnu = fill_string(window, build_id),
                                .start = start,
                                .limit = limit,
                                .offset = start };
        uint32_t index;

        FILL(window_module(window, &module, &index));
        return index;
}

static inline FrameWord fill_native(Window *window, FrameMark mark, uint32_t module, uint64_t address) {
        FrameWord word;

        FILL(window_native_frame(window, mark, module, address, &word));
        return word;
}

static inline FrameWord fill_named(Window *window, uint32_t module, uint64_t address, const char *function,
                                   int64_t line, const char *type) {
        WindowFunction row = { .name = fill_string(window, function),
                               .filename = fill_string(window, "/src/a.c"),
                               .system_name = fill_string(window, function),
                               .start_line = line ? line - 1 : 0 };
        WindowFrame frame = { .module = module, .address = address, .line = line,
                              .type = fill_string(window, type) };
        FrameWord word;

        FILL(window_function(window, &row, &frame.function));
        FILL(window_frame(window, &frame, &word));
        return word;
}

static inline uint32_t fill_resource(Window *window, uint64_t key, int64_t pid, const char *name) {
        uint32_t attributes[] = { fill_attribute(window, "service.name", name),
                                  fill_int(window, "process.pid", pid),
                                  fill_attribute(window, "process.executable.name", name),
                                  fill_attribute(window, "host.name", "test-host") };
        uint32_t index;

        FILL(window_resource(window, key, &index));
        FILL(window_resource_attributes(window, index, attributes, ARRAY_SIZE(attributes)));
        return index;
}

static inline uint32_t fill_profile(Window *window, uint32_t resource, ProfileType type) {
        uint8_t id[16];
        uint32_t index;

        FILL(window_profile(window, resource, type, &index));
        for (uint32_t i = 0; i < sizeof(id); i++)
                id[i] = (uint8_t)(0x11 * (index + 1) + i);
        window_set_profile_id(window, index, id);
        return index;
}

static inline void fill_process(Window *window, uint64_t key, uint32_t n_stacks) {
        uint32_t resource = fill_resource(window, key, (int64_t)key * 100, key % 2 ? "shop" : "db");
        uint32_t cpu = fill_profile(window, resource, PROFILE_CPU);
        uint32_t off_cpu = fill_profile(window, resource, PROFILE_OFF_CPU);
        uint32_t lock = fill_profile(window, resource, PROFILE_LOCK);
        uint32_t exe = fill_module(window, "/usr/bin/shop", "aa11bb22cc33", 0x1000, 0x9000);
        uint32_t copy = fill_module(window, "/opt/copy/shop", "aa11bb22cc33", 0x1000, 0x9000);
        uint32_t vdso = fill_module(window, "[vdso]", "0f0f0f", 0, 0x2000);
        uint32_t kernel = fill_module(window, "vmlinux", "feed", 0xffffffff81000000, 0xffffffff82000000);
        uint32_t thread[] = { fill_int(window, "thread.id", (int64_t)key * 100 + 1), 0 }, set;
        uint32_t truncated[] = { thread[0], fill_attribute(window, "profile.stack.truncated", "depth") },
                 set2;
        FrameWord ksys = fill_named(window, kernel, 0xffffffff81000040, "do_syscall_64", 0, "kernel");
        FrameWord java = fill_named(window, 0, 0, "Main.run", 42, "jvm");

        FILL(window_attribute_string(window, "thread.name", "wor\xFFker", 7, &thread[1]));
        FILL(window_attribute_set(window, thread, 2, &set));
        FILL(window_attribute_set(window, truncated, 2, &set2));
        for (uint32_t i = 0; i < n_stacks; i++) {
                WindowLink row = { .trace_id = { 1, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i },
                                   .span_id = { 2, [6] = (uint8_t)(i >> 8), [7] = (uint8_t)i } };
                FrameWord frames[] = { fill_native(window, FRAME_MARK_NATIVE, exe, 0x1000 + i % 0x8000),
                                       fill_native(window, FRAME_MARK_NATIVE, copy, 0x1100),
                                       fill_native(window, FRAME_MARK_NATIVE, vdso, 0x10), ksys, java,
                                       fill_native(window, FRAME_MARK_UNKNOWN, 0, 0x7fffdeadbeef) };
                uint32_t stack, link;

                FILL(window_link(window, &row, &link));
                FILL(window_stack(window, frames, ARRAY_SIZE(frames) - i % 3, &stack));
                FILL(window_sample(window, cpu, stack, set, link, 1, FILL_START_NS + 1000 * i));
                FILL(window_sample(window, cpu, stack, set, link, 1, FILL_START_NS + 1000 * i + 500));
                FILL(window_sample(window, cpu, stack, set2, 0, 1, FILL_START_NS + 1000 * i + 600));
                FILL(window_sample(window, off_cpu, stack, set, i % 2 ? link : 0, 5000 + i,
                                   FILL_START_NS + 1000 * i + 700));
                FILL(window_sample(window, lock, stack, 0, link, 70, FILL_START_NS + 1000 * i + 800));
                FILL(window_sample(window, lock, stack, 0, link, 80, FILL_START_NS + 1000 * i + 900));
        }
        FILL(window_sample(window, cpu, 0, 0, 0, 1, FILL_START_NS - 5));        /* late, without a stack */
}

/* A closed window; free it. */
static inline Window *fill_window(uint32_t n_processes, uint32_t n_stacks) {
        Window *window;

        FILL(window_new(&window, FILL_START_NS, FILL_OFFSET_NS, NULL));
        for (uint32_t i = 1; i <= n_processes; i++)
                fill_process(window, i, n_stacks);
        window_set_period(window, PROFILE_CPU, 10101010);
        FILL(window_close(window, FILL_START_NS + 500000000));
        return window;
}
