/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `receive`: serves requests, decodes each within an allowance that its size earns, stores it, prints one
 * line about it, and passes it on where that is wanted.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/confine.h"
#include "core/base/sandbox/landlock.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/stop-signals.h"
#include "core/http/bearer.h"
#include "core/http/endpoint.h"
#include "core/http/receiver.h"
#include "core/otlp/decode.h"
#include "core/otlp/json.h"
#include "core/otlp/messages.h"
#include "core/otlp/split.h"
#include "desk/receive/store.h"
#include "host/cli/cli.h"
#include "host/delivery/export/exporter.h"
#include "host/service/config/config-exporter.h"
#include "host/service/config/option-check.h"
#include "host/service/run/demotion.h"

#define DEFAULT_OUTPUT "spanprof-received"

/*
 * Memory that a request may take: a free amount, and beyond it a multiple of the bytes that its sender sent.
 * An honest request, compressed, becomes some thirty times as large as JSON, and less as a message. A bomb
 * becomes tens of thousands of times as large.
 */
enum {
        MAX_JSON_BYTES = 16 << 20,      /* received as JSON: its tree takes thirty times the text */
        FREE_MEMORY = 64 << 20,
        FREE_TWIN = 16 << 20,           /* JSON that is stored */
        MAX_TWIN = 256 << 20,
        MAX_RATIO = 128,
        /* JSON: the text is some 30 times its gzip, its tree 30 times the text */
        MAX_TREE_RATIO = 1024,
};

typedef struct Receive {
        const Config *config;
        sd_event *event;
        Receiver *receiver;
        Store *store;                   /* NULL = forward only */
        Exporter *exporter;             /* NULL = not forwarded */
        const char *output;
        Bearer bearer;                  /* empty = no request needs a token */
        RightsUser user;                /* the user that root becomes */
        bool becomes, stays;            /* root has started us; it stays user 0, without rights */
        StopSignals signals;
        uint64_t n_requests, n_samples;
        uint64_t n_overexpanded;        /* refused for the memory or the JSON that they would take */
        uint64_t n_over_share;          /* refused since their sender has its share of the store */
        uint64_t n_unsplit;             /* stored whole, as they would have too many parts */
        uint64_t first, last;           /* numbers of stored requests, 0 = none */
} Receive;

static void message_freep(ProtobufCMessage **message) {
        if (*message)
                protobuf_c_message_free_unpacked(*message, NULL);
}

/* Samples as the daemon counts them: one for each timestamp, or one for each sample without any. */
static uint64_t count_samples(const OtlpProfile *profile) {
        uint64_t n = 0;

        for (size_t i = 0; i < profile->n_samples; i++)
                n += MAX(profile->samples[i]->n_timestamps_unix_nano, (size_t)1);
        return n;
}

static void count(const OtlpRequest *message, ExportRequest *request) {
        for (size_t i = 0; i < message->n_resource_profiles; i++) {
                const OtlpResourceProfiles *resource = message->resource_profiles[i];

                for (size_t j = 0; j < resource->n_scope_profiles; j++) {
                        const OtlpScopeProfiles *scope = resource->scope_profiles[j];

                        request->n_profiles += scope->n_profiles;
                        for (size_t k = 0; k < scope->n_profiles; k++)
                                request->n_events += count_samples(scope->profiles[k]);
                }
        }
}

static uint64_t allowance(const ReceiverRequest *request, uint64_t free_bytes, uint64_t ratio) {
        return free_bytes + request->n_sent * ratio;
}

static ReceiverVerdict overexpanded(Receive *receive, const ReceiverRequest *request, const char *as,
                                    char *why, size_t why_size) {
        static LogLimit limit;
        uint64_t n_skipped;

        receive->n_overexpanded++;
        snprintf(why, why_size, "the request would take too much %s for what was sent; send it in parts", as);
        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("refused %zu bytes from %s: they would take too much %s (%" PRIu64
                            " more since the last message)",
                            request->n_sent, request->sender, as, n_skipped);
        return RECEIVER_TOO_LARGE;
}

