/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LITMUS_ID = 77 };

/* What a reader got. */
enum {
        LITMUS_NOTHING,
        LITMUS_WHOLE,                   /* all of it is one event's */
        LITMUS_NAMED,                   /* and its coroutine's id and birth are known */
        LITMUS_WRONG,
};

/* A station with @n_events written. Words that are to be modelled are watched after that. */
void litmus_station_prepare(bool document, unsigned n_events);
void litmus_station_watch(unsigned epoch);
void litmus_station_watch_birth(void);
void litmus_station_watch_death(void);
void litmus_station_watch_sleep(void);

void litmus_station_begin(void);
void litmus_station_write(uint64_t number);
void litmus_document_write(uint64_t number);
void litmus_station_end(void);

/* All events from the @next-th on. Return: what the last one was, or that one was wrong. */
int litmus_station_read(bool document, uint64_t next);
bool litmus_station_is_dead(void);

/* The engine asks to be woken. */
void litmus_station_ask(void);
unsigned litmus_station_n_sent(void);

/* The ring of contexts: a slot with the span @n, and what another thread of the process reads. */
void litmus_ring_prepare(uint64_t n);
void litmus_ring_write(uint64_t n);
int litmus_ring_read(void);

#ifdef __cplusplus
}
#endif
