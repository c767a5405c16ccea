/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDK's headers in a C++ program that links the shared library: names, layout asserts and calls hold
 * there too. The scoped guard, ContextApi and OtelContexts are seen through the C interface of the same
 * process.
 */
#include <spanprof/context-api.hpp>
#include <spanprof/context.h>
#include <spanprof/context.hpp>
#include <spanprof/otel.h>
#include <spanprof/process.h>
#include <spanprof/ring.h>
#include <spanprof/thread.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

static int n_tests, n_failed;

static void ok(bool good, const char *name) {
        std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++n_tests, name);
        n_failed += !good;
}

static bool own_is(uint64_t high, uint64_t low, uint64_t span) {
        uint64_t a = 0, b = 0, c = 0;

        return spanprof_api_get_otel(&a, &b, &c) && a == high && b == low && c == span;
}

static bool own_is_nothing() {
        uint64_t a, b, c;

        return !spanprof_api_get_otel(&a, &b, &c);
}

static void start_and_stop() {
        spanprof_context_options options = {};

        options.size = sizeof(options);
        options.capacity = 16;
        ok(spanprof_context_start(&options) == 0, "starts from C++");
        spanprof_context_set(1, 2, 3);
        spanprof_context_clear();
        ok(spanprof_context_start(nullptr) != 0, "refuses a second start");
        spanprof_context_stop();
}

static void guards() {
        spanprof_context_start(nullptr);
        {
                spanprof::Span outer(1, 2, 3);

                ok(own_is(1, 2, 3), "a guard sets its span");
                {
                        spanprof::Span inner(4, 5, 6);

                        ok(own_is(4, 5, 6), "an inner guard sets its own");
                        std::thread([] { ok(own_is_nothing(), "… for its thread alone"); }).join();
                        try {
                                spanprof::Span innermost(7, 8, 9);

                                throw std::runtime_error("out of its scope");
                        } catch (const std::exception &) {
                                ok(own_is(4, 5, 6),
                                   "an exception ends a guard, and the one around it is set again");
                        }
                }
                ok(own_is(1, 2, 3), "the end of the inner one sets the outer one again");
        }
        ok(own_is_nothing(), "the end of the last one clears");
        spanprof_context_stop();
}

static void context_api() {
        using spanprof::ContextApi;
        uint64_t span = 0, root = 0;
        int tid = static_cast<int>(syscall(SYS_gettid));

        ok(!ContextApi::isInitialized() && ContextApi::initialize("ctxstorage=profiler") &&
                   ContextApi::isInitialized(),
           "ContextApi initializes");
        ok(ContextApi::getMode() == spanprof::CTX_STORAGE_PROFILER, "… in profiler mode");
        ContextApi::set(10, 11);
        ok(ContextApi::get(span, root) && span == 10 && root == 11, "… sets and gets");
        ok(!ContextApi::getByTid(tid, span, root), "… not by thread id");
        ok(ContextApi::setTag(9, 5) && ContextApi::getTag(9) == 5 && !ContextApi::setTag(10, 5),
           "… has ten tags");
        ContextApi::clear();
        ok(!ContextApi::get(span, root), "… clears");
        ContextApi::shutdown();
        ok(ContextApi::initialize("start,ctxstorage=otel") &&
                   ContextApi::getMode() == spanprof::CTX_STORAGE_OTEL,
           "… in otel mode");
        ContextApi::setOtel(1, 2, 3);
        ok(ContextApi::getByTid(tid, span, root) && span == 3 && root == 2, "… by thread id");
        ok(spanprof::OtelContexts::isInitialized() && spanprof::OtelContexts::initialize(),
           "… which is OtelContexts' ring");
        ContextApi::shutdown();
        ok(!ContextApi::isInitialized(), "… shuts down");
}

static void otel_contexts() {
        using spanprof::OtelContexts;
        uint64_t high = 0, low = 0, span = 0;

        ok(!OtelContexts::isInitialized() && OtelContexts::initialize(64) && OtelContexts::isInitialized(),
           "OtelContexts initializes");
        OtelContexts::set(1, 2, 3);
        ok(OtelContexts::get(high, low, span) && high == 1 && low == 2 && span == 3, "… sets and gets");
        high = low = span = 0;
        ok(OtelContexts::getByTid(static_cast<int>(syscall(SYS_gettid)), high, low, span) && high == 1 &&
                   span == 3,
           "… by thread id");
        OtelContexts::shutdown();
        ok(!OtelContexts::isInitialized() && !OtelContexts::get(high, low, span), "… shuts down");
        ok(!OtelContexts::initialize(size_t(1) << 33), "… refuses a capacity beyond numbers");
        ok(spanprof::ContextApi::initialize("ctxstorage=profiler") && !OtelContexts::initialize(64),
           "… and a second storage");
        OtelContexts::set(1, 2, 3);
        ok(!spanprof::ContextApi::get(high, low), "… and sets nothing there");
        OtelContexts::shutdown();
        ok(spanprof::ContextApi::isInitialized(), "… nor ends what is not its own");
        spanprof::ContextApi::shutdown();
}

int main() {
        start_and_stop();
        guards();
        context_api();
        otel_contexts();
        std::printf("1..%d\n", n_tests);
        return n_failed > 0;
}
