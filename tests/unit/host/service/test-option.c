/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/service/config/config-selector.h"
#include "host/service/config/option-check.h"
#include "host/service/config/option-removed.h"
#include "host/service/config/option.h"

static Config config;
static Text problem;

static void setup(void) {
        cr_assert_eq(config_init(&config), 0);
}

static void teardown(void) {
        config_deinit(&config);
        text_deinit(&problem);
}

TestSuite(option, .init = setup, .fini = teardown);

static const Option *named(const char *name) {
        const Option *option = option_find(name, strlen(name));

        cr_assert_not_null(option, "%s", name);
        return option;
}

static int set(const char *name, const char *value) {
        text_deinit(&problem);
        return option_set(named(name), &config, value, false, &problem);
}

static const char *shown(const char *name) {
        static Text text;

        text_deinit(&text);
        option_print(named(name), &config, &text);
        return text.data ? text.data : "";
}

static void refuses(const char *name, const char *value, const char *expected) {
        char before[256];

        snprintf(before, sizeof(before), "%s", shown(name));
        cr_assert_eq(set(name, value), OPTION_E_INVALID, "%s = %s", name, value);
        cr_assert_str_eq(problem.data, expected);
        cr_assert_str_eq(shown(name), before, "a wrong value changes nothing");
}

Test(option, takes_words_for_on_and_off) {
        static const char *const on[] = { "on", "yes", "true", "1" },
                                 *const off[] = { "off", "no", "false", "0" };

        for (size_t i = 0; i < ARRAY_SIZE(on); i++) {
                cr_assert_eq(set("all", on[i]), 0);
                cr_assert(config.targets.all, "%s", on[i]);
                cr_assert_eq(set("all", off[i]), 0);
                cr_assert_not(config.targets.all, "%s", off[i]);
        }
        refuses("all", "", "`` is neither `on` nor `off`");
        refuses("all", "On", "`On` is neither `on` nor `off`");
}

Test(option, takes_numbers_within_their_range) {
        cr_assert_eq(set("frequency", "1"), 0);
        cr_assert_eq(config.sampling.frequency, 1);
        cr_assert_eq(set("frequency", "10000"), 0);
        cr_assert_eq(config.sampling.frequency, 10000);
        refuses("frequency", "0", "`0` is out of range (1 to 10000)");
        refuses("frequency", "10001", "`10001` is out of range (1 to 10000)");
        refuses("frequency", "18446744073709551617", "`18446744073709551617` is out of range (1 to 10000)");
        refuses("frequency", "-1", "`-1` is no number (1 to 10000)");
        refuses("frequency", "99Hz", "`99Hz` is no number (1 to 10000)");
        refuses("frequency", "", "`` is no number (1 to 10000)");
        refuses("depth", "1025", "`1025` is out of range (1 to 1024)");
}

