/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The numbers are those of the order in which runtime2.go lists the reasons. Releases add reasons in between,
 * and Go 1.26 has put them into another order. A test compares both lists with the source of each release
 * (tests/integration/host/runtime/test-long-run-go-labels.py). For example, in Go 1.19:
 *
 *     0 ""  1 "GC assist marking"  2 "IO wait"  …  20 "sync.Cond.Wait"  21 "timer goroutine (idle)"
 */
#include "host/runtime/go/go-wait-reason.h"

#include <stdbool.h>
#include <stddef.h>

#include "core/base/util/macro.h"

enum { REORDERED_MINOR = 26, NO_END = 255 };

typedef struct Reason {
        const char *words;
        uint8_t first, last;            /* minor versions that have it; 0, 0 = all */
} Reason;

static const Reason until_25[] = {
        { "", 0, 0 },
        { "GC assist marking", 0, 0 },
        { "IO wait", 0, 0 },
        { "chan receive (nil chan)", 0, 0 },
        { "chan send (nil chan)", 0, 0 },
        { "dumping heap", 0, 0 },
        { "garbage collection", 0, 0 },
        { "garbage collection scan", 0, 0 },
        { "panicwait", 0, 0 },
        { "select", 0, 0 },
        { "select (no cases)", 0, 0 },
        { "GC assist wait", 0, 0 },
        { "GC sweep wait", 0, 0 },
        { "GC scavenge wait", 0, 0 },
        { "chan receive", 0, 0 },
        { "chan send", 0, 0 },
        { "finalizer wait", 0, 0 },
        { "force gc (idle)", 0, 0 },
        { "GOMAXPROCS updater (idle)", 25, NO_END },
        { "semacquire", 0, 0 },
        { "sleep", 0, 0 },
        { "sync.Cond.Wait", 0, 0 },
        { "timer goroutine (idle)", 0, 19 },
        { "sync.Mutex.Lock", 20, NO_END },
        { "sync.RWMutex.RLock", 20, NO_END },
        { "sync.RWMutex.Lock", 20, NO_END },
        { "sync.WaitGroup.Wait", 24, NO_END },
        { "trace reader (blocked)", 0, 0 },
        { "wait for GC cycle", 0, 0 },
        { "GC worker (idle)", 0, 0 },
        { "GC worker (active)", 20, NO_END },
        { "preempted", 0, 0 },
        { "debug call", 0, 0 },
        { "GC mark termination", 20, NO_END },
        { "stopping the world", 20, NO_END },
        { "flushing proc caches", 22, NO_END },
        { "trace goroutine status", 22, NO_END },
        { "trace proc status", 22, NO_END },
        { "page trace flush", 22, NO_END },
        { "coroutine", 22, NO_END },
        { "GC weak to strong wait", 23, NO_END },
        { "synctest.Run", 24, NO_END },
        { "synctest.Wait", 24, NO_END },
        { "chan receive (synctest)", 24, 24 },
        { "chan send (synctest)", 24, 24 },
        { "select (synctest)", 24, 24 },
        { "chan receive (durable)", 25, NO_END },
        { "chan send (durable)", 25, NO_END },
        { "select (durable)", 25, NO_END },
        { "sync.WaitGroup.Wait (durable)", 25, NO_END },
        { "cleanup wait", 25, NO_END },
};

static const Reason from_26[] = {
        { "", 0, 0 },
        { "GC assist marking", 0, 0 },
        { "IO wait", 0, 0 },
        { "dumping heap", 0, 0 },
        { "garbage collection", 0, 0 },
        { "garbage collection scan", 0, 0 },
        { "panicwait", 0, 0 },
        { "GC assist wait", 0, 0 },
        { "GC sweep wait", 0, 0 },
        { "GC scavenge wait", 0, 0 },
        { "finalizer wait", 0, 0 },
        { "force gc (idle)", 0, 0 },
        { "GOMAXPROCS updater (idle)", 0, 0 },
        { "semacquire", 0, 0 },
        { "sleep", 0, 0 },
        { "chan receive (nil chan)", 0, 0 },
        { "chan send (nil chan)", 0, 0 },
        { "select (no cases)", 0, 0 },
        { "select", 0, 0 },
        { "chan receive", 0, 0 },
        { "chan send", 0, 0 },
        { "sync.Cond.Wait", 0, 0 },
        { "sync.Mutex.Lock", 0, 0 },
        { "sync.RWMutex.RLock", 0, 0 },
        { "sync.RWMutex.Lock", 0, 0 },
        { "sync.WaitGroup.Wait", 0, 0 },
        { "trace reader (blocked)", 0, 0 },
        { "wait for GC cycle", 0, 0 },
        { "GC worker (idle)", 0, 0 },
        { "GC worker (active)", 0, 0 },
        { "preempted", 0, 0 },
        { "debug call", 0, 0 },
        { "GC mark termination", 0, 0 },
        { "stopping the world", 0, 0 },
        { "flushing proc caches", 0, 0 },
        { "trace goroutine status", 0, 0 },
        { "trace proc status", 0, 0 },
        { "page trace flush", 0, 0 },
        { "coroutine", 0, 0 },
        { "GC weak to strong wait", 0, 0 },
        { "synctest.Run", 0, 0 },
        { "synctest.Wait", 0, 0 },
        { "chan receive (durable)", 0, 0 },
        { "chan send (durable)", 0, 0 },
        { "select (durable)", 0, 0 },
        { "sync.WaitGroup.Wait (durable)", 0, 0 },
        { "cleanup wait", 0, 0 },
};

static bool has(const Reason *reason, uint32_t minor) {
        return !reason->last || (minor >= reason->first && minor <= reason->last);
}

static const char *find(const Reason *reasons, size_t n, uint32_t minor, uint8_t number) {
        unsigned at = 0;

        for (size_t i = 0; i < n; i++)
                if (has(&reasons[i], minor) && at++ == number)
                        return reasons[i].words;
        return "";
}

const char *go_wait_reason(uint32_t minor, uint8_t number) {
        if (minor >= REORDERED_MINOR)
                return find(from_26, ARRAY_SIZE(from_26), minor, number);
        return find(until_25, ARRAY_SIZE(until_25), minor, number);
}
