/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An interpreter of 3.12 by hand, of two threads, or of many. Offsets of the release are those of its headers
 * (python_layout_of()); a lock is {type, semaphore, owner, count} behind its count of references.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/python/python-locks.h"

enum {
        BASE = 0x7f0000000000,
        SIZE = 0x60000,
        RUNTIME = 0x100,
        INTERPRETER = 0x800,
        TYPES = 0x1000,                 /* 0x100 bytes each, the name at 0x80 */
        THREADS = 0x2000,               /* 0x200 bytes each */
        CFRAMES = 0x3000,
        FRAMES = 0x4000,                /* 0x400 bytes each */
        LOCK = 0x6000,
        METHOD = 0x6100,
        SEMAPHORE = 0x6200,
        LOCALS = 72,
        CODE = 0x6400,
        THREAD_TYPE = 0x6800,           /* keys that its objects share: at 0x380, one of their places */
        KEYS = 0x6d00,
        TEXTS = 0x7000,                 /* 0x100 bytes each */
        THREAD = 0x7800,                /* its values at 0x7900 */
        MANY = 0x8000,                  /* 0x200 bytes each */
        N_MANY = 600,
};

enum { TYPE_LOCK, TYPE_RLOCK, TYPE_METHOD, TYPE_OTHER };

static uint8_t memory[SIZE];
static PythonLayout layout;
static PythonProgram program;
static RuntimeLocks found;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < BASE || size > SIZE || address - BASE > SIZE - size)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static void put_u64(uint32_t at, uint64_t value) {
        memcpy(memory + at, &value, sizeof(value));
}

static void put_address(uint32_t at, uint32_t of) {
        put_u64(at, (uint64_t)BASE + of);
}

static void put_type(uint32_t i, const char *name) {
        put_address(TYPES + i * 0x100 + 24, TYPES + i * 0x100 + 0x80);
        strcpy((char *)memory + TYPES + i * 0x100 + 0x80, name);
}

static void put_object(uint32_t at, uint64_t count, uint32_t type) {
        put_u64(at, count);
        put_address(at + 8, TYPES + type * 0x100);
}

/* A text of ASCII, as 3.12 has it: one byte each, compact. */
static uint32_t put_text(uint32_t i, const char *text) {
        uint32_t at = TEXTS + i * 0x100;

        put_u64(at + layout.text_length, strlen(text));
        put_u64(at + layout.text_state, 1 << 2 | 1 << 5 | 1 << 6);
        strcpy((char *)memory + at + layout.ascii_data, text);
        return at;
}

/* The first thread's outermost function is Thread._bootstrap, of a Thread with the name. */
static void put_name(const char *name) {
        put_address(FRAMES + layout.previous, FRAMES + 0x800);
        put_address(FRAMES + 0x800 + layout.code, CODE);
        put_address(CODE + layout.name, put_text(0, "Thread._bootstrap"));
        put_address(FRAMES + 0x800 + LOCALS, THREAD);
        put_address(THREAD + 8, THREAD_TYPE);
        put_u64(THREAD - 24, BASE + THREAD + 0x100 - 1);
        put_address(THREAD_TYPE + 0x380, KEYS);
        put_u64(KEYS + 8, 3 << 8 | 1 << 16);
        put_u64(KEYS + 24, 2);
        put_address(KEYS + 32 + 8, put_text(1, "_target"));
        put_address(KEYS + 32 + 8 + 16, put_text(2, "_name"));
        put_address(THREAD + 0x108, put_text(3, name));
}

static void put_thread(uint32_t i, uint64_t ident, uint64_t native) {
        put_u64(THREADS + i * 0x200 + layout.thread_id, ident);
        put_u64(THREADS + i * 0x200 + layout.thread_id + 8, native);
        put_address(THREADS + i * 0x200 + layout.thread_frame, CFRAMES + i * 0x10);
        put_address(CFRAMES + i * 0x10, FRAMES + i * 0x400);
}

static void setup(void) {
        char reason[PYTHON_MAX_REASON];

        memset(memory, 0, sizeof(memory));
        cr_assert_eq(python_layout_of(0x030c, &layout, reason), 0);
        program = (PythonProgram){ 0 };
        program.places[PYTHON_SYMBOL_RUNTIME].address = RUNTIME;
        put_type(TYPE_LOCK, "_thread.lock");
        put_type(TYPE_RLOCK, "_thread.RLock");
        put_type(TYPE_METHOD, "builtin_function_or_method");
        put_type(TYPE_OTHER, "_thread.RLocked");
        put_address(RUNTIME + layout.interpreters, INTERPRETER);
        put_address(INTERPRETER + layout.threads, THREADS);
        put_address(THREADS + layout.next_thread, THREADS + 0x200);
        put_thread(0, 0x7fff1000, 4711);
        put_thread(1, 0x7fff2000, 4712);
        put_object(LOCK, 3, TYPE_RLOCK);
        put_address(LOCK + 16, SEMAPHORE);
        put_u64(LOCK + 24, 0x7fff2000);
        put_u64(LOCK + 32, 1);
}

