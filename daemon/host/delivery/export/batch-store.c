/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the port of a store by doing nothing, for an exporter without a spool.
 */

#include "host/delivery/export/batch-store.h"

static void none_listen(void *self, const BatchStoreEvents *events, ExportBooks *books, void *userdata) {
}

/* Nothing is left to do, now or later. */
static bool none_hold(void *self, Batch *batch) {
        return true;
}

static bool none_keep(void *self, Batch *batch, bool last) {
        return false;
}

static bool none_fetch(void *self, const SpoolEntry *after) {
        return false;
}

static bool none_bury(void *self, Batch *batch) {
        return false;
}

static void none_remove(void *self, Batch *batch) {
}

static void none_finish(void *self, uint64_t deadline_ns) {
}

static BatchStoreLevel none_level(const void *self) {
        return (BatchStoreLevel){ 0 };
}

static void none_free(void *self) {
}

BatchStore batch_store_none(void) {
        static const BatchStoreOps ops = { none_listen, none_hold,   none_keep,  none_fetch, none_bury,
                                           none_remove, none_finish, none_level, none_free };

        return (BatchStore){ .ops = &ops };
}
