// SPDX-License-Identifier: Apache-2.0
//
// A shop whose orders are coroutines on four threads. One of them waits for a notification that nobody sends:
// the trace shows which, since when and where.
//
//      spanprof coro -o orders.jsonl -- example-coroutines [MILLISECONDS]
//      spanprof report orders.jsonl                                            lost wake-ups first
//
// Prints the probe id of that order. MILLISECONDS (500): how long it waits for it before it gives up.
//

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "spanprof/coroutine.hpp"

namespace {

// Coroutines that may run, in their order.
class Scheduler {
public:
        void post(std::coroutine_handle<> handle) {
                std::lock_guard lock(mutex_);
                ready_.push_back(handle);
                more_.notify_one();
        }

        void run() {
                for (;;) {
                        std::unique_lock lock(mutex_);
                        more_.wait(lock, [this] { return !ready_.empty() || stopped_; });
                        if (ready_.empty())
                                return;
                        auto handle = ready_.front();
                        ready_.pop_front();
                        lock.unlock();
                        handle.resume();
                }
        }

        void stop() {
                std::lock_guard lock(mutex_);
                stopped_ = true;
                more_.notify_all();
        }

private:
        std::mutex mutex_;
        std::condition_variable more_;
        std::deque<std::coroutine_handle<>> ready_;
        bool stopped_ = false;
};

Scheduler scheduler;

// Lets the others go first.
struct Yield {
        bool await_ready() { return false; }
        void await_suspend(std::coroutine_handle<> handle) { scheduler.post(handle); }
        void await_resume() {}
};

// A payment's answer; that of one order is lost.
struct Payment {
        bool lost;

        bool await_ready() { return false; }
        void await_suspend(std::coroutine_handle<> handle) {
                if (!lost)
                        scheduler.post(handle);
        }
        void await_resume() {}
};

struct Order {
        struct promise_type : spanprof::traced_promise {
                Order get_return_object() {
                        return { std::coroutine_handle<promise_type>::from_promise(*this) };
                }
                std::suspend_always initial_suspend() { return {}; }
                std::suspend_never final_suspend() noexcept { return {}; }
                void return_void() {}
                void unhandled_exception() {}
        };

        std::coroutine_handle<promise_type> handle;
};

Order handle_order(bool unlucky, int *n_done, std::mutex *mutex) {
        for (int i = 0; i < 20; i++) {
                co_await Yield{};
                std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        co_await Payment{ unlucky };
        std::lock_guard lock(*mutex);
        ++*n_done;
}

} // namespace

int main(int argc, char **argv) {
        constexpr int n_orders = 40, unlucky = 17;
        std::vector<std::thread> threads;
        std::mutex mutex;
        int n_done = 0;

        spanprof_coroutine_start();
        for (int i = 0; i < n_orders; i++) {
                Order order = handle_order(i == unlucky, &n_done, &mutex);

                if (i == unlucky) {
                        spanprof::traced_promise &promise = order.handle.promise();

                        std::printf("order %d will wait for ever: probe id %ju, frame 0x%jx\n", i,
                                    static_cast<std::uintmax_t>(reinterpret_cast<std::uintptr_t>(&promise)),
                                    static_cast<std::uintmax_t>(
                                            reinterpret_cast<std::uintptr_t>(order.handle.address())));
                        std::fflush(stdout);
                }
                scheduler.post(order.handle);
        }
        for (int i = 0; i < 4; i++)
                threads.emplace_back([] { scheduler.run(); });
        for (int done = 0; done < n_orders - 1;) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                std::lock_guard lock(mutex);
                done = n_done;
        }
        // Who looks at the trace then sees how long it has waited.
        std::this_thread::sleep_for(std::chrono::milliseconds(argc > 1 ? std::atoi(argv[1]) : 500));
        scheduler.stop();
        for (auto &thread : threads)
                thread.join();
        std::printf("%d of %d orders are done\n", n_done, n_orders);
        return 0;
}
