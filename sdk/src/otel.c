/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writer of Thread and Process Contexts
 *
 * Every thread has a record in a page of its own, which the thread-local pointer
 * otel_thread_ctx_v1 leads to. Readers look while the thread is interrupted, so what counts is the order in
 * which the thread's own instructions reach the record:
 *
 *     valid = 0 | ids, attributes | valid = 1
 *
 * with compiler fences between them: an interrupt falls between two instructions and sees all stores before
 * it. No fence of the processor is needed, since nobody reads from another CPU. A signal handler that sets a
 * context inside of set() leaves valid at 0; the outer set() sees by `n_writes` that somebody wrote, and
 * writes its own again.
 *
 * A name that comes late must reach other threads, too. No thread writes to a record that another one's
 * readers may look at: rename_other() keeps that thread from writing (is_blocked, which costs the thread a
 * load), copies its record with the other name to the next place in its page, and leads its pointer there.
 *
 * The process context is one page of a memfd named OTEL_CTX, mapped private. An update stores the time 0,
 * then the rest, then a new time, with fences of the processor: its readers run on other CPUs.
 *
 * A child must not say what its parent said of itself, so the kernel leaves that page out of it, also after a
 * bare clone, where no handler runs. The handler of fork() maps a new page there, with the payload that the
 * child has in its copy of the heap, and a time of its own. A second page, which the kernel wipes in a child,
 * says whether the first one is mapped: ids of processes could not, since two parents may both be process 1.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dl_iterate_phdr() */
#endif
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "spanprof/otel.h"
#include "spanprof/process.h"
#include "spanprof/thread.h"

#ifndef PR_SET_VMA              /* headers older than Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { PAGE = 4096 };

/* Published where a process names no keys. The process context only ever grows at their end. */
enum { N_NAME_KEYS = 2 };
static const char *const name_keys[N_NAME_KEYS] = {
        [SPANPROF_OTEL_KEY_NAME] = "span.name",
        [SPANPROF_OTEL_KEY_ROUTE] = "http.route",
};

/* The variable that readers find by its name. */
SPANPROF_PUBLIC _Thread_local struct spanprof_thread_record *otel_thread_ctx_v1 BACKEND_TLS;

struct record {
        struct spanprof_thread_record head;
        uint8_t attributes[SPANPROF_THREAD_MAX_ATTRIBUTES];
};

enum { N_RECORDS = 6 };         /* as many as a page has room for */

/* The page of a thread. It writes to one record; another one takes turns when other threads rename it. */
struct thread {
        struct record *now;
        volatile uint32_t n_writes;
        volatile bool writing;
        bool is_listed;
        volatile bool is_blocked;       /* another thread renames: this one waits before it writes */
        uint16_t name_size;             /* bytes of attributes that are the name */
        volatile uint64_t root;         /* number of the local root; 0 = none that has a name */
        struct thread *next, **link;    /* the list of threads that have worked for a root */
        struct spanprof_thread_record **pointer;        /* otel_thread_ctx_v1 of that thread */
        struct record records[N_RECORDS];
};

_Static_assert(sizeof(struct thread) <= PAGE, "a page is enough");

static _Thread_local struct thread *this_thread BACKEND_TLS;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* the process context */
static struct spanprof_process_header *header;  /* NULL = none was mapped yet; see has_header() */
static bool *header_is_here;                    /* in the page that is wiped in a child */
static uint8_t *payload;
static uint32_t payload_size;                   /* 0 = nothing was published yet */
static uint64_t published_ns;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;   /* threads, and who renames */
static struct thread *threads;
static bool keys_are_names = true;      /* the first keys that are published are those of names */

/* ---- threads ---- */

static void thread_exit(void *data) {
        struct thread *thread = data;

        otel_thread_ctx_v1 = NULL;
        this_thread = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (thread->is_listed) {
                pthread_mutex_lock(&list_lock);
                *thread->link = thread->next;
                if (thread->next)
                        thread->next->link = thread->link;
                pthread_mutex_unlock(&list_lock);
        }
        munmap(data, PAGE);
}

/* A thread that other threads may rename. Not for signal handlers. */
static void list(struct thread *thread) {
        pthread_mutex_lock(&list_lock);
        thread->next = threads;
        thread->link = &threads;
        if (threads)
                threads->link = &thread->next;
        threads = thread;
        thread->is_listed = true;
        pthread_mutex_unlock(&list_lock);
}

