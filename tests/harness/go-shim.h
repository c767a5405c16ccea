/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go Shim
 *
 * Lets go.bpf.h compile for the host. Include behind bpf-shim.h.
 */

#include "go.bpf.h"

int go_put_slice(struct go_state *state, uint32_t index) {
        return go_do_put_slice(state, index);
}

int go_put_bucket(struct go_state *state, uint32_t index) {
        go_do_put_bucket(state, index);
        return 0;
}

int go_chunk(struct go_state *state) {
        return go_do_chunk(state);
}

int go_step(struct go_state *state) {
        return go_do_step(state);
}
