/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each sender has a place on a line of time that was spent for senders (start-time fair queueing):
 *
 *      now ─────┬──────────────┬──────────────────────────────▶
 *               new senders    10.0.0.7, which 300 ms were spent for since `now`
 *
 * Who waits with the least place is served, and its place moves on by the time that it took; `now` is the
 * place of whom was served last. So a sender of requests that take long waits for others, one request of
 * each, and others wait for one of its. A sender at or before `now` owes nothing and need not be remembered.
 */

#include "core/http/turns.h"

#include <stdlib.h>
#include <string.h>

#include "core/http/connections.h"

typedef struct Sender {
        char name[CONNECTIONS_ADDRESS_ROOM];
        uint64_t place_ns;
} Sender;

struct Turns {
        uint64_t now_ns;
        unsigned n;
        Sender senders[TURNS_MAX];
};

Turns *turns_new(void) {
        return calloc(1, sizeof(Turns));
}

Turns *turns_free(Turns *turns) {
        free(turns);
        return NULL;
}

static Sender *find(const Turns *turns, const char *name) {
        for (unsigned i = 0; i < turns->n; i++)
                if (!strncmp(turns->senders[i].name, name, sizeof(turns->senders[i].name) - 1))
                        return (Sender *)&turns->senders[i];
        return NULL;
}

uint64_t turns_of(const Turns *turns, const char *sender) {
        const Sender *known = find(turns, sender);

        return known ? MAX(known->place_ns, turns->now_ns) : turns->now_ns;
}

/* The place in the table of who owes least. */
static Sender *least(Turns *turns) {
        Sender *found = &turns->senders[0];

        for (unsigned i = 1; i < turns->n; i++)
                if (turns->senders[i].place_ns < found->place_ns)
                        found = &turns->senders[i];
        return found;
}

void turns_served(Turns *turns, const char *sender, uint64_t took_ns) {
        uint64_t place_ns = turns_of(turns, sender);
        Sender *known = find(turns, sender);

        turns->now_ns = place_ns;
        if (!known) {
                known = turns->n < TURNS_MAX ? &turns->senders[turns->n++] : least(turns);
                *known = (Sender){ 0 };
                strncpy(known->name, sender, sizeof(known->name) - 1);
        }
        known->place_ns = place_ns + took_ns;
}
