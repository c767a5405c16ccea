/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/http/response.h"

#define PROTOBUF "application/x-protobuf"
#define JSON "application/json"

/* A literal's bytes and their number, without the NUL. */
#define BYTES(_literal) (const uint8_t *)(_literal), sizeof(_literal) - 1

static Response success(const char *type, const uint8_t *data, size_t size) {
        Response response;

        memset(&response, 0xAA, sizeof(response));
        response_read_success(&response, type, data, size);
        return response;
}

static Response failure(const char *type, const uint8_t *data, size_t size) {
        Response response;

        memset(&response, 0xAA, sizeof(response));
        response_read_error(&response, type, data, size);
        return response;
}

static void assert_clean(Response response) {
        cr_assert_not(response.malformed);
        cr_assert_eq(response.n_rejected, 0);
        cr_assert_str_eq(response.message, "");
}

Test(response_read_success, takes_every_form_of_nothing_to_say) {
        assert_clean(success(PROTOBUF, BYTES("")));
        assert_clean(success("", BYTES("")));
        assert_clean(success(PROTOBUF, BYTES("\x0A\x00")));
        assert_clean(success(PROTOBUF, BYTES("\x0A\x02\x08\x00")));
        assert_clean(success(JSON, BYTES("{}")));
        assert_clean(success(JSON, BYTES("{\"partialSuccess\":{}}")));
        assert_clean(success(JSON "; charset=utf-8", BYTES("")));
}

Test(response_read_success, reads_rejected_profiles_and_the_message) {
        /*
         * printf 'partial_success{rejected_profiles:300 error_message:"too deep"}' | protoc --encode=… | xxd
         * -i
         */
        Response response = success(PROTOBUF, BYTES("\x0A\x0D\x08\xAC\x02\x12\x08too deep"));

        cr_assert_eq(response.n_rejected, 300);
        cr_assert_str_eq(response.message, "too deep");
        response = success(
                JSON,
                BYTES("{ \"partialSuccess\" : {\"errorMessage\":\"say \\\"rejectedProfiles\\\": 9\","
                      "\n\"rejectedProfiles\": \"300\" } }"));
        cr_assert_eq(response.n_rejected, 300);
        cr_assert_str_eq(response.message, "say \"rejectedProfiles\": 9");
        response = success(JSON, BYTES("{\"partialSuccess\":{\"rejectedProfiles\":4}}"));
        cr_assert_eq(response.n_rejected, 4, "a plain number is taken too");
}

Test(response_read_success, passes_over_fields_it_does_not_know) {
        Response response = success(PROTOBUF,
                                    BYTES("\x15"
                                          "1234"
                                          "\x0A\x06\x18\x05\x12\x02ok\x19"
                                          "12345678"));

        cr_assert_str_eq(response.message, "ok");
        cr_assert_not(response.malformed);
}

Test(response_read_success, never_makes_rejections_of_garbage) {
        cr_assert(success(PROTOBUF, BYTES("<html>welcome</html>")).malformed);
        cr_assert(success(PROTOBUF, BYTES("\x0A\x05\x08\x05")).malformed, "cut off");
        cr_assert_eq(success(PROTOBUF, BYTES("\x0A\x02\x08\x05\xFF")).n_rejected, 0,
                     "bytes behind it are garbage");
        cr_assert_eq(
                success(PROTOBUF, BYTES("\x0A\x0B\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01")).n_rejected,
                0, "-1 profiles");
        cr_assert(success(JSON, BYTES("null")).malformed);
        cr_assert_eq(success(JSON, BYTES("{\"rejectedProfiles\":\"99999999999999999999\"}")).n_rejected, 0);
}

Test(response_read_error, reads_a_status_as_protobuf_and_as_json) {
        cr_assert_str_eq(failure(PROTOBUF, BYTES("\x08\x03\x12\x09" "bad input")).message, "bad input");
        cr_assert_str_eq(failure(JSON, BYTES("{\"code\":3,\"message\":\"bad\\ninput\"}")).message,
                         "bad input");
        cr_assert_str_eq(failure("", BYTES("{\"message\":\"no type\"}")).message, "no type");
        cr_assert_str_eq(failure(JSON, BYTES("{\"error\":\"forbidden\"}")).message, "forbidden");
}

