/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/sample/refusal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util/error.h"
#include "base/util/log.h"
#include "sampling/sample/kernel-half.h"
#include "sampling/sample/machine.h"

int refusal_check(const char *btf_path) {
        uint32_t version = machine_version();

        if (version < MACHINE_VERSION(5, 15)) {
                log_error("Linux %u.%u is too old: sampling needs 5.15 or newer", version >> 16,
                          version & 0xffff);
                return REFUSAL_E_UNUSABLE;
        }
        if (access(btf_path, R_OK) < 0) {
                log_error(
                        "the kernel's type information is missing (%s: %m): it needs CONFIG_DEBUG_INFO_BTF=y",
                        btf_path);
                return REFUSAL_E_UNUSABLE;
        }
        return 0;
}

/* Every capability is there: something else stands in the way. */
static void explain_permission(const char *what, int r) {
        int64_t paranoid;

        if (machine_setting("perf_event_paranoid", &paranoid))
                paranoid = -1;
        log_error(
                "the kernel refused to %s (%s): seccomp filter, lockdown, or kernel.perf_event_paranoid = %lld?",
                what, strerror(-r), (long long)paranoid);
}

int refusal_explain(const char *what, int r) {
        char missing[64], text[128];

        if (r == -ENOMEM)
                return error_origin(r);
        machine_missing_capabilities(missing, sizeof(missing));
        if (r != -EPERM && r != -EACCES)
                log_error("this kernel cannot %s (%s); log-level = debug shows its reasons", what,
                          kernel_half_error_text(r, text, sizeof(text)));
        else if (*missing)
                log_error("not permitted to %s: missing %s (run as root or grant them)", what, missing);
        else
                explain_permission(what, r);
        return REFUSAL_E_UNUSABLE;
}
