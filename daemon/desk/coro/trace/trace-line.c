/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A burst is millions of lines, and printf() takes ten times as long as these functions. Half of a line is
 * the same in all lines of a station. Those parts are printed once (TraceParts) and copied:
 *
 *      {"probe_id":94163098054944,"tid":32614,"addr":"0x000055a40e02b110","seq":2,…,"ts":8569300969167
 *      └ head ─────────────────────────┘
 *      ,"station":0,"event":0,"birth":8569294269531,"lost":3,"pid":812}
 *      └ middle ───────────┘ └ tail ───────────────┘          └ end ───┘
 *
 * Most other numbers are those of the line before, or one more (tid, seq, event), or differ in their last
 * eight digits (ts): the digits are kept as well (TraceDigits).
 *
 * Parsing takes any order of keys, and blanks. A line to the byte as all writers print it, which is nearly
 * every line, has a path of its own that takes a fifth of the time.
 */

#include "desk/coro/trace/trace-line.h"

#include <string.h>

#include "core/base/util/digits.h"

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

/* A number that mostly is the one of the line before, or one more: a tenth of the cost of its digits. */
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

/* Literals of a form. A literal for a field that may be missing begins with its comma. */
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
 * Copies the whole part, a few registers wide, whatever its size: the next part is written over the bytes
 * behind @n.
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

const char *trace_csv_header(bool payload) {
        return payload ? "probe_id,tid,addr,seq,is_active,ts,payload\n"
                       : "probe_id,tid,addr,seq,is_active,ts\n";
}

size_t trace_print_csv(char *to, const CoroEvent *event, bool payload, TraceParts *parts) {
        char *at;

        if (!is_of(parts, event)) {
                *parts = parts_of(event);
                parts->n_head = (uint8_t)(PUT(digits_put(parts->head, parts->probe_id), ",") - parts->head);
        }
        at = put_again(PUT_PART(to, parts->head, parts->n_head), &parts->tid, event->tid);
        at = digits_put_hex_16(PUT(at, ",0x"), event->address);
        at = put_again(PUT(at, ","), &parts->seq, event->seq);
        at = put_time(event->active ? PUT(at, ",true,") : PUT(at, ",false,"), &parts->time, event->time_ns);
        if (payload)
                at = PUT(at, ",");
        if (payload && event->has_payload)
                at = put_hex(at, event->payload, sizeof(event->payload));
        return (size_t)(PUT(at, "\n") - to);
}

/* Parsing */

typedef enum Field {
        FIELD_PROBE, FIELD_TID, FIELD_ADDRESS, FIELD_SEQ, FIELD_ACTIVE, FIELD_TIME,
        FIELD_STATION, FIELD_NUMBER, FIELD_BIRTH, FIELD_LOST, FIELD_PID, FIELD_PAYLOAD,
        N_FIELDS,
} Field;

enum { NEEDED = (1 << FIELD_STATION) - 1 };     /* the six fields that every writer knows */

static const char *const names[N_FIELDS] = {
        "probe_id", "tid",   "addr",  "seq",  "is_active", "ts",
        "station",  "event", "birth", "lost", "pid",       "payload",
};

static int find_field(const char *name, size_t size) {
        for (int i = 0; i < N_FIELDS; i++)
                if (size && names[i][0] == name[0] && strlen(names[i]) == size &&
                    !memcmp(names[i], name, size))
                        return i;
        return -1;
}

static bool parse_number(const char *text, size_t size, uint64_t max, uint64_t *valuep) {
        uint64_t value = 0;

        for (size_t i = 0; i < size; i++)
                if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
                    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
                        return false;
        *valuep = value;
        return size && value <= max;
}

static int digit(char c) {
        return c >= '0' && c <= '9'    ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
}

