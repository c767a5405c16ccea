/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/discover/selector.h"

static SelectorReason decide(const Selector *selector, uint32_t pid, const char *comm, bool publishes) {
        return selector_decide(selector,
                               &(SelectorFacts){ .pid = pid, .comm = comm, .publishes = publishes });
}

static const uint32_t pids[] = { 7, 9 }, self[] = { 100 };
static const char *const comms[] = { "nginx", "wor?er-*" };

Test(selector, takes_publishers_when_nothing_is_asked_for) {
        Selector selector = { .excluded = self, .n_excluded = 1 };

        cr_assert(selector_is_default(&selector) && !selector_is_by_name(&selector));
        cr_assert_eq(decide(&selector, 5, "x", true), SELECTOR_PUBLISHER);
        cr_assert_eq(decide(&selector, 5, "x", false), SELECTOR_SILENT);
        cr_assert_eq(decide(&selector, 100, "x", true), SELECTOR_EXCLUDED);
}

Test(selector, replaces_the_default_by_any_selector) {
        Selector selector = { .pids = pids, .n_pids = 2 };

        cr_assert_eq(decide(&selector, 9, "x", false), SELECTOR_PID);
        cr_assert_eq(decide(&selector, 8, "x", true), SELECTOR_UNCHOSEN);
        cr_assert(!selector_is_by_name(&selector));
}

Test(selector, joins_selectors_by_or_and_lets_excludes_win) {
        Selector selector = { .pids = pids, .n_pids = 2, .comms = comms, .n_comms = 2,
                              .excluded = (uint32_t[]){ 9, 100 }, .n_excluded = 2 };

        cr_assert(selector_is_by_name(&selector));
        cr_assert_eq(decide(&selector, 7, "nginx", false), SELECTOR_PID);
        cr_assert_eq(decide(&selector, 8, "nginx", false), SELECTOR_COMM);
        cr_assert_eq(decide(&selector, 8, "worker-12", false), SELECTOR_COMM);
        cr_assert_eq(decide(&selector, 8, "xnginx", false), SELECTOR_UNCHOSEN);
        cr_assert_eq(decide(&selector, 9, "nginx", true), SELECTOR_EXCLUDED);
        selector.all = true;
        cr_assert_eq(decide(&selector, 8, "xnginx", false), SELECTOR_ALL);
        cr_assert_eq(decide(&selector, 100, "nginx", false), SELECTOR_EXCLUDED);
}

Test(selector, adds_publishers_to_others_when_asked) {
        Selector selector = { .comms = comms, .n_comms = 2, .publishers = true, .excluded = self,
                              .n_excluded = 1 };

        cr_assert(selector_takes_publishers(&selector) && !selector_is_default(&selector));
        cr_assert(selector_is_by_name(&selector));
        cr_assert_eq(decide(&selector, 8, "nginx", false), SELECTOR_COMM);
        cr_assert_eq(decide(&selector, 8, "xnginx", true), SELECTOR_PUBLISHER);
        cr_assert_eq(decide(&selector, 8, "xnginx", false), SELECTOR_SILENT);
        cr_assert_eq(decide(&selector, 100, "nginx", true), SELECTOR_EXCLUDED);
        cr_assert_eq(selector_names(&selector), ABI_NAMES_NONE, "a name alone decides nothing any more");
        selector.publishers = false;
        cr_assert_not(selector_takes_publishers(&selector));
        cr_assert(selector_takes_publishers(&(Selector){ 0 }));
}

static bool rejects(const Selector *selector, const char *comm, uint32_t uid) {
        struct abi_name name = { .uid = uid };

        strncpy(name.comm, comm, sizeof(name.comm) - 1);
        return selector_rejects_name(selector, &name);
}