static ReceiverVerdict decode_json(Receive *receive, const ReceiverRequest *request,
                                   ProtobufCMessage **messagep, char *why, size_t why_size) {
        const char *text = (const char *)request->data;
        char where[128] = "";
        int r;

        if (request->size > MAX_JSON_BYTES) {
                snprintf(why, why_size, "JSON of more than %d MiB; send protobuf", MAX_JSON_BYTES >> 20);
                return RECEIVER_TOO_LARGE;
        }
        if (otlp_json_memory(text, request->size) > allowance(request, FREE_MEMORY, MAX_TREE_RATIO))
                return overexpanded(receive, request, "memory", why, why_size);
        r = otlp_json_parse(OTLP_REQUEST_DESCRIPTOR, text, request->size, messagep, where, sizeof(where));
        if (!r)
                return RECEIVER_TAKEN;
        if (r > 0)
                snprintf(why, why_size, "no ExportProfilesServiceRequest in JSON: %s%s",
                         r == OTLP_JSON_E_SYNTAX ? "syntax error" : "wrong value at ", where);
        return r > 0 ? RECEIVER_MALFORMED : RECEIVER_BUSY;
}

static ReceiverVerdict decode_protobuf(Receive *receive, const ReceiverRequest *request,
                                       ProtobufCMessage **messagep, char *why, size_t why_size) {
        uint64_t max_memory = allowance(request, FREE_MEMORY, MAX_RATIO);
        int r = otlp_decode(OTLP_REQUEST_DESCRIPTOR, request->data, request->size, max_memory, messagep);

        if (!r)
                return RECEIVER_TAKEN;
        if (r == OTLP_DECODE_E_TOO_LARGE)
                return overexpanded(receive, request, "memory", why, why_size);
        snprintf(why, why_size, "no ExportProfilesServiceRequest in protobuf%s",
                 r == OTLP_DECODE_E_TOO_DEEP ? ": nested too deeply" : "");
        return RECEIVER_MALFORMED;
}

static ReceiverVerdict decode(Receive *receive, const ReceiverRequest *request, ProtobufCMessage **messagep,
                              char *why, size_t why_size) {
        snprintf(why, why_size, "out of memory");
        return request->json ? decode_json(receive, request, messagep, why, why_size) :
                               decode_protobuf(receive, request, messagep, why, why_size);
}

/* Why the store takes nothing, for the log and for the sender. */
typedef struct StoreTexts {
        const char *log, *sender;
} StoreTexts;

static StoreTexts describe_store(int r) {
        switch (r) {
        case STORE_E_LIMIT:
                return (StoreTexts){
                        "it is at its limit (--max-bytes, --max-files); remove what is not needed",
                        "the receiver's store is full (--max-bytes, --max-files)",
                };
        case STORE_E_SHARE:
                return (StoreTexts){
                        "it is at its limit for this sender (7/8 of --max-bytes, --max-files); the rest is for others",
                        "this sender's share of the receiver's store is full (--max-bytes, --max-files)",
                };
        default:
                return (StoreTexts){ strerror(errno),
                                     r < 0 ? "out of memory" : "the receiver cannot write to its store" };
        }
}

/* A sender comes back every few seconds, and there may be many. */
static void complain_of_store(const Receive *receive, const char *sender, const char *why) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (!log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                return;
        if (n_skipped)
                log_error("cannot store a request from %s in %s: %s (%" PRIu64
                          " more since the last message)",
                          sender, receive->output, why, n_skipped);
        else
                log_error("cannot store a request from %s in %s: %s", sender, receive->output, why);
}

static int append_piece(const char *data, size_t size, void *file) {
        return store_append(file, data, size);
}

static int print_message(StoreFile *file, void *message) {
        return otlp_json_write(message, 1, append_piece, file);
}

