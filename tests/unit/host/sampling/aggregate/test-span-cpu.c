/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "host/sampling/aggregate/span-cpu.h"
#include "stat-reset.h"

#define TICK_NS 1000
#define NOBODY (1u << 30)

/* A process `shop` whose threads publish http.route under index 3. */
typedef struct Shop {
        ProcessContext context;
        Publication publication;
        Process process;
        Program program;
        SpanCpu *cpu;
        uint64_t span_ns, outside_ns, split_ns; /* of all rows and services, as looked at last */
        char rows[4096];                        /* `SERVICE/OPERATION NS`, one a line */
        SpanCpuExemplar exemplar;               /* of the last row */
} Shop;

static void set_up(Shop *shop, const char *operation) {
        *shop = (Shop){ .context = { .serial = 1, .n_attributes = 1, .n_keys = 4 },
                        .process = { .generation = 5, .comm = "main" } };
        shop->context.attributes[0] = (ContextAttribute){ .key = { "service.name", 12 },
                                                          .kind = CONTEXT_STRING,
                                                          .string = { "shop", 4 } };
        shop->context.keys[3] = (ContextText){ "http.route", 10 };
        shop->publication.context = &shop->context;
        shop->program = (Program){ &shop->process, &shop->publication };
        stat_reset();
        cr_assert_eq(span_cpu_new(&shop->cpu, operation), 0);
}

static struct abi_sample header_of(uint64_t span) {
        return (struct abi_sample){ .context = span ? ABI_CONTEXT_PRESENT : ABI_CONTEXT_NONE,
                                    .form = ABI_FORM_THREAD,
                                    .span = { 7, 8, span } };
}

static void add(Shop *shop, uint64_t span, SpanCpuRuns runs) {
        struct abi_sample header = header_of(span);

        cr_assert_eq(span_cpu_add(shop->cpu, &shop->program, &header, &runs, TICK_NS), 0);
}

static void learn_bytes(Shop *shop, uint64_t span, const void *bytes, size_t size) {
        struct abi_sample header = header_of(span);
        Sample sample = { .header = &header, .attributes = bytes };

        header.attributes_size = (uint16_t)size;
        cr_assert_eq(span_cpu_add_sample(shop->cpu, &shop->program, &sample, 0), 0);
}

/* Another program: that of a process with shares of its own, or of one that is not there. */
static void become(Shop *shop, uint32_t pid, uint64_t generation, const char *service) {
        shop->process.pid = pid;
        shop->process.generation = generation;
        shop->context.attributes[0].string = (ContextText){ service, strlen(service) };
}

static int add_tick(Shop *shop, const struct abi_sample *header) {
        Sample sample = { .header = header };

        return span_cpu_add_sample(shop->cpu, &shop->program, &sample, TICK_NS);
}

static void learn(Shop *shop, uint64_t span, const char *operation) {
        uint8_t bytes[300] = { 3, (uint8_t)strlen(operation) };

        memcpy(bytes + 2, operation, strlen(operation));
        learn_bytes(shop, span, bytes, 2 + strlen(operation));
}

static void take_row(void *userdata, const SpanCpuRow *row) {
        Shop *shop = userdata;
        size_t n = strlen(shop->rows);

        shop->span_ns += row->ns;
        shop->exemplar = *row->exemplar;
        if (row->ns)
                snprintf(shop->rows + n, sizeof(shop->rows) - n, "%s%s %lu\n", row->service, row->operation,
                         (unsigned long)row->ns);
}

static void take_service(void *userdata, const SpanCpuService *service) {
        Shop *shop = userdata;

        shop->outside_ns += service->outside_ns;
        shop->split_ns += service->split_ns;
}

static const char *look(Shop *shop) {
        shop->span_ns = shop->outside_ns = shop->split_ns = 0;
        shop->rows[0] = 0;
        span_cpu_each_row(shop->cpu, take_row, shop);
        span_cpu_each_service(shop->cpu, take_service, shop);
        return shop->rows;
}

/* What the window that closes now brings. */
static const char *close_and_look(Shop *shop) {
        cr_assert_eq(span_cpu_rotate(shop->cpu), 0);
        return look(shop);
}

