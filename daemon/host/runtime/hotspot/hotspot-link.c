/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks a worker for the frames of a JVM, with one deadline for all frames of a stack.
 */

#include "host/runtime/hotspot/hotspot-link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/runtime/hotspot/hotspot-session.h"

#define BATCH_NS (2 * NS_PER_MS)        /* frames of one stack are asked for within it */

struct HotspotLink {
        HotspotLinks *links;
        ReaderLink *reader;
        uint64_t size, bias;
        int fd;
        uint64_t batch_ns;              /* the last batch began */
};

struct HotspotLinks {
        ReaderLinks *readers;
        HotspotAnswer *answer;
};

int hotspot_links_new(HotspotLinks **linksp, ReaderLinks *readers) {
        _cleanup_(hotspot_links_freep) HotspotLinks *links = calloc(1, sizeof(*links));

        if (!links)
                return error_origin(-ENOMEM);
        links->readers = readers;
        links->answer = calloc(1, sizeof(*links->answer));
        if (!links->answer)
                return error_origin(-ENOMEM);
        *linksp = take(links);
        return 0;
}

HotspotLinks *hotspot_links_free(HotspotLinks *links) {
        if (links)
                free(links->answer);
        free(links);
        return NULL;
}

void hotspot_links_tend(HotspotLinks *links, uint64_t now_ns) {
        reader_links_tend(links->readers, now_ns);
}

static int open_jvm(void *userdata, WorkerSession *worker, const ReaderHandle *handle) {
        HotspotLink *link = userdata;
        HotspotSession session = { .worker = worker, .answer = link->links->answer };

        return hotspot_session_open(&session, handle, link->fd, link->size, link->bias);
}

static const ReaderOps ops = { .name = "java", .open = open_jvm };

int hotspot_link_new(HotspotLink **linkp, HotspotLinks *links, pid_t pid, uint64_t start_time_ns, int fd,
                     uint64_t size, uint64_t bias) {
        HotspotLink *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return error_origin(-ENOMEM);
        r = reader_link_new(&link->reader, links->readers, &ops, link, pid, start_time_ns);
        if (r) {
                free(link);
                return error_fold(r);
        }
        link->links = links;
        link->size = size;
        link->bias = bias;
        link->fd = fd;
        *linkp = link;
        return 0;
}

HotspotLink *hotspot_link_free(HotspotLink *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        closep(&link->fd);
        free(link);
        return NULL;
}

int hotspot_link_open(HotspotLink *link, const HotspotOpened **openedp) {
        HotspotOpened *opened = &link->links->answer->opened;
        int result = 0, r;

        *openedp = opened;
        *opened = (HotspotOpened){ .reason = "java: not readable for us" };
        r = reader_link_open(link->reader, &result);
        return !r ? result : r == READER_LINK_E_GONE ? HOTSPOT_E_GONE : HOTSPOT_E_LATER;
}

static bool is_new_batch(HotspotLink *link, uint64_t now_ns) {
        if (now_ns - link->batch_ns <= BATCH_NS)
                return false;
        link->batch_ns = now_ns;
        return true;
}

typedef struct Question {
        HotspotLink *link;
        const uint64_t *words;
} Question;

/* There is a worker, so what this batch has read before is its own. */
static int ask_frames(void *userdata, WorkerSession *worker) {
        const Question *question = userdata;
        HotspotSession session = { .worker = worker, .answer = question->link->links->answer };

        return hotspot_session_frames(&session, question->words,
                                      is_new_batch(question->link, clock_monotonic_ns()));
}

int hotspot_link_frames(HotspotLink *link, const uint64_t words[HOTSPOT_WORDS],
                        const HotspotFrames **framesp) {
        Question question = { .link = link, .words = words };
        int result = HOTSPOT_E_LATER, r;

        r = reader_link_ask(link->reader, ask_frames, &question, &result);
        *framesp = &link->links->answer->frames;
        if (r || (result && result != HOTSPOT_E_UNLOADED && result != HOTSPOT_E_NAMELESS))
                return HOTSPOT_E_LATER;
        return result;
}

uint64_t hotspot_link_cpu_ns(const HotspotLink *link) {
        return reader_link_cpu_ns(link->reader);
}