static ReceiverVerdict explain_store(Receive *receive, const ReceiverRequest *request, int r, char *why,
                                     size_t why_size) {
        StoreTexts texts;

        if (r == STORE_E_JSON)
                return overexpanded(receive, request, "room as JSON", why, why_size);
        receive->n_over_share += r == STORE_E_SHARE;
        texts = describe_store(r);
        if (r > 0)
                complain_of_store(receive, request->sender, texts.log);
        snprintf(why, why_size, "%s", texts.sender);
        return RECEIVER_BUSY;
}

/* A decoded request, and its bytes as protobuf, however it came. */
typedef struct Stored {
        const uint8_t *data;
        size_t size;
        ProtobufCMessage *message;
} Stored;

/* Return: as store_put(). */
static int put_pair(Receive *receive, const ReceiverRequest *request, const Stored *stored,
                    uint64_t *lastp) {
        const StoreRequest pair = {
                .sender = request->sender, .protobuf = stored->data, .protobuf_size = stored->size,
                .print = print_message, .userdata = stored->message,
                .max_json_bytes = MIN(allowance(request, FREE_TWIN, MAX_RATIO), (uint64_t)MAX_TWIN),
        };

        return store_put(receive->store, &pair, lastp);
}

static int put_whole(Receive *receive, const ReceiverRequest *request, const Stored *stored, uint64_t *firstp,
                     uint64_t *lastp) {
        const StorePart whole = { .partition.mixed = true, .data = stored->data, .size = stored->size };

        receive->n_unsplit++;
        return store_put_parts(receive->store, request->sender, &whole, 1, firstp, lastp);
}

static void complain_of_directories(const Receive *receive, const char *sender) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("%s has made its share of the directories in %s (7/8 of what is left for all): new services and "
                            "hosts of it go to " PARTITION_OTHER " (%" PRIu64 " more since the last message)",
                            sender, receive->output, n_skipped);
}

static int put_parts(Receive *receive, const ReceiverRequest *request, const OtlpParts *parts,
                     uint64_t *firstp, uint64_t *lastp) {
        _cleanup_(freep) StorePart *stored = calloc(parts->n + 1, sizeof(*stored));
        uint64_t n_over_share = store_n_over_share(receive->store);
        int r;

        if (!stored)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < parts->n; i++)
                stored[i] = (StorePart){ { parts->parts[i].day, parts->parts[i].service,
                                           parts->parts[i].host, false },
                                         parts->parts[i].data,
                                         parts->parts[i].size };
        r = store_put_parts(receive->store, request->sender, stored, parts->n, firstp, lastp);
        if (store_n_over_share(receive->store) > n_over_share)
                complain_of_directories(receive, request->sender);
        return r;
}

static int put_split(Receive *receive, const ReceiverRequest *request, const Stored *stored, uint64_t *firstp,
                     uint64_t *lastp) {
        OtlpParts parts = { 0 };
        int r = otlp_split((OtlpRequest *)stored->message, stored->size, &parts);

        if (r == OTLP_SPLIT_E_LIMIT)
                return put_whole(receive, request, stored, firstp, lastp);
        if (!r)
                r = put_parts(receive, request, &parts, firstp, lastp);
        otlp_split_deinit(&parts);
        return r;
}

static ReceiverVerdict keep(Receive *receive, const ReceiverRequest *request, const Stored *stored, char *why,
                            size_t why_size) {
        bool partitioned = !strcmp(receive->config->receiver.store_layout, "partitioned");
        uint64_t first = 0, last = 0;
        int r = partitioned ? put_split(receive, request, stored, &first, &last) :
                              put_pair(receive, request, stored, &last);

        if (r)
                return explain_store(receive, request, r, why, why_size);
        first = first ? first : last;
        receive->first = receive->first ? receive->first : first;
        receive->last = MAX(receive->last, last);
        log_debug("stored %06" PRIu64 " to %06" PRIu64 " in %s", first, last, receive->output);
        return RECEIVER_TAKEN;
}

