/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hanging Resolver
 *
 * Preloaded into a program, it makes every look-up of a name wait for ever: a name server that never answers.
 */

#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **result) {
        for (;;)
                pause();
}