/* What the kernel half may decide alone. */
Test(selector, knows_where_names_decide) {
        static const SelectorRule users[] = { { SELECTOR_KIND_USER, 1000, NULL } },
                                  by_pid[] = { { SELECTOR_KIND_PID, 7, NULL } },
                                  by_exe[] = { { SELECTOR_KIND_EXE, 0, "nginx" } };
        Selector by_comm = { .comms = comms, .n_comms = 2 }, none = { 0 };
        Selector by_user = { .rules = users, .n_rules = 1 }, more = by_comm;

        cr_expect_eq(selector_names(&none), ABI_NAMES_NONE);
        cr_expect_eq(selector_names(&by_comm), ABI_NAMES_COMM);
        cr_expect_eq(selector_names(&by_user), ABI_NAMES_COMM_USER);
        cr_expect(rejects(&by_comm, "xnginx", 0) && !rejects(&by_comm, "nginx", 0));
        cr_expect(rejects(&by_user, "nginx", 0) && !rejects(&by_user, "nginx", 1000));
        more.pids = pids;
        more.n_pids = 2;
        cr_expect_eq(selector_names(&more), ABI_NAMES_NONE, "a pid may have any name");
        more = by_comm;
        more.rules = by_exe;
        more.n_rules = 1;
        cr_expect_eq(selector_names(&more), ABI_NAMES_NONE);
        more.rules = by_pid;
        cr_expect_eq(selector_names(&more), ABI_NAMES_NONE);
        more = by_comm;
        more.exclude_rules = by_exe;
        more.n_exclude_rules = 1;
        cr_expect_eq(selector_names(&more), ABI_NAMES_NONE);
        more.exclude_rules = users;
        cr_expect_eq(selector_names(&more), ABI_NAMES_COMM_USER);
        cr_expect(rejects(&more, "nginx", 1000) && !rejects(&more, "nginx", 0));
        more = (Selector){ .all = true, .exclude_rules = users, .n_exclude_rules = 1 };
        cr_expect(rejects(&more, "x", 1000) && !rejects(&more, "x", 0));
}

Test(selector, has_words_for_every_reason) {
        for (SelectorReason reason = SELECTOR_UNCHOSEN; reason <= SELECTOR_PUBLISHER; reason++)
                cr_assert_not_null(selector_reason_text(reason));
        for (SelectorKind kind = 0; kind < SELECTOR_N_KINDS; kind++)
                cr_assert(strstr(selector_reason_text(SELECTOR_PID + (SelectorReason)kind),
                                 selector_kind_name(kind)));
        cr_assert(!selector_is_chosen(SELECTOR_EXCLUDED) && selector_is_chosen(SELECTOR_PID));
}

/* ---- by who it is ---- */

static char exe[] = "/usr/sbin/nginx", groups[] = "1:name=systemd:/system.slice/nginx.service\n"
        "0::/kubepods/pod1/00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
static const Identity identity = {
        .exe = exe, .uid = 33, .has_uid = true, .groups = groups, .groups_size = sizeof(groups) - 1
};

static SelectorReason decide_by(SelectorKind kind, const char *pattern, uint32_t number, const Identity *who,
                                bool is_kernel) {
        SelectorRule rule = { .kind = kind, .pattern = pattern, .number = number };
        Selector selector = { .rules = &rule, .n_rules = 1 };
        SelectorFacts facts = {
                .pid = 5, .comm = "worker", .is_kernel = is_kernel, .publishes = true, .identity = who
        };

        cr_assert(!selector_is_default(&selector));
        return selector_decide(&selector, &facts);
}

Test(selector, chooses_by_every_kind) {
        static const struct {
                SelectorKind kind;
                const char *fits, *fits_not;
                uint32_t number, not_number;
                SelectorReason reason;
        } rows[] = {
                { SELECTOR_KIND_PID, NULL, NULL, 5, 6, SELECTOR_PID },
                { SELECTOR_KIND_COMM, "wor*", "nginx", 0, 0, SELECTOR_COMM },
                { SELECTOR_KIND_EXE, "/usr/*/nginx", "/usr/bin/*", 0, 0, SELECTOR_EXE },
                { SELECTOR_KIND_EXE, "ngin?", "sbin", 0, 0, SELECTOR_EXE },
                { SELECTOR_KIND_CGROUP, "/system.slice", "/nginx.service", 0, 0, SELECTOR_CGROUP },
                { SELECTOR_KIND_CGROUP, "/kubepods/*", "/kube", 0, 0, SELECTOR_CGROUP },
                { SELECTOR_KIND_CONTAINER, "001122334455", "112233", 0, 0, SELECTOR_CONTAINER },
                { SELECTOR_KIND_USER, NULL, NULL, 33, 0, SELECTOR_USER },
                { SELECTOR_KIND_UNIT, "nginx", "ngin", 0, 0, SELECTOR_UNIT },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                cr_expect_eq(decide_by(rows[i].kind, rows[i].fits, rows[i].number, &identity, false),
                             rows[i].reason, "row %zu", i);
                cr_expect_eq(decide_by(rows[i].kind, rows[i].fits_not, rows[i].not_number, &identity, false),
                             SELECTOR_UNCHOSEN, "row %zu", i);
        }
}

