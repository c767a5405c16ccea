/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is a stranger's, and may be made to take long. In its first try it gets FIRST_NS, of which the largest libraries known
 * need a thirtieth; then it may take LONG_NS more, but in the first place alone. So whoever has many such files holds up others
 * for FIRST_NS each at most, and for all the rest of it nobody but files like them.
 */
#include "unwind/makers.h"

#include <errno.h>
#include <stdlib.h>

#include "util/clock.h"
#include "util/error.h"

#define FIRST_NS (10 * NS_PER_SEC)       /* on a machine with forty that want a processor, too */
#define LONG_NS (10 * NS_PER_SEC)

enum { SLOW_PLACE = 0 };

typedef struct Place {
        Maker *maker;
        void *what;                     /* NULL = it is free */
} Place;

struct Makers {
        Place places[MAKERS_N];
        int next;                       /* whose turn it is: nobody gets all of the loop's time */
};

Makers *makers_free(Makers *makers) {
        if (!makers)
                return NULL;
        for (int i = 0; i < MAKERS_N; i++)
                maker_free(makers->places[i].maker);
        free(makers);
        return NULL;
}

int makers_new(Makers **makersp, Nursery *nursery) {
        _cleanup_(makers_freep) Makers *makers = calloc(1, sizeof(*makers));
        int r = 0;

        if (!makers)
                return error_origin(-ENOMEM);
        for (int i = 0; i < MAKERS_N && !r; i++)
                r = maker_new(&makers->places[i].maker, nursery);
        if (r)
                return error_fold(r);
        *makersp = take(makers);
        return 0;
}

int makers_fd(const Makers *makers, int i) {
        return maker_fd(makers->places[i].maker);
}

/* The others first: the place of slow ones stays free for one as long as may be. */
static Place *find_place(Makers *makers, bool is_slow) {
        for (int i = is_slow ? SLOW_PLACE : MAKERS_N - 1; i >= 0; i--)
                if (!makers->places[i].what)
                        return &makers->places[i];
        return NULL;
}

bool makers_begin(Makers *makers, void *what, int fd, const TableLimits *limits, bool is_slow) {
        Place *place = find_place(makers, is_slow);

        if (!place)
                return false;
        place->what = what;
        maker_begin(place->maker, fd, limits, is_slow ? LONG_NS : FIRST_NS);
        return true;
}

int makers_step(Makers *makers, uint64_t budget, void **whatp, Table *tablep) {
        for (int i = 0; i < MAKERS_N; i++) {
                Place *place = &makers->places[(makers->next + i) % MAKERS_N];
                int r = maker_step(place->maker, budget, tablep);

                if (r == MAKER_E_WAIT)
                        continue;
                makers->next = (makers->next + i + 1) % MAKERS_N;
                if (r < 0)
                        return error_fold(r);
                if (r == TABLE_E_AGAIN)
                        return r;
                *whatp = place->what;
                place->what = NULL;
                return r;
        }
        return MAKER_E_WAIT;
}
