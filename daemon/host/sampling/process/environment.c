/* SPDX-License-Identifier: Apache-2.0 */

/*
 * /proc/PID/environ is what execve() was given, one `NAME=value` after the other, each ended by NUL:
 *
 *     PATH=/usr/bin\0OTEL_SERVICE_NAME=cart\0OTEL_RESOURCE_ATTRIBUTES=team=shop,service.version=1%2C5\0
 *
 * A program that writes a title over it (setproctitle) leaves text without our names, which is nothing.
 *
 * A command line lies in /proc/PID/cmdline in the same form, `-Dotel.service.name=cart\0`.
 *
 * The specification would have all attributes discarded when one is malformed. We are not the program that
 * could tell its author of the mistake, so the others stay and the bad ones are counted.
 */
#include "host/sampling/process/environment.h"

#include <errno.h>
#include <string.h>

#include "core/base/util/error.h"

enum { SERVICE_NAME, RESOURCE_ATTRIBUTES, DD_SERVICE, DD_ENV, DD_VERSION, ANOTHER = -1, UNKNOWN = -2 };

static const char *const names[][ENVIRONMENT_N_VARIABLES] = {
        [ENVIRONMENT_VARIABLES] = { "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "DD_SERVICE", "DD_ENV",
                                    "DD_VERSION" },
        [ENVIRONMENT_ARGUMENTS] = { "-Dotel.service.name", "-Dotel.resource.attributes", "-Ddd.service",
                                    "-Ddd.env", "-Ddd.version" },
};

void environment_deinit(Environment *environment) {
        free(environment->service_name);
        for (size_t i = 0; i < ENVIRONMENT_N_VARIABLES; i++)
                free(environment->texts[i]);
        *environment = (Environment){ 0 };
}

void environment_reader_deinit(EnvironmentReader *reader) {
        for (size_t i = 0; i < ENVIRONMENT_N_VARIABLES; i++)
                text_deinit(&reader->values[i]);
        *reader = (EnvironmentReader){ 0 };
}

void environment_reader_begin(EnvironmentReader *reader, EnvironmentSource source) {
        reader->source = source;
        reader->started = false;
        reader->n_name = 0;
}

/* Feeds one more byte of a name; a `=` ends it. */
static void feed_name(EnvironmentReader *reader, char c) {
        if (c != '=') {
                if (reader->n_name == sizeof(reader->name))
                        reader->at = ANOTHER;
                else
                        reader->name[reader->n_name++] = c;
                return;
        }
        reader->at = ANOTHER;
        for (int i = 0; i < ENVIRONMENT_N_VARIABLES; i++) {
                const char *name = names[reader->source][i];

                if (!reader->ended[i] && strlen(name) == reader->n_name &&
                    !memcmp(name, reader->name, reader->n_name))
                        reader->at = i;
        }
}

/* The bytes of a value up to its NUL, or all. Return: how many. */
static size_t feed_value(EnvironmentReader *reader, const char *data, size_t size) {
        size_t n = strnlen(data, size);

        if (reader->at >= 0) {
                Text *value = &reader->values[reader->at];

                /* A byte over the cap is kept, as a sign that the text was too long. */
                text_append(value, data, MIN(n, (size_t)ENVIRONMENT_MAX_TEXT + 1 - value->size));
        }
        return n;
}

static void end_variable(EnvironmentReader *reader) {
        if (reader->at >= 0)
                reader->ended[reader->at] = true;
        reader->at = UNKNOWN;
        reader->n_name = 0;
}

void environment_reader_feed(EnvironmentReader *reader, const char *data, size_t size) {
        if (!reader->started)
                reader->at = UNKNOWN;
        reader->started = true;
        for (size_t i = 0; i < size;) {
                if (!data[i]) {
                        end_variable(reader);
                        i++;
                } else if (reader->at == UNKNOWN) {
                        feed_name(reader, data[i++]);
                } else {
                        i += feed_value(reader, data + i, size - i);
                }
        }
}

