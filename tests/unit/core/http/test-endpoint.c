/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/http/endpoint.h"

static void assert_refused(const char *url, const char *part) {
        char why[256] = "";

        cr_assert_eq(endpoint_check_url(url, why, sizeof(why)), ENDPOINT_E_INVALID, "%s", url);
        cr_assert_not_null(strstr(why, part), "\"%s\" lacks \"%s\"", why, part);
}

Test(endpoint_check_url, takes_what_can_be_posted_to) {
        static const char *const good[] = {
                "http://localhost:4318/v1development/profiles",
                "https://c/otlp?tenant=1",
                "HTTP://h",
                "http://[::1]:4318/x",
                "http://[::1]/x",
                "http://[fe80::1%25eth0]:4318",
                "http://user:p%40ss@h:1/",
                "https://h:65535",
        };
        char why[256] = "";

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                cr_assert_eq(endpoint_check_url(good[i], why, sizeof(why)), 0, "%s: %s", good[i], why);
        cr_assert_str_eq(why, "");
}

Test(endpoint_check_url, says_what_is_wrong) {
        assert_refused("localhost:4318", "http://");
        assert_refused("", "http://");
        assert_refused("unix:run/x", "path from /");
        assert_refused("unix:/run/x:y", "slash");
        assert_refused("http://", "no host");
        assert_refused("http://:4318/", "no host");
        assert_refused("http://user@/", "no host");
        assert_refused("http://h:99999/", "port");
        assert_refused("http://h:0/", "port");
        assert_refused("http://h:/", "port");
        assert_refused("http://h:4318x/", "port");
        assert_refused("http://[::1/", "bracket");
        assert_refused("http://[::g]:4318/", "IPv6");
        assert_refused("http://[::1]4318/", "IPv6");
        assert_refused("http://[]/", "IPv6");
        assert_refused("http://h/a b", "blank");
        assert_refused("http://h/\r\nX: y", "control");
}

static char **parse(const char *text, int expected) {
        char **headers = NULL, why[128] = "";

        cr_assert_eq(endpoint_parse_headers(text, &headers, why, sizeof(why)), expected, "\"%s\": %s", text,
                     why);
        cr_assert_eq(expected == ENDPOINT_E_INVALID, why[0] != 0);
        cr_assert_null(strstr(why, "secret"), "values are not for messages: %s", why);
        return headers;
}

Test(endpoint_parse_headers, decodes_baggage) {
        char **headers = parse(" api-key=a%20b%2Cc , X-Tenant = 7;property=1,,empty=,e=a=b", 0);

        cr_assert_str_eq(headers[0], "api-key: a b,c");
        cr_assert_str_eq(headers[1], "X-Tenant: 7");
        cr_assert_str_eq(headers[2], "empty;", "libcurl's form of an empty header");
        cr_assert_str_eq(headers[3], "e: a=b");
        cr_assert_null(headers[4]);
        endpoint_headers_free(headers);
        headers = parse("", 0);
        cr_assert_null(headers[0]);
        endpoint_headers_free(headers);
}

Test(endpoint_parse_headers, refuses_what_would_change_the_request) {
        static const char *const bad[] = {
                "a=secret%0d%0aX-Other: 1",
                "a=secret%00",
                "a=secret%zz",
                "a=secret%4",
                "a=secret%",
                "secret",
                "=secret",
                "a b=secret",
                "a:b=secret",
                "Content-Type=secret",
                "content-encoding=secret",
                "HOST=secret",
                "Transfer-Encoding=secret",
                "a;b=secret",
                "ok=1,a=secret\n",
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_assert_null(parse(bad[i], ENDPOINT_E_INVALID));
}

Test(endpoint_parse_headers, has_a_cap) {
        char text[65 * 5 + 1] = "";

        for (int i = 0; i < 64; i++)
                strcat(text, "a=1, ");
        endpoint_headers_free(parse(text, 0));
        strcat(text, "a=1");
        cr_assert_null(parse(text, ENDPOINT_E_INVALID));
}

Test(endpoint_append_shown, hides_whatever_may_be_a_secret) {
        static const struct {
                const char *url, *shown;
        } cases[] = {
                { "https://user:secret@host:1/p?key=secret#f", "https://host:1/p" },
                { "http://host", "http://host" },
                { "http://host?token=1", "http://host" },
                { "http://a@b@host/x@y", "http://host/x@y" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                Text text = { 0 };

                endpoint_append_shown(&text, cases[i].url);
                cr_assert_str_eq(text.data, cases[i].shown);
                text_deinit(&text);
        }
}
