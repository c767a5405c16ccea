/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the runtimes, in the order in which they are asked whether a file is theirs.
 */

#include "host/runtime/all-runtimes.h"

#include "host/runtime/beam/beam-runtime.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/hotspot/hotspot-runtime.h"
#include "host/runtime/jvm/other-jvm.h"
#include "host/runtime/php/php-runtime.h"
#include "host/runtime/python/python-runtime.h"
#include "host/runtime/ruby/ruby-runtime.h"
#include "host/runtime/v8/v8-runtime.h"

const RuntimeOps *const all_runtimes[ALL_RUNTIMES_N] = {
        &hotspot_runtime,
        &python_runtime,
        &go_runtime,
        &v8_runtime,
        &php_runtime,
        &beam_runtime,
        &ruby_runtime,
        &other_jvm_runtime,
};
