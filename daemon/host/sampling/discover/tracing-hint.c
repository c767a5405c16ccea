/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A library is known by a file that it is loaded from: an agent's jar in a JVM's arguments or variables, an
 * extension of Python or a library of C++ among the mappings, a folder in PYTHONPATH, a package in
 * NODE_OPTIONS. Both words of a rule must stand in one argument, variable or line. A process could write
 * anything there; it would only earn itself a hint.
 */
#include "host/sampling/discover/tracing-hint.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "places.h"

enum {
        MAX_WORDS = 1 << 20,            /* bytes of arguments, and of variables */
        MAX_MAPPINGS = 4 << 20,
};

typedef enum Place {
        IN_WORDS,
        IN_MAPPINGS,
        IN_WORDS_WITH_PACKAGE,          /* the package for Java is installed, too: nothing is to be made */
} Place;

typedef struct Rule {
        const char *begin, *needle;     /* both in one word, in this order */
        const char *is_set;             /* in any argument or variable: the line is there already */
        Place place;
        TracingHint hint;
} Rule;

/* The package spanprof-otel-java, which packaging/sdk makes, has this jar. */
#define JAVA_PACKAGE "/usr/share/java/spanprof-otel.jar"
#define OTEL_JAVA_PACKAGED \
        { "OpenTelemetry's Java agent", "export OTEL_JAVAAGENT_EXTENSIONS=" JAVA_PACKAGE }
/* No registry has our publishers: each other line takes what the package of this program has installed. */
#define OTEL_JAVA \
        { "OpenTelemetry's Java agent", \
          "sudo " PLACES_SDK "/java/otel/make-jar.sh /opt/spanprof-otel.jar && " \
          "export OTEL_JAVAAGENT_EXTENSIONS=/opt/spanprof-otel.jar" }
#define OTEL_NODE \
        { "OpenTelemetry's instrumentation of Node", \
          "npm install " PLACES_SDK "/node.tgz && " \
          "export NODE_OPTIONS=\"$NODE_OPTIONS --require spanprof-otel/register\"" }

static const Rule rules[] = {
        { "-javaagent:", "opentelemetry-javaagent", "spanprof-otel", IN_WORDS_WITH_PACKAGE, OTEL_JAVA_PACKAGED },
        { "-javaagent:", "opentelemetry-javaagent", "spanprof-otel", IN_WORDS, OTEL_JAVA },
        { "-javaagent:", "otel-auto-instrumentation-java/", "spanprof-otel", IN_WORDS_WITH_PACKAGE,
          OTEL_JAVA_PACKAGED },
        { "-javaagent:", "otel-auto-instrumentation-java/", "spanprof-otel", IN_WORDS, OTEL_JAVA },
        { "-javaagent:", "elastic-otel-javaagent", "UNIVERSAL_PROFILING_INTEGRATION_ENABLED=true", IN_WORDS,
          { "Elastic's distribution of OpenTelemetry's Java agent",
            "ELASTIC_OTEL_UNIVERSAL_PROFILING_INTEGRATION_ENABLED=true" } },
        { "-javaagent:", "elastic-apm-agent", "universal_profiling_integration_enabled=true", IN_WORDS,
          { "Elastic's Java agent", "universal_profiling_integration_enabled=true" } },
        { "-javaagent:", "dd-java-agent", "dd.profiling.enabled=true", IN_WORDS,
          { "Datadog's Java agent", "-Ddd.profiling.enabled=true" } },
        { "/ddtrace/", ".so", "DD_TRACE_OTEL_CTX_ENABLED=true", IN_MAPPINGS,
          { "Datadog's library for Python (ddtrace 4 and newer; 3.x cannot)", "DD_TRACE_OTEL_CTX_ENABLED=true" } },
        { "/@datadog/libdatadog", ".node", "DD_TRACE_OTEL_CTX_ENABLED=true", IN_MAPPINGS,
          { "Datadog's library for Node", "DD_TRACE_OTEL_CTX_ENABLED=true" } },
        { "PYTHONPATH=", "opentelemetry/instrumentation/auto_instrumentation", "OTEL_PYTHON_CONTEXT=spanprof", IN_WORDS,
          { "opentelemetry-instrument", "pip install " PLACES_SDK "/python.tar.gz" } },
        { "NODE_OPTIONS=", "@opentelemetry/auto-instrumentations-node", "spanprof-otel", IN_WORDS, OTEL_NODE },
        { "/libopentelemetry_trace.so", "", "SPANPROF_OTEL_DISABLED=true", IN_MAPPINGS,
          { "opentelemetry-cpp", "spanprof::otel::install() of spanprof/opentelemetry.hpp, in libspanprof-context-dev" } },
        { "NODE_OPTIONS=", "otel-auto-instrumentation-nodejs/", "spanprof-otel", IN_WORDS, OTEL_NODE },
};

static const char *find(const char *text, size_t size, const char *needle) {
        return size ? memmem(text, size, needle, strlen(needle)) : NULL;
}

/* Whether one piece of @text, up to @end each, has both words. */
static bool has(const char *text, size_t size, char end, const Rule *rule) {
        const char *stop = text + size, *piece_end, *at;

        for (const char *piece = text; size && piece < stop; piece = piece_end + 1) {
                piece_end = memchr(piece, end, (size_t)(stop - piece));
                if (!piece_end)
                        piece_end = stop;
                at = find(piece, (size_t)(piece_end - piece), rule->begin);
                if (at && find(at, (size_t)(piece_end - at), rule->needle))
                        return true;
        }
        return false;
}

static bool applies(const TracingTexts *texts, const Rule *rule) {
        if (find(texts->arguments, texts->arguments_size, rule->is_set) ||
            find(texts->variables, texts->variables_size, rule->is_set))
                return false;
        if (rule->place == IN_WORDS_WITH_PACKAGE && !texts->has_java_package)
                return false;
        if (rule->place == IN_MAPPINGS)
                return has(texts->mappings, texts->mappings_size, '\n', rule);
        return has(texts->arguments, texts->arguments_size, '\0', rule) ||
                has(texts->variables, texts->variables_size, '\0', rule);
}

const TracingHint *tracing_hint_find(const TracingTexts *texts) {
        for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
                if (applies(texts, &rules[i]))
                        return &rules[i].hint;
        return NULL;
}

/* In pieces that a target may hold up for a while only. @to: gets the first @max bytes. */
static void read_some(pid_t pid, const char *name, size_t max, Text *to) {
        _cleanup_(closep) int fd = -1;
        char path[64], piece[BOUNDED_MAX_READ];
        ssize_t n = (ssize_t)sizeof(piece);

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && n == (ssize_t)sizeof(piece) && to->size < max) {
                n = bounded_fill(pid, fd, piece, sizeof(piece));
                if (n > 0)
                        text_append(to, piece, (size_t)n);
        }
}

const TracingHint *tracing_hint_read(pid_t pid) {
        _cleanup_(text_deinit) Text arguments = { 0 }, variables = { 0 }, mappings = { 0 };

        read_some(pid, "cmdline", MAX_WORDS, &arguments);
        read_some(pid, "environ", MAX_WORDS, &variables);
        read_some(pid, "maps", MAX_MAPPINGS, &mappings);
        return tracing_hint_find(&(TracingTexts){
                .arguments = arguments.data, .arguments_size = arguments.size,
                .variables = variables.data, .variables_size = variables.size,
                .mappings = mappings.data, .mappings_size = mappings.size,
                .has_java_package = access(JAVA_PACKAGE, R_OK) == 0,
        });
}
