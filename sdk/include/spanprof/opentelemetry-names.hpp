/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of Spans of opentelemetry-cpp
 *
 * A Span of its API has no name that can be read. So a provider stands before the SDK's, and its spans know
 * what the first span of their request in this process is named, and its http.route:
 *
 *     Provider::SetTracerProvider(spanprof::otel::wrap(provider));
 *
 * All calls go on to the spans of the SDK. spanprof/opentelemetry.hpp, which includes this, publishes names.
 * A program without run-time type information publishes none.
 */

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include <strings.h>

#include <opentelemetry/common/key_value_iterable.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/nostd/variant.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/span.h>
#include <opentelemetry/trace/span_metadata.h>
#include <opentelemetry/trace/tracer.h>
#include <opentelemetry/trace/tracer_provider.h>

#include "spanprof/otel.h"

namespace spanprof {
namespace otel {
namespace names {

namespace api = ::opentelemetry;
using api::nostd::string_view;
using SpanPointer = api::nostd::shared_ptr<api::trace::Span>;

/* @to: is that text, if the attribute is http.route. */
inline bool is_route(string_view key, const api::common::AttributeValue &value, std::string &to) {
        if (key != string_view("http.route"))
                return false;
        if (const string_view *text = api::nostd::get_if<string_view>(&value))
                to.assign(text->data(), text->size());
        else if (const char *const *bytes = api::nostd::get_if<const char *>(&value))
                to = *bytes;
        return true;
}

/* What the spans of one request in this process share. */
class Root {
public:
        Root(string_view name, const api::common::KeyValueIterable &attributes)
                : name_(name.data(), name.size()) {
                attributes.ForEachKeyValue(
                        [this](string_view key, const api::common::AttributeValue &value) noexcept {
                                is_route(key, value, route_);
                                return true;
                        });
                publish();
        }

        void set_name(string_view name) {
                std::lock_guard<std::mutex> lock(mutex_);

                name_.assign(name.data(), name.size());
                publish();
        }

        void set_attribute(string_view key, const api::common::AttributeValue &value) {
                std::lock_guard<std::mutex> lock(mutex_);

                if (is_route(key, value, route_))
                        publish();
        }

        spanprof_otel_root *get() noexcept { return &root_; }

private:
        void publish() noexcept {
                spanprof_otel_name(&root_, name_.data(), name_.size(), route_.data(), route_.size());
        }

        spanprof_otel_root root_ = spanprof_otel_root();
        std::mutex mutex_;
        std::string name_, route_;
};

class Span final : public api::trace::Span {
public:
        Span(const SpanPointer &span, const std::shared_ptr<Root> &root, bool is_entry) noexcept
                : span_(span), root_(root), is_entry_(is_entry) {}

        const std::shared_ptr<Root> &root() const noexcept { return root_; }

        void SetAttribute(string_view key, const api::common::AttributeValue &value) noexcept override {
                span_->SetAttribute(key, value);
                if (is_entry_ && key == string_view("http.route"))
                        root_->set_attribute(key, value);
        }

        void UpdateName(string_view name) noexcept override {
                span_->UpdateName(name);
                if (is_entry_)
                        root_->set_name(name);
        }

        void AddEvent(string_view name) noexcept override { span_->AddEvent(name); }

        void AddEvent(string_view name, api::common::SystemTimestamp time) noexcept override {
                span_->AddEvent(name, time);
        }

        void AddEvent(string_view name, api::common::SystemTimestamp time,
                      const api::common::KeyValueIterable &attributes) noexcept override {
                span_->AddEvent(name, time, attributes);
        }

        void AddEvent(string_view name, const api::common::KeyValueIterable &attributes) noexcept override {
                span_->AddEvent(name, attributes);
        }

#if OPENTELEMETRY_ABI_VERSION_NO >= 2
        void AddLink(const api::trace::SpanContext &target,
                     const api::common::KeyValueIterable &attributes) noexcept override {
                span_->AddLink(target, attributes);
        }

        void AddLinks(const api::trace::SpanContextKeyValueIterable &links) noexcept override {
                span_->AddLinks(links);
        }
#endif

        void SetStatus(api::trace::StatusCode code, string_view description) noexcept override {
                span_->SetStatus(code, description);
        }

        void End(const api::trace::EndSpanOptions &options) noexcept override { span_->End(options); }
        api::trace::SpanContext GetContext() const noexcept override { return span_->GetContext(); }
        bool IsRecording() const noexcept override { return span_->IsRecording(); }

private:
        SpanPointer span_;
        std::shared_ptr<Root> root_;
        bool is_entry_;
};

/* Return: the root of a span that a wrapped tracer has started, else NULL. */
inline const std::shared_ptr<Root> *root_of(const api::trace::Span &span) noexcept {
#ifdef __cpp_rtti
        const Span *named = dynamic_cast<const Span *>(&span);

        return named ? &named->root() : nullptr;
#else
        (void)span;
        return nullptr;
#endif
}

class Tracer final : public api::trace::Tracer {
public:
        using Pointer = api::nostd::shared_ptr<api::trace::Tracer>;

