/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that wants to enter a monitor says so:
 *
 *     ThreadsList ─▶ JavaThread { _osthread, _current_pending_monitor, _stack_base, … }
 *                                               └─▶ ObjectMonitor { _owner, _object } ─▶ object ─▶ Klass
 *
 * Who is the owner, its word says in one of four ways, by release and by how the monitor was taken:
 *
 *     the JavaThread's address       it has waited for the monitor, or taken it while others did
 *     an address in its stack        it had the object locked by a record there, as until JDK 22
 *     a number of the thread         JDK 24 and later (_monitor_owner_id); of virtual threads, too
 *     1                              it has the object in its LockStack, and will put its name in
 *
 * A parked thread's java.lang.Thread has the object that it waits for: parkBlocker. One that extends
 * AbstractOwnableSynchronizer has an owner: exclusiveOwnerThread, a java.lang.Thread as well.
 *
 * A virtual thread that does not run has no thread of the kernel: as an owner it is not known.
 */
#include "host/runtime/hotspot/hotspot-locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-class.h"
#include "host/runtime/hotspot/hotspot-object.h"

enum {
        MAX_THREADS = 4096,
        LOCK_STACK_PLACES = 8,
        OWNER_IN_LOCK_STACK = 1,
};

typedef struct Thread {
        uint64_t address;               /* JavaThread */
        uint64_t pending, waiting;      /* ObjectMonitor */
        uint64_t stack_low, stack_high;
        uint64_t object, virtual_object;        /* java.lang.Thread; 0 = not known, or none */
        uint64_t owner_id;
        uint32_t tid;                   /* 0 = it has not begun, or has ended */
} Thread;

typedef struct Look {
        const HotspotLayout *layout;
        const HotspotReader *reader;
        uint64_t bias;
        HotspotObjects objects;
        const char *obstacle;           /* why objects cannot be read; NULL = they can */
        Thread *threads;                /* MAX_THREADS */
        uint32_t n_threads;
        bool is_cut;                    /* there are more threads */
        bool is_short;                  /* memory of some could not be read */
        RuntimeLocks *result;
} Look;

static uint64_t read_field(const Look *look, HotspotField field, uint64_t address) {
        uint64_t value;

        return hotspot_read_field(look->reader, field, address, &value) ? value : 0;
}

/* A field that is there, unless no more reads are allowed, or the JVM has changed meanwhile. */
static uint64_t read_sure(Look *look, HotspotField field, uint64_t address) {
        uint64_t value;

        if (hotspot_read_field(look->reader, field, address, &value))
                return value;
        look->is_short = true;
        return 0;
}

static uint64_t read_word(Look *look, uint64_t address) {
        return read_sure(look, (HotspotField){ .size = sizeof(uint64_t) }, address);
}

/* ---- threads ---- */

/* A field with an object: the object itself, or, since JDK 16, the address of a word that has it. */
static uint64_t read_object(const Look *look, HotspotField field, uint64_t address) {
        uint64_t value = read_field(look, field, address), object;
        char name[2];

        if (!value || look->obstacle || hotspot_object_name(&look->objects, value, name, sizeof(name)))
                return look->obstacle ? 0 : value;
        return !(value & 7) && hotspot_read_u64(look->reader, value, &object) &&
                hotspot_object_name(&look->objects, object, name, sizeof(name)) ? object : 0;
}

static void take_thread(Look *look, uint64_t address) {
        const HotspotLockLayout *at = &look->layout->locks;
        uint64_t base, size, os_thread;

        if (!address || address & 7 || look->n_threads == MAX_THREADS)
                return;
        base = read_field(look, at->stack_base, address);
        size = read_field(look, at->stack_size, address);
        os_thread = read_sure(look, look->layout->thread.osthread, address);
        look->threads[look->n_threads++] = (Thread){
                .address = address,
                .pending = read_field(look, at->pending, address),
                .waiting = read_field(look, at->waiting, address),
                .stack_low = size <= base ? base - size : base,
                .stack_high = base,
                .object = read_object(look, at->object, address),
                .virtual_object = read_object(look, at->virtual_object, address),
                .owner_id = read_field(look, at->owner_id, address),
                .tid = os_thread ? (uint32_t)read_sure(look, look->layout->thread.thread_id, os_thread) : 0,
        };
}