static ReceiverVerdict on_request(const ReceiverRequest *request, char *why, size_t why_size,
                                  void *userdata) {
        _cleanup_(message_freep) ProtobufCMessage *message = NULL;
        _cleanup_(freep) uint8_t *packed = NULL;
        const uint8_t *data = request->data;
        size_t size = request->size;
        Receive *receive = userdata;
        ReceiverVerdict verdict = decode(receive, request, &message, why, why_size);
        ExportRequest forwarded = { 0 };

        if (verdict != RECEIVER_TAKEN)
                return verdict;
        if (request->json) {
                size = protobuf_c_message_get_packed_size(message);
                data = packed = malloc(size + 1);
                if (!packed)
                        return RECEIVER_BUSY;
                protobuf_c_message_pack(message, packed);
        }
        forwarded.data = data;
        forwarded.size = size;
        count((const OtlpRequest *)message, &forwarded);
        if (receive->store)
                verdict = keep(receive, request, &(Stored){ data, size, message }, why, why_size);
        if (verdict == RECEIVER_TAKEN && receive->exporter &&
            exporter_submit(receive->exporter, &forwarded))
                log_error("out of memory: a request was not forwarded");
        if (verdict == RECEIVER_TAKEN) {
                receive->n_requests++;
                receive->n_samples += forwarded.n_events;
        }
        return verdict;
}

static void on_stopped(void *userdata) {
        sd_event_exit(((Receive *)userdata)->event, 0);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata) {
        Receive *receive = userdata;
        int number = (int)info->ssi_signo;

        switch (stop_signals_take(&receive->signals, number, info->ssi_code, clock_monotonic_ns())) {
        case STOP_WISH_DUPLICATE:
                return 0;
        case STOP_WISH_IMPATIENT:
                log_warning("%s, once more: waits for the next receiver no longer", strsignal(number));
                exporter_give_up(receive->exporter);
                return sd_event_exit(receive->event, 0);
        case STOP_WISH_FIRST:
                break;
        }
        if (!receive->exporter || !exporter_queued_events(receive->exporter))
                return sd_event_exit(receive->event, 0);
        return exporter_stop(receive->exporter,
                             clock_monotonic_ns() + receive->config->delivery.stop_timeout_ns, on_stopped,
                             receive);
}

static int open_store(Receive *receive) {
        const Config *config = receive->config;
        const StoreLimits limits = { config->receiver.max_stored_bytes, config->receiver.max_stored_files };
        int r;

        receive->output = *config->command.output ? config->command.output : DEFAULT_OUTPUT;
        if (!*config->command.output && *config->receiver.forward)
                return 0;
        r = store_new(&receive->store, receive->output,
                      receive->becomes ? receive->user.uid : OUTFILE_NO_HEIR, &limits);
        if (r == STORE_E_DIRECTORY)
                log_error("cannot store in %s: %s", receive->output, store_problem());
        return r ? STATUS_FAILURE : 0;
}

static int open_exporter(Receive *receive) {
        const Config *config = receive->config;
        ExporterConfig exporter;
        _cleanup_(freep) char *url = NULL;

        if (!*config->receiver.forward)
                return 0;
        if (config_profiles_url(config->receiver.forward, false, &url))
                return STATUS_FAILURE;
        exporter = config_exporter(config, url);
        return exporter_new(&receive->exporter, receive->event, &exporter) ? STATUS_FAILURE : 0;
}

/* While root still may: a file of secrets is root's alone. */
static int read_tokens(Receive *receive) {
        const char *path = receive->config->receiver.token_file;
        int r = *path ? bearer_read(&receive->bearer, "token-file", path) : 0;

        return r > 0 ? STATUS_CONFIG : r < 0 ? STATUS_FAILURE : 0;
}

