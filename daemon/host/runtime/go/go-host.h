/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels on the Host
 *
 * Lets go.bpf.h compile for the host: what are functions of their own in the kernel half. Include it behind a
 * bpf_probe_read_user() and barrier_var(), in one file of a program.
 */

#include "runtimes/go.bpf.h"

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
