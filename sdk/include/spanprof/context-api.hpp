/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ContextApi and OtelContexts: spanprof/context-api.h as C++11 classes
 *
 *     spanprof::ContextApi::initialize("start,cpu=1ms,ctxstorage=otel");
 *     spanprof::ContextApi::set(span_id, root_span_id);
 */

#include <cstddef>
#include <cstdint>

#include "spanprof/context-api.h"

namespace spanprof {

enum ContextStorageMode {
        CTX_STORAGE_PROFILER = SPANPROF_API_PROFILER,
        CTX_STORAGE_OTEL = SPANPROF_API_OTEL,
};

class ContextApi {
public:
  static bool initialize(const char *arguments = nullptr) noexcept {
          return spanprof_api_initialize(arguments);
  }
        static void shutdown() noexcept { spanprof_api_shutdown(); }
        static bool isInitialized() noexcept { return spanprof_api_is_initialized(); }
        static ContextStorageMode getMode() noexcept {
                return static_cast<ContextStorageMode>(spanprof_api_get_mode());
        }

        static void set(uint64_t span_id, uint64_t root_span_id) noexcept {
                spanprof_api_set(span_id, root_span_id);
        }
        static void setOtel(uint64_t trace_id_high, uint64_t trace_id_low, uint64_t span_id) noexcept {
                spanprof_context_set(trace_id_high, trace_id_low, span_id);
        }
        static bool get(uint64_t &span_id, uint64_t &root_span_id) noexcept {
                return spanprof_api_get(&span_id, &root_span_id);
        }
        static bool getByTid(int tid, uint64_t &span_id, uint64_t &root_span_id) noexcept {
                return spanprof_api_get_by_tid(tid, &span_id, &root_span_id);
        }
        static void clear() noexcept { spanprof_context_clear(); }

        static bool setTag(unsigned int index, uint32_t value) noexcept {
                return spanprof_api_set_tag(index, value) == 0;
        }
        static uint32_t getTag(unsigned int index) noexcept { return spanprof_api_get_tag(index); }
};

/* The ring alone. */
class OtelContexts {
public:
        static bool initialize(size_t capacity = 65536) noexcept {
                spanprof_context_options options = {};

                if (capacity > UINT32_MAX)
                        return false;
                options.size = sizeof(options);
                options.capacity = static_cast<uint32_t>(capacity);
                options.storage = SPANPROF_CONTEXT_RING;
                return spanprof_context_start(&options) == 0 || isInitialized();
        }
        static void shutdown() noexcept {
                if (isInitialized())
                        spanprof_context_stop();
        }
        static bool isInitialized() noexcept {
                return spanprof_context_storage_in_use() == SPANPROF_CONTEXT_RING;
        }

        static void set(uint64_t trace_id_high, uint64_t trace_id_low, uint64_t span_id) noexcept {
                if (isInitialized())
                        spanprof_context_set(trace_id_high, trace_id_low, span_id);
        }
        static bool get(uint64_t &trace_id_high, uint64_t &trace_id_low, uint64_t &span_id) noexcept {
                return isInitialized() && spanprof_api_get_otel(&trace_id_high, &trace_id_low, &span_id);
        }
        static bool getByTid(int tid, uint64_t &trace_id_high, uint64_t &trace_id_low,
                             uint64_t &span_id) noexcept {
                return spanprof_api_get_otel_by_tid(tid, &trace_id_high, &trace_id_low, &span_id);
        }
};

} // namespace spanprof