/* The port is part of the address, or an option of its own. */
static int find_address(const Config *config, char *host, size_t size, uint16_t *portp) {
        const ConfigOrigin *own = config_origin(config, "port");
        bool has_port = false;

        *portp = (uint16_t)config->receiver.port;
        option_split_listen(config->receiver.listen, host, size, &has_port, portp);
        if (!has_port || own->level == CONFIG_DEFAULT || *portp == config->receiver.port)
                return 0;
        log_error("listen = %s and port = %u name two ports: leave one of them out", config->receiver.listen,
                  (unsigned)config->receiver.port);
        return STATUS_CONFIG;
}

static int open_receiver(Receive *receive) {
        char host[256] = "";
        uint16_t port;
        int r = find_address(receive->config, host, sizeof(host), &port);
        const ReceiverConfig config = {
                .address = host,
                .port = port,
                .max_request_bytes = receive->config->receiver.max_request_bytes,
                .bearer = receive->bearer.n ? &receive->bearer : NULL,
                .on_request = on_request,
                .userdata = receive,
        };

        if (r)
                return r;
        r = receiver_new(&receive->receiver, receive->event, &config);
        if (r == RECEIVER_E_TAKEN)
                log_error("cannot listen on port %u: %s; another receiver or collector runs there: stop it, or choose "
                          "another port with --port (--port 0 takes any free one)",
                          config.port, strerror(EADDRINUSE));
        return r ? STATUS_FAILURE : 0;
}

static int add_signals(Receive *receive) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 ||
            sd_event_add_signal(receive->event, NULL, SIGTERM, on_signal, receive) < 0 ||
            sd_event_add_signal(receive->event, NULL, SIGINT, on_signal, receive) < 0)
                return STATUS_FAILURE;
        return 0;
}

/* Without a token every client that reaches the port can fill the store. */
static void warn_of_strangers(const Receive *receive) {
        const char *url = receiver_url(receive->receiver);

        if (!strncmp(url, "http://127.", 11) || !strncmp(url, "http://[::1]", 12))
                return;
        if (receive->bearer.n)
                log_notice("%s can be reached from other machines, and tokens come in the clear: let a proxy with TLS stand "
                           "before it where others can listen",
                           url);
        else
                log_warning("%s can be reached from other machines, and takes requests from anybody: set `token-file`, or "
                            "listen on 127.0.0.1 behind a proxy that knows its clients",
                            url);
}

static void print_start(const Receive *receive) {
        _cleanup_(text_deinit) Text forward = { 0 };

        warn_of_strangers(receive);
        printf("listening on %s", receiver_url(receive->receiver));
        if (receive->store)
                printf(", storing in %s", receive->output);
        if (receive->exporter) {
                endpoint_append_shown(&forward, receive->config->receiver.forward);
                printf(", forwarding to %s", forward.data ? forward.data : "");
        }
        printf("\n");
        fflush(stdout);
}

static void print_refused(const Receive *receive) {
        const ReceiverCounts *counts = receiver_counts(receive->receiver);

        if (counts->n_unauthorized)
                printf(", refused %" PRIu64 " without a token", counts->n_unauthorized);
        if (!(counts->n_malformed + counts->n_misplaced + counts->n_too_large + counts->n_busy))
                return;
        printf(", refused %" PRIu64 " malformed, %" PRIu64 " misplaced, %" PRIu64
               " too large (of which %" PRIu64 " expand too far), %" PRIu64
               " for want of room (of which %" PRIu64 " of senders with their share)",
               counts->n_malformed, counts->n_misplaced, counts->n_too_large,
               counts->n_overexpanded + receive->n_overexpanded, counts->n_busy, receive->n_over_share);
        if (counts->n_too_many)
                printf(", %" PRIu64 " of senders with too many requests", counts->n_too_many);
}

