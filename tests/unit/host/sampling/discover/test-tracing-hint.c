/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/discover/tracing-hint.h"

#define TEXT(text) (text), sizeof(text)

static const char *line_of(const char *arguments, size_t arguments_size, const char *variables,
                           size_t variables_size, const char *mappings) {
        TracingTexts texts = { .arguments = arguments,
                               .arguments_size = arguments_size,
                               .variables = variables,
                               .variables_size = variables_size,
                               .mappings = mappings,
                               .mappings_size = mappings ? strlen(mappings) : 0 };
        const TracingHint *hint = tracing_hint_find(&texts);

        return hint ? hint->line : "";
}

/* Where the build puts things is its own affair; the rest of the line is not. */
static void assert_around(const char *line, const char *begin, const char *end) {
        cr_assert_gt(strlen(line), strlen(begin) + strlen(end), "%s", line);
        cr_assert_eq(strncmp(line, begin, strlen(begin)), 0, "%s", line);
        cr_assert_str_eq(line + strlen(line) - strlen(end), end);
}

Test(tracing_hint, of_agents_of_java) {
        assert_around(line_of(TEXT("java\0-javaagent:/opt/opentelemetry-javaagent-2.33.1.jar\0-jar\0shop.jar"),
                              TEXT("A=b"), NULL),
                      "sudo /", "/share/spanprof/sdk/java/otel/make-jar.sh /opt/spanprof-otel.jar && "
                      "export OTEL_JAVAAGENT_EXTENSIONS=/opt/spanprof-otel.jar");
        cr_assert_str_eq(line_of(TEXT("java"), TEXT("A=b\0JAVA_TOOL_OPTIONS= -javaagent:/x/dd-java-agent.jar=y"), NULL),
                         "-Ddd.profiling.enabled=true");
        cr_assert_str_eq(line_of(TEXT("java\0-javaagent:elastic-otel-javaagent.jar"), TEXT("A=b"), NULL),
                         "ELASTIC_OTEL_UNIVERSAL_PROFILING_INTEGRATION_ENABLED=true");
}

Test(tracing_hint, of_the_package_for_java_where_it_is_installed) {
        TracingTexts texts = { .has_java_package = true };

        texts.arguments = "java\0-javaagent:/opt/opentelemetry-javaagent-2.33.1.jar";
        texts.arguments_size = sizeof("java\0-javaagent:/opt/opentelemetry-javaagent-2.33.1.jar");
        cr_assert_str_eq(tracing_hint_find(&texts)->line,
                         "export OTEL_JAVAAGENT_EXTENSIONS=/usr/share/java/spanprof-otel.jar");
        texts.arguments = "java\0-javaagent:/otel-auto-instrumentation-java/javaagent.jar";
        texts.arguments_size = sizeof("java\0-javaagent:/otel-auto-instrumentation-java/javaagent.jar");
        cr_assert_str_eq(tracing_hint_find(&texts)->line,
                         "export OTEL_JAVAAGENT_EXTENSIONS=/usr/share/java/spanprof-otel.jar");
        texts.variables = "OTEL_JAVAAGENT_EXTENSIONS=/usr/share/java/spanprof-otel.jar";
        texts.variables_size = sizeof("OTEL_JAVAAGENT_EXTENSIONS=/usr/share/java/spanprof-otel.jar");
        cr_assert_null(tracing_hint_find(&texts));
}

Test(tracing_hint, of_python_and_node) {
        cr_assert_str_eq(line_of(TEXT("python3"), TEXT("A=b"),
                                 "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so.6\n"
                                 "7f02-7f03 r-xp 0 00:00 2 /venv/ddtrace/internal/_encoding.cpython-311.so\n"),
                         "DD_TRACE_OTEL_CTX_ENABLED=true");
        assert_around(line_of(TEXT("python3"),
                              TEXT("PYTHONPATH=/venv/opentelemetry/instrumentation/auto_instrumentation:/x"),
                              NULL),
                      "pip install /", "/share/spanprof/sdk/python.tar.gz");
        assert_around(line_of(TEXT("node"),
                              TEXT("NODE_OPTIONS=--require @opentelemetry/auto-instrumentations-node/register"),
                              NULL),
                      "npm install /",
                      "/share/spanprof/sdk/node.tgz && export NODE_OPTIONS=\"$NODE_OPTIONS --require spanprof-otel/register\"");
        cr_assert_str_eq(line_of(TEXT("node"), TEXT("A=b"),
                                 "7f00-7f01 r-xp 0 00:00 1 /srv/node_modules/@datadog/libdatadog-extras/prebuilds/"
                                 "linuxglibc-x64/process_discovery-napi.node\n"),
                         "DD_TRACE_OTEL_CTX_ENABLED=true");
}

Test(tracing_hint, of_a_library_of_cplusplus) {
        const char *mappings = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/x86_64-linux-gnu/libopentelemetry_trace.so\n";

        cr_assert_str_eq(line_of(TEXT("shop"), TEXT("A=b"), mappings),
                         "spanprof::otel::install() of spanprof/opentelemetry.hpp, in libspanprof-context-dev");
        cr_assert_str_eq(line_of(TEXT("shop"), TEXT("SPANPROF_OTEL_DISABLED=true"), mappings), "");
}

Test(tracing_hint, none_where_it_is_set_or_no_library_is_there) {
        cr_assert_str_eq(line_of(TEXT("java\0-javaagent:/opt/opentelemetry-javaagent.jar"),
                                 TEXT("OTEL_JAVAAGENT_EXTENSIONS=/opt/spanprof-otel.jar"), NULL),
                         "");
        cr_assert_str_eq(line_of(TEXT("python3"), TEXT("DD_TRACE_OTEL_CTX_ENABLED=true"), "/venv/ddtrace/a.so\n"), "");
        /* two words, not one */
        cr_assert_str_eq(line_of(TEXT("java\0-javaagent:x.jar\0opentelemetry-javaagent.jar"), TEXT("A=b"), NULL), "");
        cr_assert_str_eq(line_of(TEXT("java"), TEXT("A=b"), "/venv/ddtrace/a\n/x/b.so"), "");
        cr_assert_str_eq(line_of(NULL, 0, NULL, 0, NULL), "");
}
