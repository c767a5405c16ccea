/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/service/limits/boosts.h"

static Boost parsed(const char *path) {
        Boost boost;

        cr_assert_eq(boost_parse(path, &boost), 0, "%s", path);
        return boost;
}

Test(boosts, reads_what_is_asked) {
        Boost unit = parsed("/unit/shop@1.service/frequency/499/for/60"),
              process = parsed("/for/600/process/812/frequency/1000");

        cr_assert_str_eq(unit.unit, "shop@1.service");
        cr_assert_eq(unit.pid, 0);
        cr_assert_eq(unit.frequency, 499);
        cr_assert_eq(unit.length_ns, 60 * NS_PER_SEC);
        cr_assert_str_eq(process.unit, "");
        cr_assert_eq(process.pid, 812);
}

Test(boosts, refuses_all_else) {
        static const char *const paths[] = {
                "",
                "/",
                "/unit/shop",
                "/unit/shop/frequency/499",
                "/frequency/499/for/60",
                "/unit//frequency/499/for/60",
                "/unit/a/process/7/frequency/499/for/60",
                "/unit/a/unit/b/frequency/499/for/60",
                "/process/7/process/7/frequency/499/for/60",
                "/process/0/frequency/499/for/60",
                "/process/-1/frequency/499/for/60",
                "/process/7/frequency/1001/for/60",
                "/process/7/frequency/0/for/60",
                "/process/7/frequency/499/for/601",
                "/process/7/frequency/499/for/0",
                "/process/7/frequency/499/for/60/",
                "/process/7/frequency/499/for/60/more/1",
                "process/7/frequency/499/for/60",
        };
        char path[512], name[BOOST_UNIT_SIZE + 1] = "";
        Boost boost;

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
                cr_assert_eq(boost_parse(paths[i], &boost), BOOST_E_MALFORMED, "%s", paths[i]);
        memset(name, 'a', BOOST_UNIT_SIZE);
        snprintf(path, sizeof(path), "/unit/%s/frequency/499/for/60", name);
        cr_assert_eq(boost_parse(path, &boost), BOOST_E_MALFORMED);
        snprintf(path, sizeof(path), "/unit/%s/frequency/499/for/60", name + 1);
        cr_assert_eq(boost_parse(path, &boost), 0);
}

Test(boosts, mean_a_process_until_it_is_another_or_a_unit) {
        Identity identity = { .cgroup = (char *)"/system.slice/shop.service/worker" };
        Process process = { .pid = 812, .start_time_ns = 5 };
        Boosts boosts = { 0 };
        Boost boost = parsed("/process/812/frequency/499/for/60");

        cr_assert(!boosts_mean(&boosts, &process));
        boost.start_time_ns = 5;
        cr_assert(boosts_add(&boosts, &boost));
        cr_assert(boosts_mean(&boosts, &process));
        process.start_time_ns = 6;
        cr_assert(!boosts_mean(&boosts, &process));
        boost = parsed("/unit/shop/frequency/499/for/60");
        cr_assert(boosts_add(&boosts, &boost));
        cr_assert(!boosts_mean(&boosts, &process), "its unit is not known");
        process.identity = &identity;
        cr_assert(boosts_mean(&boosts, &process));
        identity.cgroup = (char *)"/system.slice/shopping.service";
        cr_assert(!boosts_mean(&boosts, &process));
}

Test(boosts, are_a_few_and_end) {
        Boosts boosts = { 0 };
        Boost boost;
        char path[64];

        for (int i = 1; i <= BOOSTS_MAX + 1; i++) {
                snprintf(path, sizeof(path), "/process/%d/frequency/%d/for/60", i, 100 * i);
                boost = parsed(path);
                boost.end_ns = 10 * (uint64_t)i;
                cr_assert_eq(boosts_add(&boosts, &boost), i <= BOOSTS_MAX);
        }
        boost = parsed("/process/1/frequency/990/for/60");
        boost.end_ns = 15;
        cr_assert(boosts_add(&boosts, &boost), "it replaces the first one");
        cr_assert_eq(boosts.n, BOOSTS_MAX);
        cr_assert_eq(boosts_ticks(&boosts, 99), 10);
        cr_assert_eq(boosts_expire(&boosts, 14), 0);
        cr_assert_eq(boosts_expire(&boosts, 20), 2);
        cr_assert_eq(boosts_ticks(&boosts, 99), 4);
        cr_assert_eq(boosts_expire(&boosts, UINT64_MAX), 2);
        cr_assert_eq(boosts_ticks(&boosts, 99), 1);
}

Test(boosts, of_too_little_are_none) {
        cr_assert_eq(boosts_ticks(&(Boosts){ { { .frequency = 148 } }, 1 }, 99), 1);
        cr_assert_eq(boosts_ticks(&(Boosts){ { { .frequency = 149 } }, 1 }, 99), 2);
        cr_assert_eq(boosts_ticks(&(Boosts){ { { .frequency = 150 } }, 1 }, 100), 2);
}
