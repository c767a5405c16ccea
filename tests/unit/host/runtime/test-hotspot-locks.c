/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A JVM by hand, of three threads: 4711 waits for what 4712 has. Offsets are made up, as each release has its
 * own; how a monitor names its owner is that of objectMonitor.hpp in JDK 17, 21 and 25.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/hotspot/hotspot-locks.h"

enum {
        BIAS = 0x7f0000000000,
        SIZE = 0x18000,
        LIST_VARIABLE = 0x10,           /* relative to BIAS, like all of these */
        CHAIN_VARIABLE = 0x18,
        FLAGS_VARIABLE = 0x20,
        N_FLAGS_VARIABLE = 0x28,
        OOP_BASE = 0x30,
        OOP_SHIFT = 0x38,
        KLASS_BASE = 0x40,
        KLASS_SHIFT = 0x48,
        HANDLES = 0x80,                 /* a word each */
        LIST = 0x100,
        ARRAY = 0x140,
        OS_THREADS = 0x200,             /* 0x20 bytes each */
        FLAGS = 0x300,                  /* 0x10 bytes each: name, address of the value */
        FLAG_NAMES = 0x400,             /* 0x20 bytes each */
        FLAG_VALUES = 0x580,
        MONITOR = 0x600,
        THREADS = 0x1000,               /* 0x200 bytes each */
        STACKS = 0x2000,                /* 0x100 bytes each */
        OBJECTS = 0x3000,               /* 0x40 bytes each */
        KLASSES = 0x4000,               /* 0x1000 bytes each: klass, pool, fields, symbols */
        LONG_ARRAY = 0x10000,
        N_THREADS = 3,
};

enum { THREAD_KLASS, OWNABLE_KLASS, SYNC_KLASS, PLAIN_KLASS, WORKER_KLASS, N_KLASSES };
enum { THREAD_OBJECT, LOCK_OBJECT = N_THREADS, N_OBJECTS };
enum { BLOCKER_OFFSET = 24, OWNER_OFFSET = 12 };

static uint8_t memory[SIZE];
static HotspotLayout layout;
static RuntimeLocks found;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < BIAS || size > SIZE || address - BIAS > SIZE - size)
                return false;
        memcpy(to, memory + (address - BIAS), size);
        return true;
}

static const HotspotReader reader = { read_memory, NULL };

static void put(uint32_t at, const void *bytes, size_t size) {
        memcpy(memory + at, bytes, size);
}

static void put_u64(uint32_t at, uint64_t value) {
        put(at, &value, sizeof(value));
}

static void put_u32(uint32_t at, uint32_t value) {
        put(at, &value, sizeof(value));
}

static void put_address(uint32_t at, uint32_t of) {
        put_u64(at, (uint64_t)BIAS + of);
}

static uint32_t thread_at(uint32_t i) {
        return THREADS + i * 0x200;
}

static uint32_t object_at(uint32_t i) {
        return OBJECTS + i * 0x40;
}

static uint32_t klass_at(uint32_t i) {
        return KLASSES + i * 0x1000;
}

/* Compressed references count 8 bytes from BIAS. */
static void put_reference(uint32_t at, uint32_t of) {
        put_u32(at, of / 8);
}

static void put_symbol(uint32_t at, const char *text) {
        uint16_t length = (uint16_t)strlen(text);

        put(at, &length, sizeof(length));
        put(at + 2, text, length);
}

/* Klass { name, pool, super, fields, n }, its pool at 0x100 with a name in slot 1, its fields at 0x300. */
static void put_klass(uint32_t i, const char *name, uint32_t super, const char *field, uint16_t offset) {
        uint32_t at = klass_at(i);
        const uint16_t n_fields = field ? 1 : 0, words[] = { 0, 1, 0, 0, (uint16_t)(offset << 2 | 1), 0 };

        put_address(at, at + 0x800);
        put_symbol(at + 0x800, name);
        put_address(at + 8, at + 0x100);
        put_address(at + 0x100 + 8, at);
        put_u64(at + 16, super == N_KLASSES ? 0 : BIAS + klass_at(super));
        put_address(at + 24, at + 0x300);
        put(at + 32, &n_fields, sizeof(n_fields));
        put_u32(at + 0x300, 6 * n_fields);
        put(at + 0x304, words, 12 * n_fields);
        put_symbol(at + 0x700, field ? field : "");
        put_address(at + 0x100 + 40 + 8, at + 0x700);
}