static bool parse_address(const char *text, size_t size, uint64_t *valuep) {
        uint64_t value = 0;

        if (size < 3 || size > 18 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
                return false;
        for (size_t i = 2; i < size; i++) {
                if (digit(text[i]) < 0)
                        return false;
                value = value << 4 | (uint64_t)digit(text[i]);
        }
        *valuep = value;
        return true;
}

static bool parse_payload(const char *text, size_t size, CoroEvent *event) {
        if (!size)
                return true;
        if (size != 2 * sizeof(event->payload))
                return false;
        for (size_t i = 0; i < sizeof(event->payload); i++) {
                int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                event->payload[i] = (uint8_t)(high << 4 | low);
                event->has_payload |= event->payload[i] != 0;
        }
        return true;
}

static bool parse_bool(const char *text, size_t size, bool *valuep) {
        *valuep = (size == 4 && !memcmp(text, "true", 4)) || (size == 1 && *text == '1');
        return *valuep || (size == 5 && !memcmp(text, "false", 5)) || (size == 1 && *text == '0');
}

static bool set_small(const char *text, size_t size, uint32_t *top) {
        uint64_t value;

        if (!parse_number(text, size, UINT32_MAX, &value))
                return false;
        *top = (uint32_t)value;
        return true;
}

static bool set_field(CoroEvent *event, int field, const char *text, size_t size) {
        switch (field) {
        case FIELD_PROBE: return parse_number(text, size, UINT64_MAX, &event->probe_id);
        case FIELD_TID: return parse_number(text, size, UINT64_MAX, &event->tid);
        case FIELD_ADDRESS: return parse_address(text, size, &event->address);
        case FIELD_SEQ: return parse_number(text, size, UINT64_MAX, &event->seq);
        case FIELD_ACTIVE: return parse_bool(text, size, &event->active);
        case FIELD_TIME: return parse_number(text, size, UINT64_MAX, &event->time_ns);
        case FIELD_STATION: return set_small(text, size, &event->station);
        case FIELD_NUMBER: return parse_number(text, size, UINT64_MAX, &event->number);
        case FIELD_BIRTH: return parse_number(text, size, UINT64_MAX, &event->birth_ns);
        case FIELD_LOST: return parse_number(text, size, UINT64_MAX, &event->n_lost);
        case FIELD_PID: return set_small(text, size, &event->pid);
        case FIELD_PAYLOAD: return parse_payload(text, size, event);
        }
        return true;                    /* a field that we do not know */
}

typedef struct Line {
        const char *at, *end;
} Line;

static void skip_blanks(Line *line) {
        while (line->at < line->end && strchr(" \t\r", *line->at) && *line->at)
                line->at++;
}

static bool eat(Line *line, char c) {
        skip_blanks(line);
        if (line->at == line->end || *line->at != c)
                return false;
        line->at++;
        return true;
}

/* A string without escapes: no field of ours has one. */
static bool eat_string(Line *line, const char **textp, size_t *sizep) {
        const char *end;

        if (!eat(line, '"'))
                return false;
        end = memchr(line->at, '"', (size_t)(line->end - line->at));
        if (!end || memchr(line->at, '\\', (size_t)(end - line->at)))
                return false;
        *textp = line->at;
        *sizep = (size_t)(end - line->at);
        line->at = end + 1;
        return true;
}

/* A string, or a bare word up to its delimiter. */
static bool eat_value(Line *line, const char **textp, size_t *sizep) {
        skip_blanks(line);
        if (line->at < line->end && *line->at == '"')
                return eat_string(line, textp, sizep);
        *textp = line->at;
        while (line->at < line->end && !strchr(",} \t\r\"{[", *line->at))
                line->at++;
        *sizep = (size_t)(line->at - *textp);
        return *sizep;
}

static bool eat_text(Line *line, const char *text, size_t size) {
        if ((size_t)(line->end - line->at) < size || memcmp(line->at, text, size))
                return false;
        line->at += size;
        return true;
}

#define EAT(_line, _text) eat_text((_line), (_text), sizeof(_text) - 1)

/* Up to 19 digits, which cannot overflow. */
static bool eat_digits(Line *line, uint64_t *valuep) {
        const char *begin = line->at;
        uint64_t value = 0;

        while (line->at < line->end && line->at - begin < 19 && *line->at >= '0' && *line->at <= '9')
                value = value * 10 + (uint64_t)(*line->at++ - '0');
        *valuep = value;
        return line->at > begin;
}

/* The fields that we add, in the order in which we print them; each may be missing. */
static bool eat_extra(Line *line, CoroEvent *event) {
        uint64_t station = 0, pid = 0;

        if ((EAT(line, ",\"station\":") && !eat_digits(line, &station)) ||
            (EAT(line, ",\"event\":") && !eat_digits(line, &event->number)) ||
            (EAT(line, ",\"birth\":") && !eat_digits(line, &event->birth_ns)) ||
            (EAT(line, ",\"lost\":") && !eat_digits(line, &event->n_lost)) ||
            (EAT(line, ",\"pid\":") && !eat_digits(line, &pid)) || station > UINT32_MAX || pid > UINT32_MAX)
                return false;
        event->station = (uint32_t)station;
        event->pid = (uint32_t)pid;
        return true;
}

/* A line to the byte as all writers of this form print it. */
static bool parse_usual(Line *line, CoroEvent *event) {
        if (!EAT(line, "{\"probe_id\":") || !eat_digits(line, &event->probe_id) || !EAT(line, ",\"tid\":") ||
            !eat_digits(line, &event->tid) || !EAT(line, ",\"addr\":\"") || line->end - line->at < 18 ||
            !parse_address(line->at, 18, &event->address))
                return false;
        line->at += 18;
        if (!EAT(line, "\",\"seq\":") || !eat_digits(line, &event->seq))
                return false;
        event->active = EAT(line, ",\"is_active\":true,\"ts\":");
        if (!event->active && !EAT(line, ",\"is_active\":false,\"ts\":"))
                return false;
        return eat_digits(line, &event->time_ns) && eat_extra(line, event) && EAT(line, "}") &&
                line->at == line->end;
}

int trace_parse_jsonl(const char *text, size_t size, CoroEvent *eventp) {
        Line line = { text, text + size };
        CoroEvent event = { 0 };
        unsigned seen = 0;

        if (parse_usual(&line, &event)) {
                *eventp = event;
                return 0;
        }
        line.at = text;
        event = (CoroEvent){ 0 };
        if (!eat(&line, '{'))
                return TRACE_PARSE_E_MALFORMED;
        do {
                const char *key, *value;
                size_t n_key, n_value;
                int field;

                if (!eat_string(&line, &key, &n_key) || !eat(&line, ':') ||
                    !eat_value(&line, &value, &n_value))
                        return TRACE_PARSE_E_MALFORMED;
                field = find_field(key, n_key);
                if (field >= 0 && (seen & 1U << field || !set_field(&event, field, value, n_value)))
                        return TRACE_PARSE_E_MALFORMED;
                seen |= field >= 0 ? 1U << field : 0;
        } while (eat(&line, ','));
        if (!eat(&line, '}') || (skip_blanks(&line), line.at != line.end) || (seen & NEEDED) != NEEDED)
                return TRACE_PARSE_E_MALFORMED;
        *eventp = event;
        return 0;
}

static size_t cell_size(const Line *line) {
        const char *comma = memchr(line->at, ',', (size_t)(line->end - line->at));

        return (size_t)((comma ? comma : line->end) - line->at);
}

static size_t without_return(const char *text, size_t size) {
        return size && text[size - 1] == '\r' ? size - 1 : size;
}

int trace_parse_csv_header(const char *text, size_t size, TraceColumns *columns) {
        Line line = { text, text + without_return(text, size) };
        unsigned seen = 0;

        columns->n = 0;
        for (;;) {
                size_t n = cell_size(&line);
                int field = find_field(line.at, n);

                if (columns->n == TRACE_MAX_COLUMNS || (field >= 0 && seen & 1U << field))
                        return TRACE_PARSE_E_MALFORMED;
                columns->fields[columns->n++] = field;
                seen |= field >= 0 ? 1U << field : 0;
                line.at += n;
                if (line.at == line.end)
                        return (seen & NEEDED) == NEEDED ? 0 : TRACE_PARSE_E_MALFORMED;
                line.at++;
        }
}

int trace_parse_csv(const TraceColumns *columns, const char *text, size_t size, CoroEvent *eventp) {
        Line line = { text, text + without_return(text, size) };
        CoroEvent event = { 0 };

        for (unsigned i = 0; i < columns->n; i++) {
                size_t n = cell_size(&line);

                if (!set_field(&event, columns->fields[i], line.at, n))
                        return TRACE_PARSE_E_MALFORMED;
                line.at += n;
                if ((line.at == line.end) != (i == columns->n - 1))
                        return TRACE_PARSE_E_MALFORMED;
                line.at += line.at < line.end;
        }
        *eventp = event;
        return 0;
}