TestSuite(python_locks, .init = setup);

static void look(void) {
        const PythonReader reader = { read_memory, NULL };

        memset(&found, 0xff, sizeof(found));
        python_locks_read(&found, &reader, &(PythonSubject){ &program, &layout, BASE });
}

static void check(RuntimeLockKind kind, const char *name, uint32_t owner) {
        look();
        cr_assert_eq(found.n, 1, "%u", found.n);
        cr_assert_eq(found.locks[0].tid, 4711);
        cr_assert_eq(found.locks[0].futex, BASE + SEMAPHORE, "a thread waits for it on that word");
        cr_assert_eq(found.locks[0].kind, kind);
        cr_assert_eq(found.locks[0].owner, owner);
        cr_assert_str_eq(found.locks[0].name, name);
        cr_assert_str_empty(found.text);
}

static void check_none(void) {
        look();
        cr_assert_eq(found.n, 0);
}

Test(python_locks, a_frame_without_a_lock_has_none) {
        check_none();
        put_object(LOCK, 3, TYPE_OTHER);
        put_address(FRAMES + LOCALS, LOCK);
        check_none();
}

Test(python_locks, a_local_is_found_with_its_owner) {
        put_address(FRAMES + LOCALS, LOCK);
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 4712);
        put_u64(LOCK + 24, 0x7fff3000);         /* no thread of this interpreter */
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 0);
        put_u64(LOCK + 24, 0x7fff2000);
        put_u64(LOCK + 32, 0);                  /* it was given back */
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 0);
}

Test(python_locks, a_lock_without_an_owner_has_none) {
        put_object(LOCK, 3, TYPE_LOCK);
        put_address(FRAMES + LOCALS + 8, LOCK);
        check(RUNTIME_LOCK_OWNERLESS, "_thread.lock", 0);
}

Test(python_locks, a_method_on_the_stack_is_its_lock) {
        put_object(METHOD, 1, TYPE_METHOD);
        put_address(METHOD + 24, LOCK);
        put_address(FRAMES + LOCALS + 32, METHOD);
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 4712);
        put_address(FRAMES + LOCALS, LOCK);     /* the same as a local: it is one lock */
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 4712);
        put_address(METHOD + 24, METHOD);       /* bound to itself */
        put_u64(FRAMES + LOCALS, 0);
        check_none();
}

Test(python_locks, a_thread_has_the_name_that_threading_gives_it) {
        put_name("billing-3");
        look();
        cr_assert_eq(found.n, 1);
        cr_assert_eq(found.locks[0].tid, 4711);
        cr_assert_eq(found.locks[0].kind, RUNTIME_LOCK_NONE);
        cr_assert_str_eq(found.locks[0].name, "billing-3");
        put_address(THREAD - 24, THREAD + 0x200);       /* it has a dict instead */
        check_none();
        put_name("billing-3");
        put_text(0, "Thread._bootstrap_inner");
        check_none();
        put_name("billing-3");
        put_u64(KEYS + 24, UINT64_MAX);                 /* keys without end */
        put_text(2, "_names");
        check_none();
        put_name("billing-3");
        put_u64(KEYS + 8, 63 << 8 | 1 << 16);
        check_none();
        put_name("billing-3");
        put_address(FRAMES + 0x800 + layout.previous, FRAMES);  /* a circle of frames */
        look();
        cr_assert_eq(found.n, 1);
}

/* Frames lie in chunks of whole pages: behind the last one may be nothing. */
Test(python_locks, a_frame_at_the_end_of_its_pages_has_its_lock_and_its_name) {
        put_name("billing-3");
        put_address(CFRAMES, SIZE - LOCALS - 16);
        put_address(SIZE - LOCALS - 16 + layout.previous, FRAMES);
        put_address(SIZE - 8, LOCK);
        look();
        cr_assert_eq(found.n, 2, "%u", found.n);
        cr_assert_eq(found.locks[0].owner, 4712);
        cr_assert_str_eq(found.locks[0].name, "_thread.RLock");
        cr_assert_str_eq(found.locks[1].name, "billing-3");
        put_address(CFRAMES, SIZE - LOCALS);            /* it has no locals */
        put_address(SIZE - LOCALS + layout.previous, FRAMES);
        look();
        cr_assert_eq(found.n, 1, "%u", found.n);
        cr_assert_str_eq(found.locks[0].name, "billing-3");
}

