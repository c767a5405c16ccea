/* SPDX-License-Identifier: Apache-2.0 */
#include "target/selector.h"

#include <fnmatch.h>

bool selector_is_default(const Selector *selector) {
        return !selector->n_pids && !selector->n_comms && !selector->all;
}

bool selector_is_by_name(const Selector *selector) {
        return selector->n_comms || selector->all;
}

static bool contains(const uint32_t *pids, size_t n, uint32_t pid) {
        for (size_t i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

static bool matches(const Selector *selector, const char *comm) {
        for (size_t i = 0; i < selector->n_comms; i++)
                if (fnmatch(selector->comms[i], comm, 0) == 0)
                        return true;
        return false;
}

SelectorReason selector_decide(const Selector *selector, uint32_t pid, const char *comm, bool publishes) {
        if (contains(selector->excluded, selector->n_excluded, pid))
                return SELECTOR_EXCLUDED;
        if (contains(selector->pids, selector->n_pids, pid))
                return SELECTOR_PID;
        if (matches(selector, comm))
                return SELECTOR_COMM;
        if (selector->all)
                return SELECTOR_ALL;
        if (!selector_is_default(selector))
                return SELECTOR_UNCHOSEN;
        return publishes ? SELECTOR_PUBLISHER : SELECTOR_SILENT;
}

const char *selector_reason_text(SelectorReason reason) {
        static const char *const texts[] = {
                [SELECTOR_UNCHOSEN] = "not chosen",
                [SELECTOR_SILENT] = "publishes no context",
                [SELECTOR_EXCLUDED] = "excluded",
                [SELECTOR_PID] = "chosen by --pid",
                [SELECTOR_COMM] = "chosen by --comm",
                [SELECTOR_ALL] = "chosen by --all",
                [SELECTOR_PUBLISHER] = "publishes context",
        };

        return texts[reason];
}