Test(span_cpu, adds_whole_runs_to_the_operation_of_their_span) {
        Shop shop;

        set_up(&shop, "http.route");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 100 });
        cr_assert_str_eq(look(&shop), "");
        learn(&shop, 1, "/cart");
        cr_assert_str_eq(look(&shop), "", "it may change until the window closes");
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 100\n");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 10 });
        learn(&shop, 2, "/cart");
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 1 });
        add(&shop, 0, (SpanCpuRuns){ .whole_ns = 5 });
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 111\n");
        cr_assert_eq(shop.outside_ns, 5);
        cr_assert_eq(stat_get(COUNTER_THREAD_CPU_SPAN_NS), 111);
        cr_assert_eq(stat_get(COUNTER_THREAD_CPU_OUTSIDE_NS), 5);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, holds_time_for_an_operation_for_two_windows) {
        Shop shop;

        set_up(&shop, "http.route");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 100 });
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 7 });
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_str_eq(look(&shop), "");
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 1 });  /* it has waited long enough */
        cr_assert_str_eq(look(&shop), "shop 7\n");
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_str_eq(look(&shop), "shop 107\n");
        learn(&shop, 2, "/late");
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq((look(&shop), shop.span_ns), 108);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, has_one_row_where_no_operation_is_asked_for) {
        Shop shop;

        set_up(&shop, "");
        learn(&shop, 1, "/cart");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 100 });
        cr_assert_str_eq(look(&shop), "shop 100\n");
        span_cpu_free(shop.cpu);
}

Test(span_cpu, splits_runs_by_their_ticks) {
        Shop shop;

        set_up(&shop, "");
        add(&shop, 1, (SpanCpuRuns){ .split_ns = 90 });
        add(&shop, 1, (SpanCpuRuns){ .n_split = 2 });
        add(&shop, 0, (SpanCpuRuns){ .n_split = 1, .split_ns = 9 });
        cr_assert_str_eq(look(&shop), "");
        cr_assert_eq(shop.split_ns, 99);
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_str_eq(look(&shop), "shop 66\n");
        cr_assert_eq(shop.outside_ns, 33);
        cr_assert_eq(shop.split_ns, 0);
        /* without a tick it waits for one */
        add(&shop, 1, (SpanCpuRuns){ .split_ns = 10 });
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq((look(&shop), shop.split_ns), 10);
        span_cpu_free(shop.cpu);
}

/* Two ticks in the midst of what is none's, and one in the midst of a span. */
Test(span_cpu, moves_time_by_ticks_and_never_shrinks) {
        Shop shop;

        set_up(&shop, "");
        add(&shop, 0, (SpanCpuRuns){ .whole_ns = 1500, .n_moved = 2 });
        add(&shop, 1, (SpanCpuRuns){ .n_inside = 2 });
        look(&shop);
        cr_assert_eq(shop.span_ns, 2000);
        cr_assert_eq(shop.outside_ns, 0);
        add(&shop, 0, (SpanCpuRuns){ .whole_ns = 600 });        /* 500 were lent */
        cr_assert_eq((look(&shop), shop.outside_ns), 100);
        add(&shop, 1, (SpanCpuRuns){ .n_moved = 1 });
        add(&shop, 2, (SpanCpuRuns){ .n_inside = 1 });
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 500 });
        cr_assert_eq((look(&shop), shop.span_ns), 2500);        /* span 2 paid it in their common row */
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_MOVED_TICKS), 3);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, takes_from_what_is_held) {
        Shop shop;

        set_up(&shop, "http.route");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 3000 });
        add(&shop, 1, (SpanCpuRuns){ .n_moved = 1 });
        learn(&shop, 1, "/a");
        cr_assert_str_eq(close_and_look(&shop), "shop/a 2000\n");
        span_cpu_free(shop.cpu);
}

Test(span_cpu, shows_the_span_that_took_most) {
        Shop shop;

        set_up(&shop, "");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 10 });
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 30 });
        add(&shop, 3, (SpanCpuRuns){ .whole_ns = 20 });
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);     /* an old one is better than none */
        look(&shop);
        cr_assert_eq(shop.exemplar.span.span, 2);
        cr_assert_eq(shop.exemplar.ns, 30);
        cr_assert_gt(shop.exemplar.time_ns, 0);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, reads_attributes_within_their_bounds) {
        static const uint8_t cut[] = { 3, 200, '/', 'x' }, twice[] = { 3, 1, 'a', 2, 1, 'b', 3, 1, 'c' },
                             other[] = { 1, 1, 'a' }, bad[] = { 3, 2, 0xff, 'x' };
        Shop shop;

        set_up(&shop, "http.route");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 1 });
        learn_bytes(&shop, 1, cut, sizeof(cut));
        learn_bytes(&shop, 1, other, sizeof(other));
        learn_bytes(&shop, 1, cut, 1);
        learn_bytes(&shop, 1, twice, sizeof(twice));
        cr_assert_str_eq(close_and_look(&shop), "shopc 1\n");
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 1 });
        learn_bytes(&shop, 2, bad, sizeof(bad));
        learn_bytes(&shop, 2, cut, sizeof(cut));
        learn_bytes(&shop, 2, other, sizeof(other));
        learn_bytes(&shop, 2, cut, 1);
        cr_assert_str_eq(close_and_look(&shop), "shopc 1\nshop\xef\xbf\xbdx 1\n");
        span_cpu_free(shop.cpu);
}

