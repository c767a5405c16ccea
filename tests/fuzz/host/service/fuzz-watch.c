/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file of sketches, behind its sum. Besides crashes, it checks that what was taken is written as it was
 * read, and that two sketches can be compared, shown and fed on.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "host/service/watch/watch-private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TIME_NS (1800 * NS_PER_SEC)

static Watch *make(void) {
        Watch *watch;

        if (watch_new(&watch, TIME_NS, WATCH_KERNEL | WATCH_NAMES))
                abort();
        return watch;
}

static void check_round_trip(const Watch *watch) {
        Watch *again = make();
        Text first = { 0 }, second = { 0 };

        watch_write(watch, &first);
        if (watch_parse(again, first.data, first.size))
                abort();
        watch_write(again, &second);
        if (first.failed || first.size != second.size || memcmp(first.data, second.data, first.size))
                abort();
        text_deinit(&first);
        text_deinit(&second);
        watch_free(again);
}

static void use(Watch *watch) {
        for (uint32_t i = 0; i < watch->n_services; i++) {
                WatchService *service = &watch->services[i];

                if (service->before && sketch_is_enough(service->before) && sketch_is_enough(service->now)) {
                        sketch_compare(service->before, service->now, &service->verdict);
                        service->is_compared = true;
                }
                for (uint32_t j = 0; j < 2 * SKETCH_ROWS; j++)
                        sketch_add(service->now, j, "f", j);
                sketch_pass(service->now, 1, 0);
        }
        check_round_trip(watch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Watch *watch = make();
        Text page = { 0 };
        int r = watch_parse(watch, data, size);

        if (r < 0 || (r && watch->n_services))
                abort();
        check_round_trip(watch);
        use(watch);
        watch_print(watch, &page);
        watch_print_json(watch, &page);
        watch_print_page(watch, &page);
        text_deinit(&page);
        watch_free(watch);
        return 0;
}
