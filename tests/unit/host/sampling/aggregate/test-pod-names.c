/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/pod-names.h"
#include "stat-reset.h"

#define UID "0f5f6c5e-1b3a-4a6e-9d59-2f6b7b0d7a11"

static char directory[] = "/tmp/spanprof-pods-XXXXXX";
static PodNames *pods;
static uint64_t now_ns = NS_PER_SEC;

static void init(void) {
        stat_reset();
        cr_assert_not_null(mkdtemp(directory));
        cr_assert_eq(pod_names_new(&pods, directory, NULL), 0);
}

static void fini(void) {
        char command[sizeof(directory) + 16];

        pod_names_free(pods);
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        cr_assert_eq(system(command), 0);
}
TestSuite(pod_names, .init = init, .fini = fini);

static void make(const char *entry) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", directory, entry);
        cr_assert_eq(mkdir(path, 0755), 0);
}

Test(pod_names, are_those_of_the_kubelets_directory) {
        PodName name;

        make("shop_cart-7d9f_" UID);
        make("kube-system_etcd-node.1_6e1f");           /* a static pod has a hash for a uid */
        cr_assert_eq(pod_names_find(pods, UID, now_ns, &name), 0);
        cr_assert_str_eq(name.namespace, "shop");
        cr_assert_str_eq(name.name, "cart-7d9f");
        cr_assert_eq(pod_names_find(pods, "6e1f", now_ns, &name), 0);
        cr_assert_str_eq(name.namespace, "kube-system");
        cr_assert_str_eq(name.name, "etcd-node.1");
}

Test(pod_names, of_an_unknown_uid_cost_one_look_in_ten_seconds) {
        PodName name;

        cr_assert_eq(pod_names_find(pods, UID, now_ns, &name), POD_NAMES_E_UNKNOWN);
        make("shop_cart_" UID);
        now_ns += 10 * NS_PER_SEC - 1;
        cr_assert_eq(pod_names_find(pods, UID, now_ns, &name), POD_NAMES_E_UNKNOWN);
        cr_assert_eq(stat_get(COUNTER_POD_NAMES_UNKNOWN), 2);
        cr_assert_eq(pod_names_find(pods, UID, now_ns + 1, &name), 0);
}

Test(pod_names, are_none_without_a_directory) {
        _cleanup_(pod_names_freep) PodNames *none = NULL;
        PodName name;

        cr_assert_eq(pod_names_new(&none, "/no/such/directory", NULL), 0);
        cr_assert_eq(pod_names_find(none, UID, now_ns, &name), POD_NAMES_E_UNKNOWN);
}

Test(pod_names, of_more_pods_than_a_node_has_are_counted) {
        PodName name;
        char entry[64];

        for (int i = 0; i < 4100; i++) {
                snprintf(entry, sizeof(entry), "n_p%d_%x", i, i);
                make(entry);
        }
        pod_names_find(pods, "1", now_ns, &name);
        /* `.` and `..` are passed over or counted: which, is the directory's order */
        cr_assert_geq(stat_get(COUNTER_POD_NAMES_OVER_CAP), 4);
        cr_assert_leq(stat_get(COUNTER_POD_NAMES_OVER_CAP), 6);
}

static void count(void *userdata) {
        ++*(unsigned *)userdata;
}

Test(pod_names, of_a_lister_replace_its_last_ones_and_come_after_the_directory) {
        static const char first[] = "shop_cart_" UID "\0shop_old_77\0Shop_no_78\0", second[] = "shop_other_" UID;
        unsigned n_wants = 0;
        const PodLister lister = { count, &n_wants };
        _cleanup_(pod_names_freep) PodNames *listed = NULL;
        PodName name;

        make("by_directory_55");
        cr_assert_eq(pod_names_new(&listed, directory, &lister), 0);
        cr_assert_eq(pod_names_find(listed, UID, now_ns, &name), POD_NAMES_E_UNKNOWN);
        cr_assert_eq(n_wants, 1);
        cr_assert_eq(pod_names_take(listed, first, sizeof(first) - 1), 0);
        cr_assert_eq(pod_names_find(listed, UID, now_ns, &name), 0);
        cr_assert_str_eq(name.name, "cart");
        cr_assert_eq(pod_names_find(listed, "55", now_ns, &name), 0);
        cr_assert_str_eq(name.name, "directory");
        cr_assert_eq(pod_names_find(listed, "78", now_ns, &name), POD_NAMES_E_UNKNOWN);
        cr_assert_eq(pod_names_take(listed, second, sizeof(second)), 0);
        cr_assert_eq(pod_names_find(listed, UID, now_ns, &name), 0);
        cr_assert_str_eq(name.name, "other");
        cr_assert_eq(pod_names_find(listed, "77", now_ns, &name), POD_NAMES_E_UNKNOWN);
}