static void put_object(uint32_t i, uint32_t klass) {
        put_reference(object_at(i) + 8, klass_at(klass));
}

static void put_flag(uint32_t i, const char *name, bool value) {
        put_address(FLAGS + i * 16, FLAG_NAMES + i * 32);
        put_address(FLAGS + i * 16 + 8, FLAG_VALUES + i);
        strncpy((char *)memory + FLAG_NAMES + i * 32, name, 32);
        memory[FLAG_VALUES + i] = value;
        put_u64(N_FLAGS_VARIABLE, i + 1);
}

static void put_layout(void) {
        layout = (HotspotLayout){
                .version = 17,
                .method = { .tags = { 0, 8, false }, .holder = { 8, 8, false }, .klass_name = { 0, 8, false },
                            .klass_constants = { 8, 8, false }, .symbol_length = { 0, 2, false },
                            .symbol_body = { 2, 1, false }, .array_length = { 0, 4, false },
                            .array_u1 = { 4, 1, false }, .pool_size = 40 },
                .thread = { .osthread = { 8, 8, false }, .thread_id = { 16, 4, true } },
                .classes = { .oop_base = OOP_BASE, .oop_shift = OOP_SHIFT, .old_fields = { 24, 8, false },
                             .n_old_fields = { 32, 2, false }, .array_u2 = { 4, 2, false },
                             .super = { 16, 8, false } },
                .locks = { .threads = LIST_VARIABLE, .n_threads = { 4, 4, false },
                           .thread_array = { 8, 8, false }, .pending = { 16, 8, false },
                           .waiting = { 24, 8, false }, .stack_base = { 32, 8, false },
                           .stack_size = { 40, 8, false }, .object = { 48, 8, false },
                           .monitor_owner = { 0, 8, false }, .monitor_object = { 8, 8, false },
                           .object_klass = { 8, 8, false }, .klass_base = KLASS_BASE,
                           .klass_shift = KLASS_SHIFT },
                .flags = { .list = FLAGS_VARIABLE, .count = N_FLAGS_VARIABLE, .name = { 0, 8, false },
                           .value = { 8, 8, false }, .struct_size = 16 },
        };
}

static void put_threads(void) {
        put_address(LIST_VARIABLE, LIST);
        put_u32(LIST + 4, N_THREADS);
        put_address(LIST + 8, ARRAY);
        for (uint32_t i = 0; i < N_THREADS; i++) {
                put_address(ARRAY + i * 8, thread_at(i));
                put_address(thread_at(i) + 8, OS_THREADS + i * 0x20);
                put_u32(OS_THREADS + i * 0x20 + 16, 4711 + i);
                put_address(thread_at(i) + 32, STACKS + (i + 1) * 0x100);
                put_u64(thread_at(i) + 40, 0x100);
                put_address(thread_at(i) + 48, HANDLES + i * 8);
                put_address(HANDLES + i * 8, object_at(i));
                put_object(i, i ? THREAD_KLASS : WORKER_KLASS);
        }
}

static void setup(void) {
        memset(memory, 0, sizeof(memory));
        put_layout();
        put_u64(OOP_BASE, BIAS);
        put_u64(KLASS_BASE, BIAS);
        put_u32(OOP_SHIFT, 3);
        put_u32(KLASS_SHIFT, 3);
        put_address(FLAGS_VARIABLE, FLAGS);
        put_flag(0, "UseCompressedOops", true);
        put_flag(1, "UseCompressedClassPointers", true);
        put_klass(THREAD_KLASS, "java/lang/Thread", N_KLASSES, "parkBlocker", BLOCKER_OFFSET);
        put_klass(WORKER_KLASS, "a/Worker", THREAD_KLASS, NULL, 0);
        put_klass(OWNABLE_KLASS, "java/util/concurrent/locks/AbstractOwnableSynchronizer", N_KLASSES,
                  "exclusiveOwnerThread", OWNER_OFFSET);
        put_klass(SYNC_KLASS, "a/Lock$Sync", OWNABLE_KLASS, NULL, 0);
        put_klass(PLAIN_KLASS, "a/Plain", N_KLASSES, NULL, 0);
        put_threads();
        put_object(LOCK_OBJECT, PLAIN_KLASS);
        put_address(MONITOR + 8, HANDLES + LOCK_OBJECT * 8);
        put_address(HANDLES + LOCK_OBJECT * 8, object_at(LOCK_OBJECT));
}

