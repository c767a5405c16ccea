/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `spool`: lists, extracts and sends what waits in a spool, and retries what a receiver has refused. Root
 * becomes the owner of the spool before it sends.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-event.h>
#include <time.h>
#include <unistd.h>

#include "core/base/data/json-writer.h"
#include "core/base/file/file.h"
#include "core/base/file/outfile.h"
#include "core/base/sandbox/rights.h"
#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/cli/cli.h"
#include "host/delivery/spool/dead-letters.h"
#include "host/delivery/spool/spool.h"
#include "host/service/config/config-exporter.h"

/* To look into: the spool, and its dead letters; *lettersp is NULL if there are none that can be read. */
static int open_spool(const Config *config, Spool **spoolp, Spool **lettersp) {
        SpoolProblem problem;
        int r = spool_new(spoolp, config->spool.directory, NULL, true, &problem);

        if (r == SPOOL_E_UNUSABLE)
                log_error("%s: %s", config->spool.directory, problem.text);
        if (r)
                return STATUS_FAILURE;
        r = dead_letters_open(lettersp, config->spool.directory, &problem);
        if (r == SPOOL_E_UNUSABLE)
                log_warning("%s/" SPOOL_DEAD_LETTERS ": %s", config->spool.directory, problem.text);
        return r < 0 ? STATUS_FAILURE : 0;
}

/* State of a file by a look into it, in one word. */
static const char *state_of(const Spool *spool, const SpoolEntry *entry, SpoolHeader *header) {
        _cleanup_(freep) uint8_t *request = NULL;

        *header = (SpoolHeader){ 0 };
        switch (spool_read(spool, entry, header, &request)) {
        case 0:
                return header->form == SPOOL_JSON ? "json" : "protobuf";
        case SPOOL_FILE_E_SCHEMA:
                return "schema";
        default:
                return "corrupt";
        }
}

static void print_entry(const Spool *spool, const SpoolEntry *entry, bool is_dead, JsonWriter *json) {
        time_t seconds = (time_t)(entry->time_ns / NS_PER_SEC);
        char name[128], date[40] = "";
        SpoolHeader header;
        const char *state = state_of(spool, entry, &header);
        struct tm tm;

        spool_entry_name(entry, name, sizeof(name));
        if (gmtime_r(&seconds, &tm))
                strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm);
        if (!json) {
                printf("%s  %8" PRIu64 " samples  %10" PRIu64 " bytes  %-8s  %s%s\n", date, entry->n_events,
                       entry->size, state, is_dead ? SPOOL_DEAD_LETTERS "/" : "", name);
                return;
        }
        json_line(json, 2);
        json_open(json, NULL, '{');
        json_text(json, "name", name);
        json_text(json, "time", date);
        json_number(json, "samples", entry->n_events);
        json_number(json, "bytes", entry->size);
        json_number(json, "request_bytes", header.request_size);
        json_text(json, "state", state);
        json_bool(json, "dead", is_dead);
        json_close(json, '}');
}

/* @spool: NULL = no entries. */
static void print_entries(const Spool *spool, bool is_dead, JsonWriter *json) {
        for (size_t i = 0; spool && i < spool_n(spool); i++)
                print_entry(spool, spool_entry(spool, i), is_dead, json);
}

static void print_json(const Spool *spool, const Spool *letters) {
        JsonWriter json = { .out = stdout, .is_spaced = true };

        json_open(&json, NULL, '[');
        print_entries(spool, false, &json);
        print_entries(letters, true, &json);
        json_line(&json, 0);
        json_close(&json, ']');
        json_end(&json);
}

static int list(const Cli *cli) {
        _cleanup_(spool_freep) Spool *spool = NULL, *letters = NULL;
        int r = open_spool(&cli->config, &spool, &letters);

        if (r)
                return r;
        if (cli->config.command.json) {
                print_json(spool, letters);
                return STATUS_OK;
        }
        print_entries(spool, false, NULL);
        print_entries(letters, true, NULL);
        printf("%zu requests, %" PRIu64 " samples, %" PRIu64 " bytes in %s\n", spool_n(spool),
               spool_events(spool), spool_bytes(spool), cli->config.spool.directory);
        if (letters && spool_n(letters))
                printf("%zu more requests, %" PRIu64 " samples, were refused: `spanprof spool retry` sends them again\n",
                       spool_n(letters), spool_events(letters));
        return STATUS_OK;
}

