/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/process/environment.h"
#include "host/sampling/process/identity.h"

static Environment environment;

static void teardown(void) {
        environment_deinit(&environment);
}

TestSuite(environment, .fini = teardown);

/* @size counts the last NUL. */
static void read_pieces(const char *text, size_t size, size_t piece) {
        EnvironmentReader reader = { 0 };

        environment_deinit(&environment);
        for (size_t at = 0; at < size; at += piece)
                environment_reader_feed(&reader, text + at, MIN(piece, size - at));
        cr_assert_eq(environment_reader_finish(&reader, &environment), 0);
        environment_reader_deinit(&reader);
}

#define READ(_text) read_pieces(_text, sizeof(_text), sizeof(_text))

static void has(size_t i, const char *key, const char *value) {
        cr_assert_gt(environment.n_attributes, i);
        cr_assert_str_eq(environment.attributes[i].key, key);
        cr_assert_str_eq(environment.attributes[i].value, value);
}

Test(environment, takes_both_variables_in_pieces_of_any_size) {
        static const char text[] = "PATH=/bin\0OTEL_SERVICE_NAME=cart\0HOME=/\0"
                                   "OTEL_RESOURCE_ATTRIBUTES=team=shop,service.version=1.5\0LAST=x";

        for (size_t piece = 1; piece <= sizeof(text); piece++) {
                read_pieces(text, sizeof(text), piece);
                cr_assert_str_eq(environment.service_name, "cart", "pieces of %zu", piece);
                cr_assert_eq(environment.n_attributes, 2);
                has(0, "team", "shop");
                has(1, "service.version", "1.5");
                cr_assert_eq(environment.n_invalid, 0);
        }
}

Test(environment, takes_no_variable_whose_name_only_resembles) {
        READ("XOTEL_SERVICE_NAME=a\0OTEL_SERVICE_NAME_=b\0OTEL_SERVICE_NAM=c\0otel_service_name=d\0OTEL_SERVICE_NAME\0"
             "OTEL_RESOURCE_ATTRIBUTES2=e=f\0SECRET=OTEL_SERVICE_NAME=g\0AVERYLONGNAMEOFAVARIABLEINDEEDYES=OTEL_SERVICE_NAME=h");
        cr_assert_null(environment.service_name);
        cr_assert_eq(environment.n_attributes, 0);
}

Test(environment, counts_the_first_of_a_name_as_getenv_does) {
        READ("OTEL_SERVICE_NAME=a\0OTEL_SERVICE_NAME=b");
        cr_assert_str_eq(environment.service_name, "a");
        READ("OTEL_SERVICE_NAME=\0OTEL_SERVICE_NAME=b");
        cr_assert_null(environment.service_name);
}

Test(environment, survives_text_that_is_no_environment) {
        READ("nginx: master process /usr/sbin/nginx\0\0\0\0");
        cr_assert_null(environment.service_name);
        read_pieces("", 0, 1);
        cr_assert_null(environment.service_name);
}

Test(environment, decodes_percent_and_trims_blanks) {
        READ("OTEL_RESOURCE_ATTRIBUTES= a = one two , b%3Dc=x%2Cy%3D%25 ,d=%E2%82%AC,e=f=g,,");
        cr_assert_eq(environment.n_attributes, 4);
        has(0, "a", "one two");
        has(1, "b=c", "x,y=%");
        has(2, "d", "\xE2\x82\xAC");
        has(3, "e", "f=g");
        cr_assert_eq(environment.n_invalid, 0);
}

Test(environment, leaves_out_and_counts_what_is_malformed) {
        READ("OTEL_RESOURCE_ATTRIBUTES=novalue,=x,a=%,b=%4,c=%zz,d=%00,%0A=x,good=1");
        cr_assert_eq(environment.n_attributes, 1);
        has(0, "good", "1");
        cr_assert_eq(environment.n_invalid, 7);
}

Test(environment, counts_an_empty_value_as_not_set) {
        READ("OTEL_RESOURCE_ATTRIBUTES=a=,b= ,c=1");
        cr_assert_eq(environment.n_attributes, 1);
        cr_assert_eq(environment.n_invalid, 0);
}

