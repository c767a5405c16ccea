/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal's socket
 *
 * systemd's native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram an entry, lines of
 * FIELD=value. libsystemd's sd_journal_send() would wait for a journal that does not read for as long as it
 * does not.
 */

#include <stddef.h>

/*
 * Sends one entry, and waits at most @time_limit_ms (-1: for ever) for room. Return: 0, 1 = it was not taken.
 */
int log_journal_send(const char *entry, size_t size, int time_limit_ms);

/* Waits until the other side has read what was sent, or for a second. */
void log_journal_drain(void);
