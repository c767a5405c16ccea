/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-exec N [MS]: replaces itself N times
 *
 * Burns MS (default 50) milliseconds of CPU in exec_burn(), executes itself in
 * place, and so on; the pid stays. Then ends with 0. Prints once a program:
 *     pid 4711 exec 0
 *     pid 4711 exec 1
 */
#include "victim.h"

STEP void exec_burn(uint64_t cpu_ns);

STEP void exec_burn(uint64_t cpu_ns) {
        while (victim_cpu_ns() < cpu_ns)        /* the thread's clock goes on over an exec */
                victim_sink = victim_spin(victim_sink, 10000);
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-exec N [MS]";
        unsigned int n = (unsigned int)victim_argument(argc, argv, 1, 1, 0, 1e6, usage);
        uint64_t burn_ms = (uint64_t)victim_argument(argc, argv, 2, 50, 0, 1e6, usage);
        unsigned int nth = (unsigned int)victim_argument(argc, argv, 3, 0, 0, 1e6, usage);
        char n_text[24], ms_text[24], nth_text[24];

        printf("pid %d exec %u\n", getpid(), nth);
        fflush(stdout);
        exec_burn(victim_cpu_ns() + burn_ms * 1000000);
        if (nth == n)
                return 0;
        snprintf(n_text, sizeof(n_text), "%u", n);
        snprintf(ms_text, sizeof(ms_text), "%lu", burn_ms);
        snprintf(nth_text, sizeof(nth_text), "%u", nth + 1);
        execl("/proc/self/exe", argv[0], n_text, ms_text, nth_text, (char *)NULL);
        perror("victim-exec");
        return 1;
}
