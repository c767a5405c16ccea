/* SPDX-License-Identifier: Apache-2.0 */

/* Lines of a trace, by hand: printf() takes ten times as long, and a burst is millions of lines. */

#include <string.h>

#include "coro/trace.h"

static char *put_text(char *to, const char *text) {
        size_t size = strlen(text);

        memcpy(to, text, size);
        return to + size;
}

static char *put_number(char *to, uint64_t value) {
        char digits[20];
        size_t n = 0;

        do {
                digits[n++] = (char)('0' + value % 10);
                value /= 10;
        } while (value);
        while (n)
                *to++ = digits[--n];
        return to;
}

static char *put_hex(char *to, const uint8_t *bytes, size_t n) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                *to++ = digits[bytes[i] >> 4];
                *to++ = digits[bytes[i] & 15];
        }
        return to;
}

static char *put_address(char *to, uint64_t address) {
        uint64_t big = __builtin_bswap64(address);

        return put_hex(put_text(to, "0x"), (const uint8_t *)&big, sizeof(big));
}

static char *put_pair(char *to, const char *key, uint64_t value) {
        return put_number(put_text(to, key), value);
}

static char *put_if(char *to, const char *key, uint64_t value) {
        return value ? put_pair(to, key, value) : to;
}

size_t trace_print_jsonl(char *to, const CoroEvent *event, bool extra) {
        char *at = put_pair(to, "{\"probe_id\":", event->probe_id);

        at = put_pair(at, ",\"tid\":", event->tid);
        at = put_address(put_text(at, ",\"addr\":\""), event->address);
        at = put_pair(at, "\",\"seq\":", event->seq);
        at = put_text(at, event->active ? ",\"is_active\":true" : ",\"is_active\":false");
        at = put_pair(at, ",\"ts\":", event->time_ns);
        if (extra) {
                at = put_pair(at, ",\"station\":", event->station);
                at = put_pair(at, ",\"event\":", event->number);
                at = put_if(at, ",\"birth\":", event->birth_ns);
                at = put_if(at, ",\"lost\":", event->n_lost);
                at = put_if(at, ",\"pid\":", event->pid);
        }
        if (event->has_payload)
                at = put_text(put_hex(put_text(at, ",\"payload\":\""), event->payload, sizeof(event->payload)), "\"");
        return (size_t)(put_text(at, "}\n") - to);
}

const char *trace_csv_header(bool extra, bool payload) {
        if (extra)
                return "probe_id,tid,addr,seq,is_active,ts,station,event,birth,lost,pid,payload\n";
        return payload ? "probe_id,tid,addr,seq,is_active,ts,payload\n" : "probe_id,tid,addr,seq,is_active,ts\n";
}

size_t trace_print_csv(char *to, const CoroEvent *event, bool extra, bool payload) {
        char *at = put_number(to, event->probe_id);

        at = put_pair(at, ",", event->tid);
        at = put_address(put_text(at, ","), event->address);
        at = put_pair(at, ",", event->seq);
        at = put_text(at, event->active ? ",true" : ",false");
        at = put_pair(at, ",", event->time_ns);
        if (extra) {
                at = put_pair(at, ",", event->station);
                at = put_pair(at, ",", event->number);
                at = put_pair(at, ",", event->birth_ns);
                at = put_pair(at, ",", event->n_lost);
                at = put_pair(at, ",", event->pid);
        }
        if (extra || payload)
                at = put_text(at, ",");
        if ((extra || payload) && event->has_payload)
                at = put_hex(at, event->payload, sizeof(event->payload));
        return (size_t)(put_text(at, "\n") - to);
}