Test(span_cpu, gives_all_time_of_a_window_to_the_last_name) {
        Shop shop;

        set_up(&shop, "http.route");
        learn(&shop, 1, "GET");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 100 });
        learn(&shop, 1, "GET /cart/:id");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 10 });
        cr_assert_str_eq(close_and_look(&shop), "shopGET /cart/:id 110\n");
        span_cpu_free(shop.cpu);
}

/* Indexes of a context whose third key is none of an operation: the name goes before the route. */
Test(span_cpu, takes_the_best_of_all_keys_that_name_operations) {
        static const uint8_t both[] = { 3, 2, '/', 'a', 1, 5, 'G', 'E', 'T', ' ', '/', 2, 1, 'x' },
                             route[] = { 2, 1, 'x', 3, 2, '/', 'b' }, empty[] = { 1, 0, 3, 2, '/', 'c' };
        Shop shop;

        set_up(&shop, NULL);
        shop.context.keys[1] = (ContextText){ "span.name", 9 };
        shop.context.keys[2] = (ContextText){ "thread.role", 11 };
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 1 });
        learn_bytes(&shop, 1, both, sizeof(both));
        add(&shop, 2, (SpanCpuRuns){ .whole_ns = 2 });
        learn_bytes(&shop, 2, route, sizeof(route));
        add(&shop, 3, (SpanCpuRuns){ .whole_ns = 3 });
        learn_bytes(&shop, 3, empty, sizeof(empty));
        cr_assert_str_eq(close_and_look(&shop), "shopGET / 1\nshop/b 2\nshop/c 3\n");
        span_cpu_free(shop.cpu);
}

Test(span_cpu, adds_ticks_where_no_runs_are_told) {
        struct abi_sample inside = header_of(1), outside = header_of(0);
        Shop shop;

        set_up(&shop, NULL);
        learn(&shop, 1, "/cart");
        for (int i = 0; i < 3; i++)
                cr_assert_eq(add_tick(&shop, &inside), 0);
        cr_assert_eq(add_tick(&shop, &outside), 0);
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 3000\n");
        cr_assert_eq(shop.outside_ns, TICK_NS);
        cr_assert_eq(stat_get(COUNTER_THREAD_CPU_SPAN_NS), 0, "that counts runs alone");
        span_cpu_free(shop.cpu);
}

Test(span_cpu, has_a_cap_on_operations) {
        char operation[16];
        Shop shop;

        set_up(&shop, "http.route");
        for (uint64_t i = 1; i <= SPAN_CPU_MAX_ROWS + 5; i++) {
                snprintf(operation, sizeof(operation), "/%u", (unsigned)i);
                learn(&shop, i, operation);
                add(&shop, i, (SpanCpuRuns){ .whole_ns = 1 });
        }
        close_and_look(&shop);
        cr_assert_eq(shop.span_ns, SPAN_CPU_MAX_ROWS + 5);
        cr_assert_gt(stat_get(COUNTER_SPAN_CPU_ROWS_OVER_CAP), 0);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, has_a_cap_on_services) {
        char name[16];
        Shop shop;

        set_up(&shop, "");
        for (unsigned i = 0; i < SPAN_CPU_MAX_SERVICES + 9; i++) {
                snprintf(name, sizeof(name), "s%u", i);
                become(&shop, NOBODY, 100 + i, name);
                add(&shop, i + 1, (SpanCpuRuns){ .whole_ns = 1 });
        }
        look(&shop);
        cr_assert_eq(shop.span_ns, SPAN_CPU_MAX_SERVICES + 9);
        /* the table keeps one place for the overflow, and a quarter of the others */
        cr_assert(strstr(shop.rows, SPAN_CPU_OVERFLOW " 76\n"), "%s", shop.rows);
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_SERVICES_OVER_CAP), 76);
        become(&shop, (uint32_t)getpid(), 1, "honest");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 5 });
        cr_assert(strstr(look(&shop), "honest 5\n"), "%s", shop.rows);
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_SERVICES_OVER_CAP), 76);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, operations_of_one_leave_room_for_those_of_others) {
        char operation[16];
        uint64_t n_over;
        Shop shop;

        set_up(&shop, "http.route");
        become(&shop, NOBODY, 2, "evil");
        for (uint64_t i = 1; i <= SPAN_CPU_MAX_ROWS; i++) {
                snprintf(operation, sizeof(operation), "/%u", (unsigned)i);
                learn(&shop, i, operation);
        }
        n_over = stat_get(COUNTER_SPAN_CPU_ROWS_OVER_CAP);
        cr_assert_gt(n_over, 0);
        become(&shop, (uint32_t)getpid(), 1, "honest");
        for (uint64_t i = 1; i <= 100; i++) {
                snprintf(operation, sizeof(operation), "/%u", (unsigned)i);
                learn(&shop, i, operation);
                add(&shop, i, (SpanCpuRuns){ .whole_ns = i });
        }
        cr_assert(strstr(close_and_look(&shop), "honest/100 100\n"), "%s", shop.rows);
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_ROWS_OVER_CAP), n_over);
        span_cpu_free(shop.cpu);
}

