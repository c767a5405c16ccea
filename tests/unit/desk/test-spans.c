/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "desk/report/spans.h"

#define HEAD "span_id,operation,tid,start_before,start_after,end_before,end_after\n"

static SpanList *list_of(const char *text) {
        SpanListProblem problem;
        SpanList *list = NULL;

        cr_assert_eq(span_list_new(&list, text, strlen(text), &problem), 0, "line %lu: %s", problem.line,
                     problem.text);
        return list;
}

static void assert_operation(const SpanList *list, uint64_t id, const char *expected) {
        uint64_t big_endian = __builtin_bswap64(id);
        uint32_t operation = UINT32_MAX;
        int r = span_list_find(list, (const uint8_t *)&big_endian, &operation);

        cr_assert_eq(r, expected ? 0 : 1, "%lx", id);
        if (expected)
                cr_assert_str_eq(span_list_operation(list, operation), expected);
        else
                cr_assert_eq(operation, UINT32_MAX, "an output is written on success only");
}

static void assert_problem(const char *text, size_t size, uint64_t line, const char *part) {
        SpanListProblem problem;
        SpanList *list = NULL;

        cr_assert_eq(span_list_new(&list, text, size, &problem), SPAN_LIST_E_INVALID, "%s", text);
        cr_assert_null(list);
        cr_assert_eq(problem.line, line, "%s: line %lu, %s", text, problem.line, problem.text);
        cr_assert_not_null(strstr(problem.text, part), "%s: %s", text, problem.text);
}

Test(spans, names_the_operation_of_a_span) {
        _cleanup_(span_list_freep) SpanList *list =
                list_of(HEAD "00000000000f4241,checkout,4711,1,2,3,4\n"
                             "fedcba9876543210,search,4712,1,2,3,4\r\n"
                             "0000000000000001,checkout,4711,5,6,7,8");

        cr_assert_eq(span_list_n_spans(list), 3);
        cr_assert_eq(span_list_n_operations(list), 2);
        assert_operation(list, 1000001, "checkout");
        assert_operation(list, UINT64_C(0xfedcba9876543210), "search");
        assert_operation(list, 1, "checkout");
        assert_operation(list, 2, NULL);
}

Test(spans, takes_columns_in_any_order) {
        _cleanup_(span_list_freep) SpanList *list = list_of("x,operation,span_id\n,a,0000000000000007\n");

        assert_operation(list, 7, "a");
}

/* ---- traces in OTLP: JSON as its specification has it, protobuf by hand ---- */

#define SHOP "\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":\"shop\"}}]}"
#define TRACE_OF(_resource, ...) \
        "{\"resourceSpans\":[{" _resource ",\"scopeSpans\":[{\"scope\":{},\"spans\":[" __VA_ARGS__ "]}]}]}\n"
#define SPAN(_id, _parent, _kind, _name, _more) \
        "{\"traceId\":\"5b8efff798038103d269b633813fc60c\",\"spanId\":\"" _id "\",\"parentSpanId\":\"" _parent \
        "\",\"name\":\"" _name "\",\"kind\":" #_kind ",\"startTimeUnixNano\":\"1544712660000000000\"" _more "}"
#define ROUTE ",\"attributes\":[{\"key\":\"http.route\",\"value\":{\"stringValue\":\"/cart/:id\"}}]"

Test(spans, of_traces_have_the_name_of_their_entry_span) {
        /* the child comes first, as exporters send spans that end first */
        _cleanup_(span_list_freep) SpanList *list = list_of(
                TRACE_OF(SHOP, SPAN("0000000000000003", "0000000000000002", 1, "query", "") ","
                               SPAN("0000000000000002", "0000000000000001", 1, "render", ""))
                "\n"
                TRACE_OF(SHOP, SPAN("0000000000000001", "00000000000000ff", 2, "GET", ROUTE))
                TRACE_OF(SHOP, SPAN("0000000000000004", "", 1, "nightly", "")));

        assert_operation(list, 1, "GET /cart/:id");
        assert_operation(list, 2, "GET /cart/:id");
        assert_operation(list, 3, "GET /cart/:id");
        assert_operation(list, 4, "nightly");
        assert_operation(list, 0xff, NULL);
        cr_assert_eq(span_list_n_spans(list), 4);
}

Test(spans, of_another_process_begin_there) {
        _cleanup_(span_list_freep) SpanList *list = list_of(
                TRACE_OF(SHOP, SPAN("0000000000000001", "", 2, "HTTP GET", ROUTE))
                TRACE_OF("\"resource\":{}", SPAN("0000000000000002", "0000000000000001", 1, "charge", "")));

        assert_operation(list, 1, "GET /cart/:id");
        assert_operation(list, 2, "charge");
}

