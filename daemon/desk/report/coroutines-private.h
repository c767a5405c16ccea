/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a CoroutineReport, shared by coroutines.c, which fills it, and those that print it. */

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "desk/report/coroutines.h"

/* Sums of all suspensions at an address. */
typedef struct AddressSums {
        uint64_t address, suspended_ns, n;
} AddressSums;

typedef struct Stretches {
        Stretch rows[COROUTINES_TOP];   /* a heap, the shortest on top, until it is sorted */
        uint32_t n;
} Stretches;

struct CoroutineReport {
        char *const *wanted;
        size_t n_wanted;
        Hashmap by_key, by_address;     /* → index + 1 */
        Coroutine *coroutines;
        AddressSums *addresses;
        uint32_t n_coroutines, coroutines_room, n_addresses, addresses_room, n_timelines;
        Hashmap threads;
        CoroutineSums sums;             /* sums of all coroutines */
        uint64_t n_filtered, n_left_out;
        uint64_t n_placeless;           /* suspensions at more addresses than are summed */
        uint32_t trace, n_shared;   /* number of the current trace; coroutines that an earlier one had, too */
        uint64_t first_ns, last_ns, origin_ns, bin_ns;  /* origin: where the timelines begin */
        bool stations_known;            /* whether the trace says who is dead */
        Stretches runs, suspensions;
};

typedef enum CoroutineEnd {
        COROUTINE_RUNNING,
        COROUTINE_SUSPENDED,            /* alive, or not known to be dead */
        COROUTINE_SUSPECT,              /* … for so long that its wake-up may be lost */
        COROUTINE_DEAD,
        COROUTINE_NEVER_RAN,
} CoroutineEnd;

CoroutineEnd coroutine_end(const CoroutineReport *report, const Coroutine *coroutine);
const char *coroutine_end_text(CoroutineEnd end);

/* How long it has been in its last state when the trace ends. */
uint64_t coroutine_since_ns(const CoroutineReport *report, const Coroutine *coroutine);

double coroutine_resumes_per_second(const Coroutine *coroutine);

/* `station 3 0x7f12…`. @to: 64 bytes. */
const char *coroutine_name(const Coroutine *coroutine, char *to);

/*
 * Numbers of all coroutines; the suspects that wait longest first. Return: NULL = -ENOMEM, else owned by the
 * caller.
 */
uint32_t *coroutine_order(const CoroutineReport *report,
                          int (*compare)(const Coroutine *a, const Coroutine *b));
int coroutine_by_wait(const Coroutine *a, const Coroutine *b);  /* suspended earliest first */
int coroutine_by_run(const Coroutine *a, const Coroutine *b);

/* Sorts the longest stretches and addresses, for printing. */
void coroutine_report_sort(CoroutineReport *report);
