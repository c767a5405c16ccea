/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lines of a trace, by hand: printf() takes ten times as long, and a burst is millions of lines. Half of a
 * line says whose it is, the same in all lines of a station: that is made once and copied.
 */

#include <string.h>

#include "base/util/digits.h"
#include "coro/trace/trace.h"

/* A literal: its size is known here, and the copy is one or two stores. */
#define PUT(_to, _text) ((char *)memcpy((_to), (_text), sizeof(_text) - 1) + sizeof(_text) - 1)
#define PUT_PAIR(_to, _key, _value) digits_put(PUT((_to), (_key)), (_value))

static void make_again(TraceDigits *digits, uint64_t value) {
        if (value && value - 1 == digits->value && digits->n && digits->text[digits->n - 1] < '9')
                digits->text[digits->n - 1]++;
        else
                digits->n = (uint8_t)(digits_put(digits->text, value) - digits->text);
        digits->value = value;
}

static char *put_made(char *to, const TraceDigits *digits) {
        memcpy(to, digits->text, DIGITS_MAX);
        return to + digits->n;
}

/* What mostly is the number of the line before, or one more: ten times as cheap as making its digits. */
static char *put_again(char *to, TraceDigits *digits, uint64_t value) {
        if (value != digits->value || !digits->n)
                make_again(digits, value);
        return put_made(to, digits);
}

/* All but the last eight digits stay the same for a tenth of a second. */
static char *put_time(char *to, TraceDigits *high, uint64_t time_ns) {
        uint64_t base = high->value * DIGITS_SHORT;

        if (time_ns < base || time_ns - base >= DIGITS_SHORT || !base) {
                if (time_ns < DIGITS_SHORT)
                        return digits_put_short(to, time_ns);
                make_again(high, time_ns / DIGITS_SHORT);
                base = high->value * DIGITS_SHORT;
        }
        return digits_put_8(put_made(to, high), time_ns - base);
}

static char *put_hex(char *to, const uint8_t *bytes, size_t n) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                *to++ = digits[bytes[i] >> 4];
                *to++ = digits[bytes[i] & 15];
        }
        return to;
}

/*
 * The literals of a form. Those that a form says only with `extra`, or only of some events, begin with what
 * parts them.
 */
#define JSON_HEAD "{\"probe_id\":"
#define JSON_TID ",\"tid\":"
#define JSON_STATION ",\"station\":"
#define JSON_NUMBER ",\"event\":"
#define JSON_BIRTH ",\"birth\":"
#define JSON_PID ",\"pid\":"

static void make_json(TraceParts *parts, bool extra) {
        char *at = PUT(PUT_PAIR(parts->head, JSON_HEAD, parts->probe_id), JSON_TID);

        parts->n_head = (uint8_t)(at - parts->head);
        if (!extra)
                return;
        at = PUT(PUT_PAIR(parts->middle, JSON_STATION, parts->station), JSON_NUMBER);
        parts->n_middle = (uint8_t)(at - parts->middle);
        if (parts->birth_ns)
                parts->n_tail = (uint8_t)(PUT_PAIR(parts->tail, JSON_BIRTH, parts->birth_ns) - parts->tail);
        if (parts->pid)
                parts->n_end = (uint8_t)(PUT_PAIR(parts->end, JSON_PID, parts->pid) - parts->end);
}

static void make_csv(TraceParts *parts, bool extra) {
        parts->n_head = (uint8_t)(PUT(digits_put(parts->head, parts->probe_id), ",") - parts->head);
        if (!extra)
                return;
        parts->n_middle = (uint8_t)(PUT(PUT_PAIR(parts->middle, ",", parts->station), ",") - parts->middle);
        parts->n_tail = (uint8_t)(PUT(PUT_PAIR(parts->tail, ",", parts->birth_ns), ",") - parts->tail);
        parts->n_end = (uint8_t)(PUT_PAIR(parts->end, ",", parts->pid) - parts->end);
}

static bool is_of(const TraceParts *parts, const CoroEvent *event) {
        return parts->n_head && parts->station == event->station && parts->probe_id == event->probe_id &&
               parts->birth_ns == event->birth_ns && parts->pid == event->pid;
}

static TraceParts parts_of(const CoroEvent *event) {
        return (TraceParts){ .probe_id = event->probe_id,
                             .birth_ns = event->birth_ns,
                             .station = event->station,
                             .pid = event->pid };
}

/*
 * All @n bytes at once: the copy is a few registers wide, and what is too much is written over by what
 * follows.
 */
#define PUT_PART(_to, _part, _n) ((char *)memcpy((_to), (_part), sizeof(_part)) + (_n))

size_t trace_print_jsonl(char *to, const CoroEvent *event, bool extra, TraceParts *parts) {
        char *at;

        if (!is_of(parts, event)) {
                *parts = parts_of(event);
                make_json(parts, extra);
        }
        at = put_again(PUT_PART(to, parts->head, parts->n_head), &parts->tid, event->tid);
        at = digits_put_hex_16(PUT(at, ",\"addr\":\"0x"), event->address);
        at = put_again(PUT(at, "\",\"seq\":"), &parts->seq, event->seq);
        at = event->active ? PUT(at, ",\"is_active\":true,\"ts\":") : PUT(at, ",\"is_active\":false,\"ts\":");
        at = put_time(at, &parts->time, event->time_ns);
        if (extra) {
                at = put_again(PUT_PART(at, parts->middle, parts->n_middle), &parts->number, event->number);
                at = PUT_PART(at, parts->tail, parts->n_tail);
                at = event->n_lost ? PUT_PAIR(at, ",\"lost\":", event->n_lost) : at;
                at = PUT_PART(at, parts->end, parts->n_end);
        }
        if (event->has_payload)
                at = PUT(put_hex(PUT(at, ",\"payload\":\""), event->payload, sizeof(event->payload)), "\"");
        return (size_t)(PUT(at, "}\n") - to);
}

const char *trace_csv_header(bool extra, bool payload) {
        if (extra)
                return "probe_id,tid,addr,seq,is_active,ts,station,event,birth,lost,pid,payload\n";
        return payload ? "probe_id,tid,addr,seq,is_active,ts,payload\n"
                       : "probe_id,tid,addr,seq,is_active,ts\n";
}

size_t trace_print_csv(char *to, const CoroEvent *event, bool extra, bool payload, TraceParts *parts) {
        char *at;

        if (!is_of(parts, event)) {
                *parts = parts_of(event);
                make_csv(parts, extra);
        }
        at = put_again(PUT_PART(to, parts->head, parts->n_head), &parts->tid, event->tid);
        at = digits_put_hex_16(PUT(at, ",0x"), event->address);
        at = put_again(PUT(at, ","), &parts->seq, event->seq);
        at = put_time(event->active ? PUT(at, ",true,") : PUT(at, ",false,"), &parts->time, event->time_ns);
        if (extra) {
                at = put_again(PUT_PART(at, parts->middle, parts->n_middle), &parts->number, event->number);
                at = digits_put(PUT_PART(at, parts->tail, parts->n_tail), event->n_lost);
                at = PUT_PART(at, parts->end, parts->n_end);
        }
        if (extra || payload)
                at = PUT(at, ",");
        if ((extra || payload) && event->has_payload)
                at = put_hex(at, event->payload, sizeof(event->payload));
        return (size_t)(PUT(at, "\n") - to);
}
