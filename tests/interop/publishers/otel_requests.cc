// SPDX-License-Identifier: Apache-2.0
// With opentelemetry-cpp and spanprof/opentelemetry.hpp: otel-requests requests CPU-SECONDS, otel-requests
// everywhere, names, or bench. The first prints what it did without a pause between, in two threads
// and a forked child:
//
//     busy TRACE SPAN THREAD BEGIN END        CLOCK_MONOTONIC, ns; TRACE and SPAN are `-` outside of all spans
//
// The second compares what a thread publishes with the span that must be current, wherever contexts change.
// `names` says what the spans of a thread are named. They are read by
// tests/integration/host/spans/test-otel-cpp.py; the last by tests/bench/otel_cpp.py.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/simple_processor.h>
#include <opentelemetry/sdk/trace/span_data.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

#include "spanprof/context-api.h"
#include "spanprof/opentelemetry.hpp"

namespace api = opentelemetry;
namespace sdk = opentelemetry::sdk;

using Span = api::nostd::shared_ptr<api::trace::Span>;

static uint64_t now(clockid_t clock) {
        timespec time;

        clock_gettime(clock, &time);
        return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static std::string text_of(const Span &span) {
        char trace[32], id[16];

        if (!span)
                return "- -";
        span->GetContext().trace_id().ToLowerBase16(trace);
        span->GetContext().span_id().ToLowerBase16(id);
        return std::string(trace, 32) + " " + std::string(id, 16);
}

// Never exports: the tests look at what is current.
class NoExporter final : public sdk::trace::SpanExporter {
public:
        std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
                return std::unique_ptr<sdk::trace::Recordable>(new sdk::trace::SpanData);
        }
        sdk::common::ExportResult
        Export(const api::nostd::span<std::unique_ptr<sdk::trace::Recordable>> &) noexcept override {
                return sdk::common::ExportResult::kSuccess;
        }
        bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
        bool Shutdown(std::chrono::microseconds) noexcept override { return true; }
};

static Span start_span(const char *name) {
        return api::trace::Provider::GetTracerProvider()->GetTracer("requests")->StartSpan(name);
}

// Work of @ms for @span, as the program itself knows it; no look at contexts.
static void burn(uint64_t ms, const Span &span) {
        uint64_t begin = now(CLOCK_MONOTONIC), end = begin + ms * 1000000;
        volatile uint64_t x = 1;

        while (now(CLOCK_MONOTONIC) < end)
                for (int i = 0; i < 1000; i++)
                        x = x * 6364136223846793005u + 1442695040888963407u;
        std::string line = "busy " + text_of(span) + " " + std::to_string(gettid()) + " " + std::to_string(begin) +
                " " + std::to_string(now(CLOCK_MONOTONIC)) + "\n";
        if (write(1, line.data(), line.size()) < 0)
                _exit(1);
}

static void request() {
        Span outer = start_span("outer");
        {
                api::trace::Scope scope(outer);
                burn(15, outer);
                {
                        Span inner = start_span("inner");
                        api::trace::Scope in(inner);
                        burn(15, inner);
                        inner->End();
                }
                burn(10, outer);
        }
        outer->End();
        burn(10, Span());
}

static void requests(uint64_t until_ns) {
        while (now(CLOCK_THREAD_CPUTIME_ID) < until_ns)
                request();
}

static int run_requests(double seconds) {
        uint64_t each_ns = (uint64_t)(seconds * 1e9 / 3);
        std::thread other(requests, each_ns);

        requests(each_ns);
        other.join();
        pid_t child = fork();
        if (child == 0) {
                dprintf(1, "pid %d\n", (int)getpid());
                requests(now(CLOCK_THREAD_CPUTIME_ID) + each_ns);
                _exit(0);
        }
        int status = 1;
        waitpid(child, &status, 0);
        return status;
}

// ---- what is published beside what is current ----

static int n_looks;

static void expect(const Span &span, int line) {
        uint64_t high = 0, low = 0, id = 0;
        char text[64] = "- -";

        n_looks++;
        if (spanprof_api_get_otel(&high, &low, &id))
                snprintf(text, sizeof(text), "%016llx%016llx %016llx", (unsigned long long)high,
                         (unsigned long long)low, (unsigned long long)id);
        if (text_of(span) == text)
                return;
        fprintf(stderr, "line %d: %s is published, %s is current\n", line, text, text_of(span).c_str());
        exit(1);
}

#define EXPECT(span) expect(span, __LINE__)

static Span no_span;

