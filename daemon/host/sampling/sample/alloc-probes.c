/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is looked into once, and again where there was no place for all of its probes: in a process that
 * comes once there is one. What was attached is in force for all processes that run the file, from their
 * first allocation on; the kernel half takes those of targets alone.
 *
 *     target's mappings ─▶ file not looked into yet ─▶ notes ─▶ attached, up to a share of the table
 *     each second       ─▶ file that nobody has mapped ─▶ detached
 *
 * An allocation of a file whose probes otel_memory:free are all attached to says so: the daemon may keep it
 * until it goes. So these come first, and go last; an allocation that is told has its free told, too.
 *
 * The kernel counts into the semaphore of each process that has the file mapped: two bytes of its own memory,
 * by which the producer knows that somebody looks.
 *
 * A probe that is attached keeps the file's inode: its file system could not be unmounted. So the sweep.
 */

#include "host/sampling/sample/alloc-probes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/data/shares.h"
#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/process-directory.h"

/* A probe: of one file, whose probes lie one behind the other in the table, or nowhere. */
typedef struct Probe {
        Object *object;                 /* owns a reference; NULL = the place is free */
        int fd;                         /* the file, owned by each */
        ProbeNote note;
        Share *share;
        bool has_all_frees;             /* as its file's notes */
        bool is_attached, has_failed;
} Probe;

struct AllocProbes {
        KernelEvents *allocs;
        Probe probes[ALLOC_MAX_PROBES];
        Shares shares;
        bool is_running;
};

int alloc_probes_new(AllocProbes **probesp, KernelEvents *allocs) {
        AllocProbes *probes = calloc(1, sizeof(*probes));

        if (!probes)
                return error_origin(-ENOMEM);
        probes->allocs = allocs;
        *probesp = probes;
        return 0;
}

static void detach(AllocProbes *probes, Probe *probe) {
        if (probe->is_attached)
                kernel_events_detach_probe(probes->allocs, (uint32_t)(probe - probes->probes));
        probe->is_attached = false;
}

static void probe_forget(AllocProbes *probes, Probe *probe) {
        detach(probes, probe);
        closep(&probe->fd);
        probe->object = object_unref(probe->object);
        share_release(&probes->shares, probe->share, 1);
        *probe = (Probe){ .fd = -1 };
}

AllocProbes *alloc_probes_free(AllocProbes *probes) {
        if (!probes)
                return NULL;
        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++)
                if (probes->probes[i].object)
                        probe_forget(probes, &probes->probes[i]);
        shares_deinit(&probes->shares);
        free(probes);
        return NULL;
}

/* Whether all that @probe's file allocates has its free told. */
static bool tells_frees(const AllocProbes *probes, const Probe *probe) {
        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++) {
                const Probe *other = &probes->probes[i];

                if (other->object == probe->object && other->note.is_free && !other->is_attached)
                        return false;
        }
        return probe->has_all_frees;
}

static void attach(AllocProbes *probes, Probe *probe) {
        uint32_t index = (uint32_t)(probe - probes->probes);
        static LogLimit limit;
        uint64_t n_skipped;
        int r;

        if (probe->is_attached || probe->has_failed)
                return;
        probe->note.probe.has_frees = !probe->note.is_free && tells_frees(probes, probe);
        r = kernel_events_attach_probe(probes->allocs, index, probe->fd, &probe->note);
        probe->is_attached = !r;
        probe->has_failed = r;
        stat_add(r ? COUNTER_ALLOC_PROBES_FAILED : COUNTER_ALLOC_PROBES, 1);
        if (r && log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("allocations of a program are not seen: the kernel refused to attach to its probe (%s)%s",
                            strerror(-r), r == -EACCES || r == -EPERM
                                    ? "; before Linux 6.6 `run` cannot; `record` as root can" : "");
}

/* A start after this one tries again what the kernel has refused. */
static void pause_probe(AllocProbes *probes, Probe *probe) {
        detach(probes, probe);
        probe->has_failed = false;
}

static void follow_kind(AllocProbes *probes, bool is_free) {
        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++) {
                Probe *probe = &probes->probes[i];

                if (!probe->object || probe->note.is_free != is_free)
                        continue;
                if (probes->is_running)
                        attach(probes, probe);
                else
                        pause_probe(probes, probe);
        }
}

void alloc_probes_follow(AllocProbes *probes, bool is_running) {
        if (probes->is_running == is_running)
                return;
        probes->is_running = is_running;
        follow_kind(probes, is_running);
        follow_kind(probes, !is_running);
}

/* Places that probes of @object have. */
static unsigned places_of(const AllocProbes *probes, const Object *object) {
        unsigned n = 0;

        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++)
                n += probes->probes[i].object == object;
        return n;
}

