/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <string.h>

#include "host/sampling/sample/sideband.h"

/* Records written by hand, by the layouts of perf_event_open(2). */
typedef struct Bytes {
        uint8_t data[4096] __attribute__((aligned(8)));
        size_t size;
} Bytes;

static void put(Bytes *bytes, uint64_t value, size_t size) {
        memcpy(bytes->data + bytes->size, &value, size);
        bytes->size += size;
}

static void begin(Bytes *bytes, uint32_t type, uint16_t misc) {
        memset(bytes, 0, sizeof(*bytes));
        put(bytes, type, 4);
        put(bytes, misc, 2);
        put(bytes, 0, 2);
}

static void end(Bytes *bytes, const char *text, uint64_t time_ns) {
        size_t n = text ? strlen(text) + 1 : 0;

        if (n)
                memcpy(bytes->data + bytes->size, text, n);
        bytes->size = (bytes->size + n + 7) & ~(size_t)7;
        put(bytes, time_ns, 8);
        ((struct perf_event_header *)bytes->data)->size = (uint16_t)bytes->size;
}

/* Of a libc, as perf script shows one. */
static void mmap2(Bytes *bytes, uint16_t misc, const char *path) {
        begin(bytes, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | misc);
        put(bytes, 812, 4);
        put(bytes, 815, 4);
        put(bytes, 0x7f4496733000, 8);
        put(bytes, 0x156000, 8);
        put(bytes, 0x26000, 8);
        put(bytes, 253, 4);
        put(bytes, 1, 4);
        put(bytes, 4711, 8);
        put(bytes, 99, 8);
        put(bytes, 5, 4);
        put(bytes, 2, 4);
        end(bytes, path, 123456789);
}

Test(sideband, reads_a_mapping_with_device_and_inode) {
        SidebandRecord record;
        Bytes bytes;

        mmap2(&bytes, 0, "/usr/lib/libc.so.6");
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.kind, SIDEBAND_MAPPING);
        cr_assert_eq(record.time_ns, 123456789);
        cr_assert_eq(record.pid, 812);
        cr_assert_eq(record.mapping.pid, 812);
        cr_assert_eq(record.mapping.tid, 815);
        cr_assert_eq(record.mapping.time_ns, 123456789);
        cr_assert_eq(record.mapping.start, 0x7f4496733000);
        cr_assert_eq(record.mapping.size, 0x156000);
        cr_assert_eq(record.mapping.offset, 0x26000);
        cr_assert_eq(record.mapping.major, 253);
        cr_assert_eq(record.mapping.minor, 1);
        cr_assert_eq(record.mapping.inode, 4711);
        cr_assert_eq(record.mapping.prot, 5);
        cr_assert_eq(record.mapping.flags, 2);
        cr_assert_eq(record.mapping.path_size, strlen("/usr/lib/libc.so.6"));
        cr_assert(!memcmp(record.mapping.path, "/usr/lib/libc.so.6", record.mapping.path_size));
}

/* Kernels leave the flag standing when another event has asked for build ids. */
Test(sideband, does_not_believe_the_flag_of_build_ids) {
        SidebandRecord record;
        Bytes bytes;

        mmap2(&bytes, PERF_RECORD_MISC_MMAP_BUILD_ID, "/usr/lib/libc.so.6");
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.mapping.major, 253);
        cr_assert_eq(record.mapping.minor, 1);
        cr_assert_eq(record.mapping.inode, 4711);
}

Test(sideband, reads_a_path_without_an_end) {
        SidebandRecord record;
        Bytes bytes;

        mmap2(&bytes, 0, "/a/bc/de");
        memcpy(bytes.data + 72 + 8, "fghijklm", 8);     /* where the zeros were */
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.mapping.path_size, 16);
}

Test(sideband, tells_an_exec_from_a_new_name) {
        SidebandRecord record = { .pid = 1 };
        Bytes bytes;

        begin(&bytes, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
        put(&bytes, 812, 4);
        put(&bytes, 812, 4);
        end(&bytes, "victim", 77);
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.kind, SIDEBAND_EXEC);
        cr_assert_eq(record.pid, 812);
        cr_assert_eq(record.time_ns, 77);
        cr_assert_str_eq(record.comm, "victim");
        ((struct perf_event_header *)bytes.data)->misc = 0;
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), SIDEBAND_E_OTHER);
}

