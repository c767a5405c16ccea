/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Litmus tests of what the SDK writes and others read on another CPU
 *
 * A processor of x86 hardly changes the order of loads and stores, and an emulated arm64 changes none: what
 * is wrong about an order shows on real machines of other kinds alone. So the product's own functions run
 * here in a model of C++'s memory, Relacy, which tries interleavings, and for each load the stores that it
 * may see. `all`: each interleaving in which a thread is interrupted three times at most, where a load gets
 * each of the last two stores that it may see; `random`: 30,000 of all, with the last three. (All without a
 * limit are some 10^10 for one case. A late store does as an interruption does, so few of these are needed.)
 *
 * Each order that is not relaxed is then made so, one at a time, and a case must fail. An order that nothing
 * needs is listed with its reason (NOT_NEEDED), or the test fails.
 */
#include <relacy/relacy.hpp>

#undef new
#undef delete
#undef malloc
#undef free
#undef calloc
#undef realloc
#undef assert
#undef errno
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

#include "litmus.h"
#include "litmus-station.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#undef atomic_thread_fence              /* a macro of clang's <stdatomic.h> */

enum { FAILED = 9, MAX_WORDS = 16, SWITCHES = 3, AT_RANDOM = 30000 };

/* A word of the product's that the model has; its memory keeps what it was before. */
struct Word {
        void *address;
        size_t size;
        rl::atomic<uint64_t> *model;
};

static Word words[MAX_WORDS];
static size_t n_words;
static bool is_modelled;                /* a case runs */
static unsigned this_case;
static LitmusSite *sites, *weakened;

/* ---- what the product's atomic operations end in ---- */

static rl::memory_order order_of(LitmusSite *site) {
        static const rl::memory_order orders[] = { rl::mo_relaxed, rl::mo_consume, rl::mo_acquire,
                                                   rl::mo_release, rl::mo_acq_rel, rl::mo_seq_cst };

        if (!site->listed) {
                site->listed = true;
                site->next = sites;
                sites = site;
        }
        site->modelled |= is_modelled ? 1U << this_case : 0;
        return site == weakened ? rl::mo_relaxed : orders[site->order];
}

static Word *find(const void *address, size_t size, size_t *shift) {
        for (Word *word = words; is_modelled && word < words + n_words; word++) {
                size_t offset = (size_t)((const char *)address - (const char *)word->address);

                if (offset < word->size && offset + size <= word->size) {
                        *shift = 8 * offset;
                        return word;
                }
        }
        return nullptr;
}

static uint64_t plain_load(const void *address, size_t size) {
        uint64_t value = 0;

        std::memcpy(&value, address, size);
        return value;
}

static uint64_t mask(size_t size) {
        return size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;
}

void litmus_watch(void *address, size_t size) {
        if (n_words == MAX_WORDS)
                std::abort();
        words[n_words++] = { address, size, nullptr };
}

uint64_t litmus_load(const void *address, size_t size, LitmusSite *site) {
        rl::memory_order order = order_of(site);
        size_t shift;
        Word *word = find(address, size, &shift);

        return word ? word->model->load(order, $) >> shift & mask(size) : plain_load(address, size);
}

/* Less than a word: no other thread writes to the rest of it. */
void litmus_store(void *address, size_t size, uint64_t value, LitmusSite *site) {
        rl::memory_order order = order_of(site);
        size_t shift;
        Word *word = find(address, size, &shift);

        if (word)
                word->model->store((word->model->debug_value() & ~(mask(size) << shift)) |
                                           (value & mask(size)) << shift, order, $);
        else
                std::memcpy(address, &value, size);
}

uint64_t litmus_add(void *address, size_t size, uint64_t value, LitmusSite *site) {
        rl::memory_order order = order_of(site);
        size_t shift;
        Word *word = find(address, size, &shift);
        uint64_t before = plain_load(address, size);

        if (word)
                return word->model->fetch_add(value, order, $);
        value += before;
        std::memcpy(address, &value, size);
        return before;
}

bool litmus_swap_if(void *address, size_t size, uint64_t expected, uint64_t value, LitmusSite *site) {
        rl::memory_order order = order_of(site);
        size_t shift;
        Word *word = find(address, size, &shift);

        if (word)
                return word->model->compare_exchange(rl::bool_t<false>(), expected, value, order,
                                                     rl::mo_relaxed, $);
        if (plain_load(address, size) != expected)
                return false;
        std::memcpy(address, &value, size);
        return true;
}

void litmus_fence(LitmusSite *site) {
        rl::memory_order order = order_of(site);

        if (is_modelled && order != rl::mo_relaxed)
                rl::atomic_thread_fence(order, $);
}

