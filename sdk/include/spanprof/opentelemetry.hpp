/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spans of opentelemetry-cpp
 *
 * Publishes the current span of each thread, for C++14 and later:
 *
 *     spanprof::otel::install();                              before the first span becomes current
 *     spanprof::otel::publish_resource(resource);             once: service.name and the like
 *     Provider::SetTracerProvider(spanprof::otel::wrap(provider));            spans are named
 *
 * opentelemetry-cpp keeps the Contexts of a thread in a RuntimeContextStorage, and every change passes it: a
 * Scope attaches a Context, its end detaches that. Storage stands before the one that is there, hands all to
 * it, and publishes the span of the Context that is current afterwards. What a token of the storage behind it
 * ends comes back here, since tokens ask for the storage of the process.
 *
 * Only headers of opentelemetry-cpp's API are needed here; the SDK's are the program's.
 */

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <endian.h>
#include <pthread.h>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/nostd/variant.h>
#include <opentelemetry/trace/span.h>
#include <opentelemetry/trace/span_context.h>
#include <opentelemetry/trace/span_metadata.h>

#include "spanprof/context.h"
#include "spanprof/opentelemetry-names.hpp"
#include "spanprof/otel.h"
#include "spanprof/thread.h"

namespace spanprof {
namespace otel {

namespace api = ::opentelemetry;

/* Eight bytes of an id as a number: the first byte is the highest. */
inline uint64_t number(const uint8_t *bytes) noexcept {
        uint64_t value;

        std::memcpy(&value, bytes, sizeof(value));
        return be64toh(value);
}

/* A remote one is the caller's: this thread will work for a child of it. */
inline void publish(const api::trace::Span &current) noexcept {
        const api::trace::SpanContext span = current.GetContext();
        const uint8_t *trace = span.trace_id().Id().data();
        const std::shared_ptr<names::Root> *root = names::root_of(current);

        if (span.IsValid() && !span.IsRemote())
                spanprof_context_set_root(number(trace), number(trace + 8),
                                          number(span.span_id().Id().data()),
                                          root ? (*root)->get() : nullptr);
        else
                spanprof_context_clear();
}

/* The span of @context, for which the calling thread works from now on. */
inline void publish(const api::context::Context &context) noexcept {
        using Pointer = api::nostd::shared_ptr<api::trace::Span>;
        api::context::ContextValue value = context.GetValue(api::trace::kSpanKey);
        const Pointer *span = api::nostd::get_if<Pointer>(&value);

        if (span && *span)
                publish(**span);
        else
                spanprof_context_clear();
}

class Storage final : public api::context::RuntimeContextStorage {
public:
        using Kept = api::nostd::shared_ptr<const api::context::RuntimeContextStorage>;

        /* @kept: the storage that is there. The API hands it out as const; it was made by new, and is not. */
        explicit Storage(const Kept &kept) noexcept
                : kept_(kept), storage_(const_cast<api::context::RuntimeContextStorage *>(kept.get())) {}

        api::context::Context GetCurrent() noexcept override { return storage_->GetCurrent(); }

        api::nostd::unique_ptr<api::context::Token>
        Attach(const api::context::Context &context) noexcept override {
                api::nostd::unique_ptr<api::context::Token> token = storage_->Attach(context);

                publish(context);
                return token;
        }

        bool Detach(api::context::Token &token) noexcept override {
                bool detached = storage_->Detach(token);

                publish(storage_->GetCurrent());
                return detached;
        }

private:
        Kept kept_;
        api::context::RuntimeContextStorage *storage_;
};

/*
 * Thread contexts, which other profilers read, too, if this program exports the variable that leads to them;
 * the ring, which is found without names, if not. SPANPROF_CONTEXT chooses by hand.
 */
inline int start() noexcept {
        spanprof_context_options options = spanprof_context_options();
        int r;

        options.size = sizeof(options);
        if (!std::getenv(SPANPROF_CONTEXT_ENVIRONMENT))
                options.storage = dlsym(RTLD_DEFAULT, SPANPROF_THREAD_SYMBOL) ? SPANPROF_CONTEXT_THREAD
                                                                             : SPANPROF_CONTEXT_RING;
        r = spanprof_context_start(&options);
        return r == -EALREADY ? 0 : r;
}

/* A child's thread works on for the span that is current in it. */
inline void fork_child() noexcept {
        publish(api::context::RuntimeContext::GetCurrent());
}

inline int put_storage() noexcept {
        api::nostd::shared_ptr<api::context::RuntimeContextStorage> storage(
                new (std::nothrow) Storage(api::context::RuntimeContext::GetConstRuntimeContextStorage()));

        if (!storage)
                return -ENOMEM;
        api::context::RuntimeContext::SetRuntimeContextStorage(storage);
        fork_child();
        return -pthread_atfork(nullptr, nullptr, fork_child);
}

inline bool is_disabled() noexcept {
        const char *text = std::getenv("SPANPROF_OTEL_DISABLED");

        return text && (std::strcmp(text, "1") == 0 || std::strcmp(text, "true") == 0);
}

inline bool try_install() noexcept {
        int r;

        if (is_disabled()) {
                std::fputs("spanprof: spans are not published: SPANPROF_OTEL_DISABLED is set\n", stderr);
                return false;
        }
        r = start();
        r = r ? r : put_storage();
        if (r)
                std::fprintf(stderr, "spanprof: spans are not published: %s\n", std::strerror(-r));
        return !r;
}

/*
 * Publishes spans from now on. As opentelemetry-cpp asks of all who change its storage: before other threads
 * use contexts, after the program has chosen a storage of its own, if it does. Further calls do nothing. If
 * it cannot be done, one line on standard error says why, and the program runs as before. Return: whether
 * spans are published.
 */
inline bool install() noexcept {
        static const bool installed = try_install();

        return installed;
}

/*
 * Publishes the attributes of the SDK's resource that are text, in place of those that were published before.
 * @resource: opentelemetry::sdk::resource::Resource. Return: 0; -E2BIG = over 64 KiB in all; -ENOMEM.
 */
template <class Resource>
int publish_resource(const Resource &resource) {
        std::vector<struct spanprof_otel_attribute> attributes;
        spanprof_otel_process process = spanprof_otel_process();

        for (const auto &pair : resource.GetAttributes())
                if (const std::string *text = api::nostd::get_if<std::string>(&pair.second))
                        attributes.push_back({ pair.first.c_str(), text->c_str() });
        process.size = sizeof(process);
        process.n_attributes = attributes.size();
        process.attributes = attributes.data();
        return spanprof_otel_publish(&process);
}

} // namespace otel
} // namespace spanprof