TestSuite(hotspot_locks, .init = setup);

static void look(void) {
        memset(&found, 0xff, sizeof(found));
        hotspot_locks_read(&found, &layout, &reader, BIAS);
}

/* One lock is found: thread 4711 waits for it. */
static void check(RuntimeLockKind kind, const char *name, uint32_t owner) {
        look();
        cr_assert_eq(found.n, 1, "%u", found.n);
        cr_assert_eq(found.n_over_cap, 0);
        cr_assert_eq(found.locks[0].tid, 4711);
        cr_assert_eq(found.locks[0].kind, kind);
        cr_assert_eq(found.locks[0].owner, owner, "%u", found.locks[0].owner);
        cr_assert_str_eq(found.locks[0].name, name);
        for (size_t i = strlen(name); i < sizeof(found.locks[0].name); i++)
                cr_assert_eq(found.locks[0].name[i], 0, "locks are compared as bytes");
}

static void wait_for_monitor(uint64_t owner) {
        put_address(thread_at(0) + 16, MONITOR);
        put_u64(MONITOR, owner);
}

static void park(uint32_t klass) {
        put_object(LOCK_OBJECT, klass);
        put_reference(object_at(0) + BLOCKER_OFFSET, object_at(LOCK_OBJECT));
        put_reference(object_at(LOCK_OBJECT) + OWNER_OFFSET, object_at(1));
}

/* ---- monitors ---- */

Test(hotspot_locks, threads_that_wait_for_nothing_have_no_lock) {
        look();
        cr_assert_eq(found.n, 0);
        cr_assert_str_empty(found.text);
}

Test(hotspot_locks, the_owner_of_a_monitor_is_known_by_its_address) {
        wait_for_monitor(BIAS + thread_at(1));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        cr_assert_eq(found.locks[0].address, BIAS + MONITOR);
        wait_for_monitor(BIAS + thread_at(1) + 8);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);
}

Test(hotspot_locks, the_owner_of_a_monitor_is_known_by_its_stack) {
        wait_for_monitor(BIAS + STACKS + 0x100);        /* the lowest address of the second one */
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        wait_for_monitor(BIAS + STACKS + 0x1f8);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        wait_for_monitor(BIAS + STACKS + 0x200);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4713);
        wait_for_monitor(BIAS + STACKS + N_THREADS * 0x100);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);
}

Test(hotspot_locks, the_owner_of_a_monitor_is_known_by_its_number) {
        layout.locks.owner_id = (HotspotField){ 56, 8, false };
        put_u64(thread_at(1) + 56, 35);
        wait_for_monitor(35);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        wait_for_monitor(BIAS + thread_at(1));          /* addresses are none, where numbers are */
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);
        wait_for_monitor(35);
        put_u64(thread_at(2) + 56, 35);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);      /* two threads say that they are it */
}

Test(hotspot_locks, the_owner_of_a_monitor_is_known_by_its_lock_stack) {
        layout.locks.lock_stack = (HotspotField){ 64, 8, false };
        layout.locks.lock_top = (HotspotField){ 0, 4, false };
        layout.locks.lock_base = (HotspotField){ 16, 8, false };
        for (uint32_t i = 0; i < N_THREADS; i++)
                put_u32(thread_at(i) + 64, 64 + 16);
        wait_for_monitor(1);
        put_address(thread_at(1) + 64 + 16 + 8, object_at(LOCK_OBJECT));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);      /* behind the top, it is an old one */
        put_u32(thread_at(1) + 64, 64 + 16 + 16);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        put_u32(thread_at(1) + 64, UINT32_MAX);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);
}