Test(pod_names, have_what_else_the_lister_says_beside_the_directory) {
        static const char first[] = "shop_cart_" UID "\nk8s.pod.label.team=a\nk8s.job.name=b\0shop_bare_77";
        unsigned n_wants = 0;
        const PodLister lister = { count, &n_wants };
        _cleanup_(pod_names_freep) PodNames *listed = NULL;
        PodName name;

        make("shop_cart_" UID);
        cr_assert_eq(pod_names_new(&listed, directory, &lister), 0);
        cr_assert_eq(pod_names_find(listed, UID, now_ns, &name), 0);
        cr_assert_eq(n_wants, 1, "the directory has its name alone");
        cr_assert_str_eq(name.name, "cart");
        cr_assert_null(name.more);
        cr_assert_eq(pod_names_take(listed, first, sizeof(first)), 0);
        cr_assert_eq(pod_names_find(listed, UID, now_ns, &name), 0);
        cr_assert_str_eq(name.name, "cart");
        cr_assert_arr_eq(name.more, "k8s.pod.label.team\0a\0k8s.job.name\0b\0", 36);
        cr_assert_eq(pod_names_find(listed, "77", now_ns, &name), 0);
        cr_assert_str_eq(name.more, "");
        cr_assert_eq(n_wants, 1);
}

/* @n: questions to the lister within @seconds, if a process of an unknown pod is met in each of them. */
static void expect_wants(PodNames *listed, const unsigned *n_wants, unsigned seconds, unsigned n) {
        unsigned before = *n_wants;
        PodName name;

        for (unsigned i = 0; i < seconds; i++, now_ns += NS_PER_SEC)
                cr_assert_eq(pod_names_find(listed, "77", now_ns, &name), POD_NAMES_E_UNKNOWN);
        cr_assert_eq(*n_wants - before, n, "%u questions in %u s", *n_wants - before, seconds);
}

Test(pod_names, of_a_uid_that_no_list_has_are_asked_for_less_and_less_often) {
        static const char list[] = "shop_cart_1", other[] = "shop_cart_1\0shop_pay_2";
        unsigned n_wants = 0;
        const PodLister lister = { count, &n_wants };
        _cleanup_(pod_names_freep) PodNames *listed = NULL;

        cr_assert_eq(pod_names_new(&listed, "", &lister), 0);
        expect_wants(listed, &n_wants, 1, 1);
        cr_assert_eq(pod_names_take(listed, list, sizeof(list)), 0);
        expect_wants(listed, &n_wants, 800, 13);        /* after 10, 10, 20, 40 and then 80 s */
        cr_assert_eq(pod_names_take(listed, list, sizeof(list)), 0);
        expect_wants(listed, &n_wants, 800, 10);
        cr_assert_eq(pod_names_take(listed, other, sizeof(other)), 0);
        expect_wants(listed, &n_wants, 800, 12);
}

Test(pod_names, are_taken_by_the_rules_of_kubernetes_alone) {
        static const char *const wrong[] = { "", ".", "a_b", "_b_1", "a__1", "a_b_", "A_b_1", "a_b_xyz", "a_b_c_1",
                                             "a_b/c_1", "a b_c_1" };
        const char *uid;
        PodName name;

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                char entry[32];

                snprintf(entry, sizeof(entry), "%s", wrong[i]);
                cr_assert_eq(pod_names_parse(entry, &name, &uid), POD_NAMES_E_UNKNOWN, "%s", wrong[i]);
        }
}