static void look_nested() {
        Span a = start_span("a"), b = start_span("b");

        EXPECT(no_span);
        {
                api::trace::Scope outer(a);
                EXPECT(a);
                {
                        api::trace::Scope inner(b), again(b);
                        EXPECT(b);
                }
                EXPECT(a);
                b->End();
                EXPECT(a);
                a->End();
                EXPECT(a);      // current until its scope ends
        }
        EXPECT(no_span);
}

// Ends in another order than begun: opentelemetry-cpp detaches all that was attached later.
static void look_out_of_order() {
        Span a = start_span("a"), b = start_span("b");
        std::unique_ptr<api::trace::Scope> outer(new api::trace::Scope(a)), inner(new api::trace::Scope(b));

        EXPECT(b);
        outer.reset();
        EXPECT(no_span);
        inner.reset();
        EXPECT(no_span);
}

// A context with a value and no span has the span of the one that it was made of.
static void look_values() {
        Span a = start_span("a");
        api::trace::Scope scope(a);
        api::context::Context with_value = api::context::RuntimeContext::SetValue("zone", true), empty;
        {
                auto token = api::context::RuntimeContext::Attach(with_value);
                EXPECT(a);
                auto none = api::context::RuntimeContext::Attach(empty);
                EXPECT(no_span);
        }
        EXPECT(a);
}

static void look_threads() {
        Span a = start_span("a");
        api::trace::Scope scope(a);

        std::thread([&] {
                EXPECT(no_span);
                api::trace::Scope there(a);
                EXPECT(a);
                Span b = start_span("b");
                api::trace::Scope inner(b);
                EXPECT(b);
        }).join();
        EXPECT(a);
        // a token that ends on another thread changes nothing there, nor here
        auto token = api::context::RuntimeContext::Attach(api::context::RuntimeContext::SetValue("zone", true));
        std::thread([&] { token.reset(); EXPECT(no_span); }).join();
        EXPECT(a);
}

static void look_fork() {
        Span a = start_span("a");
        int status = 1;

        {
                api::trace::Scope scope(a);
                pid_t child = fork();
                if (child == 0) {
                        EXPECT(a);
                        _exit(0);
                }
                waitpid(child, &status, 0);
                EXPECT(a);
        }
        if (status)
                exit(1);
}

static void look_remote() {
        const uint8_t trace[16] = { 0xa1, 2 }, id[8] = { 0xb3, 4 };
        api::trace::TraceId trace_id(trace);
        api::trace::SpanId span_id(id);
        api::trace::SpanContext there(trace_id, span_id, {}, true), here(trace_id, span_id, {}, false);
        Span remote(new api::trace::DefaultSpan(there)), local(new api::trace::DefaultSpan(here));
        Span invalid(new api::trace::DefaultSpan(api::trace::SpanContext::GetInvalid()));
        api::trace::Scope a(remote);
        EXPECT(no_span);
        api::trace::Scope b(local);
        EXPECT(local);
        api::trace::Scope c(invalid);
        EXPECT(no_span);
}

static int look_everywhere() {
        look_nested();
        look_out_of_order();
        look_values();
        look_threads();
        look_fork();
        look_remote();
        EXPECT(no_span);
        printf("%d looks, storage %d\n", n_looks, spanprof_context_storage_in_use());
        return 0;
}

// ---- names: what the record of a thread says by its layout ----

extern "C" thread_local const uint8_t *otel_thread_ctx_v1;

static void say(const char *step) {
        const uint8_t *record = otel_thread_ctx_v1;
        uint16_t size;

        printf("%s", step);
        if (!record) {
                puts(" none");
                return;
        }
        memcpy(&size, record + 26, sizeof(size));
        for (const uint8_t *at = record + 28; at < record + 28 + size; at += 2 + at[1])
                printf(" %d=[%.*s]", at[0], at[1], (const char *)at + 2);
        puts("");
}

static Span start_below(const api::trace::SpanContext &parent, const char *name) {
        api::trace::StartSpanOptions options;

        options.parent = parent;
        return api::trace::Provider::GetTracerProvider()->GetTracer("names")->StartSpan(
                name, { { "http.route", "/order" }, { "http.response.status_code", 200 } }, options);
}

