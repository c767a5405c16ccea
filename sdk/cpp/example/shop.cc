// SPDX-License-Identifier: Apache-2.0
// A service with two operations, traced by opentelemetry-cpp. Three lines publish its spans: shop [SECONDS]
//
//     g++ -std=c++17 -O2 shop.cc -o shop $(pkg-config --cflags --libs spanprof-context opentelemetry_trace)
//     sudo spanprof record -- ./shop 10
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/processor.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/scope.h>

#include <spanprof/opentelemetry.hpp>

namespace api = opentelemetry;
namespace sdk = opentelemetry::sdk;

static volatile uint64_t sink;

static double seconds() {
        return (double)clock() / CLOCKS_PER_SEC;
}

static void hash(int rounds) {
        for (int i = 0; i < rounds; i++)
                sink = sink * 6364136223846793005u + 1442695040888963407u;
}

static void operation(api::trace::Tracer &tracer, const char *name, int rounds) {
        api::trace::Scope scope(tracer.StartSpan(name));

        hash(rounds);
}

int main(int argc, char **argv) {
        double end = argc > 1 ? atof(argv[1]) : 10;
        auto resource = sdk::resource::Resource::Create({ { "service.name", "shop" } });
        // a service has an exporter here
        std::vector<std::unique_ptr<sdk::trace::SpanProcessor>> no_processors;

        api::nostd::shared_ptr<api::trace::TracerProvider> provider(
                new sdk::trace::TracerProvider(std::move(no_processors), resource));

        spanprof::otel::install();                      // the first line
        spanprof::otel::publish_resource(resource);     // the second
        provider = spanprof::otel::wrap(provider);      // the third, for names
        api::trace::Provider::SetTracerProvider(provider);

        auto tracer = api::trace::Provider::GetTracerProvider()->GetTracer("shop");
        while (seconds() < end) {
                operation(*tracer, "checkout", 300000);
                operation(*tracer, "search", 100000);
        }
        puts("checkout is three quarters of it");
}