static void print_unparted(const Receive *receive) {
        uint64_t n_crowded = receive->store ? store_n_crowded(receive->store) : 0,
                 n_over_share = receive->store ? store_n_over_share(receive->store) : 0;

        if (n_crowded)
                printf(", %" PRIu64 " parts in " PARTITION_OTHER " (too many directories)", n_crowded);
        if (n_over_share)
                printf(", %" PRIu64 " parts in " PARTITION_OTHER " (of senders with their share of directories)",
                       n_over_share);
        if (receive->n_unsplit)
                printf(", %" PRIu64 " requests whole in " PARTITION_OTHER " (too many parts)",
                       receive->n_unsplit);
}

/* Connections that were idle are no news. */
static void print_closed(void) {
        uint64_t headers = stat_get(COUNTER_CONNECTIONS_SLOW_HEADERS),
                 body = stat_get(COUNTER_CONNECTIONS_SLOW_BODY),
                 answer = stat_get(COUNTER_CONNECTIONS_SLOW_ANSWER),
                 address = stat_get(COUNTER_CONNECTIONS_ADDRESS_FULL),
                 full = stat_get(COUNTER_CONNECTIONS_FULL);

        if (headers + body + answer + address + full)
                printf(", closed connections: %" PRIu64 " slow headers, %" PRIu64 " slow body, %" PRIu64
                       " slow answer, %" PRIu64 " too many of an address, %" PRIu64 " too many",
                       headers, body, answer, address, full);
}

static void print_summary(const Receive *receive) {
        printf("received %" PRIu64 " requests with %" PRIu64 " samples", receive->n_requests,
               receive->n_samples);
        if (receive->first)
                printf(", stored as %06" PRIu64 " to %06" PRIu64, receive->first, receive->last);
        print_unparted(receive);
        print_refused(receive);
        print_closed();
        if (*receive->config->receiver.forward)
                printf(", forwarded %" PRIu64 " samples, lost %" PRIu64, stat_get(COUNTER_SAMPLES_DELIVERED),
                       stat_lost());
        printf("\n");
}

/* The receiver becomes the owner of the store, so that new files in a user's store belong to that user. */
static void follow_owner(const char *path, RightsUser *user) {
        struct stat st;

        if (stat(path, &st) || st.st_uid == 0)
                return;
        user->uid = st.st_uid;
        user->gid = st.st_gid;
        snprintf(user->name, sizeof(user->name), "%u", user->uid);
}

static void give_store(Receive *receive) {
        RightsUser *user = &receive->user;
        int r = receive->stays || !receive->store ? 0 : store_give(receive->output, user->uid, user->gid);

        if (r)
                log_notice("stays user 0, without capabilities: %s cannot be given to user `%s` (%s)",
                           receive->output, user->name,
                           r > 0 ? "it holds what is none of a store's" : strerror(-r));
        receive->stays |= r != 0;
        if (!receive->stays && receive->store)
                follow_owner(receive->output, user);
}

/* The files of TLS are read at each connection to the next receiver. */
static uint64_t needed_capabilities(const Config *config) {
        const ConfigDelivery *delivery = &config->delivery;
        bool forwards = *config->receiver.forward &&
                (*delivery->certificate || *delivery->client_certificate || *delivery->client_key);

        return forwards ? RIGHTS_OF(CAP_DAC_READ_SEARCH) : 0;
}

/* Landlock restricts later opens only: the port and the connection to the journal stay open. */
static void lock_files(const Receive *receive) {
        const Landlock landlock = { .writable = receive->store ? receive->output : NULL,
                                    .connects = receive->exporter != NULL };
        int r = landlock_enter(&landlock);

        if (r == LANDLOCK_E_ABSENT)
                log_info("this kernel has no Landlock: only the user's rights say where files may be written");
        else if (r)
                log_warning("no Landlock: %s; only the user's rights say where files may be written",
                            strerror(-r));
        else
                log_debug("Landlock: files change below %s alone", receive->store ? receive->output : "nothing");
}

