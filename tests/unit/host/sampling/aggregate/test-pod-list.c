/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/aggregate/pod-list.h"

/* Entries with a `;` behind each; NULL = malformed. */
static const char *parse_labels(const char *json, const PodLabels *labels, PodListCounts *counts) {
        static char shown[4096];
        Text entries = { 0 };
        int r = pod_list_parse(json, strlen(json), labels, &entries, counts);

        snprintf(shown, sizeof(shown), "%.*s", 0, "");
        for (size_t i = 0; i < entries.size && i < sizeof(shown) - 1; i++) {
                shown[i] = entries.data[i] ? entries.data[i] : ';';
                shown[i + 1] = 0;
        }
        text_deinit(&entries);
        return r ? NULL : shown;
}

static const char *parse(const char *json, size_t *n_overp) {
        const PodLabels none = { 0 };
        PodListCounts counts;
        const char *shown = parse_labels(json, &none, &counts);

        *n_overp = counts.n_over;
        cr_assert_eq(counts.n_labels_over + counts.n_labels_malformed, 0);
        return shown;
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
        const PodLabels none = { 0 };
        PodListCounts counts;
        size_t n = 0;

        text_printf(&json, "{\"items\":[");
        for (int i = 0; i < POD_LIST_MAX + 7; i++)
                text_printf(&json, "%s{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"%x\"}}", i ? "," : "", i);
        text_printf(&json, "]}");
        cr_assert_eq(pod_list_parse(json.data, json.size, &none, &entries, &counts), 0);
        cr_assert_eq(counts.n_over, 7);
        for (size_t i = 0; i < entries.size; i++)
                n += !entries.data[i];
        cr_assert_eq(n, POD_LIST_MAX);
        text_deinit(&json);
        text_deinit(&entries);
}

/* A list of one pod with these members of its metadata, beside the three words. */
static const char *parse_pod(const char *members, const PodLabels *labels, PodListCounts *counts) {
        Text json = { 0 };
        const char *shown;

        text_printf(&json, "{\"items\":[{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",%s,\"uid\":\"1\"}}]}", members);
        shown = parse_labels(json.data, labels, counts);
        text_deinit(&json);
        return shown;
}

#define OWNER(kind, name, more) "\"ownerReferences\":[{\"kind\":\"" kind "\",\"name\":\"" name "\"" more "}]"
#define CONTROLLER ",\"controller\":true"

Test(pod_list, names_the_controller_of_a_pod) {
        static const struct {
                const char *members, *shown;
        } cases[] = {
                { OWNER("StatefulSet", "db", CONTROLLER), "n_p_1\nk8s.statefulset.name=db;" },
                { OWNER("DaemonSet", "log", CONTROLLER), "n_p_1\nk8s.daemonset.name=log;" },
                { OWNER("Job", "mail-2", CONTROLLER), "n_p_1\nk8s.job.name=mail-2;" },
                { OWNER("ReplicationController", "old", CONTROLLER), "n_p_1\nk8s.replicationcontroller.name=old;" },
                { OWNER("Node", "worker", CONTROLLER), "n_p_1;" },
                { OWNER("StatefulSet", "db", ""), "n_p_1;" },
                { OWNER("StatefulSet", "db", ",\"controller\":false"), "n_p_1;" },
                { OWNER("StatefulSet", "db", ",\"controller\":\"true\""), "n_p_1;" },
                { OWNER("StatefulSet", "d\nb", CONTROLLER), "n_p_1;" },
                { OWNER("StatefulSet", "Db=1", CONTROLLER), "n_p_1;" },
                { "\"ownerReferences\":[{\"kind\":\"Job\",\"name\":\"a\"},{\"controller\":true,\"kind\":\"DaemonSet\","
                  "\"x\":{\"name\":\"no\",\"controller\":false},\"name\":\"b\"},{\"kind\":\"Job\",\"name\":\"c\"}]",
                  "n_p_1\nk8s.daemonset.name=b;" },
                { "\"ownerReferences\":{\"0\":{\"kind\":\"Job\",\"name\":\"a\",\"controller\":true}}", "n_p_1;" },
                { "\"x\":[{\"kind\":\"Job\",\"name\":\"a\",\"controller\":true}]", "n_p_1;" },
        };
        const PodLabels none = { 0 };
        PodListCounts counts;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                cr_assert_str_eq(parse_pod(cases[i].members, &none, &counts), cases[i].shown, "%s",
                                 cases[i].members);
}

