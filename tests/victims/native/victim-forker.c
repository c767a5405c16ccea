/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-forker [SECONDS]: a bystander with a busy address space
 *
 * No target: it forks children that end at once, and maps, touches, protects
 * (also as executable) and unmaps memory, so a profiler that hooks any of that
 * makes it slower. Prints first, then once a second and at the end for all of it:
 *     pid 4711
 *     second 1 forks 2310 maps 147840
 *     total seconds 10.001 forks 23102 maps 1478528 ns_per_fork 312441 ns_per_map 1877
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "victim.h"

enum {
        MAPS_PER_FORK = 64,
        MAP_BYTES = 65536,
};

typedef struct Tally {
        uint64_t n_forks, n_maps, fork_ns, map_ns;
} Tally;

STEP void fork_once(void);
STEP void map_once(void);

STEP void fork_once(void) {
        pid_t pid = fork();

        if (pid == 0)
                _exit(0);
        if (pid < 0 || waitpid(pid, NULL, 0) != pid) {
                perror("victim-forker: fork");
                exit(1);
        }
}

STEP void map_once(void) {
        char *memory = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED) {
                perror("victim-forker: mmap");
                exit(1);
        }
        memory[0] = 1;
        memory[MAP_BYTES - 1] = 1;
        if (mprotect(memory, MAP_BYTES, PROT_READ | PROT_EXEC) || munmap(memory, MAP_BYTES))
                abort();
}

static void turn(Tally *tally) {
        uint64_t start_ns = victim_clock_ns(CLOCK_MONOTONIC), middle_ns;

        fork_once();
        middle_ns = victim_clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < MAPS_PER_FORK; i++)
                map_once();
        tally->fork_ns += middle_ns - start_ns;
        tally->map_ns += victim_clock_ns(CLOCK_MONOTONIC) - middle_ns;
        tally->n_forks++;
        tally->n_maps += MAPS_PER_FORK;
}

int main(int argc, char **argv) {
        uint64_t start_ns = victim_clock_ns(CLOCK_MONOTONIC), second_ns = start_ns;
        Tally total = { 0 }, before = { 0 };
        unsigned int n_seconds = 0;

        victim_stop_after(victim_argument(argc, argv, 1, 0, 0, 1e6, "victim-forker [SECONDS]"));
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (!victim_stopped) {
                turn(&total);
                if (victim_clock_ns(CLOCK_MONOTONIC) - second_ns < 1000000000)
                        continue;
                printf("second %u forks %lu maps %lu\n", ++n_seconds, total.n_forks - before.n_forks,
                       total.n_maps - before.n_maps);
                fflush(stdout);
                before = total;
                second_ns = victim_clock_ns(CLOCK_MONOTONIC);
        }
        printf("total seconds %.3f forks %lu maps %lu ns_per_fork %lu ns_per_map %lu\n",
               (double)(victim_clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e9, total.n_forks, total.n_maps,
               total.n_forks ? total.fork_ns / total.n_forks : 0,
               total.n_maps ? total.map_ns / total.n_maps : 0);
        return 0;
}