Test(response_read_error, shows_plain_text_and_hides_pages_and_noise) {
        cr_assert_str_eq(failure("text/plain", BYTES("404 page not found\n")).message, "404 page not found");
        cr_assert_str_eq(failure("text/html", BYTES("<html><body>502</body></html>")).message, "");
        cr_assert_str_eq(failure("", BYTES("\xFF\xFE\x00\x01")).message, "");
        cr_assert_str_eq(failure(PROTOBUF, BYTES("")).message, "");
        cr_assert_str_eq(failure(JSON, BYTES("{\"message\":\"never ends")).message, "never ends");
        cr_assert_str_eq(failure(JSON, BYTES("{\"message")).message, "{\"message");
}

Test(response_read_reply, trusts_no_half_of_a_success) {
        HttpReply reply = { .status = 200,
                            .content_type = PROTOBUF,
                            .body = (const uint8_t *)"\x0A\x02\x08\x05",
                            .body_size = 4 };
        Response response;

        response_read_reply(&response, &reply);
        cr_assert_eq(response.n_rejected, 5);
        reply.cut = true;
        response_read_reply(&response, &reply);
        cr_assert_eq(response.n_rejected, 0);
        cr_assert(response.malformed);
        reply.cut = false;
        reply.gzip = true;
        response_read_reply(&response, &reply);
        cr_assert_eq(response.n_rejected, 0);
        cr_assert(response.malformed, "said to be gzip, and is not");
        cr_assert_not(response.is_other, "what cannot be read may be a reply");
}

Test(response_read_reply, tells_what_is_no_reply) {
        static const char page[] = "<!doctype html><html></html>";
        HttpReply reply = { .status = 200, .content_type = "text/html", .body = (const uint8_t *)page,
                            .body_size = sizeof(page) - 1 };
        Response response;

        response_read_reply(&response, &reply);
        cr_assert(response.is_other);
        reply.cut = true;
        response_read_reply(&response, &reply);
        cr_assert(response.is_other, "a page is none, however much of it came");
        reply.status = 400;
        response_read_reply(&response, &reply);
        cr_assert_not(response.is_other, "an error has any form");
        reply = (HttpReply){ .status = 204 };
        response_read_reply(&response, &reply);
        cr_assert_not(response.is_other);
}

Test(response_says, finds_words_in_all_of_the_body) {
        char body[1000];
        HttpReply reply = { .status = 400, .body = (const uint8_t *)body, .body_size = sizeof(body) };

        memset(body, 'x', sizeof(body));
        cr_assert_not(response_says(&reply, "too old"));
        memcpy(body + sizeof(body) - 7, "too old", 7);
        cr_assert(response_says(&reply, "too old"));
        reply.body_size -= 1;
        cr_assert_not(response_says(&reply, "too old"));
}

Test(response_read_reply, shows_what_is_there_of_an_error) {
        HttpReply reply = { .status = 400,
                            .content_type = "text/plain",
                            .body = (const uint8_t *)"no tenant",
                            .body_size = 9,
                            .cut = true };
        Response response;

        response_read_reply(&response, &reply);
        cr_assert_str_eq(response.message, "no tenant");
        reply.gzip = true;
        response_read_reply(&response, &reply);
        cr_assert_str_eq(response.message, "");
}

Test(response_clean, makes_one_printable_line) {
        char line[16];

        response_clean(line, sizeof(line), "a\nb\033[2Jc\r\n", 10);
        cr_assert_str_eq(line, "a b?[2Jc");
        response_clean(line, sizeof(line), "a\xE2\x80\xAE" "b\xC2\x9B" "c", 8);
        cr_assert_str_eq(line, "a?b?c", "U+202E, U+009B");
        response_clean(line, sizeof(line), "\xFFok", 3);
        cr_assert_str_eq(line, "\xEF\xBF\xBDok");
        response_clean(line, sizeof(line), "0123456789abc\xC3\xA4zzz", 18);
        cr_assert_str_eq(line, "0123456789abc\xC3\xA4");
        response_clean(line, sizeof(line), "0123456789abcd\xC3\xA4zz", 18);
        cr_assert_str_eq(line, "0123456789abcd", "no half characters");
        response_clean(line, sizeof(line), "", 0);
        cr_assert_str_eq(line, "");
}