        explicit Tracer(const Pointer &tracer) noexcept : tracer_(tracer) {}

        using api::trace::Tracer::StartSpan;

        SpanPointer StartSpan(string_view name, const api::common::KeyValueIterable &attributes,
                              const api::trace::SpanContextKeyValueIterable &links,
                              const api::trace::StartSpanOptions &options) noexcept override {
                SpanPointer span = tracer_->StartSpan(name, attributes, links, options);

                if (!span->GetContext().IsValid())
                        return span;
                try {
                        return with_root(span, name, attributes, options);
                } catch (const std::bad_alloc &) {
                        return span;
                }
        }

#if OPENTELEMETRY_ABI_VERSION_NO == 1
        void ForceFlushWithMicroseconds(uint64_t us) noexcept override {
                tracer_->ForceFlushWithMicroseconds(us);
        }

        void CloseWithMicroseconds(uint64_t us) noexcept override { tracer_->CloseWithMicroseconds(us); }
#endif

private:
        /*
         * The span that the SDK takes as the parent. NULL = the options say that there is none (@is_root), or
         * have its ids alone, which are another service's (@is_root) or unknown.
         */
        static SpanPointer find_parent(const api::trace::StartSpanOptions &options, bool &is_root) {
                SpanPointer current = api::trace::Tracer::GetCurrentSpan();

                is_root = false;
                if (const api::context::Context *context =
                            api::nostd::get_if<api::context::Context>(&options.parent)) {
                        SpanPointer span = api::trace::GetSpan(*context);

                        if (span->GetContext().IsValid())
                                return span;
                        is_root = api::trace::IsRootSpan(*context);
                } else if (const api::trace::SpanContext *ids =
                                   api::nostd::get_if<api::trace::SpanContext>(&options.parent)) {
                        if (ids->IsValid() && !(current->GetContext() == *ids)) {
                                is_root = ids->IsRemote();
                                return SpanPointer();
                        }
                }
                return is_root ? SpanPointer() : current;
        }

        static SpanPointer with_root(const SpanPointer &span, string_view name,
                                     const api::common::KeyValueIterable &attributes,
                                     const api::trace::StartSpanOptions &options) {
                bool is_entry;
                SpanPointer parent = find_parent(options, is_entry);
                const std::shared_ptr<Root> *root = parent ? root_of(*parent) : nullptr;

                if (root)
                        return SpanPointer(new Span(span, *root, false));
                if (parent && (!parent->GetContext().IsValid() || parent->GetContext().IsRemote()))
                        is_entry = true;
                if (!is_entry)
                        return span;
                return SpanPointer(new Span(span, std::make_shared<Root>(name, attributes), true));
        }

        Pointer tracer_;
};

class Provider final : public api::trace::TracerProvider {
public:
        using Pointer = api::nostd::shared_ptr<api::trace::TracerProvider>;

        explicit Provider(const Pointer &provider) noexcept : provider_(provider) {}

#if OPENTELEMETRY_ABI_VERSION_NO >= 2
        api::nostd::shared_ptr<api::trace::Tracer>
        GetTracer(string_view name, string_view version, string_view schema_url,
                  const api::common::KeyValueIterable *attributes) noexcept override {
                return wrap(provider_->GetTracer(name, version, schema_url, attributes));
        }
#else
        api::nostd::shared_ptr<api::trace::Tracer> GetTracer(string_view name, string_view version,
                                                             string_view schema_url) noexcept override {
                return wrap(provider_->GetTracer(name, version, schema_url));
        }
#endif

private:
        static api::nostd::shared_ptr<api::trace::Tracer>
        wrap(const api::nostd::shared_ptr<api::trace::Tracer> &tracer) noexcept {
                api::trace::Tracer *made = new (std::nothrow) Tracer(tracer);

                return made ? api::nostd::shared_ptr<api::trace::Tracer>(made) : tracer;
        }

        Pointer provider_;
};

} // namespace names

/*
 * Return: a provider whose spans have names; @provider itself where SPANPROF_SPAN_NAMES=off. Who needs the
 * SDK's own type (ForceFlush(), Shutdown()) keeps @provider: the one that is returned is none of the SDK.
 */
inline names::Provider::Pointer wrap(const names::Provider::Pointer &provider) noexcept {
        const char *text = std::getenv(SPANPROF_OTEL_NAMES_ENVIRONMENT);
        names::Provider *made;

        if (text && strcasecmp(text, "off") == 0)
                return provider;
        made = new (std::nothrow) names::Provider(provider);
        return made ? names::Provider::Pointer(made) : provider;
}

} // namespace otel
} // namespace spanprof
