/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Java Classes
 *
 * Names that are alike in each run, of a running JVM and of recordings, so that profiles of two runs meet.
 */

#include <stddef.h>

/*
 * A class as people write it, into @to with a NUL, without what differs from run to run:
 * `a/Main$$Lambda$14+0x0000000800c03000` → `a.Main$$Lambda`. @size: bytes of @name; @to has @size + 1.
 * Return: bytes without the NUL.
 */
size_t java_class_name(char *to, const char *name, size_t size);