static void republish(void);

/* The child's only thread works for nobody yet. */
static void fork_child(void) {
        otel_thread_ctx_v1 = NULL;
        republish();
        pthread_mutex_init(&lock, NULL);
        pthread_mutex_init(&list_lock, NULL);
        threads = NULL;
        if (this_thread && this_thread->is_listed)
                list(this_thread);
}

static void fork_prepare(void) {
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&list_lock);
}

static void fork_parent(void) {
        pthread_mutex_unlock(&list_lock);
        pthread_mutex_unlock(&lock);
}

static void init(void) {
        key_error = pthread_key_create(&key, thread_exit);
        if (!key_error)
                key_error = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static __attribute__((__constructor__)) void load(void) {
        pthread_once(&once, init);
}

/* The first set() of a thread. mmap() may be called in a signal handler. */
static __attribute__((__noinline__)) struct thread *attach(void) {
        struct thread *thread;

        if (key_error)
                return NULL;
        thread = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (thread == MAP_FAILED)
                return NULL;
        thread->now = thread->records;
        thread->pointer = &otel_thread_ctx_v1;
        this_thread = thread;
        pthread_setspecific(key, thread);
        return thread;
}

/*
 * Lets a thread that renames this one go on. It may have a lower priority than this one, and the same CPU:
 * then a yield alone would keep it waiting for ever.
 */
static __attribute__((__noinline__)) void wait_for_rename(unsigned n) {
        enum { YIELDS = 10000, MOMENT_NS = 50000 };     /* some ms */
        int error = errno;      /* a signal handler may stand here */

        if (n < YIELDS)
                sched_yield();
        else
                nanosleep(&(struct timespec){ .tv_nsec = MOMENT_NS }, NULL);
        errno = error;
}

/*
 * Return: whether a signal handler has interrupted a write. Else this thread writes from here on, and no
 * other thread does. Nothing orders the two lines for other processors but rename_other(), which makes all of
 * them do it.
 */
static bool begin_write(struct thread *thread) {
        if (thread->writing)
                return true;
        thread->writing = true;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        for (unsigned n = 0; __builtin_expect(thread->is_blocked, 0); n++) {
                __atomic_store_n(&thread->writing, false, __ATOMIC_RELEASE);
                wait_for_rename(n);
                thread->writing = true;
                __atomic_thread_fence(__ATOMIC_SEQ_CST);
        }
        return false;
}

static void end_write(struct thread *thread) {
        __atomic_store_n(&thread->writing, false, __ATOMIC_RELEASE);
}

static void put_be64(uint8_t *to, uint64_t value) {
        value = __builtin_bswap64(value);
        memcpy(to, &value, sizeof(value));
}

/* A signal handler may come by in the middle: until it does not, all is written again. */
static inline void put(struct thread *thread, struct record *record, const struct backend_ids *ids,
                       uint64_t root, const struct spanprof_otel_name *name) {
        uint32_t n;

        do {
                n = thread->n_writes + 1;
                thread->n_writes = n;
                record->head.valid = 0;
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
                put_be64(record->head.trace_id, ids->high);
                put_be64(record->head.trace_id + 8, ids->low);
                put_be64(record->head.span_id, ids->span);
                thread->root = root;
                thread->name_size = name ? name->size : 0;
                if (name)
                        memcpy(record->attributes, name->bytes, name->size);
                record->head.attributes_size = thread->name_size;
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
        } while (thread->n_writes != n);
}

/* Behind the last store, too: a handler that took this write for one that goes on has left valid at 0. */
static inline void set(const struct backend_ids *ids, uint64_t root, const struct spanprof_otel_name *name) {
        struct thread *thread = this_thread ? this_thread : attach();
        uint32_t n;

        if (!thread)
                return;
        do {
                bool nested = begin_write(thread);
                struct record *record = thread->now;

                put(thread, record, ids, root, name);
                if (nested)
                        return;
                n = thread->n_writes;
                otel_thread_ctx_v1 = &record->head;
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
                record->head.valid = 1;
                end_write(thread);
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
        } while (thread->n_writes != n);
}

void spanprof_otel_set(uint64_t trace_high, uint64_t trace_low, uint64_t span) {
        set(&(struct backend_ids){ trace_high, trace_low, span }, 0, NULL);
}

void otel_set_named(uint64_t trace_high, uint64_t trace_low, uint64_t span, uint64_t root,
                    const struct spanprof_otel_name *name) {
        struct thread *thread = this_thread ? this_thread : attach();

        if (thread && !thread->is_listed)
                list(thread);
        set(&(struct backend_ids){ trace_high, trace_low, span }, root, keys_are_names ? name : NULL);
}

const void *otel_this_thread(void) {
        return this_thread;
}

/*
 * A root that one thread alone has worked for needs no look at the others when its name changes.
 * The name is read behind that, so that a change which does not see this thread is seen here.
 */
void spanprof_otel_set_root(uint64_t trace_high, uint64_t trace_low, uint64_t span,
                            struct spanprof_otel_root *root) {
        const void *me = this_thread ? this_thread : attach(), *thread = NULL;
        const struct spanprof_otel_name *name;

        if (!root || !root->number || !me) {
                spanprof_otel_set(trace_high, trace_low, span);
                return;
        }
        if (__atomic_load_n(&root->thread, __ATOMIC_RELAXED) != me &&
            !__atomic_compare_exchange_n(&root->thread, &thread, me, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST) &&
            thread != root)
                __atomic_store_n(&root->thread, (const void *)root, __ATOMIC_SEQ_CST);
        do {
                name = __atomic_load_n(&root->name, __ATOMIC_SEQ_CST);
                otel_set_named(trace_high, trace_low, span, root->number, name);
        } while (name != __atomic_load_n(&root->name, __ATOMIC_SEQ_CST));
}

/* ---- names that come late ---- */

/* @to: like @from, with another name before the other attributes. What does not fit any more is left out. */
static void copy_renamed(struct record *to, const struct record *from, size_t old_size,
                         const struct spanprof_otel_name *name) {
        size_t size = name ? name->size : 0, rest = from->head.attributes_size - old_size;
        struct record made = { .head = from->head };

        if (name)
                memcpy(made.attributes, name->bytes, size);
        if (size + rest > sizeof(made.attributes))
                rest = 0;
        memcpy(made.attributes + size, from->attributes + old_size, rest);
        made.head.attributes_size = (uint16_t)(size + rest);
        *to = made;
}

/* Makes all threads of this process do what they have begun, for those that use no fence themselves. */
static bool fence_all(void) {
        enum { PRIVATE_EXPEDITED = 1 << 3, REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

        if (syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0) == 0)
                return true;
        return errno == EPERM && syscall(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0) == 0 &&
                syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0) == 0;
}