Test(sideband, counts_what_was_lost) {
        SidebandRecord record;
        Bytes bytes;

        begin(&bytes, PERF_RECORD_LOST, 0);
        put(&bytes, 3, 8);
        put(&bytes, 41, 8);
        end(&bytes, NULL, 78);
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.kind, SIDEBAND_LOST);
        cr_assert_eq(record.n_lost, 41);
}

Test(sideband, leaves_out_data_and_processes_of_other_namespaces) {
        SidebandRecord record;
        Bytes bytes;

        mmap2(&bytes, 0, "/x");
        ((struct perf_event_header *)bytes.data)->misc |= PERF_RECORD_MISC_MMAP_DATA;
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), SIDEBAND_E_OTHER);
        for (int i = 0; i < 2; i++) {
                mmap2(&bytes, 0, "/x");
                memset(bytes.data + 8, i ? 0xff : 0, 4);
                cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), SIDEBAND_E_OTHER);
        }
}

Test(sideband, refuses_every_other_size_and_range) {
        SidebandRecord record = { .pid = 4711 };
        Bytes bytes;

        mmap2(&bytes, 0, "/x");
        for (size_t size = 0; size < bytes.size; size++)
                cr_assert_eq(sideband_parse(bytes.data, size, &record), SIDEBAND_E_MALFORMED, "%zu", size);
        for (uint16_t size = 8; size < 72 + 8; size += 8) {
                ((struct perf_event_header *)bytes.data)->size = size;
                cr_assert_eq(sideband_parse(bytes.data, size, &record), SIDEBAND_E_MALFORMED, "%u", size);
        }
        mmap2(&bytes, 0, "/x");
        memset(bytes.data + 24, 0, 8);                  /* no length */
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), SIDEBAND_E_MALFORMED);
        mmap2(&bytes, 0, "/x");
        memset(bytes.data + 24, 0xff, 8);               /* over the end of the address space */
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), SIDEBAND_E_MALFORMED);
        cr_assert_eq(record.pid, 4711);
}

Test(sideband, tells_a_new_process_from_a_new_thread) {
        SidebandRecord record;
        Bytes bytes;
        uint32_t ids[][4] = {
                { 900, 812, 900, 815 }, { 812, 812, 901, 812 }, { 900, 0, 900, 0 }, { 0, 812, 0, 812 }
        };

        for (size_t i = 0; i < 4; i++) {
                begin(&bytes, PERF_RECORD_FORK, 0);
                for (size_t j = 0; j < 4; j++)
                        put(&bytes, ids[i][j], 4);
                put(&bytes, 55, 8);
                end(&bytes, NULL, 79);
                record = (SidebandRecord){ .pid = 1 };
                cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), i ? SIDEBAND_E_OTHER : 0);
                cr_assert_eq(record.pid, i ? 1 : 900);
        }
        begin(&bytes, PERF_RECORD_FORK, 0);
        for (size_t j = 0; j < 4; j++)
                put(&bytes, ids[0][j], 4);
        put(&bytes, 55, 8);
        end(&bytes, NULL, 79);
        cr_assert_eq(sideband_parse(bytes.data, bytes.size, &record), 0);
        cr_assert_eq(record.kind, SIDEBAND_FORK);
        cr_assert_eq(record.parent, 812);
        cr_assert_eq(record.time_ns, 79);
        ((struct perf_event_header *)bytes.data)->size = 32;
        cr_assert_eq(sideband_parse(bytes.data, 32, &record), SIDEBAND_E_MALFORMED);
}

Test(sideband, gives_cpus_rings_of_8_mib_together) {
        cr_assert_eq(sideband_ring_bytes(1, 4096), 256 << 10);
        cr_assert_eq(sideband_ring_bytes(32, 4096), 256 << 10);
        cr_assert_eq(sideband_ring_bytes(33, 4096), 128 << 10);
        cr_assert_eq(sideband_ring_bytes(256, 4096), 32 << 10);
        cr_assert_eq(sideband_ring_bytes(1024, 4096), 32 << 10);
}

/* The kernel maps no part of a page: arm64 has some of 64 KiB. */
Test(sideband, gives_no_cpu_less_than_a_page) {
        cr_assert_eq(sideband_ring_bytes(256, 16 << 10), 32 << 10);
        cr_assert_eq(sideband_ring_bytes(256, 64 << 10), 64 << 10);
}