/* ---- cases ---- */

/* Two threads; begin() makes the words, writes(), reads() and judge() are the case's. */
template <typename Case> struct Test : rl::test_suite<Test<Case>, 2> {
        rl::atomic<uint64_t> models[MAX_WORDS];
        Case self;

        void before() {
                is_modelled = false;
                n_words = 0;
                self.begin();
                for (size_t i = 0; i < n_words; i++) {
                        models[i].store(plain_load(words[i].address, words[i].size), rl::mo_relaxed, $);
                        words[i].model = &models[i];
                }
                is_modelled = true;
        }

        void thread(unsigned index) {
                index ? self.reads() : self.writes();
        }

        void after() {
                is_modelled = false;
                if (weakened && !self.is_right())
                        _exit(FAILED);
                RL_ASSERT(self.is_right());
        }
};

struct Read {
        int got = LITMUS_NOTHING;

        bool is_right() {
                return got != LITMUS_WRONG;
        }
};

/* Event 0 is in its place, and event 8 is written over it. */
struct Overwritten : Read {
        static constexpr const char *name = "an event that is overwritten while it is read";

        void begin() {
                litmus_station_prepare(false, 8);
                litmus_station_watch(0);
        }
        void writes() {
                litmus_station_write(8);
        }
        void reads() {
                got = litmus_station_read(false, 0);
        }
};

struct Awaited : Overwritten {
        static constexpr const char *name = "an event that is read as it comes";

        void reads() {
                got = litmus_station_read(false, 8);
        }
};

struct Twice : Overwritten {
        static constexpr const char *name = "an event that is overwritten twice";

        void writes() {
                litmus_station_write(8);
                litmus_station_write(16);
        }
        void reads() {
                got = litmus_station_read(false, 8);
        }
};

/* Who reads an event knows whose it is. */
struct Born : Read {
        static constexpr const char *name = "the first event of a coroutine";

        void begin() {
                litmus_station_prepare(false, 0);
                litmus_station_watch(0);
                litmus_station_watch_birth();
        }
        void writes() {
                litmus_station_begin();
                litmus_station_write(0);
        }
        void reads() {
                got = litmus_station_read(false, 0);
        }
        bool is_right() {
                return got == LITMUS_NOTHING || got == LITMUS_NAMED;
        }
};

/* The place that is wanted has event 8 already, so the whole ring is copied; event 16 is written over it. */
struct Lapped : Overwritten {
        static constexpr const char *name = "a ring that is copied while it is written";

        void begin() {
                litmus_station_prepare(false, 9);
                litmus_station_watch(0);
        }
        void writes() {
                litmus_station_write(16);
        }
};

/* Who sees a coroutine dead sees all of its events. */
struct Died : Read {
        static constexpr const char *name = "the last event of a coroutine";

        void begin() {
                litmus_station_prepare(false, 0);
                litmus_station_watch(0);
                litmus_station_watch_death();
        }
        void writes() {
                litmus_station_write(0);
                litmus_station_end();
        }
        void reads() {
                got = litmus_station_is_dead() ? litmus_station_read(false, 0) : LITMUS_WHOLE;
        }
        bool is_right() {
                return got == LITMUS_WHOLE;
        }
};

/* Event 0 lies in place 1, and event 8 comes there; event 7, before it, in place 0. */
struct Document : Read {
        static constexpr const char *name = "the document dialect";

        void begin() {
                litmus_station_prepare(true, 7);
                litmus_station_watch(0);
                litmus_station_watch(1);
        }
        void writes() {
                litmus_document_write(7);
                litmus_document_write(8);
        }
        void reads() {
                got = litmus_station_read(true, 0);
        }
};

struct DocumentAwaited : Document {
        static constexpr const char *name = "the document dialect, as events come";

        void reads() {
                got = litmus_station_read(true, 7);
        }
};

/* An engine that finds no event after it has asked for a byte gets one. */
struct Woken {
        static constexpr const char *name = "an engine that goes to sleep";
        int got;

        void begin() {
                litmus_station_prepare(false, 0);
                litmus_station_watch(0);
                litmus_station_watch_sleep();
        }
        void writes() {
                litmus_station_write(0);
        }
        void reads() {
                litmus_station_ask();
                got = litmus_station_read(false, 0);
        }
        bool is_right() {
                return got != LITMUS_WRONG && (got != LITMUS_NOTHING || litmus_station_n_sent() == 1);
        }
};

struct Slot : Read {
        static constexpr const char *name = "a slot of the ring of contexts";

