/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scoped contexts for C++11 and later
 *
 *     {
 *             spanprof::Span span(trace_high, trace_low, id);          in the ring
 *             ...
 *     }                                                               the outer one is set again
 */

#include "spanprof/context.h"

namespace spanprof {

class Span {
public:
        Span(uint64_t trace_high, uint64_t trace_low, uint64_t span) noexcept
                : outer_(current()), high_(trace_high), low_(trace_low), span_(span) {
                current() = this;
                spanprof_context_set(high_, low_, span_);
        }

        ~Span() {
                current() = outer_;
                if (outer_)
                        spanprof_context_set(outer_->high_, outer_->low_, outer_->span_);
                else
                        spanprof_context_clear();
        }

        Span(const Span &) = delete;
        Span &operator=(const Span &) = delete;

private:
        static const Span *&current() noexcept {
                static thread_local const Span *innermost = nullptr;

                return innermost;
        }

        const Span *outer_;
        uint64_t high_, low_, span_;
};

} // namespace spanprof
