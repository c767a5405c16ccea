/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/live-set.h"
#include "stat-reset.h"

enum { PID = 1 << 30, MANY = 100000, BYTES = 1000 };

/* A process that is in no group with others; and this one, which is in its own. */
static const Process nobody = { .pid = PID, .generation = 1 };

static struct abi_sample header_of(uint32_t pid, uint64_t generation, uint64_t time_ns) {
        return (struct abi_sample){ .kind = ABI_KIND_ALLOC, .time_ns = time_ns, .tgid = pid, .tid = pid,
                                    .generation = generation, .start_time_ns = 5, .value = BYTES };
}

static void add_only(LiveSet *set, const Process *process, uint64_t address, uint64_t time_ns) {
        const struct abi_sample header = header_of(process->pid, process->generation, time_ns);
        const struct abi_allocation told = { address, BYTES, 1 };
        const Sample sample = { .header = &header, .allocation = &told };

        cr_assert_eq(live_set_add(set, process, &sample), 0);
}

static void know(LiveSet *set, const Process *process, uint64_t address, uint64_t time_ns) {
        const struct abi_sample header = header_of(process->pid, process->generation, time_ns);
        const struct abi_allocation told = { address, BYTES, 1 };
        const Sample sample = { .header = &header, .allocation = &told };

        cr_assert_eq(live_set_know(set, process, &sample, 1), 0);
}

static void add(LiveSet *set, const Process *process, uint64_t address, uint64_t time_ns) {
        add_only(set, process, address, time_ns);
        know(set, process, address, time_ns);
}

static void remove_one(LiveSet *set, const Process *process, uint64_t address) {
        const struct abi_free freed = { ABI_KIND_FREE, process->generation, address };

        live_set_remove(set, &freed);
}

typedef struct Sums {
        uint64_t of_generation, generation;     /* 0 = of all; the one that is visited */
        uint64_t ended;                         /* a generation that is said to be over */
        uint64_t n;
        int64_t bytes, objects;
} Sums;

static int begin_process(void *userdata, uint32_t pid, uint64_t generation) {
        Sums *sums = userdata;

        sums->generation = generation;
        return generation == sums->ended;
}

static int add_allocation(void *userdata, const LiveAllocation *allocation) {
        Sums *sums = userdata;

        if (sums->of_generation && sums->of_generation != sums->generation)
                return 0;
        sums->n++;
        sums->bytes += allocation->bytes;
        sums->objects += allocation->objects;
        return 0;
}

static Sums sum_of(LiveSet *set, Sums sums) {
        const LiveVisit visit = { begin_process, add_allocation, &sums };

        cr_assert_eq(live_set_visit(set, &visit), 0);
        return sums;
}

static uint64_t n_alive(LiveSet *set) {
        return sum_of(set, (Sums){ 0 }).n;
}

static LiveSet *new_set(void) {
        LiveSet *set;

        stat_reset();
        cr_assert_eq(live_set_new(&set), 0);
        return set;
}

Test(live_set, has_what_was_told_and_not_freed) {
        _cleanup_(live_set_freep) LiveSet *set = new_set();
        Sums sums;

        for (uint64_t i = 1; i <= 10; i++)
                add(set, &nobody, i * 16, i);
        for (uint64_t i = 1; i <= 4; i++)
                remove_one(set, &nobody, i * 16);
        for (uint64_t i = 1; i <= 3; i++)       /* addresses come again */
                add(set, &nobody, i * 16, 20 + i);
        sums = sum_of(set, (Sums){ 0 });
        cr_assert_eq(sums.n, 9);
        cr_assert_eq(sums.bytes, 9 * BYTES);
        cr_assert_eq(sums.objects, 9);
        cr_assert_eq(stat_get(COUNTER_LIVE_ADDED), 13);
        cr_assert_eq(stat_get(COUNTER_LIVE_FREED), 4);
        cr_assert_eq(stat_get(COUNTER_LIVE_AGAIN), 0);
}

/* Its stack may be known after its free was told, or after it has lived once more. */
Test(live_set, has_nothing_whose_stack_is_not_known) {
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        add_only(set, &nobody, 16, 1);
        add_only(set, &nobody, 32, 2);
        cr_assert_eq(n_alive(set), 0);
        remove_one(set, &nobody, 16);
        know(set, &nobody, 16, 1);
        remove_one(set, &nobody, 32);
        add_only(set, &nobody, 32, 3);
        know(set, &nobody, 32, 2);
        cr_assert_eq(n_alive(set), 0);
        know(set, &nobody, 32, 3);
        know(set, &nobody, 32, 3);
        cr_assert_eq(n_alive(set), 1);
}