        void begin() {
                litmus_ring_prepare(1);
        }
        void writes() {
                litmus_ring_write(2);
        }
        void reads() {
                got = litmus_ring_read();
        }
};

struct SlotTwice : Slot {
        static constexpr const char *name = "a slot that is written twice";

        void writes() {
                litmus_ring_write(2);
                litmus_ring_write(3);
        }
};

/* ---- the tests ---- */

struct Outcome {
        bool good;
        uint64_t n;
        std::string said;
};

template <typename Case> static Outcome run(rl::scheduler_type_e how, uint64_t n) {
        std::ostringstream out, progress;
        rl::test_params params;
        Outcome outcome;

        params.search_type = how;
        params.iteration_count = n;
        params.context_bound = SWITCHES;
        params.output_stream = &out;
        params.progress_stream = &progress;
        is_modelled = false;
        outcome.good = rl::simulate<Test<Case>>(params);
        is_modelled = false;
        outcome.n = params.stop_iteration;
        outcome.said = out.str();
        return outcome;
}

template <typename Case> static Outcome run_all() {
        return run<Case>(rl::sched_bound, 1);
}

template <typename Case> static Outcome run_random() {
        return run<Case>(rl::sched_random, AT_RANDOM);
}

#define CASE(kind) { kind::name, run_all<kind>, run_random<kind> }
static const struct {
        const char *name;
        Outcome (*all)(), (*random)();
} cases[] = {
        CASE(Overwritten), CASE(Awaited), CASE(Twice), CASE(Lapped), CASE(Born), CASE(Died),
        CASE(Document), CASE(DocumentAwaited), CASE(Woken), CASE(Slot), CASE(SlotTwice),
};

static int n_tests, n_failed;

static void ok(bool good, const std::string &name) {
        std::printf("%s %d - %s\n", good ? "ok" : "not ok", ++n_tests, name.c_str());
        std::fflush(stdout);
        n_failed += !good;
}

/* ---- orders that are weakened ---- */

/* What no case shows to be needed, and why it stays. */
static const struct {
        const char *what, *reason;
} NOT_NEEDED[] = {
        { "exchange of &the_region->tracer_sleeping", "the byte that follows it goes by a system call" },
        { "store to &coroutine->station->birth_ns", "its reader has read an event before, whose seq does it" },
        { "store to &coroutine->station->is_dead", "the fence of its last event's wake-up comes before it" },
        { "load of &the_region", "here the region is there before the threads are" },
};

static const char *reason_of(const LitmusSite *site) {
        for (auto &entry : NOT_NEEDED)
                if (std::strcmp(entry.what, site->what) == 0)
                        return entry.reason;
        return nullptr;
}

/*
 * Whether a case fails with the site relaxed, and which. In a process of its own: a run that fails ends it.
 */
static const char *fails_without(LitmusSite *site) {
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                int status = 0;
                pid_t pid;

                if (!(site->modelled >> i & 1))
                        continue;
                pid = fork();
                if (!pid) {
                        weakened = site;
                        cases[i].random();
                        cases[i].all();
                        _exit(0);
                }
                if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
                    (WEXITSTATUS(status) && WEXITSTATUS(status) != FAILED))
                        return nullptr;
                if (status)
                        return cases[i].name;
        }
        return nullptr;
}

static void check_site(LitmusSite *site) {
        static const char *const orders[] = { "relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst" };
        const char *file = std::strrchr(site->file, '/'), *reason = reason_of(site);
        const char *found = fails_without(site);
        std::string name = file ? file + 1 : site->file;

        /* an entry of the list that is needed after all is a lie */
        name = name + ": " + site->what + ", " + orders[site->order];
        ok(!found == !!reason, name + (reason ? " is said not to be" : " is") + " needed");
        std::printf("# line %d: %s\n", site->line,
                    found ? found : reason ? reason : "no case fails without it");
}

static void check_case(const char *name, const char *how, const Outcome &outcome) {
        ok(outcome.good, std::string(name) + ", " + how);
        std::printf("# %llu executions\n", (unsigned long long)outcome.n);
        if (!outcome.good)
                std::puts(outcome.said.c_str());
}

int main() {
        for (; this_case < sizeof(cases) / sizeof(*cases); this_case++) {
                check_case(cases[this_case].name, "all", cases[this_case].all());
                check_case(cases[this_case].name, "random", cases[this_case].random());
        }
        for (LitmusSite *site = sites; site; site = site->next)
                if (site->modelled && site->order != __ATOMIC_RELAXED)
                        check_site(site);
        std::printf("1..%d\n", n_tests);
        return n_failed != 0;
}
