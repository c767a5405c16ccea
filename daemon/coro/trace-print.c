/* SPDX-License-Identifier: Apache-2.0 */

/* Lines of a trace, by hand: printf() takes ten times as long, and a burst is millions of lines. */

#include <string.h>

#include "coro/trace.h"
#include "util/digits.h"

/* A literal: its size is known here, and the copy is one or two stores. */
#define PUT(_to, _text) ((char *)memcpy((_to), (_text), sizeof(_text) - 1) + sizeof(_text) - 1)
#define PUT_PAIR(_to, _key, _value) digits_put(PUT((_to), (_key)), (_value))

static char *put_hex(char *to, const uint8_t *bytes, size_t n) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                *to++ = digits[bytes[i] >> 4];
                *to++ = digits[bytes[i] & 15];
        }
        return to;
}

size_t trace_print_jsonl(char *to, const CoroEvent *event, bool extra) {
        char *at = PUT_PAIR(to, "{\"probe_id\":", event->probe_id);

        at = PUT_PAIR(at, ",\"tid\":", event->tid);
        at = digits_put_hex_16(PUT(at, ",\"addr\":\"0x"), event->address);
        at = PUT_PAIR(at, "\",\"seq\":", event->seq);
        at = event->active ? PUT_PAIR(at, ",\"is_active\":true,\"ts\":", event->time_ns)
                           : PUT_PAIR(at, ",\"is_active\":false,\"ts\":", event->time_ns);
        if (extra) {
                at = PUT_PAIR(at, ",\"station\":", event->station);
                at = PUT_PAIR(at, ",\"event\":", event->number);
                at = event->birth_ns ? PUT_PAIR(at, ",\"birth\":", event->birth_ns) : at;
                at = event->n_lost ? PUT_PAIR(at, ",\"lost\":", event->n_lost) : at;
                at = event->pid ? PUT_PAIR(at, ",\"pid\":", event->pid) : at;
        }
        if (event->has_payload)
                at = PUT(put_hex(PUT(at, ",\"payload\":\""), event->payload, sizeof(event->payload)), "\"");
        return (size_t)(PUT(at, "}\n") - to);
}

const char *trace_csv_header(bool extra, bool payload) {
        if (extra)
                return "probe_id,tid,addr,seq,is_active,ts,station,event,birth,lost,pid,payload\n";
        return payload ? "probe_id,tid,addr,seq,is_active,ts,payload\n" : "probe_id,tid,addr,seq,is_active,ts\n";
}

size_t trace_print_csv(char *to, const CoroEvent *event, bool extra, bool payload) {
        char *at = digits_put(to, event->probe_id);

        at = PUT_PAIR(at, ",", event->tid);
        at = digits_put_hex_16(PUT(at, ",0x"), event->address);
        at = PUT_PAIR(at, ",", event->seq);
        at = event->active ? PUT_PAIR(at, ",true,", event->time_ns) : PUT_PAIR(at, ",false,", event->time_ns);
        if (extra) {
                at = PUT_PAIR(at, ",", event->station);
                at = PUT_PAIR(at, ",", event->number);
                at = PUT_PAIR(at, ",", event->birth_ns);
                at = PUT_PAIR(at, ",", event->n_lost);
                at = PUT_PAIR(at, ",", event->pid);
        }
        if (extra || payload)
                at = PUT(at, ",");
        if ((extra || payload) && event->has_payload)
                at = put_hex(at, event->payload, sizeof(event->payload));
        return (size_t)(PUT(at, "\n") - to);
}