Test(option, takes_times_with_a_unit) {
        static const struct {
                const char *text;
                uint64_t ns;
                const char *shown;
        } good[] = {
                { "500ms", UINT64_C(500000000), "500ms" },   { "15s", UINT64_C(15000000000), "15s" },
                { "2m", UINT64_C(120000000000), "2m" },      { "1h", UINT64_C(3600000000000), "1h" },
                { "90 s", UINT64_C(90000000000), "90s" },    { "0", 0, "0" },
                { "3600000ms", UINT64_C(3600000000000), "1h" },
                { "0.3", UINT64_C(300000000), "300ms" },     { "1.25s", UINT64_C(1250000000), "1250ms" },
                { "0.5 h", UINT64_C(1800000000000), "30m" }, { "0.0", 0, "0" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                cr_assert_eq(set("duration", good[i].text), 0, "%s", good[i].text);
                cr_assert_eq(config.daemon.duration_ns, good[i].ns, "%s", good[i].text);
                cr_assert_str_eq(shown("duration"), good[i].shown);
        }
        refuses("export-interval", "15", "`15` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", "15sec", "`15sec` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", "1m30s", "`1m30s` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", "1.5", "`1.5` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", "1.s", "`1.s` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", "1.5.5s", "`1.5.5s` needs a unit: ms, s, m or h (1s to 1h)");
        refuses("export-interval", ".5s", "`.5s` is no time (1s to 1h)");
        refuses("export-interval", "0.999s", "`0.999s` is out of range (1s to 1h)");
        refuses("duration", "0.0001", "`0.0001` is finer than a millisecond (0 to 8784h)");
        refuses("export-interval", "soon", "`soon` is no time (1s to 1h)");
        refuses("export-interval", "-1s", "`-1s` is no time (1s to 1h)");
        refuses("export-interval", "", "`` is no time (1s to 1h)");
        refuses("export-interval", "999ms", "`999ms` is out of range (1s to 1h)");
        refuses("export-interval", "61m", "`61m` is out of range (1s to 1h)");
        refuses("export-interval", "99999999999999999999s",
                "`99999999999999999999s` is out of range (1s to 1h)");
        refuses("export-interval", "9999999999999999999h",
                "`9999999999999999999h` is out of range (1s to 1h)");
}

Test(option, takes_sizes_with_or_without_a_unit) {
        static const struct {
                const char *text;
                uint64_t bytes;
        } good[] = {
                { "65536", 65536 },     { "64K", 65536 },           { "64KiB", 65536 },
                { "8M", 8388608 },      { "8 MiB", 8388608 },       { "1GiB", 1073741824 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                cr_assert_eq(set("max-queue", good[i].text), 0, "%s", good[i].text);
                cr_assert_eq(config.delivery.max_queue_bytes, good[i].bytes, "%s", good[i].text);
        }
        cr_assert_eq(set("max-queue", "1536K"), 0);
        cr_assert_str_eq(shown("max-queue"), "1536KiB");
        refuses("max-queue", "8MB", "`8MB` has an unknown unit: K, M, G, KiB, MiB or GiB (64KiB to 1GiB)");
        refuses("max-queue", "1.5M", "`1.5M` has an unknown unit: K, M, G, KiB, MiB or GiB (64KiB to 1GiB)");
        refuses("max-queue", "much", "`much` is no size (64KiB to 1GiB)");
        refuses("max-queue", "2G", "`2G` is out of range (64KiB to 1GiB)");
        refuses("max-queue", "17179869184G", "`17179869184G` is out of range (64KiB to 1GiB)");
}

Test(option, takes_one_of_its_words) {
        cr_assert_eq(set("compression", "none"), 0);
        cr_assert_str_eq(config.delivery.compression, "none");
        refuses("compression", "zstd", "`zstd` is not one of its values (gzip, none)");
        refuses("compression", "", "`` is not one of its values (gzip, none)");
        refuses("compression", "gz", "`gz` is not one of its values (gzip, none)");
        refuses("compression", "gzip none", "`gzip none` is not one of its values (gzip, none)");
}

Test(option, takes_urls) {
        cr_assert_eq(set("endpoint", "https://[::1]:4318/base"), 0);
        cr_assert_str_eq(config.delivery.endpoint, "https://[::1]:4318/base");
        cr_assert_eq(set("endpoint", ""), 0);
        static const char *const bad[] = { "localhost:4318", "ftp://host",   "http://",
                                           "http:///path",   "http://:4318", "http://a b" };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_eq(set("endpoint", bad[i]), OPTION_E_INVALID, "%s", bad[i]);
}

Test(option, splits_lists_at_commas) {
        cr_assert_eq(set("comm", " xz , python3*,ssh[d] "), 0);
        cr_assert_eq(config.targets.comms.n_items, 3);
        cr_assert_str_eq(config.targets.comms.items[0], "xz");
        cr_assert_str_eq(config.targets.comms.items[1], "python3*");
        cr_assert_str_eq(config.targets.comms.items[2], "ssh[d]");
        cr_assert_str_eq(shown("comm"), "xz,python3*,ssh[d]");
        refuses("comm", "a,,b", "`a,,b` has an empty item");
        refuses("comm", "a,", "`a,` has an empty item");
        refuses("comm", ",", "`,` has an empty item");
        cr_assert_eq(set("comm", ""), 0);
        cr_assert_eq(config.targets.comms.n_items, 0);
}

Test(option, says_that_a_long_name_would_never_match) {
        refuses("comm", "example-service-7",
                "`example-service-7` is longer than the 15 bytes that the kernel keeps of a "
                "name; use `example-service`");
        cr_assert_eq(set("comm", "example-service"), 0);
        cr_assert_eq(set("comm", "example-service*"), 0);
}

Test(option, takes_users_that_there_are) {
        cr_assert_eq(set("user", "root,65533"), 0);
        cr_assert_str_eq(shown("user"), "root,65533");
        refuses("user", "root,no-such-user-here", "there is no user `no-such-user-here`");
        refuses("user", "4294967296", "there is no user `4294967296`");
}

Test(option, takes_excludes_by_kind) {
        cr_assert_eq(
                set("exclude", "pid=7,comm=nginx,exe=/usr/*,cgroup=/a=b,container=*,user=root,unit=cron"), 0);
        refuses("exclude", "nginx",
                "`nginx` is not KIND=PATTERN with KIND one of pid, comm, exe, cgroup, container, user, unit");
        refuses("exclude", "com=x",
                "`com=x` is not KIND=PATTERN with KIND one of pid, comm, exe, cgroup, container, user, unit");
        refuses("exclude", "=x",
                "`=x` is not KIND=PATTERN with KIND one of pid, comm, exe, cgroup, container, user, unit");
        refuses("exclude", "exe=", "`exe=` chooses no process");
        refuses("exclude", "pid=x", "`pid=x` chooses no process");
        refuses("exclude", "user=no-such-user-here", "`user=no-such-user-here` chooses no process");
        refuses("exclude", "comm=sixteen-letters-",
                "`sixteen-letters-` is longer than the 15 bytes that the kernel keeps of a name; use `sixteen-letters`");
}

Test(option, makes_a_selector_of_all_of_them) {
        ConfigSelector made;
        SelectorFacts facts = { .pid = 5, .comm = "x" };
        Identity root = { .uid = 0, .has_uid = true };

        cr_assert_eq(set("user", "root"), 0);
        cr_assert_eq(set("unit", "a,b"), 0);
        cr_assert_eq(set("exclude", "pid=6"), 0);
        cr_assert_eq(config_selector_init(&made, &config.targets), 0);
        facts.identity = &root;
        cr_assert_eq(selector_decide(&made.selector, &facts), SELECTOR_USER);
        facts.pid = 6;
        cr_assert_eq(selector_decide(&made.selector, &facts), SELECTOR_EXCLUDED);
        facts.pid = (uint32_t)getpid();
        cr_assert_eq(selector_decide(&made.selector, &facts), SELECTOR_EXCLUDED);
        cr_assert_eq(selector_needs(&made.selector), IDENTITY_USER | IDENTITY_CGROUP);
        config_selector_deinit(&made);
}

Test(option, takes_process_ids) {
        cr_assert_eq(set("pid", "1, 4194304"), 0);
        cr_assert_eq(config.targets.pids.n_items, 2);
        cr_assert_eq(config.targets.pids.items[0], 1);
        cr_assert_eq(config.targets.pids.items[1], 4194304);
        refuses("pid", "0", "`0` is out of range (1 to 4194304)");
        refuses("pid", "7,bash", "`bash` is no number (1 to 4194304)");
        cr_assert_eq(option_set(named("pid"), &config, "9", true, &problem), 0);
        cr_assert_eq(config.targets.pids.n_items, 3);
        cr_assert_eq(config.targets.pids.items[2], 9);
}

Test(option, has_a_consistent_table) {
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                cr_assert_eq(option_find(option->name, strlen(option->name)), option, "%s has its name alone",
                             option->name);
                for (int bit = 1; bit > 0 && bit < 1 << 30; bit <<= 1)
                        cr_assert(!option->letter || !option_is_for(option, bit) ||
                                          option_find_letter(option->letter, bit) == option,
                                  "-%c is one option of each verb", option->letter);
                cr_assert(option->verbs && option->help && *option->help, "%s", option->name);
                cr_assert(option->kind == OPTION_BOOL || option->argument, "%s names its value",
                          option->name);
                for (size_t j = 0; j < i; j++)
                        cr_assert_neq(option_table[j].offset, option->offset, "%s has its own field",
                                      option->name);
        }
}

/* Releases by the second number of a version, from the first one without the option on. */
Test(option, keeps_a_removed_one_for_two_releases) {
        unsigned major, minor, since_major, since_minor;

        cr_assert_eq(sscanf(SPANPROF_VERSION, "%u.%u.", &major, &minor), 2);
        for (size_t i = 0; i < n_removed_options; i++) {
                const RemovedOption *removed = &removed_options[i];

                cr_assert_eq(sscanf(removed->since, "%u.%u.", &since_major, &since_minor), 2);
                cr_expect(major < since_major || (major == since_major && minor < since_minor + 2),
                          "`%s` is gone since %s: remove its row", removed->name, removed->since);
        }
}

Test(option, has_a_successor_for_a_removed_one_that_its_verbs_take) {
        for (size_t i = 0; i < n_removed_options; i++) {
                const RemovedOption *removed = &removed_options[i];

                const Option *other = option_find(removed->name, strlen(removed->name));

                cr_expect(!other || (!(other->verbs & removed->verbs) && !other->section), "%s", removed->name);
                cr_expect(*removed->advice, "%s", removed->name);
                if (removed->successor)
                        cr_expect_eq(named(removed->successor)->verbs & removed->verbs, removed->verbs, "%s",
                                     removed->name);
        }
}

Test(option, gives_the_value_of_a_removed_one_to_its_successor) {
        const RemovedOption *removed = removed_find("for", 3, VERB_VALIDATE);

        cr_assert_not_null(removed);
        cr_assert_null(removed_find("for", 3, VERB_RUN), "which never took it");
        cr_assert_eq(removed_apply(removed, &config, "nobody", CONFIG_FILE, "x", "x"), 0, "no mistake");
        cr_assert_str_eq(config.form.backend, "otlp");
        cr_assert_eq(removed_apply(removed, &config, "parca", CONFIG_FILE, "x", "x"), 0);
        cr_assert_str_eq(config.form.backend, "parca");
        cr_assert_eq(removed_apply(removed, &config, "pyroscope", CONFIG_DEFAULT, "x", "x"), 0);
        cr_assert_str_eq(config.form.backend, "parca", "a higher level has set it");
}

Test(option, makes_names_for_the_environment) {
        char name[OPTION_ENVIRONMENT_MAX];

        option_environment(named("export-interval"), name);
        cr_assert_str_eq(name, "SPANPROF_EXPORT_INTERVAL");
}

Test(option, knows_what_was_nearly_typed) {
        static const char *const words[] = { "run", "report", "receive", "frequency", "kernel-stacks", NULL };
        static const struct {
                const char *typed, *near;
        } cases[] = {
                { "freqency", "frequency" },
                { "frequnecy", "frequency" },
                { "freq", "frequency" },
                { "kernel_stacks", "kernel-stacks" },
                { "rnu", "run" },
                { "reprot", "report" },
                { "xyz", NULL },
                { "", NULL },
                { "completely-different", NULL },
                { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *near = nearest_word(cases[i].typed, words);

                cr_assert((!near && !cases[i].near) ||
                                  (near && cases[i].near && !strcmp(near, cases[i].near)),
                          "%s → %s", cases[i].typed, near ? near : "nothing");
        }
}

/* Addresses as RFC 3986 writes them with a port, and as getaddrinfo(3) takes them without one. */
Test(option, splits_an_address_to_listen_on) {
        static const struct {
                const char *text, *host;
                int port;               /* -1 = it has none */
        } good[] = {
                { "127.0.0.1", "127.0.0.1", -1 }, { "127.0.0.1:4318", "127.0.0.1", 4318 },
                { "localhost:0", "localhost", 0 }, { "::1", "::1", -1 },
                { "[::1]", "::1", -1 },           { "[::1]:65535", "::1", 65535 },
        };
        static const char *const bad[] = { "", ":4318", "a:b", "a:65536", "a:-1", "[::1", "[::1]4318", "[::1]:" };
        char host[16];

        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
                bool has_port = false;
                uint16_t port = 7;

                cr_expect_eq(option_split_listen(good[i].text, host, sizeof(host), &has_port, &port), 0, "%s",
                             good[i].text);
                cr_expect_str_eq(host, good[i].host);
                cr_expect_eq(has_port ? port : -1, good[i].port, "%s", good[i].text);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                bool has_port;
                uint16_t port;

                cr_expect_eq(option_split_listen(bad[i], host, sizeof(host), &has_port, &port), 1, "%s",
                             bad[i]);
        }
        cr_expect_eq(option_split_listen("longer.than.sixteen.example", host, sizeof(host), &(bool){ false },
                                         &(uint16_t){ 0 }), 1);
}
