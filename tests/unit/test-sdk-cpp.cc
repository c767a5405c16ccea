/* SPDX-License-Identifier: Apache-2.0 */
/* The SDK's headers in a C++ program that links the shared library: names, layout asserts and calls hold there too. */
#include <spanprof/context.h>
#include <spanprof/ring.h>

#include <cstdio>

int main() {
        spanprof_context_options options = {};

        options.size = sizeof(options);
        options.capacity = 16;
        bool started = spanprof_context_start(&options) == 0;
        spanprof_context_set(1, 2, 3);
        spanprof_context_clear();
        bool again_refused = spanprof_context_start(nullptr) != 0;
        spanprof_context_stop();
        std::printf("1..2\n%s 1 - starts from C++\n%s 2 - refuses a second start\n", started ? "ok" : "not ok",
                    again_refused ? "ok" : "not ok");
        return 0;
}