Test(hotspot_locks, a_thread_that_waits_for_notify_waits_for_no_owner) {
        put_address(thread_at(0) + 24, MONITOR);
        put_address(MONITOR, thread_at(1));
        check(RUNTIME_LOCK_NOTIFY, "a.Plain", 0);
}

Test(hotspot_locks, older_jvms_have_objects_and_no_handles) {
        put_address(MONITOR + 8, object_at(LOCK_OBJECT));
        put_address(thread_at(0) + 48, object_at(0));
        wait_for_monitor(BIAS + thread_at(1));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        put_u64(thread_at(0) + 16, 0);
        park(SYNC_KLASS);
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 4712);
}

Test(hotspot_locks, older_jvms_have_a_chain_of_threads) {
        layout.locks.threads = 0;
        layout.locks.first_thread = CHAIN_VARIABLE;
        layout.locks.next_thread = (HotspotField){ 56, 8, false };
        put_address(CHAIN_VARIABLE, thread_at(0));
        put_address(thread_at(0) + 56, thread_at(1));
        wait_for_monitor(BIAS + thread_at(1));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        put_address(thread_at(1) + 56, thread_at(1));   /* a circle: all that it can do is hide the owner */
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 0);
}

/* ---- java.util.concurrent ---- */

Test(hotspot_locks, a_parked_thread_waits_for_its_blocker) {
        park(SYNC_KLASS);
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 4712);
        cr_assert_eq(found.locks[0].address, BIAS + object_at(LOCK_OBJECT));
        put_u32(object_at(LOCK_OBJECT) + OWNER_OFFSET, 0);
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 0);
}

Test(hotspot_locks, a_blocker_of_another_class_has_no_owner) {
        park(PLAIN_KLASS);
        check(RUNTIME_LOCK_PARKED, "a.Plain", 0);
}

Test(hotspot_locks, a_virtual_thread_that_runs_is_its_carrier) {
        park(SYNC_KLASS);
        put_object(4, WORKER_KLASS);
        put_reference(object_at(LOCK_OBJECT) + OWNER_OFFSET, object_at(4));
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 0);
        layout.locks.virtual_object = (HotspotField){ 56, 8, false };
        put_address(thread_at(2) + 56, HANDLES + 0x40);
        put_address(HANDLES + 0x40, object_at(4));
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 4713);
}

/* JDK 21: numbers of which 1 is added to each byte. Two fields, of which the second has a value behind. */
Test(hotspot_locks, fields_of_newer_classes_are_a_stream) {
        static const uint8_t stream[] = { 2 + 1, 0 + 1, 2 + 1, 9 + 1, 40 + 1, 1 + 1, 1 + 1, 7 + 1,
                                          1 + 1, 9 + 1, BLOCKER_OFFSET + 1, 1 + 1, 0 + 1 };
        uint32_t at = klass_at(THREAD_KLASS);

        layout.has_zero_free_numbers = true;
        layout.classes.fields = (HotspotField){ 24, 8, false };
        put_u32(at + 0x300, sizeof(stream));
        put(at + 0x304, stream, sizeof(stream));
        put_address(at + 0x100 + 40 + 16, at + 0x800);
        park(PLAIN_KLASS);
        check(RUNTIME_LOCK_PARKED, "a.Plain", 0);
}

/* ---- what cannot be read ---- */

Test(hotspot_locks, what_a_release_does_not_publish_is_named) {
        wait_for_monitor(BIAS + thread_at(1));
        layout.locks.pending.size = 0;
        look();
        cr_assert_eq(found.n, 0);
        cr_assert_str_eq(found.text, "java 17: no locks are read: JavaThread::_current_pending_monitor is not known");
}

Test(hotspot_locks, collectors_whose_objects_move_are_named_and_owners_of_monitors_stay) {
        wait_for_monitor(BIAS + thread_at(1));
        put_flag(2, "UseZGC", true);
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        cr_assert_str_eq(found.text, "java 17, -XX:+UseZGC: classes of locks are not read, "
                                     "nor owners of java.util.concurrent's");
}

