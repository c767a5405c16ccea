/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "host/coro/region-scan.h"
#include "host/coro/region.h"
#include "station-writer.h"

/* The first 32 bytes of a region for 3 stations, as another program's writer would find them. */
static const uint8_t good[] = "RCRTOROC" "\1\0\0\0" "\3\0\0\0" "\0\0\0\0" "\0\0\0\0" "\0\0\0\0\0\0\0";

Test(region_check_header, accepts_only_what_the_file_has_room_for) {
        struct spanprof_station_region header = { 0 };
        uint32_t n = 77;

        memcpy(&header, good, sizeof(good));
        cr_expect_eq(region_check_header(&header, 4095, &n), REGION_HEADER_SIZE);
        cr_expect_eq(region_check_header(&header, 1023, &n), REGION_HEADER_ABSENT);
        cr_expect_eq(n, 77);
        cr_expect_eq(region_check_header(&header, 4096, &n), REGION_HEADER_VALID);
        cr_expect_eq(n, 3);
        header.version = 2;
        cr_expect_eq(region_check_header(&header, 4096, &n), REGION_HEADER_VERSION);
        header.version = 1;
        header.max_stations = 0;
        cr_expect_eq(region_check_header(&header, 4096, &n), REGION_HEADER_SIZE);
        header.max_stations = UINT32_MAX;
        cr_expect_eq(region_check_header(&header, UINT64_MAX, &n), REGION_HEADER_SIZE);
        header.magic = __builtin_bswap64(header.magic);
        cr_expect_eq(region_check_header(&header, 4096, &n), REGION_HEADER_ABSENT);
}

static char directory[] = "/tmp/test-region-XXXXXX";
static char path[64];

static void setup(void) {
        cr_assert(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/shm", directory);
}

static void cleanup(void) {
        unlink(path);
        rmdir(directory);
}

TestSuite(region, .init = setup, .fini = cleanup);

static void make_file(const char *text, size_t size) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

        cr_assert_eq(write(fd, text, size), (ssize_t)size);
        close(fd);
}

Test(region, is_made_for_its_owner_alone) {
        Region *region = NULL;
        uint8_t bytes[32];
        struct stat st;
        int fd;

        cr_assert_eq(region_create(&region, path, 3, 0600), 0);
        cr_assert_eq(stat(path, &st), 0);
        cr_expect_eq(st.st_mode & 07777, 0600);
        cr_expect_eq(st.st_size, 4096);
        fd = open(path, O_RDONLY);
        cr_assert_eq(read(fd, bytes, 32), 32);
        cr_expect_eq(memcmp(bytes, good, 31), 0);
        close(fd);
        region_free(region);
}

Test(region, replaces_a_region_and_nothing_else) {
        Region *first = NULL, *second = NULL;

        cr_assert_eq(region_create(&first, path, 3, 0600), 0);
        cr_assert_eq(region_create(&second, path, 4, 0600), 0);
        cr_expect_neq(first->inode, second->inode);
        region_free(first);
        region_free(second);
        make_file("my only copy of a thesis", 24);
        second = NULL;
        cr_expect_eq(region_create(&second, path, 4, 0600), REGION_E_EXISTS);
        cr_expect_null(second);
        cr_expect_eq(access(path, F_OK), 0);
        unlink(path);
        cr_assert_eq(symlink("/etc/hostname", path), 0);
        cr_expect_eq(region_create(&second, path, 4, 0600), REGION_E_EXISTS);
}

Test(region, is_opened_for_reading_only_when_it_is_one) {
        Region *region = NULL;
        RegionHeader header;
        int fd;

        make_file("RCRTOROC\1\0\0\0\3\0\0\0", 16);
        fd = open(path, O_RDONLY);
        cr_expect_eq(region_open(&region, fd, &header), REGION_E_INVALID);
        cr_expect_eq(header, REGION_HEADER_ABSENT);
        cr_assert_eq(truncate(path, 4095), 0);
        cr_expect_eq(region_open(&region, fd, &header), REGION_E_INVALID);
        cr_expect_eq(header, REGION_HEADER_SIZE);
        cr_assert_eq(truncate(path, 4096), 0);
        cr_expect_eq(region_open(&region, fd, &header), 0);
        cr_expect_eq(region->n_stations, 3);
        cr_expect_not(region->writable);
        close(fd);
        region_free(region);
}