Test(span_cpu, has_caps_on_spans_and_ticks) {
        Shop shop;

        set_up(&shop, "http.route");
        for (uint64_t i = 1; i <= SPAN_CPU_MAX_SPANS + 3; i++)
                add(&shop, i, (SpanCpuRuns){ .whole_ns = 1, .n_split = 1 });
        look(&shop);
        cr_assert_eq(shop.span_ns, SPAN_CPU_MAX_SPANS / 4 + 3, "a quarter is for others");
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_SPANS_OVER_CAP), SPAN_CPU_MAX_SPANS / 4 + 3);
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_TICKS_OVER_CAP),
                     SPAN_CPU_MAX_SPANS + 3 - SPAN_CPU_MAX_TICKS / 4 * 3);
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq(span_cpu_rotate(shop.cpu), 0);
        cr_assert_eq((look(&shop), shop.span_ns), SPAN_CPU_MAX_SPANS + 3);
        span_cpu_free(shop.cpu);
}

/* Twice, as with the window all is forgotten but services and operations. */
Test(span_cpu, spans_and_ticks_of_one_leave_room_for_those_of_others) {
        const uint64_t few = 500;
        uint64_t n_spans, n_ticks;
        Shop shop;

        set_up(&shop, "http.route");
        for (int window = 0; window < 2; window++) {
                become(&shop, NOBODY, 2, "evil");
                for (uint64_t i = 1; i <= SPAN_CPU_MAX_SPANS; i++)
                        add(&shop, i, (SpanCpuRuns){ .whole_ns = 1, .n_split = 1 });
                n_spans = stat_get(COUNTER_SPAN_CPU_SPANS_OVER_CAP);
                n_ticks = stat_get(COUNTER_SPAN_CPU_TICKS_OVER_CAP);
                cr_assert_geq(n_spans, SPAN_CPU_MAX_SPANS / 4);
                become(&shop, (uint32_t)getpid(), 1, "honest");
                for (uint64_t i = 1; i <= few; i++)
                        add(&shop, i, (SpanCpuRuns){ .whole_ns = 1, .n_split = 1 });
                learn(&shop, few, "/cart");
                cr_assert_eq(stat_get(COUNTER_SPAN_CPU_SPANS_OVER_CAP), n_spans);
                cr_assert_eq(stat_get(COUNTER_SPAN_CPU_TICKS_OVER_CAP), n_ticks);
                cr_assert(strstr(close_and_look(&shop), window ? "honest/cart 2\n" : "honest/cart 1\n"), "%s",
                          shop.rows);
        }
        span_cpu_free(shop.cpu);
}

Test(span_cpu, calls_a_service_by_its_program_where_it_says_nothing) {
        Shop shop;

        set_up(&shop, "");
        shop.publication.context = NULL;
        shop.process.exe = (char *)"/usr/bin/app";
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 1 });
        cr_assert_str_eq(look(&shop), "unknown_service:app 1\n");
        span_cpu_free(shop.cpu);
}

/* Its id, then {size, size, key, value}…, as the kernel half has them. */
#define GOROUTINE "\41\0\0\0\0\0\0\0"
#define OF_SPAN "\10\40trace_id000000000000000000000000000000aa" "\7\20span_id00000000000000bb"