Test(environment, takes_datadogs_words_where_those_of_opentelemetry_leave_them_open) {
        READ("DD_SERVICE=cart\0DD_ENV=prod\0DD_VERSION=1.5\0DD_API_KEY=x");
        cr_assert_eq(environment.n_attributes, 3);
        has(0, "service.name", "cart");
        has(1, "deployment.environment.name", "prod");
        has(2, "service.version", "1.5");
        READ("DD_SERVICE=a\0DD_ENV=b\0DD_VERSION=c\0OTEL_SERVICE_NAME=d\0"
             "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=e,service.version=f");
        cr_assert_str_eq(environment.service_name, "d");
        cr_assert_eq(environment.n_attributes, 2);
        READ("DD_SERVICE=a\0OTEL_RESOURCE_ATTRIBUTES=service.name=b");
        cr_assert_eq(environment.n_attributes, 1);
        has(0, "service.name", "b");
        READ("DD_SERVICE=\0DD_ENV=");
        cr_assert_eq(environment.n_attributes, 0);
}

Test(environment, prefers_the_properties_of_a_command_line) {
        static const char arguments[] = "java\0-Dotel.service.name=shop\0-Ddd.env=test\0-Dpassword=x\0-jar\0a.jar";
        static const char variables[] = "OTEL_SERVICE_NAME=cart\0DD_ENV=prod\0DD_VERSION=2\0-Ddd.service=x";
        EnvironmentReader reader = { 0 };

        environment_reader_begin(&reader, ENVIRONMENT_ARGUMENTS);
        environment_reader_feed(&reader, arguments, sizeof(arguments));
        environment_reader_begin(&reader, ENVIRONMENT_VARIABLES);
        environment_reader_feed(&reader, variables, sizeof(variables));
        cr_assert_eq(environment_reader_finish(&reader, &environment), 0);
        environment_reader_deinit(&reader);
        cr_assert_str_eq(environment.service_name, "shop");
        cr_assert_eq(environment.n_attributes, 2);
        has(0, "deployment.environment.name", "test");
        has(1, "service.version", "2");
}

Test(environment, masks_what_looks_like_a_credential) {
        READ("OTEL_RESOURCE_ATTRIBUTES=db.password=a,X-Api-Key=b,GITHUB_TOKEN=c,aws.secret=d,team=e,author=f");
        cr_assert_eq(environment.n_attributes, 6);
        has(0, "db.password", "***");
        has(1, "X-Api-Key", "***");
        has(2, "GITHUB_TOKEN", "***");
        has(3, "aws.secret", "***");
        has(4, "team", "e");
        has(5, "author", "f");
}

Test(environment, has_caps) {
        static char text[1 << 17];
        size_t n = (size_t)sprintf(text, "OTEL_RESOURCE_ATTRIBUTES=");

        for (int i = 0; i < 70; i++)
                n += (size_t)sprintf(text + n, "key%d=v,", i);
        read_pieces(text, n + 1, 4096);
        cr_assert_eq(environment.n_attributes, ENVIRONMENT_MAX_ATTRIBUTES);
        cr_assert_eq(environment.n_invalid, 6);

        n = (size_t)sprintf(text, "OTEL_RESOURCE_ATTRIBUTES=a=%01024d,b=%01025d,%0255d=c,%0256d=d", 0, 0, 0,
                            0);
        read_pieces(text, n + 1, 4096);
        cr_assert_eq(environment.n_attributes, 2);
        cr_assert_eq(environment.n_invalid, 2);

        n = (size_t)sprintf(text, "OTEL_SERVICE_NAME=%01025d", 0);
        read_pieces(text, n + 1, 4096);
        cr_assert_null(environment.service_name);
        cr_assert_eq(environment.n_invalid, 1);
}

Test(environment, cuts_a_variable_that_is_too_long) {
        static char text[1 << 20];
        size_t n = (size_t)sprintf(text, "OTEL_RESOURCE_ATTRIBUTES=a=1,b=");

        memset(text + n, 'x', 200000);
        sprintf(text + n + 200000, ",c=2");
        memcpy(text + n + 200005, "OTEL_SERVICE_NAME=y", 20);
        read_pieces(text, n + 200025, 4096);
        cr_assert_eq(environment.n_attributes, 1);
        cr_assert_eq(environment.n_invalid, 1);
        cr_assert_str_eq(environment.service_name, "y");
}

Test(identity, finds_the_effective_user) {
        uint32_t uid = 7;

        cr_assert_eq(identity_parse_status("Name:\tx\nUmask:\t0022\nUid:\t0\t33\t33\t33\nGid:\t0\t0\t0\t0\n",
                                           &uid),
                     0);
        cr_assert_eq(uid, 33);
        cr_assert_eq(identity_parse_status("Name:\tUid:\t1\t2\n", &uid), 1);
        cr_assert_eq(identity_parse_status("Name:\tx\nUid:\tx\n", &uid), 1);
        cr_assert_eq(identity_parse_status("Name:\tx\nUid:\t1\t99999999999\t1\t1\n", &uid), 1);
        cr_assert_eq(uid, 33);
}
