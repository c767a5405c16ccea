/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A thread that waits for a lock is in a call of C, and the frame of the function that made the call has the
 * lock, or a method that is bound to it, among its locals or on its stack:
 *
 *     thread state ─▶ frame { code, previous, …, localsplus }
 *                                                 ├─▶ _thread.RLock { type, lock, owner, count }
 *                                                 └─▶ builtin_function_or_method { type, …, self } ─▶ RLock
 *
 * Behind the top of the stack lie older values, and some are no objects any more. But a thread that waits
 * does so on a word of its lock, a semaphore, which the kernel knows: that lock it is, if the object is
 * alive. A freed one has no count of references: what lies there then is NULL, or an address.
 *
 * Threads have names, too, which the kernel does not know before 3.14. The outermost function of one that
 * `threading` has made is Thread._bootstrap, and its first local is the Thread. Where an object has the value
 * of `_name`, the keys say that its class has for all of them:
 *
 *     type { …, cached keys } ─▶ { 32 bytes, indexes, entries: { "_target", – } { "_name", – } … }
 *     3.11, 3.12    values, or a dict, stand in front of the object      3.13   behind it, if it has no dict
 *
 * From 3.14 on a thread waits on a word of its own, so that nothing tells which lock it is.
 */
#include "host/runtime/python/python-locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "host/runtime/python/python-text.h"

enum {
        FIRST_RELEASE = 0x030b,         /* thread states have the kernel's id of their thread */
        LAST_RELEASE = 0x030d,
        FRAME_LOCALS = 72,              /* of an interpreter's frame in these releases */
        MAX_LOCALS = 48,                /* words of a frame that are looked at */
        MAX_INTERPRETERS = 64,
        MAX_THREADS = 4096,
        MAX_READS = 200000,             /* memory may lead in circles; a thread takes some hundred */
        MAX_NAME = 32,
        MAX_FRAMES = 512,
        MAX_KEYS = 64,
        /* a type: how large its objects are, and where its cached keys may be */
        TYPE_SIZE = 32, TYPE_KEYS = 848, TYPE_KEYS_PLACES = 10,
        KEYS_HEAD = 32, KEYS_INDEX_SHIFT = 8, KEYS_N = 3, KEYS_IS_TEXT = 16,
        /* in front of an object: 3.11 has both words */
        BEFORE_VALUES = 32, BEFORE_DICT = 24,
        INLINE_VALUES = 8,              /* 3.13: bytes in front of the values behind an object */
        PAGE = 4096,
        N_PAGES = 64,                   /* pages that a look keeps */
};

/* Objects of these releases, in words. */
enum {
        OBJECT_COUNT, OBJECT_TYPE,
        METHOD_SELF = 3,
        LOCK_LOCK = 2, LOCK_OWNER = 3, LOCK_COUNT = 4,
        N_WORDS,
};

static const char lock_name[] = "_thread.lock", owned_name[] = "_thread.RLock";
static const char method_name[] = "builtin_function_or_method";

typedef enum Kind { KIND_OTHER, KIND_LOCK, KIND_OWNED, KIND_METHOD } Kind;

typedef struct Thread {
        uint64_t address;               /* of its state */
        uint64_t ident;                 /* by which an RLock knows its owner */
        uint32_t tid;
} Thread;

typedef struct Look {
        const PythonReader *reader;
        const PythonLayout *layout;
        RuntimeLocks *result;
        uint64_t types[KIND_METHOD + 1];        /* those that were met; 0 = not yet */
        uint64_t interpreters;          /* address of the first one's address */
        Thread *threads;                /* MAX_THREADS, of all interpreters */
        uint32_t n_threads;
        bool is_cut;                    /* there are more */
        uint32_t *n_reads;
} Look;

/* ---- pages that are kept ---- */

/* Objects of one thread lie close together, and each call for memory costs as much as a page does. */
typedef struct Pages {
        const PythonReader *source;
        struct {
                uint64_t address;       /* 0 = none */
                uint8_t bytes[PAGE];
        } pages[N_PAGES];
} Pages;

/* Return: the page at @address; NULL = not all of it can be read. */
static const uint8_t *get_page(Pages *pages, uint64_t address) {
        size_t at = address / PAGE % N_PAGES;

        if (pages->pages[at].address == address)
                return pages->pages[at].bytes;
        pages->pages[at].address = 0;
        if (!python_reader_read(pages->source, address, pages->pages[at].bytes, PAGE))
                return NULL;
        pages->pages[at].address = address;
        return pages->pages[at].bytes;
}

