/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A region of 1,000 stations is a file of 1,025,024 bytes:
 *
 *      0       header          RCRTOROC, version 1, max_stations 1000, allocated_count, tracer_sleeping
 *      1024    station 0       of the coroutine that added the first one to allocated_count
 *      2048    station 1       …
 *
 * The owner of a file may cut it while it is mapped here. The next load of a page behind the new end raises
 * SIGBUS. The handler looks the address up in the list of our mappings (guards) and maps anonymous zeros over
 * the rest of that mapping; the load is repeated and yields zero. Any other SIGBUS gets its default.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "host/coro/region.h"

typedef struct Guard {
        uintptr_t begin, end;           /* 0 = free */
        volatile sig_atomic_t cut;
} Guard;

static Guard guards[REGION_MAX_OPEN];

enum { OVERSHOOT_MAX = 1 << 30 };

static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
        uintptr_t at = (uintptr_t)info->si_addr, page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
        int saved = errno;

        for (size_t i = 0; i < ARRAY_SIZE(guards); i++) {
                uintptr_t begin = __atomic_load_n(&guards[i].begin, __ATOMIC_ACQUIRE);

                if (!begin || at < begin || at >= guards[i].end)
                        continue;
                if (mmap((void *)page, guards[i].end - page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
                        break;
                guards[i].cut = 1;
                errno = saved;
                return;
        }
        signal(SIGBUS, SIG_DFL);        /* the fault is raised again and ends the process, as it should */
}

static void install_handler(void) {
        static bool installed;
        struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };

        if (!installed)
                sigaction(SIGBUS, &action, NULL);
        installed = true;
}

static int guard_add(void *data, size_t size) {
        install_handler();
        for (size_t i = 0; i < ARRAY_SIZE(guards); i++)
                if (!guards[i].begin) {
                        guards[i].end = (uintptr_t)data + size;
                        guards[i].cut = 0;
                        __atomic_store_n(&guards[i].begin, (uintptr_t)data, __ATOMIC_RELEASE);
                        return (int)i;
                }
        return -1;
}

RegionHeader region_check_header(const struct spanprof_station_region *header, uint64_t file_size,
                                 uint32_t *n_stationsp) {
        uint64_t room = file_size / SPANPROF_STATION_SIZE;

        if (file_size < sizeof(*header) || header->magic != SPANPROF_STATION_MAGIC)
                return REGION_HEADER_ABSENT;
        if (header->version != SPANPROF_STATION_VERSION)
                return REGION_HEADER_VERSION;
        if (!header->max_stations || header->max_stations > REGION_MAX_STATIONS ||
            header->max_stations >= room + !room)
                return REGION_HEADER_SIZE;
        *n_stationsp = header->max_stations;
        return REGION_HEADER_VALID;
}

const char *region_header_text(RegionHeader header) {
        static const char *const texts[] = {
                [REGION_HEADER_VALID] = "it is a region of stations",
                [REGION_HEADER_ABSENT] = "it does not start as a region of stations does",
                [REGION_HEADER_VERSION] = "it is of a version that we do not know",
                [REGION_HEADER_SIZE] = "it promises more stations than the file has room for, or none",
        };

        return texts[header];
}

/* Removes an old region, and no other file: a typing mistake must not cost a file. */
static int remove_old(const char *path) {
        struct spanprof_station_region header = { 0 };
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat st;

        if (fd < 0)
                return errno == ENOENT ? 0 : REGION_E_EXISTS;
        if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
            file_pread(fd, &header, sizeof(header), 0) < (ssize_t)sizeof(header) ||
            header.magic != SPANPROF_STATION_MAGIC)
                return REGION_E_EXISTS;
        return unlink(path) ? REGION_E_SYSTEM : 0;
}

static int map(Region **regionp, int fd, uint32_t n_stations, bool writable) {
        Region *region = calloc(1, sizeof(*region));
        struct stat st;
        void *data;

        if (!region)
                return error_origin(-ENOMEM);
        region->size_bytes = (1 + (uint64_t)n_stations) * SPANPROF_STATION_SIZE;
        data = mmap(NULL, region->size_bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
        if (data == MAP_FAILED || fstat(fd, &st)) {
                free(region);
                return REGION_E_SYSTEM;
        }
        region->guard = guard_add(data, region->size_bytes);
        if (region->guard < 0) {
                munmap(data, region->size_bytes);
                free(region);
                return REGION_E_MANY;
        }
        region->header = data;
        region->stations = (const struct spanprof_station *)data + 1;
        region->n_stations = n_stations;
        region->writable = writable;
        region->device = st.st_dev;
        region->inode = st.st_ino;
        *regionp = region;
        return 0;
}

int region_create(Region **regionp, const char *path, uint32_t n_stations, mode_t mode) {
        struct spanprof_station_region header = {
                .magic = SPANPROF_STATION_MAGIC,
                .version = SPANPROF_STATION_VERSION,
                .max_stations = n_stations,
        };
        _cleanup_(closep) int fd = -1;
        int r = remove_old(path);

        if (r)
                return r;
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return errno == EEXIST ? REGION_E_EXISTS : REGION_E_SYSTEM;
        if ((mode != 0600 && fchmod(fd, mode)) ||
            ftruncate(fd, (1 + (off_t)n_stations) * SPANPROF_STATION_SIZE) ||
            file_write(fd, &header, sizeof(header)))
                r = REGION_E_SYSTEM;
        if (!r)
                r = map(regionp, fd, n_stations, true);
        if (r)
                unlink(path);
        return r;
}

int region_open(Region **regionp, int fd, RegionHeader *headerp) {
        struct spanprof_station_region header = { 0 };
        uint32_t n_stations = 0;
        struct stat st;

        if (fstat(fd, &st) || file_pread(fd, &header, sizeof(header), 0) < 0)
                return REGION_E_SYSTEM;
        *headerp = S_ISREG(st.st_mode) ? region_check_header(&header, (uint64_t)st.st_size, &n_stations)
                                       : REGION_HEADER_ABSENT;
        return *headerp == REGION_HEADER_VALID ? map(regionp, fd, n_stations, false) : REGION_E_INVALID;
}

Region *region_free(Region *region) {
        if (!region)
                return NULL;
        __atomic_store_n(&guards[region->guard].begin, 0, __ATOMIC_RELEASE);
        munmap(region->header, region->size_bytes);
        free(region);
        return NULL;
}

uint32_t region_allocated(const Region *region, uint32_t *n_withoutp) {
        uint32_t n = __atomic_load_n(&region->header->allocated_count, __ATOMIC_ACQUIRE);

        *n_withoutp = n > region->n_stations && n <= OVERSHOOT_MAX ? n - region->n_stations : 0;
        return MIN(n, region->n_stations);
}

bool region_is_same(const Region *a, const Region *b) {
        return a->device == b->device && a->inode == b->inode;
}

bool region_is_cut(const Region *region) {
        return guards[region->guard].cut;
}

bool region_is_damaged(const Region *region) {
        const struct spanprof_station_region *header = region->header;

        return !region_is_cut(region) &&
               (__atomic_load_n(&header->magic, __ATOMIC_RELAXED) != SPANPROF_STATION_MAGIC ||
                header->version != SPANPROF_STATION_VERSION || header->max_stations != region->n_stations ||
                __atomic_load_n(&header->allocated_count, __ATOMIC_RELAXED) > OVERSHOOT_MAX);
}