/* The name goes to a record that no reader has been led to for five changes; then the pointer does. */
static void swap_record(struct thread *thread, const struct spanprof_otel_name *name) {
        struct record *from = thread->now, *end = thread->records + N_RECORDS;
        struct record *to = from + 1 < end ? from + 1 : thread->records;
        struct spanprof_thread_record *head = &from->head;

        copy_renamed(to, from, thread->name_size, name);
        /* the thread may have cleared its context meanwhile: that is no write */
        if (!__atomic_compare_exchange_n(thread->pointer, &head, &to->head, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
                return;
        thread->now = to;
        thread->name_size = name ? name->size : 0;
}

/* Under the list's lock. A thread that is stopped in the middle of a write keeps what it has. */
static void rename_other(struct thread *thread, uint64_t root, const struct spanprof_otel_name *name) {
        enum { MAX_TRIES = 1000 };

        thread->is_blocked = true;
        if (fence_all()) {
                for (int i = 0; i < MAX_TRIES && __atomic_load_n(&thread->writing, __ATOMIC_ACQUIRE); i++)
                        sched_yield();
                if (!__atomic_load_n(&thread->writing, __ATOMIC_ACQUIRE) && thread->root == root)
                        swap_record(thread, name);
        }
        __atomic_store_n(&thread->is_blocked, false, __ATOMIC_RELEASE);
}

static void rename_own(struct thread *thread, const struct spanprof_otel_name *name) {
        struct record *record = thread->now;

        if (begin_write(thread))
                return;
        record->head.valid = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        copy_renamed(record, record, thread->name_size, name);
        thread->name_size = name ? name->size : 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        record->head.valid = 1;
        end_write(thread);
}

void otel_rename(uint64_t root, const struct spanprof_otel_name *name, bool everywhere) {
        struct thread *me = this_thread;

        if (!keys_are_names)
                return;
        if (me && me->root == root && otel_thread_ctx_v1)
                rename_own(me, name);
        if (!everywhere)
                return;
        pthread_mutex_lock(&list_lock);
        for (struct thread *thread = threads; thread; thread = thread->next)
                if (thread != me && thread->root == root)
                        rename_other(thread, root, name);
        pthread_mutex_unlock(&list_lock);
}

int spanprof_otel_attribute(uint8_t index, const char *value, size_t size) {
        struct thread *thread = this_thread;
        struct record *record;
        size_t at;
        int r = 0;

        if (!thread || !otel_thread_ctx_v1 || begin_write(thread))
                return -EINVAL;
        record = thread->now;
        at = record->head.attributes_size;
        if (size > UINT8_MAX || at + 2 + size > sizeof(record->attributes)) {
                r = -ENOSPC;
        } else {
                /*
                 * The bytes lie behind what counts until the size says otherwise: two stores, and the second
                 * one is whole.
                 */
                record->attributes[at] = index;
                record->attributes[at + 1] = (uint8_t)size;
                memcpy(record->attributes + at + 2, value, size);
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
                __atomic_store_n(&record->head.attributes_size, (uint16_t)(at + 2 + size), __ATOMIC_RELAXED);
        }
        end_write(thread);
        return r;
}

void spanprof_otel_clear(void) {
        otel_thread_ctx_v1 = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static uint64_t get_be64(const uint8_t *from) {
        uint64_t value;

        memcpy(&value, from, sizeof(value));
        return __builtin_bswap64(value);
}

/* In the thread itself, so only a signal handler can meet a write in progress. */
bool otel_read(struct backend_ids *ids) {
        const struct spanprof_thread_record *record = otel_thread_ctx_v1;

        if (!record || record->valid != SPANPROF_THREAD_VALID)
                return false;
        *ids = (struct backend_ids){ get_be64(record->trace_id), get_be64(record->trace_id + 8),
                                     get_be64(record->span_id) };
        return ids->high | ids->low | ids->span;
}

/* ---- the process ---- */

typedef struct Writer {
        uint8_t *to;
        size_t size, room;
        bool full;
} Writer;

static void put_bytes(Writer *writer, const void *data, size_t size) {
        if (size > writer->room - writer->size)
                writer->full = true;
        else {
                memcpy(writer->to + writer->size, data, size);
                writer->size += size;
        }
}

static void put_varint(Writer *writer, uint64_t value) {
        do {
                uint8_t byte = (uint8_t)(value & 127) | (value > 127 ? 128 : 0);

                put_bytes(writer, &byte, 1);
                value >>= 7;
        } while (value);
}

static size_t varint_size(uint64_t value) {
        size_t n = 1;

        while (value >>= 7)
                n++;
        return n;
}

/* Bytes of a field of the first fifteen with @size bytes in it. */
static size_t field_size(size_t size) {
        return 1 + varint_size(size) + size;
}

static void put_head(Writer *writer, unsigned int number, size_t size) {
        put_varint(writer, number << 3 | 2);
        put_varint(writer, size);
}

static void put_text(Writer *writer, unsigned int number, const char *text) {
        put_head(writer, number, strlen(text));
        put_bytes(writer, text, strlen(text));
}

/* KeyValue { key = 1, value = 2: AnyValue { string_value = 1 } } */
static size_t pair_size(const char *name, const char *value) {
        return field_size(strlen(name)) + field_size(field_size(strlen(value)));
}

static void put_pair(Writer *writer, unsigned int number, const char *name, const char *value) {
        put_head(writer, number, pair_size(name, value));
        put_text(writer, 1, name);
        put_head(writer, 2, field_size(strlen(value)));
        put_text(writer, 1, value);
}

static void put_resource(Writer *writer, const struct spanprof_otel_process *process) {
        size_t size = 0;

        for (size_t i = 0; i < process->n_attributes; i++)
                size += field_size(pair_size(process->attributes[i].key, process->attributes[i].value));
        put_head(writer, 1, size);
        for (size_t i = 0; i < process->n_attributes; i++)
                put_pair(writer, 1, process->attributes[i].key, process->attributes[i].value);
}

/* KeyValue { key, AnyValue { array_value = 5: ArrayValue { values = 1 … } } } */
static void put_keys(Writer *writer, const struct spanprof_otel_process *process) {
        static const char name[] = "threadlocal.attribute_key_map";
        const char *const *keys = process->n_keys ? process->keys : name_keys;
        size_t n = process->n_keys ? process->n_keys : N_NAME_KEYS, size = 0;

        for (size_t i = 0; i < n; i++)
                size += field_size(field_size(strlen(keys[i])));
        put_head(writer, 2, field_size(sizeof(name) - 1) + field_size(field_size(size)));
        put_text(writer, 1, name);
        put_head(writer, 2, field_size(size));
        put_head(writer, 5, size);
        for (size_t i = 0; i < n; i++) {
                put_head(writer, 1, field_size(strlen(keys[i])));
                put_text(writer, 1, keys[i]);
        }
}

/* ---- whether readers find the variable ---- */

/* The table of symbols of a loaded file that other files may use. */
typedef struct Exports {
        const ElfW(Sym) *symbols;
        const char *names;
        const uint32_t *sysv, *gnu;     /* tables of hashes; NULL = has none */
} Exports;

/* glibc has replaced the file's addresses by those in memory, musl has not. */
static const void *place(const struct dl_phdr_info *file, ElfW(Addr) address) {
        return (const void *)(uintptr_t)(address < file->dlpi_addr ? file->dlpi_addr + address : address);
}

static Exports exports(const struct dl_phdr_info *file, const ElfW(Dyn) *entry) {
        Exports found = { 0 };

        for (; entry->d_tag != DT_NULL; entry++) {
                if (entry->d_tag == DT_SYMTAB)
                        found.symbols = place(file, entry->d_un.d_ptr);
                else if (entry->d_tag == DT_STRTAB)
                        found.names = place(file, entry->d_un.d_ptr);
                else if (entry->d_tag == DT_HASH)
                        found.sysv = place(file, entry->d_un.d_ptr);
                else if (entry->d_tag == DT_GNU_HASH)
                        found.gnu = place(file, entry->d_un.d_ptr);
        }
        return found;
}

static bool is_variable(const Exports *exports, uint32_t i) {
        const ElfW(Sym) *symbol = &exports->symbols[i];

        return symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_TLS &&
                strcmp(exports->names + symbol->st_name, SPANPROF_THREAD_SYMBOL) == 0;
}

/* The table: numbers of buckets, of the first symbol in it, of words of a filter; these; buckets; hashes. */
static bool has_variable_gnu(const Exports *exports) {
        const uint32_t *table = exports->gnu, n_buckets = table[0], first = table[1];
        const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(*table));
        const uint32_t *hashes = buckets + n_buckets;
        uint32_t hash = 5381, i;

        for (const char *c = SPANPROF_THREAD_SYMBOL; *c; c++)
                hash = hash * 33 + (uint8_t)*c;
        i = n_buckets ? buckets[hash % n_buckets] : 0;
        if (i < first)
                return false;
        for (;; i++) {
                if ((hashes[i - first] | 1) == (hash | 1) && is_variable(exports, i))
                        return true;
                if (hashes[i - first] & 1)
                        return false;
        }
}

static bool has_variable(const Exports *exports) {
        if (!exports->symbols || !exports->names)
                return false;
        if (exports->gnu)
                return has_variable_gnu(exports);
        for (uint32_t i = 1; exports->sysv && i < exports->sysv[1]; i++)
                if (is_variable(exports, i))
                        return true;
        return false;
}

static int look_for_variable(struct dl_phdr_info *file, size_t size, void *data) {
        const ElfW(Dyn) *dynamic = NULL;
        bool has_tls = false;
        Exports found;

        (void)size, (void)data;
        for (unsigned i = 0; i < file->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &file->dlpi_phdr[i];

                has_tls = has_tls || part->p_type == PT_TLS;
                if (part->p_type == PT_DYNAMIC)
                        dynamic = (const void *)(uintptr_t)(file->dlpi_addr + part->p_vaddr);
        }
        if (!has_tls || !dynamic)
                return 0;
        found = exports(file, dynamic);
        return has_variable(&found);
}

/*
 * Readers look in each file of the process for a symbol that it exports. A program that has this library
 * linked in exports it only if its linker was told to. dlsym() does not tell: it leaves out what a plugin has
 * for itself.
 */
static bool is_variable_found(void) {
        return dl_iterate_phdr(look_for_variable, NULL);
}

/* ---- the header ---- */

static uint64_t boottime_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* A child that was made without handlers has the addresses, and none of the memory. */
static bool has_header(void) {
        return header && *header_is_here;
}

/* A memfd's size is a file's: where the limit is lower, a signal would end the process. */
static int make_memfd(void) {
        struct rlimit limit;
        int fd;

        if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < PAGE)
                return -1;
        fd = (int)syscall(SYS_memfd_create, SPANPROF_PROCESS_NAME, 3U /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
        if (fd >= 0 && ftruncate(fd, PAGE)) {
                close(fd);
                return -1;
        }
        return fd;
}

/* A memfd's name shows on every kernel; where there are none, a reader finds the page by its signature. */
static void *map_page(int fd) {
        int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
        void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

        return page == MAP_FAILED ? NULL : page;
}

/*
 * What a process needs once, and a child has, too. Before Linux 4.14 no page is wiped: then a child keeps the
 * header and publishes in it.
 */
static int prepare(void) {
        payload = payload ? payload : malloc(SPANPROF_PROCESS_MAX_PAYLOAD);
        header_is_here = header_is_here ? header_is_here : map_page(-1);
        return payload && header_is_here ? 0 : -ENOMEM;
}

/* Called in a child of fork(), too: system calls alone. */
static int map_header(void) {
        int fd = make_memfd();

        header = map_page(fd);
        if (fd >= 0)
                close(fd);
        if (!header)
                return -ENOMEM;
        if (!madvise(header_is_here, PAGE, MADV_WIPEONFORK))
                (void)madvise(header, PAGE, MADV_DONTFORK);
        (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)header, (unsigned long)PAGE,
                    (unsigned long)SPANPROF_PROCESS_NAME);
        *header_is_here = true;
        return 0;
}

/* @from: NULL = the payload stays as it is. */
static void publish(const uint8_t *from, size_t size) {
        uint64_t now_ns = boottime_ns();

        published_ns = now_ns > published_ns ? now_ns : published_ns + 1;
        __atomic_store_n(&header->published_ns, 0, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (from)
                memcpy(payload, from, size);
        payload_size = (uint32_t)size;
        memcpy(header->signature, SPANPROF_PROCESS_SIGNATURE, sizeof(header->signature));
        header->version = SPANPROF_PROCESS_VERSION;
        header->payload_size = payload_size;
        header->payload = (uintptr_t)payload;
        __atomic_store_n(&header->published_ns, published_ns, __ATOMIC_RELEASE);
}

/* A child says the same at a later time; without memory for a header, nothing. */
static void republish(void) {
        if (payload_size && (has_header() || map_header() == 0))
                publish(NULL, payload_size);
}

/* Indexes of names mean what they say if no keys are given, or those two come first. */
static bool has_name_keys(const struct spanprof_otel_process *process) {
        for (size_t i = 0; i < N_NAME_KEYS && process->n_keys; i++)
                if (i >= process->n_keys || strcmp(process->keys[i], name_keys[i]) != 0)
                        return false;
        return true;
}

int spanprof_otel_publish(const struct spanprof_otel_process *process) {
        Writer writer = { .to = malloc(SPANPROF_PROCESS_MAX_PAYLOAD), .room = SPANPROF_PROCESS_MAX_PAYLOAD };
        int r = 0;

        if (!writer.to)
                return -ENOMEM;
        put_resource(&writer, process);
        if (is_variable_found()) {
                put_pair(&writer, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
                put_keys(&writer, process);
        }
        pthread_mutex_lock(&lock);
        if (writer.full || process->size < sizeof(*process))
                r = writer.full ? -E2BIG : -EINVAL;
        else
                r = prepare();
        if (!r && !has_header())
                r = map_header();
        if (!r) {
                keys_are_names = has_name_keys(process);
                publish(writer.to, writer.size);
        }
        pthread_mutex_unlock(&lock);
        free(writer.to);
        return r;
}

int otel_publish_empty(void) {
        struct spanprof_otel_process process = { .size = sizeof(process) };
        bool published;

        pthread_mutex_lock(&lock);
        published = has_header();
        pthread_mutex_unlock(&lock);
        return published ? 0 : spanprof_otel_publish(&process);
}
