/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Constants of V8
 *
 * Those that node 22.23.5 exports, as `nm -D` and its data say them. For tests alone.
 */

#include "host/runtime/v8/v8-layout.h"

static inline V8Layout v8_constants_of_12(void) {
        return (V8Layout){
                .version = { 12, 4, 254 },
                .values = {
                        [V8_TAGGED_SIZE] = 8,
                        [V8_SLOT_OF_CONTEXT] = -8,
                        [V8_SLOT_OF_FUNCTION] = -16,
                        [V8_SLOT_OF_BYTECODE] = -32,
                        [V8_SLOT_OF_OFFSET] = -40,
                        [V8_INSTANCE_TYPE] = 12,
                        [V8_SHARED] = 32,
                        [V8_INFO_NAME] = 16,
                        [V8_INFO_SCRIPT] = 32,
                        [V8_INFO_LENGTH] = 40,
                        [V8_INFO_TOKEN] = 44,
                        [V8_SCRIPT_SOURCE] = 8,
                        [V8_SCRIPT_NAME] = 16,
                        [V8_SCRIPT_LINE_ENDS] = 56,
                        [V8_BYTECODE_DATA] = 64,
                        [V8_ARRAY_LENGTH] = 8,
                        [V8_ARRAY_DATA] = 16,
                        [V8_STRING_LENGTH] = 12,
                        [V8_STRING_ONE_BYTE] = 16,
                        [V8_STRING_TWO_BYTE] = 16,
                        [V8_CONS_FIRST] = 16,
                        [V8_CONS_SECOND] = 24,
                        [V8_THIN_ACTUAL] = 16,
                        [V8_SLICED_PARENT] = 16,
                        [V8_SLICED_OFFSET] = 24,
                        [V8_EXTERNAL_RESOURCE] = 16,
                        [V8_FIRST_NO_STRING] = 128,
                        [V8_SCOPE_FIRST] = 3,
                        [V8_SCOPE_N_LOCALS] = 2,
                        [V8_TYPE_INFO] = 274,
                        [V8_TYPE_SCRIPT] = 167,
                        [V8_TYPE_SCOPE] = 272,
                        [V8_TYPE_BYTECODE] = 205,
                        [V8_TYPE_CODE] = 206,
                        [V8_TYPE_BYTES] = 186,
                        [V8_TYPE_ARRAY] = 174,
                        [V8_KIND_MASK] = 15,
                        [V8_KIND_INTERPRETED] = 9,
                        [V8_KIND_BASELINE] = 10,
                        [V8_TYPE_TRUSTED_BYTES] = 212,
                        [V8_TYPE_TRUSTED_ARRAY] = 213,
                        [V8_TYPE_PROTECTED_ARRAY] = 211,
                        [V8_TYPE_WEAK_ARRAY] = 247,
                        [V8_TYPE_STREAM] = 210,
                        [V8_CODE_STREAM] = 32,
                        [V8_CODE_START] = 40,
                        [V8_CODE_N_BYTES] = 52,
                        [V8_CODE_FLAGS] = 48,
                        [V8_DEOPT_LITERALS] = 2,
                        [V8_DEOPT_POSITIONS] = 7,
                        [V8_DEOPT_INFO] = 6,
                        [V8_DEOPT_ID] = 5,
                        [V8_FRAME_REGEXP] = 29,
                        [V8_FRAME_WASM] = 4,
                        [V8_FRAME_TO_WASM] = 7,
                        [V8_FRAME_FROM_WASM] = 5,
                },
        };
}
