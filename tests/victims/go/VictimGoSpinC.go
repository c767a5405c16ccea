// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdint.h>

// Thread-local variables of C move the goroutine's.
static __thread uint64_t local_sum;
static __thread char local_text[200];

extern uint64_t backToGo(uint64_t n);

static uint64_t spin_c(uint64_t n) {
        for (uint64_t i = 0; i < 100000; i++)
                n ^= n * 7 + i;
        local_sum += n;
        local_text[n % 200]++;
        return backToGo(n);
}
*/
import "C"

//export backToGo
func backToGo(n C.uint64_t) C.uint64_t {
	return C.uint64_t(inner(uint64(n)))
}

func spin(n uint64) uint64 { return uint64(C.spin_c(C.uint64_t(n))) }