static void take_list(Look *look) {
        const HotspotLockLayout *at = &look->layout->locks;
        uint64_t list = read_word(look, look->bias + at->threads), array;
        uint32_t n;

        if (!list)
                return;
        n = (uint32_t)read_sure(look, at->n_threads, list);
        array = read_sure(look, at->thread_array, list);
        for (uint32_t i = 0; i < MIN(n, (uint32_t)MAX_THREADS); i++)
                take_thread(look, read_word(look, array + (uint64_t)i * 8));
        look->is_cut = n > MAX_THREADS;
}

static void take_chain(Look *look) {
        const HotspotLockLayout *at = &look->layout->locks;
        uint64_t thread = read_word(look, look->bias + at->first_thread);

        for (uint32_t i = 0; thread && i < MAX_THREADS; i++) {
                take_thread(look, thread);
                thread = read_sure(look, at->next_thread, thread);
        }
        look->is_cut = thread != 0;
}

/* ---- owners ---- */

/* Whether the thread has @object in its LockStack. */
static bool has_in_lock_stack(const Look *look, const Thread *thread, uint64_t object) {
        const HotspotLockLayout *at = &look->layout->locks;
        uint64_t first = (uint64_t)at->lock_stack.offset + at->lock_base.offset, place;
        uint64_t top = read_field(look, at->lock_top, thread->address + at->lock_stack.offset);

        if (!at->lock_stack.size || !at->lock_base.size || top < first ||
            top > first + LOCK_STACK_PLACES * 8)
                return false;
        for (uint64_t offset = first; offset < top; offset += 8)
                if (hotspot_read_u64(look->reader, thread->address + offset, &place) && place == object)
                        return true;
        return false;
}

static bool owns_monitor(const Look *look, const Thread *thread, uint64_t owner, uint64_t object) {
        if (owner == OWNER_IN_LOCK_STACK)
                return object && has_in_lock_stack(look, thread, object);
        if (look->layout->locks.owner_id.size)
                return thread->owner_id == owner;
        return thread->address == owner || (owner >= thread->stack_low && owner < thread->stack_high);
}

/* Two threads that would both have it are none. */
static void take_owner(uint32_t *ownerp, bool *is_takenp, const Thread *thread) {
        *ownerp = *is_takenp ? 0 : thread->tid;
        *is_takenp = true;
}

static uint32_t find_monitor_owner(const Look *look, uint64_t monitor, uint64_t object) {
        uint64_t owner = read_field(look, look->layout->locks.monitor_owner, monitor);
        bool is_taken = false;
        uint32_t tid = 0;

        for (uint32_t i = 0; owner && i < look->n_threads; i++)
                if (owns_monitor(look, &look->threads[i], owner, object))
                        take_owner(&tid, &is_taken, &look->threads[i]);
        return tid;
}

static uint32_t find_thread(const Look *look, uint64_t object) {
        bool is_taken = false;
        uint32_t tid = 0;

        for (uint32_t i = 0; object && i < look->n_threads; i++)
                if (look->threads[i].object == object || look->threads[i].virtual_object == object)
                        take_owner(&tid, &is_taken, &look->threads[i]);
        return tid;
}

/* ---- what a thread waits for ---- */

static void add(const Look *look, const Thread *thread, RuntimeLockKind kind, uint64_t address,
                uint64_t object, uint32_t owner) {
        RuntimeLocks *result = look->result;
        RuntimeLock *lock = &result->locks[result->n];

        if (result->n == RUNTIME_MAX_LOCKS) {
                result->n_over_cap++;
                return;
        }
        memset(lock, 0, sizeof(*lock));
        lock->address = address;
        lock->tid = thread->tid;
        lock->owner = owner == thread->tid ? 0 : owner;
        lock->kind = kind;
        if (object)
                hotspot_object_name(&look->objects, object, lock->name, sizeof(lock->name));
        result->n++;
}

static void add_monitor(const Look *look, const Thread *thread, RuntimeLockKind kind, uint64_t monitor) {
        uint64_t object = read_object(look, look->layout->locks.monitor_object, monitor);

        add(look, thread, kind, monitor, object,
            kind == RUNTIME_LOCK_MONITOR ? find_monitor_owner(look, monitor, object) : 0);
}

