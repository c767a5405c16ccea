/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writer of the Context Ring
 *
 * One slot a thread, found by its id, written with plain stores. What makes it
 * right is the order of those stores:
 *
 *     in_use = 1 | (release) count | fence | high, low, span | (release) in_use = 0
 *
 * Reader 1: reads while the writing thread is interrupted (a timer's BPF program
 * on that CPU, a debugger that stopped it). A CPU takes an interrupt between two
 * instructions, so the reader sees exactly the stores before it, in program
 * order; the fence and the release store keep the compiler from changing that
 * order. If it sees in_use == 0, the interrupt came before in_use = 1 (all three
 * ids are of the previous write) or after in_use = 0 (all are of this one). So a
 * slot with in_use == 0 is whole. On weakly ordered CPUs nothing more is needed:
 * an interrupted CPU sees its own stores.
 *
 * Reader 2: runs on another CPU. The fence orders in_use = 1 before the ids and
 * the release orders the ids before in_use = 0 for it as well (a release *store*
 * of 1 would not: later stores may pass it). Thus at each moment of the memory
 * order at which in_use is 0, the ids are whole. A flag of one bit cannot tell a
 * reader that a full write went by between its two looks at the flag, and ids
 * that agree before and after may have come back meanwhile. So writes are counted:
 *
 *     (acquire) count | (acquire) in_use | high, low, span | fence | count again
 *
 * Let both counts be c. The first look took count from write c, so it sees the
 * flag that this write set before: if in_use is 0, write c or a later one has
 * ended, and its ids are seen. An id of a later write would, by the two fences,
 * show that write's count in the second look. So the ids are those of write c.
 * It fails only where 2^32 writes go by between the two looks.
 *
 * The count lies in what is padding for readers of the flag alone: they see what
 * they saw before, and what holds for ids, flag, ids. It is the slot's, not the
 * thread's: a later thread with the same id goes on with it.
 *
 * Signal handlers: a handler that calls set() inside of set() finishes first, and
 * the interrupted one goes on in the middle of a mixed slot. So the inner write
 * leaves in_use at 1 (`writing`), and the outer one looks whether anybody wrote
 * since it began (`n_writes`) and if so writes all of its ids again. `writing`
 * falls *before* in_use: a handler between the two does a full write of its own;
 * the other way round it would leave in_use at 1 for good.
 *
 * Memory is never unmapped, nor used for a later ring: a thread may have loaded its slot's address just
 * before the region was withdrawn, and write the rest of its ids however much later. What it leaves there,
 * half of it wiped, lies in a region that nobody reads any more. A stopped ring costs address space only.
 *
 * Fork: the mapping is wiped in the child by the kernel (also after a bare clone,
 * where no handler runs), so that no slot of the parent's threads shows in a
 * process where their ids will be given to others. The handler publishes it again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend.h"
#include "spanprof/ring.h"

#ifndef PR_SET_VMA              /* headers older than Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* A mapping, made at each start and kept for good, so a pointer to it never dangles. */
struct ring {
        /* the one before; nobody goes along it but tools that look for lost memory */
        struct ring *next;
        struct spanprof_ring_header *header;
        struct spanprof_ring_slot *slots;
        uint32_t capacity;
        size_t size_bytes;
};