/* Shenandoah: the mark of an object that has moved is its new address, with 3 in the lowest bits. */
Test(hotspot_locks, an_object_that_has_moved_is_read_where_it_is) {
        const uint32_t from = object_at(LOCK_OBJECT), to = object_at(N_OBJECTS);

        wait_for_monitor(BIAS + thread_at(1));
        memcpy(memory + to, memory + from, 0x40);
        put_u64(from, (uint64_t)BIAS + to + 3);
        put_u32(from + 8, 0);
        put_flag(2, "UseShenandoahGC", true);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        layout.version = 11;
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        cr_assert(strstr(found.text, "-XX:+UseShenandoahGC"));
}

/* JDK 24 to 27: 42 bits of lock, age and hash, then the compressed Klass. */
Test(hotspot_locks, compact_headers_have_the_class_in_the_mark) {
        const uint32_t at = object_at(LOCK_OBJECT);
        uint32_t klass;

        wait_for_monitor(BIAS + thread_at(1));
        memcpy(&klass, memory + at + 8, sizeof(klass));
        put_u64(at, (uint64_t)klass << 42 | 0x1234500 | 2);
        put_u32(at + 8, 0);
        put_flag(2, "UseCompactObjectHeaders", true);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
}

Test(hotspot_locks, without_the_flags_no_object_is_read) {
        wait_for_monitor(BIAS + thread_at(1));
        put_u64(N_FLAGS_VARIABLE, 1);
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        cr_assert(strstr(found.text, "UseCompressedClassPointers"));
}

Test(hotspot_locks, a_release_without_the_flag_and_the_field_has_small_headers) {
        const uint32_t at = object_at(LOCK_OBJECT);
        uint32_t klass;

        wait_for_monitor(BIAS + thread_at(1));
        layout.version = 27;
        layout.locks.object_klass.size = 0;
        put_flag(1, "UseOther", true);
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        cr_assert(strstr(found.text, "oopDesc::_metadata._klass"));
        memcpy(&klass, memory + at + 8, sizeof(klass));
        put_u64(at, (uint64_t)klass << 42 | 0x1234500 | 2);
        put_flag(2, "UseCompactObjectHeaders", true);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        layout.version = 26;
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        cr_assert(strstr(found.text, "UseCompressedClassPointers"));
}

Test(hotspot_locks, long_names_are_cut_between_characters) {
        char name[201], want[160] = "";

        for (size_t i = 0; i < 100; i++)
                memcpy(name + 2 * i, "ä", 3);
        memcpy(want, name, 158);
        put_klass(PLAIN_KLASS, name, N_KLASSES, NULL, 0);
        wait_for_monitor(BIAS + thread_at(1));
        check(RUNTIME_LOCK_MONITOR, want, 4712);
}

Test(hotspot_locks, forged_memory_leads_nowhere) {
        wait_for_monitor(BIAS + thread_at(1));
        put_address(klass_at(PLAIN_KLASS) + 0x100 + 8, klass_at(SYNC_KLASS));  /* the pool is another's */
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        put_u64(MONITOR + 8, UINT64_MAX);
        check(RUNTIME_LOCK_MONITOR, "", 4712);
        put_u64(thread_at(0) + 16, UINT64_MAX);         /* a monitor that is not there */
        check(RUNTIME_LOCK_MONITOR, "", 0);
        put_u64(thread_at(0) + 16, 0);
        park(SYNC_KLASS);
        put_address(klass_at(SYNC_KLASS) + 16, klass_at(SYNC_KLASS));          /* extends itself */
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 0);
        put_u32(klass_at(THREAD_KLASS) + 0x300, UINT32_MAX);
        look();
        cr_assert_eq(found.n, 0, "too many fields are none");
        put_u32(LIST + 4, UINT32_MAX);
        look();
        put_u64(LIST + 8, UINT64_MAX - 8);
        look();
        put_u64(LIST_VARIABLE, UINT64_MAX);
        look();
        cr_assert_eq(found.n, 0);
}

