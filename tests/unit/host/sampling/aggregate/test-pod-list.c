/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/aggregate/pod-list.h"

/* Entries with a `;` behind each; NULL = malformed. */
static const char *parse(const char *json, size_t *n_overp) {
        static char shown[4096];
        Text entries = { 0 };
        int r = pod_list_parse(json, strlen(json), &entries, n_overp);

        snprintf(shown, sizeof(shown), "%.*s", 0, "");
        for (size_t i = 0; i < entries.size && i < sizeof(shown) - 1; i++) {
                shown[i] = entries.data[i] ? entries.data[i] : ';';
                shown[i + 1] = 0;
        }
        text_deinit(&entries);
        return r ? NULL : shown;
}

Test(pod_list, gives_the_three_words_of_each_pod) {
        size_t n_over;

        cr_assert_str_eq(
                parse("{\"kind\":\"PodList\",\"metadata\":{\"name\":\"list\",\"uid\":\"9\",\"namespace\":\"x\"},"
                      "\"items\" : [ {\"metadata\":{\"name\":\"cart\",\"namespace\":\"shop\",\"labels\":{\"name\":\"no\","
                      "\"uid\":\"no\"},\"ownerReferences\":[{\"name\":\"rs\",\"uid\":\"8\"}],\"uid\":\"1f\"},"
                      "\"spec\":{\"name\":\"no\",\"hostPID\":true,\"n\":-1.5e3,\"x\":null,\"metadata\":{\"name\":\"no\"}}},\n"
                      "{\"status\":{},\"metadata\":{\"uid\":\"2e\",\"namespace\":\"kube-system\",\"name\":\"dns\"}}]}",
                      &n_over),
                "shop_cart_1f;kube-system_dns_2e;");
        cr_assert_eq(n_over, 0);
        cr_assert_str_eq(parse("{\"items\":[]}", &n_over), "");
}

Test(pod_list, leaves_out_pods_that_lack_one_or_have_escapes_in_it) {
        size_t n_over;

        cr_assert_str_eq(parse("{\"items\":[{\"metadata\":{\"name\":\"a\",\"uid\":\"1\"}},{\"metadata\":{\"name\":"
                               "\"b\\u0061\",\"namespace\":\"n\",\"uid\":\"2\"}},[\"metadata\",{\"name\":\"c\"}],"
                               "{\"metadata\":\"name\"},{\"metadata\":[{\"name\":\"d\",\"namespace\":\"n\",\"uid\":\"3\"}]},"
                               "{\"metadata\":{\"name\":\"e\\\"\",\"namespace\":\"n\",\"uid\":\"4\"}},"
                               "{\"metadata\":{\"name\":\"f\",\"namespace\":\"n\",\"uid\":\"5\"}}]}",
                               &n_over),
                         "n_f_5;");
}

/* The words of one pod never stand for another. */
Test(pod_list, mixes_no_pods) {
        size_t n_over;

        cr_assert_str_eq(parse("{\"items\":[{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"}},"
                               "{\"metadata\":{\"uid\":\"1\"}}]}",
                               &n_over), "");
        cr_assert_str_eq(parse("{\"items\":{\"0\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"1\"}}},"
                               "\"items\":[]}",
                               &n_over), "", "an object is no list");
}

Test(pod_list, refuses_what_is_none) {
        static const char *const wrong[] = {
                "", " ", "[]", "null", "\"items\"", "{", "{\"items\"", "{\"items\":", "{\"items\":[", "{\"items\":[}",
                "{\"items\":[{\"metadata\":{\"name\":\"a", "{\"items\":[{]}", "{\"items\" []}", "{\"items\":{}}", "{}",
                "{items:[]}", "{\"kind\":\"Status\",\"code\":403}", "<html></html>", "{\"a\\",
        };
        char deep[400] = "{\"items\":[";
        size_t n_over;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
                cr_assert_null(parse(wrong[i], &n_over), "%s", wrong[i]);
        memset(deep + strlen(deep), '[', 100);
        cr_assert_null(parse(deep, &n_over));
}

Test(pod_list, has_a_cap_and_counts_what_is_over_it) {
        Text json = { 0 }, entries = { 0 };
        size_t n_over, n = 0;

        text_printf(&json, "{\"items\":[");
        for (int i = 0; i < POD_LIST_MAX + 7; i++)
                text_printf(&json, "%s{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"%x\"}}", i ? "," : "", i);
        text_printf(&json, "]}");
        cr_assert_eq(pod_list_parse(json.data, json.size, &entries, &n_over), 0);
        cr_assert_eq(n_over, 7);
        for (size_t i = 0; i < entries.size; i++)
                n += !entries.data[i];
        cr_assert_eq(n, POD_LIST_MAX);
        text_deinit(&json);
        text_deinit(&entries);
}