/* A field of the class called @class, which @object's class is or extends; 0 = none. */
static uint64_t read_reference(const Look *look, uint64_t object, const char *class, const char *field) {
        uint64_t klass = hotspot_class_find(look->layout, look->reader,
                                            hotspot_object_klass(&look->objects, object), class);
        uint16_t offset = 0;
        const HotspotClassField wanted = { field, &offset };

        if (klass)
                hotspot_class_fields(look->layout, look->reader, klass, &wanted, 1);
        return offset ? hotspot_object_reference(&look->objects, object, offset) : 0;
}

static void add_parked(const Look *look, const Thread *thread) {
        uint64_t blocker = read_reference(look, thread->object, "java/lang/Thread", "parkBlocker"), owner;

        if (!blocker)
                return;
        owner = read_reference(look, blocker, "java/util/concurrent/locks/AbstractOwnableSynchronizer",
                               "exclusiveOwnerThread");
        add(look, thread, RUNTIME_LOCK_PARKED, blocker, blocker, find_thread(look, owner));
}

/* What a thread waits for. At the end the first word on the way to it tells if reads are still allowed. */
static void add_lock(Look *look, const Thread *thread) {
        uint64_t monitor = thread->pending ? thread->pending : thread->waiting;

        if (thread->pending)
                add_monitor(look, thread, RUNTIME_LOCK_MONITOR, thread->pending);
        else if (thread->waiting)
                add_monitor(look, thread, RUNTIME_LOCK_NOTIFY, thread->waiting);
        else if (thread->object)
                add_parked(look, thread);
        if (monitor)
                read_sure(look, look->layout->locks.monitor_owner, monitor);
        else if (thread->object && !hotspot_object_klass(&look->objects, thread->object))
                look->is_short = true;
}

/* ---- the whole ---- */

static const char *find_absent(const HotspotLayout *layout) {
        const HotspotLockLayout *at = &layout->locks;

        if (!(at->threads && at->n_threads.size && at->thread_array.size) &&
            !(at->first_thread && at->next_thread.size))
                return "ThreadsSMRSupport::_java_thread_list";
        if (!layout->thread.osthread.size || !layout->thread.thread_id.size)
                return "Thread::_osthread";
        if (!at->pending.size)
                return "JavaThread::_current_pending_monitor";
        if (!at->monitor_owner.size || !at->monitor_object.size)
                return "ObjectMonitor::_owner";
        return NULL;
}

/* Whole threads that are left out are said rather than classes that are. */
static void say(const Look *look, const char *absent) {
        RuntimeLocks *locks = look->result;
        unsigned version = look->layout->version;

        if (absent)
                snprintf(locks->text, sizeof(locks->text), "java %u: no locks are read: %s is not known", version,
                         absent);
        else if (look->is_cut)
                snprintf(locks->text, sizeof(locks->text),
                         "java %u: locks of threads after the first %d are not read", version, MAX_THREADS);
        else if (look->is_short)
                snprintf(locks->text, sizeof(locks->text), "java %u: locks of some threads could not be read",
                         version);
        else if (look->obstacle)
                snprintf(locks->text, sizeof(locks->text),
                         "java %u, %s: classes of locks are not read, nor owners of java.util.concurrent's",
                         version, look->obstacle);
}

void hotspot_locks_read(RuntimeLocks *locks, const HotspotLayout *layout, const HotspotReader *reader,
                        uint64_t bias) {
        Look look = { .layout = layout, .reader = reader, .bias = bias, .result = locks };
        const char *absent = find_absent(layout);

        locks->n = locks->n_over_cap = 0;
        memset(locks->text, 0, sizeof(locks->text));
        look.threads = absent ? NULL : calloc(MAX_THREADS, sizeof(*look.threads));
        if (!absent && !look.threads)
                return;
        if (!absent) {
                look.obstacle = hotspot_objects_init(&look.objects, layout, reader, bias);
                if (layout->locks.threads)
                        take_list(&look);
                else
                        take_chain(&look);
        }
        for (uint32_t i = 0; i < look.n_threads; i++)
                if (look.threads[i].tid)
                        add_lock(&look, &look.threads[i]);
        say(&look, absent);
        free(look.threads);
}
