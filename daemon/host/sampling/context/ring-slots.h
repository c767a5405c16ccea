/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Slots of a Ring
 *
 * A right header may belong to others: the memory of a virtual machine has the rings of its guest, a heap
 * has a copy. What tells them apart is what follows: slots, and of threads that live in this process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Pure. Whether @n slots, as they stand in memory, could be those of a ring. */
bool ring_slots_are_sound(const void *slots, size_t n);

/* The same of slots all over the ring at @address, in pages that are there. What cannot be read is sound. */
bool ring_is_sound(pid_t pid, int pagemap_fd, uint64_t page_size, uint64_t address, uint32_t capacity);

/* Whether a living thread of the process, of the first 512, has a span in its slot. Return: 1, 0, -ENOMEM. */
int ring_has_living(pid_t pid, int pagemap_fd, uint64_t page_size, uint64_t address, uint32_t capacity);