Test(spans, have_no_name_where_it_would_be_a_guess) {
        _cleanup_(span_list_freep) SpanList *list = list_of(
                TRACE_OF(SHOP, SPAN("0000000000000001", "00000000000000ff", 1, "its parent is not here", "") ","
                               SPAN("0000000000000002", "", 2, "one", "") ","
                               SPAN("0000000000000002", "", 2, "another with that id", "") ","
                               SPAN("0000000000000003", "", 2, "sent twice", "") ","
                               SPAN("0000000000000003", "", 2, "sent twice", "") ","
                               SPAN("0000000000000004", "0000000000000005", 1, "a circle", "") ","
                               SPAN("0000000000000005", "0000000000000004", 1, "a circle", "") ","
                               SPAN("0000000000000006", "", 2, "", "") ","
                               SPAN("0000000000000007", "0000000000000002", 1, "below two with one id", "")));

        assert_operation(list, 1, NULL);
        assert_operation(list, 2, NULL);
        assert_operation(list, 3, "sent twice");
        assert_operation(list, 4, NULL);
        assert_operation(list, 5, NULL);
        assert_operation(list, 6, NULL);
        assert_operation(list, 7, NULL);
}

/* One message: resource_spans { scope_spans { spans { span_id, name, kind: server } } }. */
#define MESSAGE "\x0a\x17\x12\x15\x12\x13\x12\x08\0\0\0\0\0\0\0\x09\x2a\x05" "audit" "\x30\x02"

Test(spans, of_traces_come_as_protobuf_too) {
        static const char framed[] = "\0\0\0\x19" MESSAGE "\0\0\0\0";
        SpanListProblem problem;
        SpanList *list = NULL;

        cr_assert_eq(span_list_new(&list, framed, sizeof(framed) - 1, &problem), 0, "%s", problem.text);
        assert_operation(list, 9, "audit");
        list = span_list_free(list);
        assert_problem(framed, 10, 1, "cut off");
        assert_problem("\0\0\0\x02\x0a\x7f", 6, 1, "no message");
        assert_problem("{\"resourceSpans\":[]}\n{\"resourceSpans\":\n", 40, 2, "no JSON");
        assert_problem("{\"resourceSpans\":7}", 19, 1, "no message of traces");
}

Test(spans, takes_a_list_without_spans) {
        _cleanup_(span_list_freep) SpanList *list = list_of(HEAD);

        cr_assert_eq(span_list_n_spans(list), 0);
        assert_operation(list, 1, NULL);
}

Test(spans, takes_a_span_twice_with_one_operation) {
        _cleanup_(span_list_freep)
                SpanList *list = list_of("span_id,operation\n0000000000000001,a\n0000000000000001,a\n");

        cr_assert_eq(span_list_n_spans(list), 1);
}

Test(spans, says_which_line_is_wrong) {
        char many[256] = "", embedded[] = "span_id,operation\n0000000000000001,a\0b\n";

#define PROBLEM(_text, _line, _part) assert_problem(_text, strlen(_text), _line, _part)
        PROBLEM("", 1, "empty");
        PROBLEM("id,operation\n", 1, "span_id");
        PROBLEM("span_id,name\n", 1, "operation");
        PROBLEM("\n", 1, "span_id");
        PROBLEM(HEAD "00000000000f4241,checkout,4711,1,2,3,4\n00000000000f42", 3, "cut off");
        PROBLEM(HEAD "\n", 2, "1 fields, the first line has 7");
        PROBLEM("span_id,operation\n1,a\n", 2, "`1` is no span id");
        PROBLEM("span_id,operation\n0000000000000000,a\n", 2, "not all 0");
        PROBLEM("span_id,operation\n000000000000000g,a\n", 2, "no span id");
        PROBLEM("span_id,operation\n00000000000000001,a\n", 2, "no span id");
        PROBLEM("span_id,operation\n0000000000000001,\n", 2, "empty");
        PROBLEM("span_id,operation\n0000000000000001,\xff\n", 2, "no text");
        PROBLEM("span_id,operation\n0000000000000001,a\n0000000000000001,b\n", 3, "another operation");
        assert_problem(embedded, sizeof(embedded) - 1, 2, "no text");
        memset(many, ',', SPAN_LIST_MAX_COLUMNS);
        PROBLEM(many, 1, "columns");
#undef PROBLEM
}
