/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plain Names
 *
 * A function's name without what changes from build to build: arguments of templates and generics, numbers
 * of lambdas and closures, hashes of Rust. Two versions of a program match by it where their names differ.
 *
 *     std::vector<Order>::push_back(Order const&)      →  std::vector::push_back(Order const&)
 *     shop::total::{closure#2}::h0123456789abcdef      →  shop::total::{closure}
 *     Main.lambda$main$3                               →  Main.lambda$main$
 */

#include "core/base/util/text.h"

/* Appends the plain form of @name; what cannot be made out is kept. */
void plain_name_append(Text *text, const char *name);