Test(pod_list, names_a_deployment_where_the_hash_says_that_one_made_the_set) {
        static const struct {
                const char *hash, *deployment;
        } cases[] = {
                { "\"pod-template-hash\":\"7d9f\"", "\nk8s.deployment.name=web-a" },
                { "\"pod-template-hash\":\"d9f\"", "" },        { "\"pod-template-hash\":\"\"", "" },
                { "\"rollouts-pod-template-hash\":\"7d9f\"", "" }, { "\"pod-template-hash\":\"web-a-7d9f\"", "" },
                { "\"pod-template-hash\":\"x\"", "" },
        };
        const PodLabels none = { 0 };
        PodListCounts counts;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                Text members = { 0 }, shown = { 0 };

                text_printf(&members, "\"labels\":{%s}," OWNER("ReplicaSet", "web-a-7d9f", CONTROLLER), cases[i].hash);
                text_printf(&shown, "n_p_1\nk8s.replicaset.name=web-a-7d9f%s;", cases[i].deployment);
                cr_assert_str_eq(parse_pod(members.data, &none, &counts), shown.data);
                text_deinit(&members);
                text_deinit(&shown);
        }
}

Test(pod_list, keeps_labels_that_are_chosen) {
        const char *const globs[] = { "team", "app.kubernetes.io/*" };
        const PodLabels chosen = { (char *const *)globs, 2 };
        PodListCounts counts;

        cr_assert_str_eq(parse_pod("\"annotations\":{\"team\":\"no\"},\"labels\":{\"team\":\"A_1\",\"teams\":\"no\",\"tea\":\"no\","
                                   "\"app.kubernetes.io/name\":\"cart\",\"app.kubernetes.io/part-of\":\"\","
                                   "\"x\":{\"team\":\"no\"}},\"team\":\"no\"",
                                   &chosen, &counts),
                         "n_p_1\nk8s.pod.label.team=A_1\nk8s.pod.label.app.kubernetes.io/name=cart;");
        cr_assert_eq(counts.n_labels_over + counts.n_labels_malformed, 0);
        cr_assert_str_eq(parse_pod("\"labels\":[{\"team\":\"no\"}],\"labels\":[\"team\",\"no\"]", &chosen, &counts), "n_p_1;");
        /* labels of one pod are not those of the next */
        cr_assert_str_eq(parse_labels("{\"items\":[{\"metadata\":{\"labels\":{\"team\":\"a\",\"pod-template-hash\":\"h\"}}},"
                                      "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"1\"," OWNER(
                                              "ReplicaSet", "w-h", CONTROLLER) "}}]}",
                                      &chosen, &counts),
                         "n_p_1\nk8s.replicaset.name=w-h;");
}

Test(pod_list, counts_labels_that_break_the_rules_or_are_too_many) {
        const char *const globs[] = { "*" };
        const PodLabels all = { (char *const *)globs, 1 };
        PodListCounts counts;
        Text labels = { 0 };
        size_t n = 0;

        cr_assert_str_eq(parse_pod("\"labels\":{\"a\":\"x\\u006eb\",\"b\":\"1\nk8s.pod.name=no\",\"c=d\":\"1\","
                                   "\"e\":\"a b\",\"f\":\"ok\"}",
                                   &all, &counts),
                         "n_p_1\nk8s.pod.label.f=ok;", "an escape is no value of a label");
        cr_assert_eq(counts.n_labels_malformed, 3);
        text_printf(&labels, "\"labels\":{\"l\":\"%064d\"", 0);
        for (int i = 0; i < POD_LIST_MAX_LABELS + 5; i++)
                text_printf(&labels, ",\"l%d\":\"v\"", i);
        text_append(&labels, "}", 1);
        for (const char *at = parse_pod(labels.data, &all, &counts); (at = strchr(at, '\n')); at++)
                n++;
        cr_assert_eq(n, POD_LIST_MAX_LABELS);
        cr_assert_eq(counts.n_labels_over, 5);
        cr_assert_eq(counts.n_labels_malformed, 1);
        text_deinit(&labels);
}