void alloc_probes_sweep(AllocProbes *probes) {
        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++) {
                Probe *probe = &probes->probes[i];

                if (!probe->object || probe->object->n_refs > places_of(probes, probe->object))
                        continue;
                probe->object->probes = OBJECT_PROBES_UNKNOWN;
                probe_forget(probes, probe);
        }
}

static Probe *find_place(AllocProbes *probes) {
        for (size_t i = 0; i < ALLOC_MAX_PROBES; i++)
                if (!probes->probes[i].object)
                        return &probes->probes[i];
        return NULL;
}

/* Return: 0, 1 = there is no place, or no descriptor, -ENOMEM. */
static int add_probe(AllocProbes *probes, Object *object, int fd, const ProbeNotes *notes, size_t i,
                     const ShareOwner *owner) {
        Probe *probe = find_place(probes);
        int r, own;

        if (!probe || !shares_leave_room(&probes->shares, owner, 1, ALLOC_MAX_PROBES)) {
                shares_tell(&probes->shares, "probes of allocations", owner, clock_monotonic_ns());
                return 1;
        }
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
                return 1;
        *probe = (Probe){ .fd = own, .note = notes->notes[i], .has_all_frees = notes->has_all_frees };
        r = shares_hold(&probes->shares, owner, 1, &probe->share);
        if (r) {
                closep(&probe->fd);
                return error_fold(r);
        }
        probe->object = object_ref(object);
        if (probes->is_running)
                attach(probes, probe);
        return 0;
}

/* Return: 0, also for what cannot be read; -ENOMEM. */
static int read_notes(int fd, ProbeNotes *notes) {
        struct stat st;
        ElfImage image;
        int r;

        *notes = (ProbeNotes){ 0 };
        if (fstat(fd, &st) < 0)
                return 0;
        r = elf_image_init(&image, fd, 0, (uint64_t)st.st_size);
        if (r)
                return r < 0 ? error_fold(r) : 0;
        r = probe_notes_read(notes, &image);
        elf_image_deinit(&image);
        return error_fold(r);
}

/* Probes get their places in the order of the notes, so the first ones have theirs. Return: 0, -ENOMEM. */
static int add_probes(AllocProbes *probes, Object *object, int fd, const ProbeNotes *notes,
                      const ShareOwner *owner) {
        const bool is_first = object->probes == OBJECT_PROBES_UNKNOWN;
        size_t i = places_of(probes, object);
        int r = 0;

        for (; i < notes->n && !r; i++)
                r = add_probe(probes, object, fd, notes, i, owner);
        if (r < 0)
                return error_fold(r);
        object->probes = r ? OBJECT_PROBES_LEFT : OBJECT_PROBES_KNOWN;
        if (!is_first)
                return 0;
        stat_add(COUNTER_ALLOC_PROBES_OVER_CAP, notes->n_over_cap + (r ? notes->n - i + 1 : 0));
        stat_add(COUNTER_ALLOC_PROBES_REFUSED, notes->n_refused);
        return 0;
}

/* Return: 0, -ENOMEM. */
static int look(AllocProbes *probes, int proc_fd, const ShareOwner *owner, const Mapping *mapping) {
        Object *object = mapping->object;
        _cleanup_(closep) int fd = -1;
        ProbeNotes notes;
        int r;

        if (object->probes == OBJECT_PROBES_LEFT &&
            !shares_leave_room(&probes->shares, owner, 1, ALLOC_MAX_PROBES))
                return 0;
        if (object_number_is_remote(object->file)) {    /* such a file has a copy alone, which nobody runs */
                object->probes = OBJECT_PROBES_KNOWN;
                return 0;
        }
        /* the process may be gone: another one has the file, too */
        if (object_reopen(object, proc_fd, mapping->start, mapping->end, mapping->path, &fd)) {
                stat_add(COUNTER_ALLOC_PROBES_FAILED, 1);
                return 0;
        }
        r = read_notes(fd, &notes);
        return r ? r : add_probes(probes, object, fd, &notes, owner);
}

int alloc_probes_process(AllocProbes *probes, const Process *process) {
        _cleanup_(closep) int proc_fd = -1;
        ShareOwner owner = { 0 };

        for (size_t i = 0; i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];
                int r;

                if (mapping->kind != MAPPING_FILE || !mapping->object ||
                    mapping->object->probes == OBJECT_PROBES_KNOWN)
                        continue;
                if (proc_fd < 0) {
                        if (process_open((pid_t)process->pid, process->start_time_ns, &proc_fd))
                                return 0;       /* the file is gone */
                        owner = identity_owner(proc_fd, process->pid);
                }
                r = look(probes, proc_fd, &owner, mapping);
                if (r)
                        return error_fold(r);
        }
        return 0;
}