Test(region, reads_zeros_where_its_owner_has_cut_it) {
        Region *region = NULL;
        uint32_t n_without;

        cr_assert_eq(region_create(&region, path, 100, 0600), 0);
        region->header->allocated_count = 103;
        cr_expect_eq(region_allocated(region, &n_without), 100);
        cr_expect_eq(n_without, 3);
        cr_expect_not(region_is_cut(region));
        cr_assert_eq(truncate(path, 4096), 0);
        cr_expect_eq(region->stations[2].epochs[0].seq, 0);     /* still there */
        cr_expect_not(region_is_cut(region));
        cr_expect_eq(region->stations[60].epochs[0].seq, 0);
        cr_expect(region_is_cut(region));
        cr_assert_eq(truncate(path, 0), 0);
        cr_expect_eq(region->header->magic, 0);
        region_free(region);
}

Test(region, leaves_other_faults_alone, .signal = SIGBUS) {
        Region *region = NULL;
        char *other;
        int fd;

        cr_assert_eq(region_create(&region, path, 3, 0600), 0);
        fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        other = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
        (void)*(volatile char *)other;
}

Test(region, notices_a_header_that_no_writer_makes) {
        Region *region = NULL;
        uint32_t n_without;

        cr_assert_eq(region_create(&region, path, 3, 0600), 0);
        cr_expect_not(region_is_damaged(region));
        region->header->allocated_count = 4000000000;
        cr_expect(region_is_damaged(region));
        cr_expect_eq(region_allocated(region, &n_without), 3);
        cr_expect_eq(n_without, 0);
        region->header->allocated_count = 3;
        region->header->max_stations = 1000000;
        cr_expect(region_is_damaged(region));
        cr_expect_eq(region_allocated(region, &n_without), 3);
        region_free(region);
}

/* RegionScan */

static struct spanprof_station *station_at(Region *region, unsigned index) {
        return (struct spanprof_station *)region->header + 1 + index;
}

static int count(void *userdata, const CoroEvent *event) {
        uint64_t *n = userdata;

        n[event->station]++;
        return 0;
}

typedef struct Slow {
        Region *region;
        StationWriter writer;
        uint64_t n_events;
} Slow;

/* Each event is followed by one of the next station, dated now: the scan began two seconds ago. */
static int write_next(void *userdata, const CoroEvent *event) {
        Slow *slow = userdata;

        slow->n_events++;
        if (event->station < 3) {
                slow->writer = (StationWriter){ .station = station_at(slow->region, event->station + 1) };
                station_writer_write(&slow->writer, clock_monotonic_ns(), 7, 0x1000, 1);
        }
        return 0;
}

Test(region, takes_no_event_for_a_future_one_because_the_scan_is_long) {
        _cleanup_(region_freep) Region *region = NULL;
        uint64_t begun_ns = clock_monotonic_ns() - 2 * NS_PER_SEC;
        RegionScanTotals totals;
        RegionScanFound found;
        RegionScan scan;
        Slow slow = { 0 };

        cr_assert_eq(region_create(&region, path, 4, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false), 0);
        region->header->allocated_count = 4;
        slow.region = region;
        slow.writer = (StationWriter){ .station = station_at(region, 0) };
        station_writer_write(&slow.writer, clock_monotonic_ns(), 7, 0x1000, 1);
        cr_assert_eq(region_scan_run(&scan, begun_ns, write_next, &slow, &found), 0);
        cr_assert_eq(region_scan_finish(&scan, begun_ns, write_next, &slow, &found), 0);
        cr_assert_eq(region_scan_totals(&scan, &totals), 0);
        cr_expect_eq(totals.n_rejected, 0);
        cr_expect_eq(totals.n_read, 4);
        cr_expect_eq(slow.n_events, 4);
        region_scan_deinit(&scan);
}

Test(region, is_scanned_station_by_station) {
        _cleanup_(region_freep) Region *region = NULL;
        uint64_t n[4] = { 0 }, now = clock_monotonic_ns();
        RegionScanTotals totals;
        RegionScanFound found;
        RegionScan scan;

        cr_assert_eq(region_create(&region, path, 4, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_UNKNOWN, false), 0);
        region->header->allocated_count = 5;
        for (unsigned i = 0; i < 3; i++) {
                StationWriter writer = { .station = station_at(region, i), .document = 1 };

                writer.station->probe_id = i == 2 ? 1 : i + 1;  /* the third has the address of the first */
                writer.station->birth_ns = i == 1 ? 0 : 100;
                for (unsigned k = 0; k < 5 + 10 * i; k++)
                        station_writer_write(&writer, 1000 + k, 7 + k / 3, 0x1000, k % 2);
                writer.station->is_dead = i == 0;
        }
        cr_assert_eq(region_scan_run(&scan, now, count, n, &found), 0);
        cr_expect_eq(scan.dialect, STATION_DIALECT_DOCUMENT);
        cr_expect_eq(found.n_events, 5 + 7 + 7);
        cr_expect_eq(found.n_lost, 8 + 18);
        cr_expect_eq(found.n_most, 25);
        cr_assert_eq(region_scan_finish(&scan, now, count, n, &found), 0);
        cr_assert_eq(region_scan_totals(&scan, &totals), 0);
        cr_expect(n[0] == 5 && n[1] == 7 && n[2] == 7 && !n[3]);
        cr_expect_eq(totals.n_read, 19);
        cr_expect_eq(totals.n_lost, 26);
        cr_expect_eq(totals.n_lossy, 2);
        cr_expect_eq(totals.n_stations, 4);
        cr_expect_eq(totals.n_without, 1);
        cr_expect_eq(totals.n_reused, 1);
        cr_expect_eq(totals.n_nameless, 1);
        cr_expect_eq(totals.n_dead, 1);
        cr_expect_eq(totals.n_never_ran, 1);
        cr_expect_eq(totals.n_suspended, 2);
        region_scan_deinit(&scan);
}