/* As PythonReader.read. What lies in no whole page is read as it is asked for. */
static bool read_paged(void *userdata, uint64_t address, void *to, size_t size) {
        size_t offset = address % PAGE, n = MIN(size, PAGE - offset);
        const uint8_t *page = address >= PAGE ? get_page(userdata, address - offset) : NULL;

        if (!page)
                return python_reader_read(((Pages *)userdata)->source, address, to, size);
        memcpy(to, page + offset, n);
        return n == size || read_paged(userdata, address + n, (char *)to + n, size - n);
}

/* ---- words ---- */

static bool read_words(const Look *look, uint64_t address, uint64_t *words, size_t n) {
        return address >= PAGE && !(address & 7) && !(address >> RUNTIME_KIND_SHIFT) &&
                (*look->n_reads)++ < MAX_READS &&
                python_reader_read(look->reader, address, words, n * sizeof(*words));
}

static uint64_t read_word(const Look *look, uint64_t address) {
        uint64_t word;

        return read_words(look, address, &word, 1) ? word : 0;
}

/* ---- objects ---- */

static Kind kind_of(Look *look, uint64_t type) {
        static const char *const names[] = { [KIND_LOCK] = lock_name, [KIND_OWNED] = owned_name,
                                             [KIND_METHOD] = method_name };
        uint64_t address;
        char name[MAX_NAME];

        for (Kind kind = KIND_LOCK; type && kind <= KIND_METHOD; kind++)
                if (look->types[kind] == type)
                        return kind;
        if (!type || type & 7)
                return KIND_OTHER;
        address = read_word(look, type + look->layout->type_name);
        if (!address || !python_reader_read(look->reader, address, name, sizeof(name)))
                return KIND_OTHER;
        for (Kind kind = KIND_LOCK; kind <= KIND_METHOD; kind++)
                if (!strncmp(name, names[kind], sizeof(name))) {
                        look->types[kind] = type;
                        return kind;
                }
        return KIND_OTHER;
}

/* A lock that @value is, or is bound to. Return: whether it is one; then its words. */
static bool read_lock(Look *look, uint64_t value, uint64_t words[N_WORDS], Kind *kindp) {
        for (unsigned i = 0; i < 2; i++) {
                if (!read_words(look, value, words, N_WORDS) || !words[OBJECT_COUNT] ||
                    words[OBJECT_COUNT] > UINT32_MAX)
                        return false;
                *kindp = kind_of(look, words[OBJECT_TYPE]);
                if (*kindp != KIND_METHOD)
                        return *kindp != KIND_OTHER;
                value = words[METHOD_SELF];
        }
        return false;
}

/* ---- names of threads ---- */

static bool is_text(const Look *look, uint64_t object, const char *text) {
        char found[PYTHON_MAX_TEXT];

        return object && !(object & 7) &&
                python_text_read(look->reader, look->layout, object, UINT64_MAX, found) &&
                !strcmp(found, text);
}

/* Where values of the attribute stand among those of an object of @type; -1 = it is not known. */
static int find_key(const Look *look, uint64_t type, const char *name) {
        uint64_t places[TYPE_KEYS_PLACES], head[KEYS_N + 1], entry;

        if (!read_words(look, type + TYPE_KEYS, places, TYPE_KEYS_PLACES))
                return -1;
        for (size_t i = 0; i < TYPE_KEYS_PLACES; i++) {
                if (!read_words(look, places[i], head, KEYS_N + 1) || !(head[1] >> KEYS_IS_TEXT & 0xff))
                        continue;
                entry = places[i] + KEYS_HEAD + (UINT64_C(1) << (head[1] >> KEYS_INDEX_SHIFT & 31));
                for (uint64_t k = 0; k < MIN(head[KEYS_N], (uint64_t)MAX_KEYS); k++)
                        if (is_text(look, read_word(look, entry + k * 16), name))
                                return (int)k;
        }
        return -1;
}