static void say_of_callers() {
        const uint8_t trace[16] = { 5 }, id[8] = { 6 };
        api::trace::TraceId trace_id(trace);
        api::trace::SpanId span_id(id);
        Span entry = start_below(api::trace::SpanContext(trace_id, span_id, {}, true), "order");
        Span stranger = start_below(api::trace::SpanContext(trace_id, span_id, {}, false), "of nobody");
        api::context::Context context = api::context::RuntimeContext::GetCurrent(), root;
        api::trace::Scope scope(entry);

        say("remote-parent");
        {
                api::trace::StartSpanOptions options;
                options.parent = root.SetValue(api::trace::kIsRootSpanKey, true);
                auto tracer = api::trace::Provider::GetTracerProvider()->GetTracer("names");
                Span other = tracer->StartSpan("job", options);
                api::trace::Scope in(other);
                say("new-root");
        }
        api::trace::Scope in(stranger);
        say("unknown-parent");
}

/* More names than a process publishes. */
static void say_of_many() {
        for (int i = 0; i < 1000; i++)
                start_span(("name " + std::to_string(i)).c_str())->End();
        api::trace::Scope many(start_span("one too many"));
        say("over-the-bound");
        api::context::Context root;
        api::trace::StartSpanOptions options;
        options.parent = root.SetValue(api::trace::kIsRootSpanKey, true);
        api::trace::Scope known(
                api::trace::Provider::GetTracerProvider()->GetTracer("names")->StartSpan("name 1", options));
        say("known-before");
}

static int say_names() {
        Span entry = start_span("GET");
        {
                api::trace::Scope scope(entry);
                say("entry");
                Span inner = start_span("query");
                api::trace::Scope in(inner);
                say("inner");
                inner->UpdateName("other query");
                inner->SetAttribute("http.route", "/inner");
                say("inner-renamed");
                std::thread([&] {
                        api::trace::Scope there(inner);
                        entry->SetAttribute("http.route", "/cart/:id");
                        say("route");
                }).join();
                say("route-from-another-thread");
                entry->UpdateName("cart");
                say("renamed");
        }
        say("none");
        say_of_callers();
        {
                Span other = api::trace::Provider::GetTracerProvider()->GetTracer("names")->StartSpan(
                        "PUT", { { "http.route", std::string("/cart") } });
                api::trace::Scope scope(other);
                say("attributes");
        }
        say_of_many();
        return 0;
}

// ---- what an activation costs ----

static double lowest_ns(void (*call)(const Span &)) {
        Span span = start_span("x");
        uint64_t lowest = UINT64_MAX;
        enum { N = 5000 };

        for (int turn = 0; turn < 300; turn++) {
                uint64_t begin = now(CLOCK_MONOTONIC);

                for (int i = 0; i < N; i++)
                        call(span);
                lowest = std::min(lowest, now(CLOCK_MONOTONIC) - begin);
        }
        return (double)lowest / N;
}

static unsigned long private_kib() {
        char line[256];
        unsigned long sum = 0, one;
        FILE *file = fopen("/proc/self/smaps_rollup", "re");

        while (file && fgets(line, sizeof(line), file))
                if (sscanf(line, "Private_Clean: %lu", &one) == 1 || sscanf(line, "Private_Dirty: %lu", &one) == 1)
                        sum += one;
        if (file)
                fclose(file);
        return sum;
}

static int bench() {
        printf("scope\t%f\n", lowest_ns([](const Span &span) { api::trace::Scope scope(span); }));
        printf("span\t%f\n", lowest_ns([](const Span &) {
                Span span = start_span("x");
                api::trace::Scope scope(span);
                span->End();
        }));
        printf("memory\t%lu\n", private_kib());
        return 0;
}

int main(int argc, char **argv) {
        auto resource = sdk::resource::Resource::Create({ { "service.name", "shop" }, { "zones", 3 } });
        std::unique_ptr<sdk::trace::SpanExporter> exporter(new NoExporter);
        std::unique_ptr<sdk::trace::SpanProcessor> processor(
                new sdk::trace::SimpleSpanProcessor(std::move(exporter)));
        std::string mode = argc > 1 ? argv[1] : "";

        api::nostd::shared_ptr<api::trace::TracerProvider> provider(
                new sdk::trace::TracerProvider(std::move(processor), resource));

        api::trace::Provider::SetTracerProvider(getenv("WITHOUT") ? provider : spanprof::otel::wrap(provider));
        if (!getenv("WITHOUT") && spanprof::otel::install() && spanprof::otel::publish_resource(resource))
                return 1;
        if (mode == "requests" && argc > 2)
                return run_requests(atof(argv[2]));
        if (mode == "names")
                return say_names();
        return mode == "everywhere" ? look_everywhere() : mode == "bench" ? bench() : 2;
}
