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

#include "core/base/util/clock.h"
#include "core/http/connections.h"

typedef struct Sender {
        char name[CONNECTIONS_ADDRESS_ROOM];
        uint64_t place_ns;
        uint64_t window;                /* the number of it, since the machine's start */
        unsigned n_requests;            /* in that window */
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

static Sender *find_or_add(Turns *turns, const char *name) {
        Sender *sender = find(turns, name);

        if (sender)
                return sender;
        sender = turns->n < TURNS_MAX ? &turns->senders[turns->n++] : least(turns);
        *sender = (Sender){ .place_ns = turns->now_ns };
        strncpy(sender->name, name, sizeof(sender->name) - 1);
        return sender;
}

void turns_served(Turns *turns, const char *sender, uint64_t took_ns) {
        turns->now_ns = turns_of(turns, sender);
        find_or_add(turns, sender)->place_ns = turns->now_ns + took_ns;
}

bool turns_begin(Turns *turns, const char *name, uint64_t now_ns) {
        uint64_t window = now_ns / (TURNS_WINDOW_S * NS_PER_SEC);
        Sender *sender = find_or_add(turns, name);

        if (sender->window != window) {
                sender->window = window;
                sender->n_requests = 0;
        }
        if (sender->n_requests == TURNS_REQUESTS)
                return false;
        sender->n_requests++;
        return true;
}
