/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The link to a JVM asks its worker for frames, takes each answer piece by piece, and checks each piece
 * before it says where the next one lies. All links share the room for one answer, since the loop asks one
 * question at a time. It is no file link (host/runtime/reader/file-link.h), which keeps what a file says for
 * all processes that have it: a JVM says addresses of its own heaps and blobs.
 */

#include "host/runtime/hotspot/hotspot-link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "host/runtime/reader/reader-text.h"

#define BATCH_NS (2 * NS_PER_MS)        /* frames of one stack are asked for within it */

/* The last answer of any worker. */
typedef struct HotspotAnswer {
        HotspotOpened opened;
        HotspotFrames frames;           /* with texts in text */
        char text[HOTSPOT_MAX_INLINED][HOTSPOT_WIRE_MAX_TEXT];
} HotspotAnswer;

struct HotspotLink {
        HotspotLinks *links;
        ReaderLink *reader;
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

/* ---- what the worker says ---- */

/* After the head of the answer. Return: 0, WORKER_SESSION_E_*. */
static int take_opened(WorkerSession *worker, const HotspotSaid *said, HotspotOpened *opened) {
        int r = worker_session_receive(worker, opened, sizeof(*opened));

        if (r)
                return r;
        reader_text_repair(opened->reason, sizeof(opened->reason));
        return worker_session_judge(worker, said->result || hotspot_wire_check_opened(opened));
}

static int hear_opened(void *userdata, WorkerSession *worker) {
        HotspotLink *link = userdata;
        HotspotSaid said;
        int r = worker_session_hear(worker, &hotspot_open_question, NULL, &said);

        r = r ?: take_opened(worker, &said, &link->links->answer->opened);
        return r ? HOTSPOT_E_GONE : said.result;
}

static int take_frame(WorkerSession *worker, HotspotAnswer *answer, uint32_t i) {
        char *text = answer->text[i];
        HotspotWireFrame frame;
        size_t size;
        int r = worker_session_receive(worker, &frame, sizeof(frame));

        if (r)
                return r;
        size = (size_t)frame.n_name + frame.n_signature + frame.n_file;
        r = worker_session_judge(worker, size <= sizeof(answer->text[i]));
        r = r ?: worker_session_receive(worker, text, size);
        return r ?: worker_session_judge(worker, hotspot_wire_take(&answer->frames.frames[i], &frame, text));
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
        const Question *asked = userdata;
        HotspotAnswer *answer = asked->link->links->answer;
        HotspotQuestion question = { .magic = HOTSPOT_WIRE_MAGIC,
                                     .kind = HOTSPOT_SAID_FRAMES,
                                     .is_first = is_new_batch(asked->link, clock_monotonic_ns()) };
        HotspotSaid said;

        memcpy(question.words, asked->words, sizeof(question.words));
        if (worker_session_ask(worker, &hotspot_frames_question, &question, -1, &said))
                return HOTSPOT_E_GONE;
        answer->frames.n = 0;
        answer->frames.is_short = said.is_short;
        for (uint32_t i = 0; i < said.n; i++, answer->frames.n++)
                if (take_frame(worker, answer, i))
                        return HOTSPOT_E_GONE;
        return said.result;
}

/* ---- one JVM ---- */

int hotspot_link_new(HotspotLink **linkp, HotspotLinks *links, const ReaderSubject *subject) {
        static const ReaderOps ops = { .name = "java", .question = &hotspot_open_question,
                                       .hear_opened = hear_opened };
        HotspotLink *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return error_origin(-ENOMEM);
        link->links = links;
        r = reader_link_new(&link->reader, links->readers, &ops, link, subject);
        if (r) {
                free(link);
                return error_fold(r);
        }
        *linkp = link;
        return 0;
}

HotspotLink *hotspot_link_free(HotspotLink *link) {
        if (!link)
                return NULL;
        reader_link_free(link->reader);
        free(link);
        return NULL;
}

int hotspot_link_open(HotspotLink *link, const HotspotOpened **openedp) {
        HotspotOpened *opened = &link->links->answer->opened;
        int result = 0, r;

        *openedp = opened;
        *opened = (HotspotOpened){ .reason = "java: not readable for us" };
        r = reader_link_open(link->reader, &result);
        if (r == READER_LINK_E_GONE)
                *opened = (HotspotOpened){ .reason = "java: no worker could read it so far" };
        return !r ? result : r == READER_LINK_E_GONE ? HOTSPOT_E_GONE : HOTSPOT_E_LATER;
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

static int ask_locks(void *userdata, WorkerSession *worker) {
        const HotspotQuestion question = { .magic = HOTSPOT_WIRE_MAGIC, .kind = HOTSPOT_SAID_LOCKS };
        RuntimeLocks *locks = userdata;
        HotspotSaid said;

        if (worker_session_ask(worker, &hotspot_locks_question, &question, -1, &said) ||
            worker_session_receive(worker, locks, runtime_locks_size(said.n)) ||
            worker_session_judge(worker, locks->n == said.n && reader_locks_check(locks)))
                return HOTSPOT_E_GONE;
        return 0;
}

int hotspot_link_locks(HotspotLink *link, RuntimeLocks *locks) {
        int result = HOTSPOT_E_LATER, r = reader_link_ask(link->reader, ask_locks, locks, &result);

        return r || result ? HOTSPOT_E_LATER : 0;
}

uint64_t hotspot_link_cpu_ns(const HotspotLink *link) {
        return reader_link_cpu_ns(link->reader);
}