static int write_request(int directory, const char *name, const void *data, size_t size) {
        _cleanup_(closep) int fd = openat(directory, name,
                                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return -errno;
        r = file_write(fd, data, size);
        if (r)
                unlinkat(directory, name, 0);
        return r;
}

/* A file that cannot be read, or whose name is taken, is told and left out. */
static int extract_entry(const Spool *spool, const SpoolEntry *entry, int directory) {
        _cleanup_(freep) uint8_t *request = NULL;
        char name[128], to[160];
        SpoolHeader header;
        int r;

        spool_entry_name(entry, name, sizeof(name));
        if (spool_read(spool, entry, &header, &request) || !request) {
                log_error("%s: cannot be read, or is of another version", name);
                return STATUS_FAILURE;
        }
        snprintf(to, sizeof(to), "%.*s.%s", (int)(strlen(name) - strlen(".batch")), name,
                 header.form == SPOOL_JSON ? "json" : "pb");
        r = write_request(directory, to, request, header.request_size);
        if (r)
                log_error("%s: %s", to, strerror(-r));
        return r ? STATUS_FAILURE : 0;
}

/* @np: requests that were written. */
static int extract_all(const Spool *spool, int directory, size_t *np) {
        int r = 0;

        for (size_t i = 0; spool && i < spool_n(spool); i++) {
                int bad = extract_entry(spool, spool_entry(spool, i), directory);

                r |= bad;
                *np += !bad;
        }
        return r;
}

static int extract(const Cli *cli) {
        const char *path = *cli->config.command.output ? cli->config.command.output : "spanprof-spool";
        _cleanup_(spool_freep) Spool *spool = NULL, *letters = NULL;
        _cleanup_(closep) int directory = -1;
        int r = open_spool(&cli->config, &spool, &letters);
        size_t n = 0;

        if (r)
                return r;
        r = outfile_open_directory(path, OUTFILE_NO_HEIR, &directory);
        if (r) {
                log_error("cannot store in %s: %s", path, outfile_problem(r));
                return STATUS_FAILURE;
        }
        r = extract_all(spool, directory, &n);
        r |= extract_all(letters, directory, &n);
        printf("%zu requests in %s\n", n, path);
        return r ? STATUS_FAILURE : STATUS_OK;
}

/* Until nothing is left, or the first failure: a person waits. */
static int send_all(Exporter *exporter, sd_event *event) {
        while (exporter_spooled_batches(exporter) || exporter_queued_events(exporter)) {
                if (exporter_count(exporter, COUNTER_EXPORT_RETRIES))
                        return STATUS_FAILURE;
                if (sd_event_run(event, UINT64_MAX) < 0)
                        return STATUS_FAILURE;
        }
        return stat_lost() ? STATUS_FAILURE : STATUS_OK;
}

/*
 * So that root leaves no file in it that the daemon, who is not root, could not open. Files of TLS may be
 * root's.
 */
static int become_owner(const char *path) {
        RightsUser owner = { 0 };
        struct stat st;
        int r;

        if (geteuid() != 0 || stat(path, &st) || st.st_uid == 0)
                return 0;
        owner.uid = st.st_uid;
        owner.gid = st.st_gid;
        r = rights_drop(&owner, RIGHTS_OF(CAP_DAC_READ_SEARCH));
        if (r)
                log_error("%s: belongs to user %u, who we cannot become: %s", path, owner.uid, strerror(-r));
        return r ? STATUS_FAILURE : 0;
}

static int flush(const Cli *cli) {
        ExporterConfig config = config_exporter_spooled(&cli->config, cli->config.delivery.profiles_url);
        _cleanup_(exporter_freep) Exporter *exporter = NULL;
        sd_event *event = NULL;
        int r = STATUS_FAILURE;

        config.spool_required = true;
        /* the service makes its own directory, as its own user */
        if (!config_spool_is_chosen(&cli->config) && access(config.spool, F_OK)) {
                log_error("%s: %s", config.spool, strerror(errno));
                return STATUS_FAILURE;
        }
        if (become_owner(cli->config.spool.directory))
                return STATUS_FAILURE;
        if (sd_event_new(&event) < 0)
                return STATUS_FAILURE;
        if (!exporter_new(&exporter, event, &config)) {
                r = send_all(exporter, event);
                printf("%" PRIu64 " samples delivered, %" PRIu64 " lost, %" PRIu64 " left in %s\n",
                       stat_get(COUNTER_SAMPLES_DELIVERED), stat_lost(), exporter_spooled_events(exporter),
                       config.spool);
        }
        exporter = exporter_free(exporter);
        sd_event_unref(event);
        return r;
}

/* The bytes that exporter_submit() takes, which are protobuf. Return: 0, positive = no request, -ENOMEM. */
static int read_letter(const Spool *letters, const SpoolEntry *entry, ExportConvert convert,
                       SpoolHeader *header, uint8_t **requestp, size_t *sizep) {
        _cleanup_(freep) uint8_t *request = NULL;
        int r = spool_read(letters, entry, header, &request);

        *sizep = header->request_size;
        if (!r && header->form == SPOOL_JSON)
                return convert(request, *sizep, false, requestp, sizep);
        *requestp = take(request);
        return r;
}

typedef enum Fate { FATE_DELIVERED, FATE_REFUSED, FATE_UNREADABLE, FATE_NOT_SENT } Fate;

/* Sends one, and waits for the answer. */
static Fate send_letter(Exporter *exporter, sd_event *event, const ExporterConfig *config,
                        const Spool *letters, const SpoolEntry *entry) {
        uint64_t n_ok = exporter_count(exporter, COUNTER_EXPORT_OK);
        _cleanup_(freep) uint8_t *request = NULL;
        SpoolHeader header = { 0 };
        size_t size;

        if (read_letter(letters, entry, config->spool_convert, &header, &request, &size))
                return FATE_UNREADABLE;
        if (exporter_submit(exporter, &(ExportRequest){ request, size, header.n_events, header.n_profiles }))
                return FATE_NOT_SENT;
        while (exporter_queued_events(exporter) && !exporter_count(exporter, COUNTER_EXPORT_RETRIES))
                if (sd_event_run(event, UINT64_MAX) < 0)
                        return FATE_NOT_SENT;
        if (exporter_count(exporter, COUNTER_EXPORT_RETRIES))
                return FATE_NOT_SENT;
        return exporter_count(exporter, COUNTER_EXPORT_OK) > n_ok ? FATE_DELIVERED : FATE_REFUSED;
}

/* The oldest first, until the receiver is not there. What is not delivered stays where it is. */
static int retry_letters(Exporter *exporter, sd_event *event, const ExporterConfig *config, Spool *letters) {
        uint64_t counts[FATE_NOT_SENT + 1] = { 0 }, n_events = 0;
        Fate fate = FATE_DELIVERED;

        for (size_t i = 0; i < spool_n(letters) && fate != FATE_NOT_SENT; i += fate != FATE_DELIVERED) {
                SpoolEntry entry = *spool_entry(letters, i);

                fate = send_letter(exporter, event, config, letters, &entry);
                counts[fate]++;
                if (fate != FATE_DELIVERED)
                        continue;
                n_events += entry.n_events;
                spool_remove(letters, &entry);
        }
        printf("%" PRIu64 " samples of %" PRIu64 " requests delivered, %" PRIu64 " requests refused again, "
               "%" PRIu64 " unreadable, %zu left\n",
               n_events, counts[FATE_DELIVERED], counts[FATE_REFUSED], counts[FATE_UNREADABLE],
               spool_n(letters));
        return spool_n(letters) ? STATUS_FAILURE : STATUS_OK;
}

/* Beside a daemon that uses the spool: the letters have a lock of their own. */
static int retry(const Cli *cli) {
        ExporterConfig config = config_exporter_spooled(&cli->config, cli->config.delivery.profiles_url);
        _cleanup_(sd_event_unrefp) sd_event *event = NULL;
        _cleanup_(exporter_freep) Exporter *exporter = NULL;
        _cleanup_(spool_freep) Spool *letters = NULL;
        _cleanup_(closep) int lock = -1;
        SpoolProblem problem;
        int r;

        config.spool = NULL;
        if (become_owner(cli->config.spool.directory))
                return STATUS_FAILURE;
        r = dead_letters_open(&letters, cli->config.spool.directory, &problem);
        if (r == SPOOL_E_EMPTY) {
                printf("nothing was refused\n");
                return STATUS_OK;
        }
        if (r) {
                log_error("%s/" SPOOL_DEAD_LETTERS ": %s", cli->config.spool.directory,
                          r > 0 ? problem.text : strerror(-r));
                return STATUS_FAILURE;
        }
        r = dead_letters_lock(cli->config.spool.directory, &lock);
        if (r) {
                log_error("%s/" SPOOL_DEAD_LETTERS ": %s", cli->config.spool.directory,
                          r == SPOOL_E_LOCKED ? "another `spanprof spool retry` sends them" : strerror(errno));
                return STATUS_FAILURE;
        }
        if (sd_event_new(&event) < 0 || exporter_new(&exporter, event, &config))
                return STATUS_FAILURE;
        return retry_letters(exporter, event, &config, letters);
}

static const struct {
        const char *name;
        int (*run)(const Cli *cli);
} actions[] = { { "ls", list }, { "flush", flush }, { "extract", extract }, { "retry", retry } };

static int run(Cli *cli) {
        int (*act)(const Cli *cli) = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
                if (!strcmp(cli->arguments[0], actions[i].name))
                        act = actions[i].run;
        if (!act)
                log_error("spool: `%s` is none of ls, flush, extract, retry", cli->arguments[0]);
        else if (!*cli->config.spool.directory)
                log_error("no spool is configured: name it by --spool DIRECTORY");
        return act && *cli->config.spool.directory ? act(cli) : STATUS_USAGE;
}

const Verb verb_spool = {
        .name = "spool",
        .bit = VERB_SPOOL,
        .arguments = "ls | flush | extract | retry",
        .min_arguments = 1,
        .max_arguments = 1,
        .reads_files = true,
        .summary = "list, send or unpack what waits in the spool",
        .description =
                "The spool holds requests that could not be delivered: while the receiver was away, or when the daemon\n"
                "stopped or died; and for a moment each request that is under way (--spool-mode). `ls` lists it, `extract`\n"
                "writes each request as a file that `report`, `validate` and `convert` read, and leaves the spool as it is.\n"
                "`flush` sends everything, while no daemon does: the one that uses the spool holds its lock, and sends by\n"
                "itself. `retry` sends what the receiver has refused (the directory `dead` of the spool), also beside a\n"
                "daemon; what is refused again stays. Status 1: something is left, or could not be read.\n"
                "\n"
                "  spanprof spool ls\n"
                "  spanprof spool flush --endpoint http://collector:4318\n"
                "  spanprof spool extract -o requests/\n",
        .run = run,
};