/* The callback of the scan is the writer: each event that is read brings the next one. */
typedef struct Burst {
        StationWriter writer;
        uint64_t n, n_read;
} Burst;

static void write_burst(Burst *burst, unsigned n) {
        for (; n && burst->writer.n_written < burst->n; n--)
                station_writer_write(&burst->writer, clock_monotonic_ns() + NS_PER_SEC / 2, 7, 1,
                                     burst->writer.n_written % 2);
}

static int on_burst(void *userdata, const CoroEvent *event) {
        Burst *burst = userdata;

        cr_assert_eq(event->number, burst->n_read);
        burst->n_read++;
        write_burst(burst, 1);
        return 0;
}

Test(region, is_followed_where_events_are_coming_if_that_is_wished) {
        const struct { bool follow; uint64_t n, n_expected; } cases[] = {
                { false, 1000, 8 },
                { true, 1000, 1000 },           /* in one scan */
                { true, UINT64_MAX, 4096 },     /* then other stations have their turn */
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(region_freep) Region *region = NULL;
                Burst burst = { .n = cases[i].n };
                RegionScanFound found;
                RegionScan scan;

                cr_assert_eq(region_create(&region, path, 40, 0600), 0);
                cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_SEQLOCK, false), 0);
                region->header->allocated_count = 40;
                burst.writer.station = station_at(region, 37);
                scan.follow = cases[i].follow;
                write_burst(&burst, 5);
                cr_assert_eq(region_scan_run(&scan, clock_monotonic_ns(), on_burst, &burst, &found), 0);
                cr_expect_eq(found.n_events, cases[i].n_expected, "%zu", i);
                cr_expect_eq(found.n_lost, 0);
                region_scan_deinit(&scan);
        }
}

Test(region, is_scanned_up_to_the_cut) {
        _cleanup_(region_freep) Region *region = NULL;
        StationWriter writer = { 0 };
        uint64_t n[100] = { 0 };
        RegionScanTotals totals;
        RegionScanFound found;
        RegionScan scan;

        cr_assert_eq(region_create(&region, path, 100, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_UNKNOWN, false), 0);
        region->header->allocated_count = 100;
        writer.station = station_at(region, 99);
        station_writer_write(&writer, 1000, 7, 1, 0);
        cr_assert_eq(region_scan_run(&scan, clock_monotonic_ns(), count, n, &found), 0);
        cr_expect_eq(n[99], 1);
        cr_assert_eq(truncate(path, 1024), 0);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(region_scan_run(&scan, clock_monotonic_ns(), count, n, &found), 0);
        cr_assert_eq(region_scan_finish(&scan, clock_monotonic_ns(), count, n, &found), 0);
        cr_expect(region_is_cut(region));
        cr_expect(scan.finished);
        cr_assert_eq(region_scan_totals(&scan, &totals), 0);
        cr_expect_eq(totals.n_read, 1);
        region_scan_deinit(&scan);
}

Test(region, survives_random_bytes_under_its_reader) {
        _cleanup_(region_freep) Region *region = NULL;
        uint64_t n[64] = { 0 }, now = clock_monotonic_ns(), n_events = 0;
        RegionScanFound found;
        RegionScan scan;

        srandom(1);
        cr_assert_eq(region_create(&region, path, 64, 0600), 0);
        cr_assert_eq(region_scan_init(&scan, region, STATION_DIALECT_UNKNOWN, false), 0);
        for (int turn = 0; turn < 200; turn++) {
                uint8_t *bytes = (uint8_t *)region->header;

                for (int i = 0; i < 20000; i++)
                        bytes[(size_t)random() % region->size_bytes] = (uint8_t)random();
                cr_assert_eq(region_scan_run(&scan, now, count, n, &found), 0);
                n_events += found.n_events;
        }
        cr_expect(region_is_damaged(region));
        cr_assert_eq(region_scan_finish(&scan, now, count, n, &found), 0);
        cr_expect_lt(n_events, 64 * 200 * 8);
        region_scan_deinit(&scan);
}