Test(selector, chooses_nobody_by_what_is_unknown) {
        static const Identity nobody = { 0 };

        for (SelectorKind kind = SELECTOR_KIND_EXE; kind < SELECTOR_N_KINDS; kind++) {
                cr_expect_eq(decide_by(kind, "*", 0, NULL, false), SELECTOR_UNCHOSEN);
                cr_expect_eq(decide_by(kind, "*", 0, &nobody, false), SELECTOR_UNCHOSEN);
                cr_expect_eq(decide_by(kind, "*", 33, &identity, true), SELECTOR_UNCHOSEN, "a kernel thread");
        }
}

Test(selector, excludes_by_rules_and_keeps_the_default) {
        static const SelectorRule rules[] = { { .kind = SELECTOR_KIND_USER, .number = 33 },
                                              { .kind = SELECTOR_KIND_PID, .number = 8 } };
        Selector selector = { .exclude_rules = rules, .n_exclude_rules = 2 };
        SelectorFacts facts = { .pid = 5, .comm = "x", .publishes = true, .identity = &identity };

        cr_assert(selector_is_default(&selector) && !selector_is_by_name(&selector));
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_EXCLUDED);
        selector.all = true;
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_EXCLUDED);
        facts.identity = NULL;
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_EXCLUDED,
                     "who it was cannot be told any more");
        facts.is_kernel = true;
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_ALL);
        facts.is_kernel = false;
        facts.identity = &(Identity){ .uid = 34, .has_uid = true };
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_ALL);
        facts.is_inherited = true;
        cr_assert_eq(selector_decide(&selector, &facts), SELECTOR_EXCLUDED,
                     "it may have changed its user since its parent made it");
        cr_assert(selector_excludes_pid(&selector, 8) && !selector_excludes_pid(&selector, 5));
}

static const char *asked_comm;

static bool note_comm(const void *userdata, uint32_t pid, const char *comm) {
        asked_comm = comm;
        return pid == 9;
}

Test(selector, helpers_are_asked_for_by_name) {
        const Selector selector = { .all = true, .is_ours = note_comm };

        cr_assert_eq(selector_decide(&selector, &(SelectorFacts){ .pid = 9, .comm = "x" }),
                     SELECTOR_EXCLUDED);
        cr_assert_str_eq(asked_comm, "x");
        cr_assert_eq(selector_decide(&selector, &(SelectorFacts){ .pid = 8 }), SELECTOR_ALL);
        cr_assert_null(asked_comm, "it is not known");
}

Test(selector, all_is_alone_where_nothing_else_chooses) {
        static const SelectorRule rule = { .kind = SELECTOR_KIND_PID, .number = 8 };
        static const uint32_t pid = 8;

        cr_assert(selector_is_all_alone(&(Selector){ .all = true, .exclude_rules = &rule,
                                                     .n_exclude_rules = 1, .publishers = true }));
        cr_assert_not(selector_is_all_alone(&(Selector){ 0 }));
        cr_assert_not(selector_is_all_alone(&(Selector){ .all = true, .pids = &pid, .n_pids = 1 }));
        cr_assert_not(selector_is_all_alone(&(Selector){ .all = true, .comms = comms, .n_comms = 1 }));
        cr_assert_not(selector_is_all_alone(&(Selector){ .all = true, .rules = &rule, .n_rules = 1 }));
        cr_assert_not(selector_is_all_alone(&(Selector){ .all = true, .trees = &pid, .n_trees = 1 }));
}

Test(selector, asks_only_for_what_decisions_need) {
        static const SelectorRule exe_rule = { .kind = SELECTOR_KIND_EXE, .pattern = "x" },
                                  user_rule = { .kind = SELECTOR_KIND_USER },
                                  pid_rule = { .kind = SELECTOR_KIND_PID };

        cr_assert_eq(selector_needs(&(Selector){ .comms = comms, .n_comms = 2, .all = true }), 0);
        cr_assert_eq(selector_needs(&(Selector){ .rules = &exe_rule,
                                                 .n_rules = 1,
                                                 .exclude_rules = &user_rule,
                                                 .n_exclude_rules = 1 }),
                     IDENTITY_EXE | IDENTITY_USER);
        cr_assert(selector_is_by_name(&(Selector){ .rules = &exe_rule, .n_rules = 1 }));
        cr_assert_not(selector_is_by_name(&(Selector){ .rules = &pid_rule, .n_rules = 1 }));
}