/* State that a thread remembers, so that set() needs no system call and no division. */
struct thread {
        struct ring *ring;                      /* where `slot` lies; differs from `published` = look again */
        struct spanprof_ring_slot *slot;        /* NULL = nothing is published */
        volatile uint32_t n_writes;
        volatile bool writing;
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static pthread_key_t library_key;
static int library_error;                       /* the result of library_init() */

static pthread_mutex_t ring_lock = PTHREAD_MUTEX_INITIALIZER;   /* start, stop, fork */
static struct ring *ring_list;
static _Atomic(struct ring *) ring_published;

static _Thread_local struct thread this_thread BACKEND_TLS;

static inline void slot_write(struct thread *thread, struct spanprof_ring_slot *slot, uint64_t high,
                              uint64_t low, uint64_t span) {
        bool nested = thread->writing;
        uint32_t n;

        thread->writing = true;
        do {
                n = thread->n_writes + 1;
                thread->n_writes = n;
                __atomic_store_n(&slot->in_use, 1, __ATOMIC_RELAXED);
                __atomic_store_n(&slot->n_writes, __atomic_load_n(&slot->n_writes, __ATOMIC_RELAXED) + 1,
                                 __ATOMIC_RELEASE);
                __atomic_thread_fence(__ATOMIC_RELEASE);
                __atomic_store_n(&slot->trace_id_high, high, __ATOMIC_RELAXED);
                __atomic_store_n(&slot->trace_id_low, low, __ATOMIC_RELAXED);
                __atomic_store_n(&slot->span_id, span, __ATOMIC_RELAXED);
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
        } while (thread->n_writes != n);
        if (nested)
                return;
        thread->writing = false;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(&slot->in_use, 0, __ATOMIC_RELEASE);
}

/* The first set() of a thread, or the first one since the region changed. */
static __attribute__((__noinline__)) void thread_attach(struct thread *thread, struct ring *ring) {
        thread->slot = ring ? &ring->slots[(uint32_t)syscall(SYS_gettid) % ring->capacity] : NULL;
        /* A handler that reads in between must not take the slot of the ring before for one of this. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        thread->ring = ring;
        if (ring)
                pthread_setspecific(library_key, thread);
}

/*
 * Destructor of the key. A later destructor may call set() again: that attaches again, and this runs again.
 */
static void thread_exit(void *data) {
        struct thread *thread = data;

        if (thread->slot)
                slot_write(thread, thread->slot, 0, 0, 0);
        thread->slot = NULL;
        thread->ring = NULL;
}

void spanprof_context_set(uint64_t trace_high, uint64_t trace_low, uint64_t span) {
        struct thread *thread = &this_thread;
        struct ring *ring = atomic_load_explicit(&ring_published, memory_order_acquire);

        if (__builtin_expect(thread->ring != ring, 0))
                thread_attach(thread, ring);
        if (thread->slot)
                slot_write(thread, thread->slot, trace_high, trace_low, span);
        else
                context_set_elsewhere(trace_high, trace_low, span);
}

/* As above for reader 2. */
static bool slot_read(const struct spanprof_ring_slot *slot, struct backend_ids *ids) {
        uint32_t n_writes = __atomic_load_n(&slot->n_writes, __ATOMIC_ACQUIRE);

        if (__atomic_load_n(&slot->in_use, __ATOMIC_ACQUIRE))
                return false;
        ids->high = __atomic_load_n(&slot->trace_id_high, __ATOMIC_RELAXED);
        ids->low = __atomic_load_n(&slot->trace_id_low, __ATOMIC_RELAXED);
        ids->span = __atomic_load_n(&slot->span_id, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return (ids->high | ids->low | ids->span) &&
               __atomic_load_n(&slot->n_writes, __ATOMIC_RELAXED) == n_writes;
}

/*
 * A slot that was wiped while its thread wrote has a part of that write, and no flag. So half of a context, a
 * span without any trace or a trace without a span, is none of another thread.
 */
bool ring_read(uint32_t tid, struct backend_ids *ids) {
        struct ring *ring = atomic_load_explicit(&ring_published, memory_order_acquire);

        return ring && slot_read(&ring->slots[tid % ring->capacity], ids) && ids->span &&
                (ids->high | ids->low);
}

bool ring_read_own(struct backend_ids *ids) {
        struct ring *ring = atomic_load_explicit(&ring_published, memory_order_acquire);
        const struct thread *thread = &this_thread;
        const struct spanprof_ring_slot *slot;

        if (!ring || thread->ring != ring)
                return false;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        slot = thread->slot;
        return slot && slot_read(slot, ids);
}

/* The name is for readers' convenience: kernels without named memory refuse it, and readers scan instead. */
static void ring_name(const struct ring *ring, const char *name) {
        (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)ring->header, ring->size_bytes,
                    (unsigned long)name);
}

/*
 * The version comes last: a scan that meets the header before sees version 0, and no half header looks right.
 */
static void ring_publish(struct ring *ring) {
        ring->header->magic = SPANPROF_RING_MAGIC;
        ring->header->capacity = ring->capacity;
        ring->header->slot_size = SPANPROF_RING_SLOT_SIZE;
        __atomic_store_n(&ring->header->version, SPANPROF_RING_VERSION, __ATOMIC_RELEASE);
        atomic_store_explicit(&ring_published, ring, memory_order_release);
}

/* Gives the memory back: header and slots read as zero from here on. */
static void ring_wipe(struct ring *ring) {
        (void)madvise(ring->header, ring->size_bytes, MADV_DONTNEED);
}

static int ring_map(struct ring *ring) {
        void *memory;

        memory = mmap(NULL, ring->size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
                return -errno;
        /* Slots of a few threads must not cost a huge page each. Refused = works, only larger. */
        (void)madvise(memory, ring->size_bytes, MADV_NOHUGEPAGE);
        (void)madvise(memory, ring->size_bytes, MADV_WIPEONFORK);
        ring->header = memory;
        ring->slots = (struct spanprof_ring_slot *)(ring->header + 1);
        return 0;
}

static int ring_new(struct ring **ringp, uint32_t capacity) {
        struct ring *ring = calloc(1, sizeof(*ring));
        int r;

        if (!ring)
                return -ENOMEM;
        ring->capacity = capacity;
        ring->size_bytes = sizeof(struct spanprof_ring_header) + (size_t)capacity * SPANPROF_RING_SLOT_SIZE;
        r = ring_map(ring);
        if (r) {
                free(ring);
                return r;
        }
        ring->next = ring_list;
        ring_list = ring;
        *ringp = ring;
        return 0;
}

/* Under the lock. */
static int ring_start(uint32_t capacity) {
        struct ring *ring;
        int r;

        if (atomic_load(&ring_published))
                return -EALREADY;
        r = ring_new(&ring, capacity);
        if (r)
                return r;
        ring_name(ring, SPANPROF_RING_NAME);
        ring_publish(ring);
        return 0;
}

static void fork_prepare(void) {
        pthread_mutex_lock(&ring_lock);
}

static void fork_parent(void) {
        pthread_mutex_unlock(&ring_lock);
}

/* The only thread of the child is this one; it has a new id, so its slot is another. */
static void fork_child(void) {
        struct ring *ring = atomic_load(&ring_published);

        this_thread.ring = NULL;
        this_thread.slot = NULL;
        if (ring) {
                ring_wipe(ring);
                ring_publish(ring);
        }
        pthread_mutex_unlock(&ring_lock);
}

static void library_init(void) {
        library_error = pthread_key_create(&library_key, thread_exit);
        if (!library_error)
                library_error = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* At load: glibc stores the values of its first 32 keys without an allocation, which signal handlers need. */
static __attribute__((__constructor__)) void library_load(void) {
        pthread_once(&library_once, library_init);
}

int ring_publish_new(uint32_t capacity) {
        int r;

        pthread_once(&library_once, library_init);
        if (library_error)
                return -library_error;
        pthread_mutex_lock(&ring_lock);
        r = ring_start(capacity);
        pthread_mutex_unlock(&ring_lock);
        return r;
}

void ring_withdraw(void) {
        struct ring *ring;

        pthread_mutex_lock(&ring_lock);
        ring = atomic_exchange(&ring_published, NULL);
        if (ring) {
                __atomic_store_n(&ring->header->version, 0, __ATOMIC_RELEASE);
                ring_wipe(ring);
                ring_name(ring, NULL);
        }
        pthread_mutex_unlock(&ring_lock);
}
