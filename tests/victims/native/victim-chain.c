/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-chain DEPTH [SECONDS]: a stack of known depth
 *
 * Burns one CPU in chain_leaf(), under DEPTH - 1 frames of chain_frame(), under
 * main(): with frame pointers, DEPTH frames of the chain. Without SECONDS until
 * SIGTERM. With VICTIM_RESTS in the environment it sleeps for most of the time,
 * below chain_leaf(). Built twice: victim-chain (PIE) and victim-chain-static
 * (ET_EXEC).
 *
 * Prints, addresses as they are in the process:
 *     pid 4711 depth 30 leaf 0x55d0c0de1180 frame 0x55d0c0de11c0
 */
#include <stdbool.h>

#include "victim.h"

STEP void chain_leaf(void);
STEP void chain_frame(unsigned int below);

static bool chain_rests;

STEP void chain_leaf(void) {
        KEEP_FRAME();
        for (unsigned int n = 1; !victim_stopped; n++) {
                victim_sink = victim_spin(victim_sink, 10000);
                if (chain_rests && n % 10 == 0)
                        usleep(1000);
        }
}

STEP void chain_frame(unsigned int below) {
        if (below == 1)
                chain_leaf();
        else
                chain_frame(below - 1);
        victim_sink++;          /* something to do after the call, so that it is no jump */
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-chain DEPTH [SECONDS]";
        unsigned int depth = (unsigned int)victim_argument(argc, argv, 1, 0, 1, 10000, usage);

        if (depth == 0) {
                fprintf(stderr, "usage: %s\n", usage);
                return 2;
        }
        victim_stop_after(victim_argument(argc, argv, 2, 0, 0, 1e6, usage));
        chain_rests = getenv("VICTIM_RESTS");
        printf("pid %d depth %u leaf %p frame %p\n", getpid(), depth, (void *)(uintptr_t)chain_leaf,
               (void *)(uintptr_t)chain_frame);
        fflush(stdout);
        if (depth == 1)
                chain_leaf();
        else
                chain_frame(depth - 1);
        return 0;
}