static int hex_value(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Percent-decodes in place, blanks around it cut off, and ends it with NUL.
 * Return: the start, or NULL = an escape that is none, or a NUL.
 */
static char *decode(char *text, char *end) {
        char *to;

        while (text < end && (*text == ' ' || *text == '\t'))
                text++;
        while (text < end && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        to = text;
        for (const char *from = text; from < end; from++) {
                int high, low;

                if (*from != '%') {
                        *to++ = *from;
                        continue;
                }
                if (end - from < 3)
                        return NULL;
                high = hex_value(from[1]);
                low = hex_value(from[2]);
                if (high < 0 || low < 0 || !(high | low))
                        return NULL;
                *to++ = (char)(high << 4 | low);
                from += 2;
        }
        *to = 0;
        return text;
}

static bool is_text(const char *text) {
        for (; *text; text++)
                if ((unsigned char)*text < 0x20 || *text == 0x7F)
                        return false;
        return true;
}

/* By the words that people use. A value that is no secret may be masked, too. */
static bool is_credential(const char *key) {
        static const char *const words[] = { "password",    "passwd",      "secret",     "token",
                                             "credential",  "apikey",      "api_key",    "api-key",
                                             "api.key",     "access_key",  "access-key", "access.key",
                                             "private_key", "private-key", "private.key", "authorization" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strcasestr(key, words[i]))
                        return true;
        return false;
}

static void append_attribute(Environment *environment, const char *key, const char *value) {
        if (environment->n_attributes == ENVIRONMENT_MAX_ATTRIBUTES) {
                environment->n_invalid++;
                return;
        }
        environment->attributes[environment->n_attributes++] =
                (EnvironmentAttribute){ key, is_credential(key) ? "***" : value };
}

/* `KEY=VALUE` from @text to @end, where a byte may be written. An empty value counts as not set. */
static void add_attribute(Environment *environment, char *text, char *end) {
        char *equals = memchr(text, '=', (size_t)(end - text)), *key, *value;

        key = equals ? decode(text, equals) : NULL;
        value = equals ? decode(equals + 1, end) : NULL;
        if (!key || !value || !*key || strlen(key) > ENVIRONMENT_MAX_KEY ||
            strlen(value) > ENVIRONMENT_MAX_VALUE || !is_text(key)) {
                environment->n_invalid++;
                return;
        }
        if (*value)
                append_attribute(environment, key, value);
}

static bool is_blank(const char *text, const char *end) {
        while (text < end && (*text == ' ' || *text == '\t'))
                text++;
        return text == end;
}

/* Items between commas; empty ones, as a comma at the end leaves, are nothing. */
static void parse_attributes(Environment *environment, char *text, size_t size) {
        char *end = text + size;

        while (text < end) {
                char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;

                if (stop == end && size > ENVIRONMENT_MAX_TEXT)
                        environment->n_invalid++;       /* cut off in the middle */
                else if (!is_blank(text, stop))
                        add_attribute(environment, text, stop);
                text = stop + 1;
        }
}

static bool has_attribute(const Environment *environment, const char *key) {
        for (size_t i = 0; i < environment->n_attributes; i++)
                if (!strcmp(environment->attributes[i].key, key))
                        return true;
        return false;
}

/* Datadog's words add what OpenTelemetry's have left open. */
static void add_datadog(Environment *environment) {
        static const struct {
                int variable;
                const char *key, *older;
        } table[] = {
                { DD_SERVICE, "service.name", NULL },
                { DD_ENV, "deployment.environment.name", "deployment.environment" },
                { DD_VERSION, "service.version", NULL },
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *value = environment->texts[table[i].variable], *older = table[i].older;

                if (!value || (table[i].variable == DD_SERVICE && environment->service_name) ||
                    has_attribute(environment, table[i].key) || (older && has_attribute(environment, older)))
                        continue;
                if (strlen(value) > ENVIRONMENT_MAX_VALUE)
                        environment->n_invalid++;
                else
                        append_attribute(environment, table[i].key, value);
        }
}

static char *take_text(Text *text) {
        char *data = text->data;

        *text = (Text){ 0 };
        return data;
}

int environment_reader_finish(EnvironmentReader *reader, Environment *environment) {
        Text *name = &reader->values[SERVICE_NAME], *attributes = &reader->values[RESOURCE_ATTRIBUTES];
        size_t size = attributes->size;

        *environment = (Environment){ 0 };
        for (size_t i = 0; i < ENVIRONMENT_N_VARIABLES; i++)
                if (reader->values[i].failed)
                        return error_origin(-ENOMEM);
        for (size_t i = RESOURCE_ATTRIBUTES; i < ENVIRONMENT_N_VARIABLES; i++)
                if (reader->values[i].size)
                        environment->texts[i] = take_text(&reader->values[i]);
        if (name->size > ENVIRONMENT_MAX_VALUE)
                environment->n_invalid++;
        else if (name->size)
                environment->service_name = take_text(name);
        if (size)
                parse_attributes(environment, environment->texts[RESOURCE_ATTRIBUTES], size);
        add_datadog(environment);
        return 0;
}

int environment_read_attributes(const char *text, Environment *environment) {
        EnvironmentReader reader = { 0 };
        int r;

        environment_reader_feed(&reader, names[ENVIRONMENT_VARIABLES][RESOURCE_ATTRIBUTES],
                                strlen(names[ENVIRONMENT_VARIABLES][RESOURCE_ATTRIBUTES]));
        environment_reader_feed(&reader, "=", 1);
        environment_reader_feed(&reader, text, strlen(text));
        r = environment_reader_finish(&reader, environment);
        environment_reader_deinit(&reader);
        return r;
}