/* Address of the values of the object; 0 = it has a dict instead, or none. */
static uint64_t find_values(const Look *look, uint64_t object, uint64_t type) {
        uint64_t before = read_word(look, object - BEFORE_DICT);

        if (look->layout->version == FIRST_RELEASE)
                return before ? 0 : read_word(look, object - BEFORE_VALUES);
        if (look->layout->version < LAST_RELEASE)
                return before & 1 ? before + 1 : 0;
        return before ? 0 : object + read_word(look, type + TYPE_SIZE) + INLINE_VALUES;
}

static bool read_name(const Look *look, uint64_t thread, char name[PYTHON_MAX_TEXT]) {
        uint64_t head[2], values, text;
        int key;

        if (!read_words(look, thread, head, 2))
                return false;
        key = find_key(look, head[OBJECT_TYPE], "_name");
        values = key >= 0 ? find_values(look, thread, head[OBJECT_TYPE]) : 0;
        text = values ? read_word(look, values + (uint64_t)key * 8) : 0;
        return text && !(text & 7) && python_text_read(look->reader, look->layout, text, UINT64_MAX, name);
}

/* The Thread of a thread whose first frame is @frame; 0 = `threading` has not made it. */
static uint64_t find_thread(const Look *look, uint64_t frame) {
        uint64_t bottom = 0;

        for (unsigned i = 0; frame && i < MAX_FRAMES; i++) {
                uint64_t code = read_word(look, frame + look->layout->code);

                if (code && is_text(look, read_word(look, code + look->layout->name), "Thread._bootstrap"))
                        bottom = frame;
                frame = read_word(look, frame + look->layout->previous);
        }
        return bottom ? read_word(look, bottom + FRAME_LOCALS) : 0;
}

static void add_name(const Look *look, uint32_t tid, uint64_t frame) {
        RuntimeLocks *result = look->result;
        RuntimeLock *lock = &result->locks[result->n];
        uint64_t thread = result->n < RUNTIME_MAX_LOCKS ? find_thread(look, frame) : 0;
        char name[PYTHON_MAX_TEXT];

        if (!thread || !read_name(look, thread, name))
                return;
        *lock = (RuntimeLock){ .address = thread, .tid = tid, .kind = RUNTIME_LOCK_NONE };
        memcpy(lock->name, name, text_cut_utf8(name, sizeof(lock->name) - 1));
        result->n++;
}

/* ---- threads ---- */

/* The kernel's id of the thread that Python knows as @ident; 0 = there is none. */
static uint32_t native_id(const Look *look, uint64_t ident) {
        for (uint32_t i = 0; ident && i < look->n_threads; i++)
                if (look->threads[i].ident == ident)
                        return look->threads[i].tid;
        return 0;
}

/* Whether it was added for this thread already: a lock is a local, and bound to a method on the stack. */
static bool is_known(const Look *look, uint32_t tid, uint64_t futex) {
        const RuntimeLocks *result = look->result;

        for (uint32_t i = result->n; i-- && result->locks[i].tid == tid;)
                if (result->locks[i].futex == futex)
                        return true;
        return false;
}

static void add(Look *look, uint32_t tid, const uint64_t words[N_WORDS], Kind kind) {
        RuntimeLocks *result = look->result;
        RuntimeLock *lock = &result->locks[result->n];
        const char *name = kind == KIND_OWNED ? owned_name : lock_name;
        uint32_t owner;

        if (!words[LOCK_LOCK] || is_known(look, tid, words[LOCK_LOCK]))
                return;
        if (result->n == RUNTIME_MAX_LOCKS) {
                result->n_over_cap++;
                return;
        }
        memset(lock, 0, sizeof(*lock));
        owner = kind == KIND_OWNED && words[LOCK_COUNT] ? native_id(look, words[LOCK_OWNER]) : 0;
        *lock = (RuntimeLock){ .address = words[LOCK_LOCK],
                               .futex = words[LOCK_LOCK],
                               .tid = tid,
                               .owner = owner == tid ? 0 : owner,
                               .kind = kind == KIND_OWNED ? RUNTIME_LOCK_OWNED : RUNTIME_LOCK_OWNERLESS };
        memcpy(lock->name, name, strlen(name));
        result->n++;
}

static uint64_t first_frame(const Look *look, uint64_t thread) {
        uint64_t frame = read_word(look, thread + look->layout->thread_frame);

        return look->layout->chain == PYTHON_CHAIN_SHIMS || !frame
                ? frame
                : read_word(look, frame + look->layout->native_frame);
}

