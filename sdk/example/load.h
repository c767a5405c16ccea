/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Load Generator
 *
 * A thread that submits requests of random kinds at a mean rate, whether or not
 * the workers keep up. The gaps are random too, so that nothing repeats in step
 * with a sampler.
 */

#include <stdint.h>

#include "pool.h"

typedef struct Load Load;

/* @rate: requests per second, > 0. Return: 0, -errno. */
int load_new(Load **loadp, Pool *pool, double rate, uint64_t seed);
Load *load_free(Load *load);

/* Requests that found the queue full. */
uint64_t load_n_shed(const Load *load);