Test(live_set, leaves_out_allocations_whose_free_nobody_tells) {
        const struct abi_sample header = header_of(PID, 1, 1);
        const struct abi_allocation told = { 16, BYTES, 0 };
        const Sample sample = { .header = &header, .allocation = &told };
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        cr_assert_eq(live_set_add(set, &nobody, &sample), 0);
        cr_assert_eq(live_set_know(set, &nobody, &sample, 1), 0);
        cr_assert_eq(n_alive(set), 0);
}

/* A child frees what its parent has given to it. */
Test(live_set, counts_frees_of_what_it_does_not_have) {
        const Process child = { .pid = PID + 1, .generation = 2 };
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        add(set, &nobody, 16, 1);
        remove_one(set, &child, 16);
        add(set, &child, 32, 2);
        remove_one(set, &child, 16);
        for (uint64_t i = 0; i < MANY; i++)
                remove_one(set, &nobody, 1000000 + i);
        cr_assert_eq(n_alive(set), 2);
        cr_assert_eq(stat_get(COUNTER_FREES_UNKNOWN), MANY + 2);
        cr_assert_eq(stat_get(COUNTER_LIVE_FREED), 0);
}

static uint64_t n_lost;

static uint64_t losses(void *userdata, uint32_t pid, uint64_t start_time_ns) {
        cr_assert_eq(start_time_ns, 5);
        return pid == PID ? n_lost : 0;
}

Test(live_set, believes_nothing_from_before_a_lost_free) {
        const Process other = { .pid = PID + 1, .generation = 2 };
        _cleanup_(live_set_freep) LiveSet *set = new_set();
        uint64_t before_ns = clock_monotonic_ns();

        add(set, &nobody, 16, before_ns);
        add_only(set, &nobody, 48, before_ns);
        add(set, &other, 16, before_ns);
        n_lost = 0;
        live_set_check(set, losses, NULL, false);
        cr_assert_eq(n_alive(set), 2);
        n_lost = 3;
        live_set_check(set, losses, NULL, false);
        cr_assert_eq(stat_get(COUNTER_LIVE_FREE_LOST), 2);
        cr_assert_eq(sum_of(set, (Sums){ .of_generation = 1 }).n, 0);
        cr_assert_eq(n_alive(set), 1, "the other has lost none");
        add(set, &nobody, 32, before_ns);       /* was still in the ring */
        cr_assert_eq(n_alive(set), 1);
        cr_assert_eq(stat_get(COUNTER_LIVE_LEFT_OUT), 1);
        add(set, &nobody, 32, clock_monotonic_ns() + 1);
        live_set_check(set, losses, NULL, false);
        cr_assert_eq(n_alive(set), 2, "it is told of once");
        live_set_check(set, losses, NULL, true);
        cr_assert_eq(n_alive(set), 0, "whose they were is not known");
}

Test(live_set, believes_nothing_from_before_an_address_that_comes_again) {
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        for (uint64_t i = 1; i <= 10; i++)
                add(set, &nobody, i * 16, i);
        add(set, &nobody, 16, 11);
        cr_assert_eq(n_alive(set), 1);
        cr_assert_eq(stat_get(COUNTER_LIVE_AGAIN), 10);
        for (uint64_t i = 0; i < MANY; i++)
                add(set, &nobody, 16, 12 + i);
        cr_assert_eq(n_alive(set), 1);
}

Test(live_set, forgets_what_has_ended) {
        const Process again = { .pid = PID, .generation = 2 }, other = { .pid = PID + 1, .generation = 3 };
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        add(set, &nobody, 16, 1);
        add(set, &other, 16, 1);
        add(set, &again, 16, 2);
        cr_assert_eq(sum_of(set, (Sums){ .of_generation = 1 }).n, 0, "it runs another program");
        cr_assert_eq(n_alive(set), 2);
        live_set_forget(set, PID);
        cr_assert_eq(n_alive(set), 1);
        cr_assert_eq(sum_of(set, (Sums){ .ended = 3 }).n, 0);
        cr_assert_eq(n_alive(set), 0);
        cr_assert_eq(stat_get(COUNTER_LIVE_ENDED), 3);
        live_set_forget(set, PID);
}

