/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-short [MS]: a process that is gone before anybody looks
 *
 * Burns MS (default 20) milliseconds of CPU in short_burn() and ends. Prints at the end:
 *     pid 4711 cpu_ns 20013847
 */
#include "victim.h"

STEP void short_burn(uint64_t cpu_ns);

STEP void short_burn(uint64_t cpu_ns) {
        while (victim_cpu_ns() < cpu_ns)
                victim_sink = victim_spin(victim_sink, 10000);
}

int main(int argc, char **argv) {
        short_burn((uint64_t)(victim_argument(argc, argv, 1, 20, 0, 1e6, "victim-short [MS]") * 1e6));
        printf("pid %d cpu_ns %lu\n", getpid(), victim_cpu_ns());
        return 0;
}