Test(hotspot_locks, locks_over_the_cap_are_counted) {
        wait_for_monitor(BIAS + thread_at(1));
        put_u32(LIST + 4, 1100);
        put_address(LIST + 8, 0x8000);
        for (uint32_t i = 0; i < 1100; i++)
                put_address(0x8000 + i * 8, thread_at(0));
        look();
        cr_assert_eq(found.n, RUNTIME_MAX_LOCKS);
        cr_assert_eq(found.n_over_cap, 1100 - RUNTIME_MAX_LOCKS);
}

Test(hotspot_locks, threads_that_wait_for_nothing_are_not_over_the_cap) {
        wait_for_monitor(BIAS + thread_at(1));
        put_u32(LIST + 4, 1100);
        put_address(LIST + 8, LONG_ARRAY);
        for (uint32_t i = 0; i < 1100; i++)
                put_address(LONG_ARRAY + i * 8, thread_at(i < RUNTIME_MAX_LOCKS + 10 ? 0 : 2));
        look();
        cr_assert_eq(found.n, RUNTIME_MAX_LOCKS);
        cr_assert_eq(found.n_over_cap, 10, "%u", found.n_over_cap);
}

Test(hotspot_locks, threads_after_the_cap_of_a_list_are_said) {
        wait_for_monitor(BIAS + thread_at(1));
        put_u32(LIST + 4, 4096);
        put_address(LIST + 8, LONG_ARRAY);
        for (uint32_t i = 0; i < N_THREADS; i++)
                put_address(LONG_ARRAY + i * 8, thread_at(i));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        cr_assert_str_empty(found.text);
        put_u32(LIST + 4, 4097);
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        cr_assert_str_eq(found.text, "java 17: locks of threads after the first 4096 are not read");
}

Test(hotspot_locks, threads_after_the_cap_of_a_chain_are_said) {
        layout.locks.threads = 0;
        layout.locks.first_thread = CHAIN_VARIABLE;
        layout.locks.next_thread = (HotspotField){ 56, 8, false };
        put_address(CHAIN_VARIABLE, thread_at(0));
        put_address(thread_at(0) + 56, thread_at(0));
        look();
        cr_assert_str_eq(found.text, "java 17: locks of threads after the first 4096 are not read");
}

/* ---- reads that are used up ---- */

static uint32_t n_allowed, n_refused;

static bool read_allowed(void *userdata, uint64_t address, void *to, size_t size) {
        if (!n_allowed) {
                n_refused++;
                return false;
        }
        n_allowed--;
        return read_memory(userdata, address, to, size);
}

static void look_with(uint32_t n_reads) {
        const HotspotReader few = { read_allowed, NULL };

        n_allowed = n_reads;
        n_refused = 0;
        memset(&found, 0xff, sizeof(found));
        hotspot_locks_read(&found, &layout, &few, BIAS);
}

/* Looks with each number of reads up to that which is enough: one without the lock of @want says so. */
static void check_short(const RuntimeLock *want) {
        uint32_t n = 0;

        for (look_with(0); n_refused; look_with(++n))
                if (found.n != 1 || memcmp(&found.locks[0], want, sizeof(*want)))
                        cr_assert_str_not_empty(found.text, "%u reads", n);
        cr_assert_gt(n, 30);
        cr_assert_str_empty(found.text);
}

Test(hotspot_locks, threads_whose_memory_is_not_read_are_said) {
        RuntimeLock want;

        wait_for_monitor(BIAS + thread_at(1));
        check(RUNTIME_LOCK_MONITOR, "a.Plain", 4712);
        want = found.locks[0];
        check_short(&want);
        put_u64(thread_at(0) + 16, 0);
        park(SYNC_KLASS);
        check(RUNTIME_LOCK_PARKED, "a.Lock$Sync", 4712);
        want = found.locks[0];
        check_short(&want);
        put_address(ARRAY, thread_at(2));               /* the one that waits is the last one */
        put_address(ARRAY + 16, thread_at(0));
        check_short(&want);
        look_with(40);
        cr_assert_str_eq(found.text, "java 17: locks of some threads could not be read");
}
