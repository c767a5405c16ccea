/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <malloc.h>

/* What malloc() has given out in this process; AddressSanitizer's says 0. */
static inline long allocated_bytes(void) {
        struct mallinfo2 all = mallinfo2();

        return (long)(all.uordblks + all.hblkhd);
}