Test(live_set, begins_again_after_a_pause) {
        _cleanup_(live_set_freep) LiveSet *set = new_set();

        add(set, &nobody, 16, 10);
        live_set_begin(set, 100);
        add(set, &nobody, 32, 99);
        cr_assert_eq(n_alive(set), 0);
        add(set, &nobody, 16, 101);
        cr_assert_eq(n_alive(set), 1);
}

/* Who has most gives way, and its sum stays right in the mean: 5 % are nine deviations. */
Test(live_set, thins_who_has_most) {
        const Process own = { .pid = (uint32_t)getpid(), .generation = 2 };
        _cleanup_(live_set_freep) LiveSet *set = new_set();
        Sums sums;

        for (uint64_t i = 1; i <= 10; i++)
                add(set, &own, i * 16, i);
        for (uint64_t i = 1; i <= MANY; i++)
                add(set, &nobody, i * 16, i);
        sums = sum_of(set, (Sums){ .of_generation = 2 });
        cr_assert(sums.n == 10 && sums.bytes == 10 * BYTES && sums.objects == 10);
        sums = sum_of(set, (Sums){ .of_generation = 1 });
        cr_assert(sums.n <= LIVE_MAX_BLOCKS && sums.n > LIVE_MAX_BLOCKS / 4, "%lu", (unsigned long)sums.n);
        cr_assert(sums.objects > MANY / 100 * 95 && sums.objects < MANY / 100 * 105, "%ld",
                  (long)sums.objects);
        cr_assert_eq(sums.bytes, sums.objects * BYTES);
        cr_assert_eq(stat_get(COUNTER_LIVE_ADDED), sums.n + 10 + stat_get(COUNTER_LIVE_EVICTED));
        cr_assert_eq(stat_get(COUNTER_LIVE_ADDED) + stat_get(COUNTER_LIVE_LEFT_OUT), MANY + 10);
        for (uint64_t i = 1; i <= MANY; i++)
                remove_one(set, &nobody, i * 16);
        cr_assert_eq(n_alive(set), 10);
}

static uint16_t n_words;
static uint8_t stack_end;
static char task[16], label[16];

static int look(void *userdata, const LiveAllocation *allocation) {
        const Sample *sample = &allocation->sample;

        n_words = sample->header->n_user;
        stack_end = sample->header->stack_end;
        cr_assert(!n_words || sample->user[0] == 0x1800);
        memcpy(label, sample->attributes, sample->header->attributes_size);
        strcpy(task, sample->task_name);
        cr_assert_str_eq(sample->task_id, "7");
        return 0;
}

/* What a runtime has made may be something else when it is asked for. */
Test(live_set, keeps_frames_in_files_alone_and_what_the_thread_has_published) {
        static const uint64_t words[] = { 0x1800, 0x2000, 0x5000, 0x1900 };
        struct abi_sample header = header_of(PID, 1, 100);
        const struct abi_allocation told = { 16, BYTES, 1 };
        Sample sample = { .header = &header, .allocation = &told, .user = words, .task_name = "task",
                          .task_id = "7", .attributes = (const uint8_t *)"label" };
        _cleanup_(live_set_freep) LiveSet *set = new_set();
        const LiveVisit visit = { begin_process, look, &(Sums){ 0 } };
        _cleanup_(process_freep) Process *process = NULL;
        Mapping mapping = { .start = 0x1000, .end = 0x2000, .kind = MAPPING_UNREADABLE, .path = strdup("a") };
        char comm[ABI_COMM_SIZE] = "test";

        cr_assert_eq(process_new_gone(&process, PID, 10, comm), 0);
        cr_assert_eq(process_change(process, &mapping, 50), 0);
        header.attributes_size = 6;
        header.n_user = 4;
        cr_assert_eq(live_set_add(set, process, &sample), 0);
        cr_assert_eq(live_set_know(set, process, &sample, 1), 0);
        cr_assert_eq(live_set_visit(set, &visit), 0);
        cr_assert_eq(n_words, 2, "a caller is in front of its return address");
        cr_assert_eq(stack_end, ABI_STACK_STALE);
        cr_assert_str_eq(label, "label");
        cr_assert_str_eq(task, "task");
}