/* Return: how many could be read. A small frame ends before MAX_LOCALS, and so may the pages around it. */
static size_t read_locals(const Look *look, uint64_t frame, uint64_t values[MAX_LOCALS]) {
        uint64_t address = frame + FRAME_LOCALS;
        size_t n_page = (PAGE - (address & (PAGE - 1))) / sizeof(*values);

        if (read_words(look, address, values, MAX_LOCALS))
                return MAX_LOCALS;
        return n_page < MAX_LOCALS && read_words(look, address, values, n_page) ? n_page : 0;
}

static void take_thread(Look *look, const Thread *thread) {
        uint64_t frame = thread->tid ? first_frame(look, thread->address) : 0;
        uint64_t values[MAX_LOCALS], words[N_WORDS];
        size_t n = frame ? read_locals(look, frame, values) : 0;
        Kind kind;

        for (size_t i = 0; i < n; i++)
                if (read_lock(look, values[i], words, &kind))
                        add(look, thread->tid, words, kind);
        if (frame)
                add_name(look, thread->tid, frame);
}

/* Notes the threads of an interpreter, so that owners are looked up without another walk over the target. */
static void note_threads(Look *look, uint64_t interpreter) {
        uint64_t thread = read_word(look, interpreter + look->layout->threads);

        for (; thread && look->n_threads < MAX_THREADS; look->n_threads++) {
                look->threads[look->n_threads] = (Thread){
                        .address = thread,
                        .ident = read_word(look, thread + look->layout->thread_id),
                        .tid = (uint32_t)read_word(look, thread + look->layout->thread_id + 8),
                };
                thread = read_word(look, thread + look->layout->next_thread);
        }
        look->is_cut |= thread != 0;
}

static void take_all(Look *look) {
        uint64_t interpreter = read_word(look, look->interpreters);

        for (unsigned i = 0; interpreter && i < MAX_INTERPRETERS; i++) {
                note_threads(look, interpreter);
                interpreter = read_word(look, interpreter + look->layout->next_interpreter);
        }
        for (uint32_t i = 0; i < look->n_threads; i++)
                take_thread(look, &look->threads[i]);
}

static void say_left_out(const Look *look) {
        RuntimeLocks *result = look->result;
        unsigned major = look->layout->version >> 8, minor = look->layout->version & 0xff;

        if (*look->n_reads > MAX_READS)
                snprintf(result->text, sizeof(result->text),
                         "python %u.%u: locks of some threads are not read: they take more than %d reads", major,
                         minor, MAX_READS);
        else if (look->is_cut)
                snprintf(result->text, sizeof(result->text),
                         "python %u.%u: locks of threads after the first %d are not read", major, minor,
                         MAX_THREADS);
}

static void read_all(Look *look, const PythonSubject *subject) {
        look->interpreters = subject->program->places[PYTHON_SYMBOL_RUNTIME].address + subject->bias +
                look->layout->interpreters;
        take_all(look);
        say_left_out(look);
}

void python_locks_read(RuntimeLocks *locks, const PythonReader *reader, const PythonSubject *subject) {
        const PythonLayout *layout = subject->layout;
        _cleanup_(freep) Thread *threads = NULL;
        _cleanup_(freep) Pages *pages = NULL;
        uint32_t n_reads = 0;

        locks->n = locks->n_over_cap = 0;
        memset(locks->text, 0, sizeof(locks->text));
        if (layout->version < FIRST_RELEASE || layout->version > LAST_RELEASE || layout->is_free_threaded) {
                snprintf(locks->text, sizeof(locks->text), "python %u.%u%s: no locks are read of this release",
                         layout->version >> 8, layout->version & 0xff,
                         layout->is_free_threaded ? " free-threaded" : "");
                return;
        }
        threads = calloc(MAX_THREADS, sizeof(*threads));
        pages = calloc(1, sizeof(*pages));
        if (!threads || !pages) {
                snprintf(locks->text, sizeof(locks->text), "python: no locks are read: there is no memory");
                return;
        }
        pages->source = reader;
        read_all(&(Look){ .reader = &(PythonReader){ read_paged, pages },
                          .layout = layout,
                          .result = locks,
                          .threads = threads,
                          .n_reads = &n_reads },
                 subject);
}
