/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/delivery/export/trouble.h"

static char *describe(const char *url, const HttpReply *reply, const char *message) {
        Text text = { 0 };

        trouble_describe(&text, url, reply, message);
        cr_assert_not(text.failed);
        return text.data;
}

static void assert_says(const char *url, const HttpReply *reply, const char *part) {
        _cleanup_(freep) char *line = describe(url, reply, "");

        cr_assert_not_null(strstr(line, part), "\"%s\" lacks \"%s\"", line, part);
}

Test(trouble_describe, names_4318_for_whatever_a_grpc_endpoint_does) {
        static const HttpReply replies[] = {
                { .fault = HTTP_FAULT_PROTOCOL, .error = "Received HTTP/0.9 when not allowed" },
                { .fault = HTTP_FAULT_CONNECTION, .error = "Empty reply from server" },
                { .status = 415, .content_type = "application/grpc" },
                { .status = 400 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(replies); i++) {
                assert_says("http://collector:4317/v1development/profiles", &replies[i], "port 4318");
                assert_says("http://collector:4317/v1development/profiles", &replies[i], "gRPC");
        }
        assert_says("http://collector:9999/x", &replies[0], "port 4318");
        assert_says("http://collector:9999/x", &replies[2], "port 4318");
}

Test(trouble_describe, does_not_cry_grpc_elsewhere) {
        static const HttpReply reset = { .fault = HTTP_FAULT_CONNECTION, .error = "reset" };
        static const HttpReply refused = { .fault = HTTP_FAULT_CONNECT, .error = "refused" };
        static const HttpReply busy = { .status = 503 };
        _cleanup_(freep) char *one = describe("http://c:4318/x", &reset, "");
        _cleanup_(freep) char *two = describe("http://c:4317/x", &refused, "");
        _cleanup_(freep) char *three = describe("http://c:14317/x", &busy, "");

        cr_assert_null(strstr(one, "gRPC"));
        cr_assert_null(strstr(two, "gRPC"));
        cr_assert_null(strstr(three, "gRPC"));
}

Test(trouble_describe, says_what_to_do) {
        assert_says("http://c/x", &(HttpReply){ .status = 401 }, "OTEL_EXPORTER_OTLP_HEADERS");
        assert_says("http://c/x", &(HttpReply){ .status = 404 }, "service.profilesSupport");
        assert_says("http://c/x", &(HttpReply){ .fault = HTTP_FAULT_CONNECT, .error = "refused" },
                    "is a receiver running");
        assert_says("http://c/x", &(HttpReply){ .fault = HTTP_FAULT_TLS, .error = "x" },
                    "OTEL_EXPORTER_OTLP_CERTIFICATE");
        assert_says("http://c/x", &(HttpReply){ .fault = HTTP_FAULT_TLS, .error = "x" }, "certificate=");
        assert_says("http://c/x", &(HttpReply){ .status = 307, .location = "https://c/x" },
                    "set the endpoint to https://c/x");
}

Test(trouble_is_draft, goes_by_a_missing_path_and_by_words_of_a_reader) {
        static const char invalid[] = "proto:\xc2\xa0""cannot parse invalid wire-format data";
        const HttpReply missing = { .status = 404 }, refused = { .status = 400 }, denied = { .status = 401 };
        const HttpReply gone = { .fault = HTTP_FAULT_CONNECTION };

        cr_assert(trouble_is_draft(&missing, "404 page not found"));
        cr_assert(trouble_is_draft(&refused, "proto: wrong wireType = 2 for field LinkIndex"));
        cr_assert(trouble_is_draft(&refused, "unmarshal: invalid ProfileID length"));
        cr_assert(trouble_is_draft(&refused, invalid));
        cr_assert_not(trouble_is_draft(&refused, "no such tenant"));
        cr_assert_not(trouble_is_draft(&denied, ""));
        cr_assert_not(trouble_is_draft(&gone, "wrong wireType"), "nothing was answered");
}

Test(trouble_describe, shows_the_words_of_the_server) {
        _cleanup_(freep) char *line = describe("http://c/x", &(HttpReply){ .status = 400 }, "no such tenant");

        cr_assert_str_eq(line, "http://c/x answered 400, \"no such tenant\"");
}

Test(trouble_describe, names_the_variable_that_leads_through_a_proxy) {
        static const HttpReply refused = { .fault = HTTP_FAULT_CONNECT, .error = "refused" };
        _cleanup_(freep) char *plain = NULL, *local = NULL, *answered = NULL;

        setenv("HTTP_PROXY", "http://proxy", 1);        /* curl(1) does not read it */
        setenv("https_proxy", "http://proxy", 1);
        assert_says("https://c/x", &refused, "https_proxy names a proxy");
        plain = describe("http://c/x", &refused, "");
        cr_assert_null(strstr(plain, "proxy"));
        setenv("all_proxy", "http://proxy", 1);
        assert_says("http://c/x", &refused, "all_proxy names a proxy");
        local = describe("unix:/run/c", &refused, "");
        cr_assert_null(strstr(local, "proxy"));
        answered = describe("https://c/x", &(HttpReply){ .status = 400 }, "");
        cr_assert_null(strstr(answered, "proxy"), "a receiver answered");
}