/* No matter which user has started it: it starts nothing and looks into no process. */
static int drop_rights(Receive *receive) {
        int r;

        if (receive->becomes) {
                give_store(receive);
                r = demotion_drop(&receive->user, receive->stays, needed_capabilities(receive->config));
                if (r) {
                        log_error("cannot give up the rights of root: %s", strerror(-r));
                        return STATUS_FAILURE;
                }
        }
        lock_files(receive);
        r = confine();
        if (r < 0)
                log_debug("no filter of system calls: %s", strerror(-r));
        return 0;
}

static int run(Cli *cli) {
        Receive receive = { .config = &cli->config };
        int r = STATUS_FAILURE;

        receive.becomes = geteuid() == 0;
        if (receive.becomes && demotion_choose(&cli->config, &receive.user, &receive.stays))
                return STATUS_CONFIG;
        if (sd_event_new(&receive.event) >= 0)
                r = add_signals(&receive);
        if (!r)
                r = open_store(&receive);
        if (!r)
                r = read_tokens(&receive);
        if (!r)
                r = open_exporter(&receive);
        if (!r)
                r = open_receiver(&receive);
        if (!r)
                r = drop_rights(&receive);
        if (!r) {
                print_start(&receive);
                r = sd_event_loop(receive.event) < 0 ? STATUS_FAILURE : STATUS_OK;
                receive.exporter = exporter_free(receive.exporter);
                print_summary(&receive);
        }
        receiver_free(receive.receiver);
        exporter_free(receive.exporter);
        store_free(receive.store);
        bearer_deinit(&receive.bearer);
        sd_event_unref(receive.event);
        return r;
}

const Verb verb_receive = {
        .name = "receive",
        .bit = VERB_RECEIVE,
        .arguments = "",
        .reads_files = true,
        .summary = "receive profiles over OTLP/HTTP and store them",
        .description =
                "Takes POST /v1development/profiles (after any base path), as protobuf or JSON, plain or gzip, and stores\n"
                "each request as NNNNNN.pb and NNNNNN.json, readable by you alone; numbers go on from what is there.\n"
                "With --store-layout partitioned, requests are split by day, service and host: DAY/SERVICE/HOST/NNNNNN.pb,\n"
                "days by UTC. `report` and `convert` of it read what --service, --host, --start and --end leave.\n"
                "Nothing stored is ever removed: at --max-bytes or --max-files, or when the disk is full, requests are\n"
                "answered 503 with Retry-After, so that senders keep their samples and try again. One address may have at most\n"
                "7/8 of that, the next 7/8 of what is left then, and so on, so that nobody can fill it alone; the same\n"
                "holds of directories. One address may send 10,000 requests in 10 s.\n"
                "\n"
                "A request that expands too far is answered 413, and not stored: gzip to more than 64 times its size (16 MiB\n"
                "are free), a message of more than 64 MiB and 128 times what was sent, JSON beside it of more than 16 MiB and\n"
                "128 times that, or 256 MiB. Connections that are too slow are closed: headers within 10 s, bodies and\n"
                "answers at 32 KiB/s after 10 s; 256 are kept, 128 of one address, and the oldest goes for a new one.\n"
                "\n"
                "Started as root, it becomes the user of --run-as without any capability once it listens, and its directory\n"
                "goes to that user; to one that belongs to somebody else it writes as its owner.\n"
                "\n"
                "With --token-file a request needs `Authorization: Bearer TOKEN`, or is answered 401. Several lines are several\n"
                "tokens. Set it where other machines reach the port, and have a proxy with TLS before it.\n"
                "\n"
                "With --forward each request is passed on as well, or alone if there is no --output. Stops at Ctrl-C.\n"
                "\n"
                "Examples:\n"
                "  spanprof receive -o profiles\n"
                "  spanprof receive -o /srv/profiles --store-layout partitioned\n"
                "  spanprof receive --listen 0.0.0.0 --token-file /etc/spanprof/tokens -o /srv/profiles\n"
                "  spanprof receive --port 0 --forward http://collector:4318",
        .run = run,
};
