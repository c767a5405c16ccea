/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * PHP as a Runtime
 *
 * RuntimeOps of PHP: php, php-fpm, and programs with its library.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps php_runtime;
