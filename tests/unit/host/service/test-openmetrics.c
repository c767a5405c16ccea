/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/service/control/openmetrics.h"

Test(openmetrics, is_for_those_who_prefer_it) {
        /* as Prometheus 2.45 and 3.5 ask, and a browser */
        cr_assert(openmetrics_is_wanted("application/openmetrics-text;version=1.0.0,"
                                        "application/openmetrics-text;version=0.0.1;q=0.75,"
                                        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
        cr_assert(openmetrics_is_wanted("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                                        "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
        cr_assert(openmetrics_is_wanted("text/plain;q=0.5, application/openmetrics-text; q=0.5"));
        cr_assert(openmetrics_is_wanted("Application/OpenMetrics-Text"));
        cr_assert_not(openmetrics_is_wanted(""));
        cr_assert_not(openmetrics_is_wanted("text/html,*/*"));
        cr_assert_not(openmetrics_is_wanted("application/openmetrics-text;q=0"));
        cr_assert_not(openmetrics_is_wanted("application/openmetrics-text;q=0.2,text/plain"));
        cr_assert_not(openmetrics_is_wanted("application/openmetrics-textual"));
        cr_assert_not(openmetrics_is_wanted(",,;,"));
}

Test(openmetrics, names_families_of_counters_without_their_ending) {
        _cleanup_(text_deinit) Text text = { 0 };

        openmetrics_convert(&text, "# HELP a_total so \"called\"\n"
                                   "# TYPE a_total counter\n"
                                   "a_total{x=\"y\"} 1 # {trace_id=\"7\"} 0.5 3.25\n"
                                   "# HELP b_total a gauge\n"
                                   "# TYPE b_total gauge\n"
                                   "b_total 2\n");
        cr_assert_str_eq(text.data, "# HELP a so \\\"called\\\"\n"
                                    "# TYPE a counter\n"
                                    "a_total{x=\"y\"} 1 # {trace_id=\"7\"} 0.5 3.25\n"
                                    "# HELP b_total a gauge\n"
                                    "# TYPE b_total gauge\n"
                                    "b_total 2\n"
                                    "# EOF\n");
}

Test(openmetrics, keeps_the_name_of_a_counter_that_a_gauge_has) {
        _cleanup_(text_deinit) Text text = { 0 };

        openmetrics_convert(&text, "# HELP a_total h\n# TYPE a_total counter\na_total 1\n"
                                   "# HELP a h\n# TYPE a gauge\na 2\n");
        cr_assert_str_eq(text.data, "# HELP a_total h\n# TYPE a_total unknown\na_total 1\n"
                                    "# HELP a h\n# TYPE a gauge\na 2\n# EOF\n");
}

Test(openmetrics, ends_an_empty_page) {
        _cleanup_(text_deinit) Text text = { 0 };

        openmetrics_convert(&text, "");
        cr_assert_str_eq(text.data, "# EOF\n");
}
