// SPDX-License-Identifier: Apache-2.0
#pragma once

//
// Stations for C++20 coroutines
//
//      struct promise_type : spanprof::traced_promise { … };
//
// is all that a coroutine type needs: each co_await inside it is told to the tracer, the coroutine's frame is
// the address.
// A promise that transforms awaitables itself wraps them by traced().
//
// A symmetric transfer, or another thread, may resume the coroutine before await_suspend() of the awaiter
// returns. So the event is written before it is called; after it nothing of the coroutine is touched.
//

#include <coroutine>
#include <type_traits>
#include <utility>

#include "spanprof/coroutine.h"

namespace spanprof {

class traced_promise;

namespace detail {

template <typename T>
concept member_co_await = requires(T &&x) { static_cast<T &&>(x).operator co_await(); };

template <typename T>
concept free_co_await = requires(T &&x) { operator co_await(static_cast<T &&>(x)); };

template <typename T>
decltype(auto) awaiter_of(T &&awaitable) {
        if constexpr (member_co_await<T>)
                return static_cast<T &&>(awaitable).operator co_await();
        else if constexpr (free_co_await<T>)
                return operator co_await(static_cast<T &&>(awaitable));
        else
                return static_cast<T &&>(awaitable);
}

} // namespace detail

// Awaits what it holds, and says so.
template <typename Awaiter>
class traced_awaiter {
public:
        traced_awaiter(Awaiter &&inner, spanprof_coroutine *coroutine)
            : inner_(static_cast<Awaiter &&>(inner)), coroutine_(coroutine) {}

        bool await_ready() { return inner_.await_ready(); }

        template <typename Promise>
        auto await_suspend(std::coroutine_handle<Promise> handle) {
                waited_ = true;
                spanprof_coroutine_suspend(coroutine_, handle.address());
                return inner_.await_suspend(handle);
        }

        decltype(auto) await_resume() {
                if (waited_)
                        spanprof_coroutine_resume(coroutine_);
                return inner_.await_resume();
        }

private:
        Awaiter inner_;
        spanprof_coroutine *coroutine_;
        bool waited_ = false;
};

class traced_promise {
public:
        traced_promise() { spanprof_coroutine_begin(&coroutine_, reinterpret_cast<std::uintptr_t>(this)); }
        ~traced_promise() { spanprof_coroutine_end(&coroutine_); }
        traced_promise(const traced_promise &) = delete;
        traced_promise &operator=(const traced_promise &) = delete;

        template <typename Awaitable>
        auto await_transform(Awaitable &&awaitable) { return traced(std::forward<Awaitable>(awaitable)); }

protected:
        template <typename Awaitable>
        auto traced(Awaitable &&awaitable) {
                using awaiter = decltype(detail::awaiter_of(std::forward<Awaitable>(awaitable)));

                return traced_awaiter<awaiter>(detail::awaiter_of(std::forward<Awaitable>(awaitable)),
                                               &coroutine_);
        }

private:
        spanprof_coroutine coroutine_;
};

} // namespace spanprof