Test(python_locks, freed_objects_are_none) {
        put_address(FRAMES + LOCALS, LOCK);
        put_u64(LOCK, 0);
        check_none();
        put_address(LOCK, LOCK + 0x40);         /* the next free one */
        check_none();
}

Test(python_locks, each_thread_has_its_own) {
        put_address(FRAMES + LOCALS, LOCK);
        put_address(FRAMES + 0x400 + LOCALS, LOCK);
        look();
        cr_assert_eq(found.n, 2);
        cr_assert_eq(found.locks[1].tid, 4712);
        cr_assert_eq(found.locks[1].owner, 0, "it has it, and does not wait for itself");
}

/* All of them wait for the lock that the last one has. */
static void put_many(void) {
        put_address(INTERPRETER + layout.threads, MANY);
        for (uint32_t i = 0; i < N_MANY; i++) {
                uint32_t at = MANY + i * 0x200;

                put_u64(at + layout.thread_id, 0x7fff5000 + i);
                put_u64(at + layout.thread_id + 8, 5000 + i);
                put_address(at + layout.thread_frame, CFRAMES);
                if (i + 1 < N_MANY)
                        put_address(at + layout.next_thread, at + 0x200);
        }
        put_u64(LOCK + 24, 0x7fff5000 + N_MANY - 1);
        put_address(FRAMES + LOCALS, LOCK);
}

Test(python_locks, each_of_many_threads_has_its_owner) {
        put_many();
        look();
        cr_assert_eq(found.n, N_MANY, "%u", found.n);
        for (uint32_t i = 0; i < N_MANY; i++) {
                cr_assert_eq(found.locks[i].tid, 5000 + i);
                cr_assert_eq(found.locks[i].owner, i + 1 < N_MANY ? 5000 + N_MANY - 1 : 0, "thread %u", i);
        }
        cr_assert_str_empty(found.text);
}

Test(python_locks, threads_that_are_left_out_are_said) {
        put_many();
        put_address(FRAMES + layout.previous, FRAMES);          /* each thread takes hundreds of reads */
        look();
        cr_assert_lt(found.n, N_MANY);
        cr_assert_str_eq(found.text, "python 3.12: locks of some threads are not read: "
                                     "they take more than 200000 reads");
        put_u64(FRAMES + layout.previous, 0);
        put_u64(FRAMES + LOCALS, 0);
        put_address(MANY + (N_MANY - 1) * 0x200 + layout.next_thread, MANY);    /* a circle */
        look();
        cr_assert_str_eq(found.text, "python 3.12: locks of threads after the first 4096 are not read");
}

Test(python_locks, releases_that_are_not_known_are_named) {
        put_address(FRAMES + LOCALS, LOCK);
        layout.version = 0x030e;
        check_none();
        cr_assert_str_eq(found.text, "python 3.14: no locks are read of this release");
        layout.version = 0x030a;
        check_none();
        cr_assert_str_eq(found.text, "python 3.10: no locks are read of this release");
        layout.version = 0x030d;
        layout.is_free_threaded = true;
        check_none();
        cr_assert_str_eq(found.text, "python 3.13 free-threaded: no locks are read of this release");
}

Test(python_locks, forged_memory_leads_nowhere) {
        put_address(FRAMES + LOCALS, LOCK);
        for (uint32_t i = 1; i < 48; i++)       /* values that are no objects */
                put_u64(FRAMES + LOCALS + i * 8, i % 2 ? UINT64_MAX - i : BASE + SIZE - i);
        check(RUNTIME_LOCK_OWNED, "_thread.RLock", 4712);
        put_u64(LOCK + 8, UINT64_MAX);
        check_none();
        put_object(LOCK, 3, TYPE_RLOCK);
        put_u64(TYPES + TYPE_RLOCK * 0x100 + 24, UINT64_MAX);
        check_none();
        put_address(THREADS + layout.next_thread, THREADS);     /* a circle of threads */
        put_address(INTERPRETER + layout.next_interpreter, INTERPRETER);
        check_none();
        put_type(TYPE_RLOCK, "_thread.RLock");
        look();
        cr_assert_leq(found.n, RUNTIME_MAX_LOCKS);
        put_u64(RUNTIME + layout.interpreters, UINT64_MAX);
        check_none();
}
