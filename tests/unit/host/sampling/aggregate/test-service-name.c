/* SPDX-License-Identifier: Apache-2.0 */

/* What a process is called, by what it publishes and by its environment. */

#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/aggregate/service-name.h"

static char unknown[SERVICE_NAME_MAX];

/* @published, @environment: NULL = has none. */
static const char *name_of(const char *published, const char *environment) {
        static char text[SERVICE_NAME_MAX];
        ProcessContext context = { .n_attributes = 1 };
        Identity identity = { 0 };
        Process process = { .identity = &identity, .exe = (char *)"/usr/bin/java", .comm = "main" };
        const char *name;
        size_t size;

        identity.environment.service_name = (char *)environment;
        if (published)
                context.attributes[0] = (ContextAttribute){ .key = { "service.name", 12 },
                                                            .kind = CONTEXT_STRING,
                                                            .string = { published, strlen(published) } };
        name = service_name_of(published ? &context : NULL, &process, unknown, &size);
        cr_assert_lt(size, sizeof(text));
        memcpy(text, name, size);
        text[size] = 0;
        return text;
}

Test(service_name, is_that_of_the_context_then_of_the_environment_then_of_the_file) {
        cr_assert_str_eq(name_of("shop", "other"), "shop");
        cr_assert_str_eq(name_of(NULL, "other"), "other");
        cr_assert_str_eq(name_of(NULL, NULL), "unknown_service:java");
        cr_assert_str_eq(name_of("", "other"), "other");
}

Test(service_name, of_the_environment_goes_before_one_that_says_unknown) {
        cr_assert_str_eq(name_of("unknown_service:java", "shop"), "shop");
        cr_assert_str_eq(name_of("unknown_service", "shop"), "shop");
        cr_assert_str_eq(name_of("unknown_service:Main", NULL), "unknown_service:Main");
        cr_assert_str_eq(name_of("unknown", "shop"), "unknown", "a name like any other");
}
