/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Code of V8: arm64
 *
 * The daemon attaches no V8 on arm64, where its frames were not tried: nothing here is ever asked. Includes
 * nothing, as unwind.bpf.h.
 */

enum {
        V8_CODE_LINE = 64,
        V8_CODE_BEFORE = 24,
        V8_REGISTER_RCX = 0,
        V8_REGISTER_FUNCTION = 1,
        V8_REGISTER_OFFSET = 2,
        V8_REGISTER_R10 = 3,
        V8_REGISTER_BYTECODE = 4,
};

enum v8_stage {
        V8_STAGE_WHOLE,
        V8_STAGE_NONE,
        V8_STAGE_PUSHED,
        V8_STAGE_POPPED,
        V8_STAGE_RCX,
        V8_STAGE_R10,
};

struct v8_code {
        uint8_t bytes[2 * V8_CODE_LINE];
};

static inline int v8_prologue(const struct v8_code *code, uint32_t offset) {
        return V8_STAGE_WHOLE;
}

static inline int v8_epilogue(const struct v8_code *code) {
        return V8_STAGE_WHOLE;
}
