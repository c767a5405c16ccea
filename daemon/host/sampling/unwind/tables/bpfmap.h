/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * BPF Maps
 *
 * The five calls that loading tables and entries takes, on descriptors of maps. The maps' object is the sampler's; this
 * file uses no library.
 */

#include <stddef.h>
#include <stdint.h>

/* A map of @size bytes in blocks, filled with @data. Return: its descriptor, -errno. */
int bpfmap_create_table(const void *data, size_t size);

/* Return: 0, -errno. */
int bpfmap_update(int fd, const void *key, const void *value);

/* Return: 0, -errno. */
int bpfmap_lookup(int fd, const void *key, void *value);

/*
 * Sets @n slots of an array of maps to @fds at once: one wait instead of one each. Linux 5.19 and newer.
 * Return: 0, -errno, with *n_donep of them set.
 */
int bpfmap_update_batch(int fd, const uint32_t *slots, const int *fds, uint32_t n, uint32_t *n_donep);

/* Return: 0 (also if there was no such key), -errno. */
int bpfmap_delete(int fd, const void *key);
