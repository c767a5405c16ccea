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