static void add_goroutine(Shop *shop, const char *labels, size_t size) {
        struct abi_sample header = header_of(0);
        Sample sample = { .header = &header, .attributes = (const uint8_t *)labels };

        header.form = ABI_FORM_GO;
        header.context = ABI_CONTEXT_NONE;
        header.attributes_size = (uint16_t)size;
        cr_assert_eq(span_cpu_add_sample(shop->cpu, &shop->program, &sample, TICK_NS), 0);
}

Test(span_cpu, takes_span_and_operation_from_labels_of_goroutines) {
        static const char named[] = GOROUTINE OF_SPAN "\12\5http.route/cart" "\11\11span.nameGET /cart" "\6\4tenantblue",
                          nameless[] = GOROUTINE OF_SPAN, outside[] = GOROUTINE "\12\5http.route/cart";
        Shop shop;

        set_up(&shop, NULL);
        add_goroutine(&shop, nameless, sizeof(nameless) - 1);
        add_goroutine(&shop, named, sizeof(named) - 1);
        add_goroutine(&shop, outside, sizeof(outside) - 1);
        cr_assert_str_eq(close_and_look(&shop), "shopGET /cart 2000\n");
        cr_assert_eq(shop.outside_ns, TICK_NS);
        span_cpu_free(shop.cpu);
}

static void name_span_of(Shop *shop, uint64_t span, const char *name) {
        const struct abi_span ids = header_of(span).span;

        cr_assert_eq(span_cpu_add_name(shop->cpu, &shop->program, &ids, name), 0);
}

Test(span_cpu, takes_names_that_no_thread_publishes_unless_another_attribute_is_the_operation) {
        Shop shop;

        set_up(&shop, NULL);
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 5 });
        name_span_of(&shop, 1, "GET /cart");
        name_span_of(&shop, 2, "");
        cr_assert_str_eq(close_and_look(&shop), "shopGET /cart 5\n");
        span_cpu_free(shop.cpu);
        set_up(&shop, "span.name");
        name_span_of(&shop, 1, "GET /cart");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 5 });
        cr_assert_str_eq(close_and_look(&shop), "shopGET /cart 5\n");
        span_cpu_free(shop.cpu);
        set_up(&shop, "http.route");
        name_span_of(&shop, 1, "GET /cart");
        add(&shop, 1, (SpanCpuRuns){ .whole_ns = 5 });
        cr_assert_str_eq(close_and_look(&shop), "");
        span_cpu_free(shop.cpu);
}

/* A tick at which a thread had allocated @bytes. */
static void count(Shop *shop, uint32_t tid, uint64_t span, uint64_t bytes, uint64_t flags) {
        struct abi_sample header = header_of(span);
        Sample sample = { .header = &header };

        header.kind = ABI_KIND_CPU;
        header.tid = tid;
        header.value = bytes << ABI_VALUE_BYTES_SHIFT | flags;
        cr_assert(span_cpu_has_count(&header));
        cr_assert_eq(span_cpu_add_count(shop->cpu, &shop->program, &sample), 0);
}

