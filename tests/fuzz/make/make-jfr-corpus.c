/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the corpus of fuzz-jfr: make-jfr-corpus DIRECTORY. One small recording for each way to write one. */

#include "jfr-maker.h"

static void put_events(JfrMaker *maker) {
        uint64_t t = maker->start_ticks;

        MAKER_EVENT(maker, MAKER_JVM, { t }, { .text = "VM" }, { .text = "VM (17) x" },
                    { .text = "-Ddd.service=s" }, { .text = "M" }, { 1 }, { 7 });
        MAKER_EVENT(maker, MAKER_JDK_EXECUTION, { t }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(maker, MAKER_DD_EXECUTION, { t }, { 1 }, { 1 }, { 5 }, { 6 }, { 1 },
                    { .text = "/a", .number = maker->encoding == 2 });
        MAKER_EVENT(maker, MAKER_DD_OBJECT, { t }, { 1 }, { 1 }, { 1 }, { 8 }, { .real = 1.5 }, { 5 }, { 6 });
        MAKER_EVENT(maker, MAKER_ENTER, { t }, { 9 }, { 1 }, { 1 }, { 1 });
        MAKER_EVENT(maker, MAKER_TLAB, { t }, { 1 }, { 1 }, { 1 }, { 8 }, { 16 });
        MAKER_EVENT(maker, MAKER_WALL, { t }, { 1 }, { 1 }, { 1 }, { 3 });
        MAKER_EVENT(maker, MAKER_LIBRARY, { t }, { .text = "/l" }, { 1 }, { 2 },
                    { .text = JFR_MAKER_BUILD_ID }, { 1 });
        MAKER_EVENT(maker, MAKER_SETTING, { t }, { MAKER_JDK_EXECUTION }, { .text = "period" },
                    { .text = "10 ms" });
}

static JfrMaker make(int encoding) {
        return (JfrMaker){ .encoding = encoding,
                           .n_threads = 1,
                           .n_methods = 2,
                           .n_stacks = 1,
                           .depth = 2,
                           .start_ns = 1000000000,
                           .start_ticks = 10,
                           .ticks_per_second = 1000000000,
                           .remote = encoding == 3 };
}

static void chunk(JfrMaker *maker) {
        maker_begin_chunk(maker);
        put_events(maker);
        maker_end_chunk(maker);
}

static void save(const char *directory, const char *name, JfrMaker *maker) {
        char path[512];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        file = fopen(path, "wb");
        if (!file || fwrite(maker->data, 1, maker->size, file) != maker->size || fclose(file))
                abort();
        free(maker->data);
}

int main(int argc, char **argv) {
        static const char *const names[] = { "pool-texts", "utf8-remote", "utf16", "latin1" };
        JfrMaker maker;

        if (argc != 2)
                return 2;
        for (int encoding = 2; encoding <= 5; encoding++) {
                maker = make(encoding);
                chunk(&maker);
                save(argv[1], names[encoding - 2], &maker);
        }
        maker = make(3);
        maker.plain = maker.reversed = true;
        maker.n_checkpoints = 2;
        chunk(&maker);
        save(argv[1], "plain-reversed-two-checkpoints", &maker);
        maker = make(3);
        maker.inlined = true;
        chunk(&maker);
        save(argv[1], "inlined", &maker);
        maker = make(2);
        maker.by_reference = maker.plain = true;
        chunk(&maker);
        save(argv[1], "by-reference", &maker);
        maker = make(4);
        maker.inlined = maker.by_reference = maker.methods_are_stacks = true;
        maker.stray_methods = 1;
        chunk(&maker);
        save(argv[1], "methods-are-stacks", &maker);
        maker = make(5);
        chunk(&maker);
        maker.minor = 1;
        maker.encoding = 4;
        chunk(&maker);
        maker.size -= 700;
        save(argv[1], "two-chunks-cut", &maker);
        return 0;
}
