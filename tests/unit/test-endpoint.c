/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "export/endpoint.h"
#include "util/clock.h"
#include "util/macro.h"

typedef struct Variable {
        const char *name, *value;
} Variable;

static const char *lookup(const char *name, void *userdata) {
        for (const Variable *v = userdata; v->name; v++)
                if (!strcmp(v->name, name))
                        return v->value;
        return NULL;
}

#define E "OTEL_EXPORTER_OTLP_"
#define P "OTEL_EXPORTER_OTLP_PROFILES_"

static Endpoint read_endpoint(const Variable *variables) {
        Endpoint endpoint = { 0 };
        char why[256] = "";

        cr_assert_eq(endpoint_from_environment(&endpoint, lookup, (void *)variables, why, sizeof(why)), 0, "%s", why);
        return endpoint;
}

static void assert_refused(const char *name, const char *value, const char *part) {
        const Variable variables[] = { { name, value }, { 0 } };
        Endpoint endpoint = { 0 };
        char why[256] = "";

        cr_assert_eq(endpoint_from_environment(&endpoint, lookup, (void *)variables, why, sizeof(why)),
                     ENDPOINT_E_INVALID, "%s=%s", name, value);
        cr_assert_not_null(strstr(why, name), "\"%s\" does not name %s", why, name);
        cr_assert_not_null(strstr(why, part), "\"%s\" lacks \"%s\"", why, part);
        cr_assert_null(endpoint.url, "outputs are written on success only");
}

Test(endpoint_from_environment, has_the_defaults_of_the_specification) {
        Endpoint endpoint = read_endpoint((Variable[]){ { 0 } });

        cr_assert_str_eq(endpoint.url, "http://localhost:4318/v1development/profiles");
        cr_assert(endpoint.gzip);
        cr_assert_eq(endpoint.timeout_ns, 10 * NS_PER_SEC);
        cr_assert_null(endpoint.headers);
        cr_assert_null(endpoint.certificate);
        endpoint_deinit(&endpoint);
}

Test(endpoint_from_environment, appends_the_path_to_the_base_and_none_to_its_own) {
        static const struct {
                const char *name, *value, *url;
        } cases[] = {
                { E "ENDPOINT", "http://c:4318", "http://c:4318/v1development/profiles" },
                { E "ENDPOINT", "http://c:4318/", "http://c:4318/v1development/profiles" },
                { E "ENDPOINT", "https://c/otlp/base//", "https://c/otlp/base/v1development/profiles" },
                { E "ENDPOINT", "https://c/otlp?tenant=1", "https://c/otlp/v1development/profiles?tenant=1" },
                { E "ENDPOINT", "http://[::1]:4318", "http://[::1]:4318/v1development/profiles" },
                { E "ENDPOINT", "", "http://localhost:4318/v1development/profiles" },
                { P "ENDPOINT", "http://c:9/own/path", "http://c:9/own/path" },
                { P "ENDPOINT", "http://c:9/", "http://c:9/" },
                { P "ENDPOINT", "http://c:9", "http://c:9" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                Endpoint endpoint = read_endpoint((Variable[]){ { cases[i].name, cases[i].value }, { 0 } });

                cr_assert_str_eq(endpoint.url, cases[i].url);
                endpoint_deinit(&endpoint);
        }
}

Test(endpoint_from_environment, lets_the_signals_own_variables_win) {
        static const Variable variables[] = {
                { E "ENDPOINT", "http://all:1" },       { P "ENDPOINT", "http://own:2/p" },
                { E "HEADERS", "a=1" },                 { P "HEADERS", "b=2" },
                { E "COMPRESSION", "gzip" },            { P "COMPRESSION", "none" },
                { E "TIMEOUT", "1000" },                { P "TIMEOUT", "2500" },
                { E "CERTIFICATE", "/ca" },             { P "CERTIFICATE", "/own-ca" },
                { E "CLIENT_KEY", "/key" },             { P "CLIENT_CERTIFICATE", "/cert" },
                { E "PROTOCOL", "grpc" },               { P "PROTOCOL", "http/protobuf" },
                { 0 },
        };
        Endpoint endpoint = read_endpoint(variables);

        cr_assert_str_eq(endpoint.url, "http://own:2/p");
        cr_assert_str_eq(endpoint.headers, "b=2");
        cr_assert_not(endpoint.gzip);
        cr_assert_eq(endpoint.timeout_ns, 2500 * NS_PER_MS);
        cr_assert_str_eq(endpoint.certificate, "/own-ca");
        cr_assert_str_eq(endpoint.client_key, "/key");
        cr_assert_str_eq(endpoint.client_certificate, "/cert");
        endpoint_deinit(&endpoint);
}

Test(endpoint_from_environment, names_the_variable_that_cannot_be_used) {
        assert_refused(E "PROTOCOL", "grpc", "http/protobuf");
        assert_refused(P "PROTOCOL", "grpc", "4318");
        assert_refused(E "PROTOCOL", "http/json", "http/protobuf");
        assert_refused(E "PROTOCOL", "thrift", "thrift");
        assert_refused(E "COMPRESSION", "zstd", "zstd");
        assert_refused(E "TIMEOUT", "10s", "10s");
        assert_refused(E "TIMEOUT", "0", "milliseconds");
        assert_refused(E "HEADERS", "no-equals-sign", "name=value");
        assert_refused(E "ENDPOINT", "localhost:4318", "http://");
        assert_refused(P "ENDPOINT", "unix:///run/x", "http://");
        assert_refused(P "ENDPOINT", "http://", "no host");
        assert_refused(P "ENDPOINT", "http://:4318/", "no host");
        assert_refused(P "ENDPOINT", "http://user@/", "no host");
        assert_refused(P "ENDPOINT", "http://h:99999/", "port");
        assert_refused(P "ENDPOINT", "http://h:/", "port");
        assert_refused(P "ENDPOINT", "http://[::1/", "bracket");
        assert_refused(P "ENDPOINT", "http://h/a b", "blank");
        assert_refused(P "ENDPOINT", "http://h/\r\nX: y", "control");
        assert_refused(E "CLIENT_CERTIFICATE", "/cert", "_CLIENT_KEY");
}

static char **parse(const char *text, int expected) {
        char **headers = NULL, why[128] = "";

        cr_assert_eq(endpoint_parse_headers(text, &headers, why, sizeof(why)), expected, "\"%s\": %s", text, why);
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
                "a=secret%0d%0aX-Other: 1", "a=secret%00", "a=secret%zz", "a=secret%4", "a=secret%", "secret", "=secret",
                "a b=secret", "a:b=secret", "Content-Type=secret", "content-encoding=secret", "HOST=secret",
                "Transfer-Encoding=secret", "a;b=secret", "ok=1,a=secret\n",
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