Test(span_bytes, belong_to_the_span_of_both_ticks) {
        Shop shop;

        set_up(&shop, "http.route");
        learn(&shop, 1, "/cart");
        count(&shop, 10, 1, 5000, 0);   /* from before: it is not ours */
        count(&shop, 10, 1, 5700, 0);
        count(&shop, 11, 0, 40, 0);
        count(&shop, 11, 0, 41, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 700\n");
        cr_assert_eq(shop.outside_ns, 1);
        cr_assert_eq(shop.split_ns, 0);
        span_cpu_free(shop.cpu);
}

Test(span_bytes, are_halved_and_marked_between_two_spans) {
        Shop shop;

        set_up(&shop, "http.route");
        learn(&shop, 1, "/cart");
        learn(&shop, 2, "/pay");
        count(&shop, 10, 1, 0, 0);
        count(&shop, 10, 2, 301, 0);
        count(&shop, 10, 0, 401, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 150\nshop/pay 201\n");
        cr_assert_eq(shop.outside_ns, 50);
        cr_assert_eq(shop.split_ns, 401);
        span_cpu_free(shop.cpu);
}

Test(span_bytes, of_carriers_are_marked) {
        Shop shop;

        set_up(&shop, "http.route");
        learn(&shop, 1, "/cart");
        count(&shop, 10, 1, 0, ABI_VALUE_IS_CARRIER);
        count(&shop, 10, 1, 100, 0);
        count(&shop, 10, 1, 1000, 0);
        count(&shop, 10, 1, 3000, ABI_VALUE_IS_CARRIER);
        cr_assert_str_eq(close_and_look(&shop), "shop/cart 3000\n");
        cr_assert_eq(shop.split_ns, 2100);
        span_cpu_free(shop.cpu);
}

/* A tick while a buffer is given back has its bytes twice. */
Test(span_bytes, add_up_where_a_count_is_too_high_once) {
        Shop shop;

        set_up(&shop, "");
        count(&shop, 10, 1, 0, 0);
        count(&shop, 10, 1, 1000000, 0);
        count(&shop, 10, 1, 200000, 0);
        count(&shop, 10, 1, 900000, 0);
        count(&shop, 10, 1, 1200000, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop 1200000\n");
        cr_assert_eq(stat_get(COUNTER_SPAN_BYTES_FALLS), 0);
        span_cpu_free(shop.cpu);
}

Test(span_bytes, begin_anew_with_another_thread) {
        Shop shop;

        set_up(&shop, "");
        count(&shop, 10, 1, UINT64_C(1) << 40, 0);
        count(&shop, 10, 1, (UINT64_C(1) << 40) + 7, 0);
        count(&shop, 10, 1, 500, 0);
        count(&shop, 10, 1, 530, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop 37\n");
        cr_assert_eq(stat_get(COUNTER_SPAN_BYTES_FALLS), 1);
        count(&shop, 10, 1, 530, 0);
        shop.process.generation = 6;    /* the same id in another process */
        count(&shop, 10, 1, 10000, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop 37\n");
        span_cpu_free(shop.cpu);
}

Test(span_bytes, wait_for_a_tick_whose_span_is_known) {
        struct abi_sample header = header_of(1);

        header.kind = ABI_KIND_FINE;
        header.value = 8;
        cr_assert(span_cpu_has_count(&header));
        header.context = ABI_CONTEXT_BUSY;
        cr_assert_not(span_cpu_has_count(&header));
        header = header_of(1);
        header.kind = ABI_KIND_FAULT;
        header.value = 8;
        cr_assert_not(span_cpu_has_count(&header), "page faults");
        header.kind = ABI_KIND_CPU;
        header.value = ABI_VALUE_TICK;
        cr_assert_not(span_cpu_has_count(&header));
}

Test(span_bytes, of_threads_that_rest_are_known_while_there_is_room) {
        Shop shop;

        set_up(&shop, "");
        count(&shop, 1, 1, 100, 0);
        for (int i = 0; i < 5; i++)
                close_and_look(&shop);
        count(&shop, 1, 1, 150, 0);
        cr_assert_str_eq(close_and_look(&shop), "shop 50\n");
        for (uint32_t i = 2; i < SPAN_CPU_MAX_THREADS / 2 + 2; i++)
                count(&shop, i, 1, 100, 0);
        close_and_look(&shop);          /* half full: those that are met no more are forgotten */
        for (uint32_t i = 2; i < SPAN_CPU_MAX_THREADS / 2 + 2; i++)
                count(&shop, i, 1, 101, 0);
        close_and_look(&shop);
        count(&shop, 1, 1, 1000000, 0);
        close_and_look(&shop);
        cr_assert_str_eq(look(&shop), "shop 8242\n");
        span_cpu_free(shop.cpu);
}

Test(span_bytes, threads_of_one_leave_room_for_those_of_others) {
        const uint32_t few = 500;
        uint64_t n_over;
        Shop shop;

        set_up(&shop, "");
        become(&shop, NOBODY, 2, "evil");
        for (uint32_t i = 0; i < SPAN_CPU_MAX_THREADS; i++)
                count(&shop, i, 1, 100, 0);
        n_over = stat_get(COUNTER_SPAN_CPU_THREADS_OVER_CAP);
        cr_assert_geq(n_over, SPAN_CPU_MAX_THREADS / 4);
        become(&shop, (uint32_t)getpid(), 1, "honest");
        for (uint32_t i = 0; i < 2 * few; i++)
                count(&shop, i / 2, 1, 100 + i % 2, 0);
        cr_assert(strstr(close_and_look(&shop), "honest 500\n"), "%s", shop.rows);
        cr_assert_eq(stat_get(COUNTER_SPAN_CPU_THREADS_OVER_CAP), n_over);
        span_cpu_free(shop.cpu);
}
