// SPDX-License-Identifier: Apache-2.0

// victim-throw: throws and catches through ten frames without frame pointers, for ever. Prints `ready` first.

#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <csignal>

static volatile unsigned long sum;

__attribute__((noinline)) static void fall(unsigned left) {
        std::string owned(40, 'x'); // something to destroy on the way
        if (!left)
                throw std::runtime_error("down");
        fall(left - 1);
        sum += owned.size();
}

int main() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        puts("ready");
        fflush(stdout);
        for (;;) {
                try {
                        fall(10);
                } catch (const std::exception &e) {
                        sum++;
                }
        }
}
