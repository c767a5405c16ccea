/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CPU time of a look is known when it has been made, and taken then. So a group may have one long look more
 * than its shares are worth, and no second one. One look is under way at a time.
 */

#include "host/heap/haste.h"

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#define PERIOD_NS (60 * NS_PER_SEC)
#define SHARE_NS (50 * NS_PER_MS)

bool haste_wish(HasteWish *wish, const char *reason, unsigned weight, uint64_t now_ns) {
        if (wish->reason ? weight < wish->weight : !minute_limit(&wish->made, HASTE_WISHES, now_ns))
                return wish->reason;
        wish->reason = reason;
        wish->weight = weight;
        return true;
}

void haste_deinit(Haste *haste) {
        shares_deinit(&haste->shares);
}

void haste_begin(Haste *haste, uint64_t now_ns) {
        if (now_ns - haste->begin_ns < PERIOD_NS)
                return;
        shares_deinit(&haste->shares);
        haste->begin_ns = now_ns;
}

bool haste_may(const Haste *haste, const ShareOwner *owner) {
        return shares_leave_room(&haste->shares, owner, 1, HASTE_SHARES);
}

int haste_look(Haste *haste, const ShareOwner *owner) {
        Share *share;

        return error_fold(shares_hold(&haste->shares, owner, 1, &share));
}

int haste_took(Haste *haste, const ShareOwner *owner, uint64_t cpu_ns) {
        size_t n = (size_t)MIN(cpu_ns / SHARE_NS, UINT64_C(HASTE_SHARES / 2 - 1));
        Share *share;

        return n ? error_fold(shares_hold(&haste->shares, owner, n, &share)) : 0;
}
