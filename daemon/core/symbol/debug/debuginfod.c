/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     get(HEX) ─▶ HEX in the cache?                 yes: that
 *              ─▶ HEX.none, younger than 10 min?    yes: none
 *              ─▶ each server, until one has it ─▶ unnamed file in the cache ─▶ worker: is it of this build?
 *                     no 404 but a fault: told, the server is left alone          no: told, none
 *                                                                                 yes: gets its name HEX
 *              ─▶ no server has it: HEX.none
 *
 * The cache is one directory of the user's (0700), so nothing in it was put there by another. Files that were
 * used longest ago go first when it is full, names of none too; a file in use stays open. Several processes
 * may share it: names appear whole, or not at all.
 */
#include "core/symbol/debug/debuginfod.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/file/directory.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/http/endpoint.h"
#include "core/http/http.h"
#include "core/symbol/debug/no-text-wire.h"

#define SUFFIX_NONE ".none"
#define SHARED_DIRECTORY "/var/cache/spanprof"
#define LONGEST_RETRY_NS (600 * NS_PER_SEC)

enum {
        MAX_URLS = 8,
        MAX_NAME = 192,
        DEFAULT_NONE_S = 600,           /* as the client of elfutils (cache_miss_s) */
        MIN_ID = 8,                     /* digits: less would be no id */
        MAX_FILES = 8192,               /* in the cache, those of SUFFIX_NONE too */
        MAX_DOUBLINGS = 7,
        MAX_REDIRECTS = 5,
};

typedef struct Server {
        char *url;
        bool is_bad;                    /* the server did not answer as it should */
        uint64_t until_ns;              /* end of the time without requests; UINT64_MAX = for good */
        unsigned n_bad;                 /* times in a row */
} Server;

struct Debuginfod {
        DebuginfodConfig config;
        Server servers[MAX_URLS];
        size_t n_servers;
        int directory;
        SymbolRemote remote;
        char problem[DEBUGINFOD_MAX_PROBLEM];
};

/* ---- the cache ---- */

/* Makes each part of a path below one that is there. */
static int make_directories(char *path) {
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                (void)!mkdir(path, 0700);
                *slash = '/';
        }
        return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* The first of the directories that a service manager has made. NULL = none. */
static const char *given_directory(void) {
        const char *cache = getenv("CACHE_DIRECTORY"), *state = getenv("STATE_DIRECTORY");

        return cache && *cache == '/' ? cache : state && *state == '/' ? state : NULL;
}

/* A process that has become another user still has the variables of root. */
static bool is_own(const char *path) {
        struct stat st;

        return path && *path == '/' && (stat(path, &st) < 0 ? errno == ENOENT : st.st_uid == geteuid());
}

/*
 * $CACHE_DIRECTORY or $STATE_DIRECTORY of a service manager, else $XDG_CACHE_HOME/spanprof, else
 * ~/.cache/spanprof, if these are the user's own, else SHARED_DIRECTORY.
 */
static int cache_path(const char *directory, char **pathp) {
        const char *given = given_directory(), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
        int r;

        if (directory)
                r = asprintf(pathp, "%s", directory);
        else if (given)
                r = asprintf(pathp, "%.*s/debuginfod", (int)strcspn(given, ":"), given);
        else if (is_own(xdg))
                r = asprintf(pathp, "%s/spanprof/debuginfod", xdg);
        else if (is_own(home))
                r = asprintf(pathp, "%s/.cache/spanprof/debuginfod", home);
        else
                r = asprintf(pathp, "%s/debuginfod", SHARED_DIRECTORY);
        return r < 0 ? error_origin(-ENOMEM) : 0;
}

static bool is_ours(const char *name, bool is_directory) {
        size_t n = strspn(name, "0123456789abcdef");

        return !is_directory && n >= MIN_ID && (!name[n] || !strcmp(name + n, SUFFIX_NONE));
}

int debuginfod_give(uint32_t uid, uint32_t gid, char **pathp) {
        const char *given = given_directory();
        int r = given ? asprintf(pathp, "%.*s/debuginfod", (int)strcspn(given, ":"), given)
                      : asprintf(pathp, "%s/debuginfod", SHARED_DIRECTORY);

        if (r < 0)
                return error_origin(-ENOMEM);
        r = make_directories(*pathp);
        return r ? r : directory_give(*pathp, uid, gid, is_ours);
}

static int open_cache(Debuginfod *client) {
        _cleanup_(freep) char *path = NULL;
        struct stat st;
        int r = cache_path(client->config.directory, &path);

        if (r)
                return error_fold(r);
        r = make_directories(path);
        client->directory = r ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (client->directory < 0 || fstat(client->directory, &st) < 0) {
                log_error("debuginfod: %s: %s", path, strerror(r ? -r : errno));
                return DEBUGINFOD_E_UNUSABLE;
        }
        if (st.st_uid == geteuid() && !(st.st_mode & 022))
                return 0;
        log_error("debuginfod: %s: others may write there", path);
        return DEBUGINFOD_E_UNUSABLE;
}

/* Return: whether there is such a file. */
static bool open_cached(const Debuginfod *client, const char *id, int *fdp, uint64_t *sizep) {
        const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
        int fd = openat(client->directory, id, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return false;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                close(fd);
                return false;
        }
        (void)!futimens(fd, now);       /* atime: when it was used last, whatever the mount says */
        *fdp = fd;
        *sizep = (uint64_t)st.st_size;
        return true;
}

static bool is_known_none(const Debuginfod *client, const char *id) {
        char name[MAX_NAME];
        struct stat st;
        time_t now = time(NULL);

        snprintf(name, sizeof(name), "%s" SUFFIX_NONE, id);
        return !fstatat(client->directory, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtime <= now &&
                (uint64_t)(now - st.st_mtime) < client->config.none_s;
}

typedef struct Usage {
        uint64_t n_bytes;
        uint32_t n_files;
        char oldest[MAX_NAME];
        struct timespec oldest_time;
} Usage;

static bool is_before(const struct timespec *a, const struct timespec *b) {
        return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void look_at(const Debuginfod *client, const char *name, Usage *usage) {
        struct stat st;

        if (*name == '.' || strlen(name) >= sizeof(usage->oldest) ||
            fstatat(client->directory, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
                return;
        usage->n_bytes += (uint64_t)st.st_blocks * 512;
        usage->n_files++;
        if (*usage->oldest && !is_before(&st.st_atim, &usage->oldest_time))
                return;
        strcpy(usage->oldest, name);
        usage->oldest_time = st.st_atim;
}

/* Return: whether the cache could be read. */
static bool measure(const Debuginfod *client, Usage *usage) {
        int fd = openat(client->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closedirp) DIR *directory = fd < 0 ? NULL : fdopendir(fd);
        const struct dirent *entry;

        *usage = (Usage){ 0 };
        if (!directory) {
                closep(&fd);
                return false;
        }
        while ((entry = readdir(directory)))
                look_at(client, entry->d_name, usage);
        return true;
}

static void shrink(const Debuginfod *client) {
        Usage usage;

        while (measure(client, &usage) && *usage.oldest &&
               (usage.n_bytes > client->config.max_cache_bytes || usage.n_files > MAX_FILES))
                if (unlinkat(client->directory, usage.oldest, 0) < 0)
                        return;
}

static void note_none(const Debuginfod *client, const char *id) {
        char name[MAX_NAME];
        int fd;

        snprintf(name, sizeof(name), "%s" SUFFIX_NONE, id);
        unlinkat(client->directory, name, 0);
        fd = openat(client->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        closep(&fd);
        shrink(client);
}

/* Gives an unnamed file its name, if that can be. */
static void keep(const Debuginfod *client, int fd, const char *id) {
        char link[64];

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        unlinkat(client->directory, id, 0);
        (void)!linkat(AT_FDCWD, link, client->directory, id, AT_SYMLINK_FOLLOW);
        shrink(client);
}

/* ---- the servers ---- */

static void tell(Debuginfod *client, const Server *server, const char *why, const char *then) {
        Text shown = { 0 };

        endpoint_append_shown(&shown, server->url);
        snprintf(client->problem, sizeof(client->problem), "%.80s: %.100s%.60s", shown.data ? shown.data : "",
                 why, then);
        text_deinit(&shown);
        if (!client->config.is_quiet)
                log_warning("debuginfod: %s", client->problem);
}

static void give_up(Debuginfod *client, Server *server, const char *why) {
        const uint64_t retry_ns = client->config.retry_ns << MIN(server->n_bad, (unsigned)MAX_DOUBLINGS);

        server->is_bad = true;
        server->n_bad++;
        server->until_ns = retry_ns ? clock_monotonic_ns() + MIN(retry_ns, LONGEST_RETRY_NS) : UINT64_MAX;
        tell(client, server, why, retry_ns ? "" : "; it is not asked again");
}

/* Answers on other builds may be right all the same, where a server is asked for long. */
static void refuse(Debuginfod *client, Server *server, const char *why) {
        if (client->config.retry_ns)
                tell(client, server, why, "");
        else
                give_up(client, server, why);
}

static void be_good(Debuginfod *client, Server *server) {
        server->is_bad = false;
        server->n_bad = 0;
        server->until_ns = 0;
        client->problem[0] = 0;
}

/* Whether it is ELF, and of this build: a worker says. */
static bool is_right(const Debuginfod *client, int fd, const char *id, uint64_t size, const char **whyp) {
        WorkerSessionCounts counts = { 0 };
        WorkerSession session =
                worker_session_make(client->config.zygotes, &no_text_questions[NO_TEXT_ASK_ID], &counts);
        NoTextAnswer answer = { .state = NO_TEXT_STATE_MALFORMED };
        int r = no_text_ask(&session, NO_TEXT_ASK_ID, fd, size, id, &answer);

        worker_session_end(&session);
        *whyp = r                                        ? "no worker could read what it sent"
                : answer.state == NO_TEXT_STATE_OTHER ? "it sent a file of another build"
                                                      : "it sent what is no ELF file";
        return !r && answer.state == NO_TEXT_STATE_MADE;
}

/* @why: "" or what is wrong; *is_refusedp: with what it sent. Return: whether @fd has the file. */
static bool judge(const Debuginfod *client, const HttpResult *result, char *why, size_t size,
                  bool *is_refusedp) {
        *is_refusedp = result->is_too_large;
        *why = 0;
        if (result->is_too_large)
                snprintf(why, size, "it sent more than %llu bytes",
                         (unsigned long long)client->config.max_file_bytes);
        else if (result->reply.fault || result->reply.cut || result->is_over)
                snprintf(why, size, "%.150s", result->reply.error);
        else if (result->reply.status != 200 && result->reply.status != 404)
                snprintf(why, size, "status %d", result->reply.status);
        return !*why && result->reply.status == 200 && result->n_received;
}

/* A 404 is no trouble. Return: 0 = @fd has the file, DEBUGINFOD_E_NONE, _REFUSED, _FAILED. */
static int download(Debuginfod *client, Server *server, const char *id, int fd, uint64_t *sizep) {
        _cleanup_(freep) char *url = NULL;
        HttpCall call = { .method = "GET",
                          .body_fd = -1,
                          .to_fd = fd,
                          .max_redirects = MAX_REDIRECTS,
                          .max_bytes = client->config.max_file_bytes,
                          .timeout_ns = client->config.timeout_ns,
                          .idle_ns = client->config.idle_ns,
                          .is_over = client->config.is_over,
                          .userdata = client->config.userdata };
        HttpResult result;
        char why[160];
        bool is_refused, is_there;

        if (asprintf(&url, "%s/buildid/%s/debuginfo", server->url, id) < 0) {
                url = NULL;
                return DEBUGINFOD_E_FAILED;
        }
        call.url = url;
        http_call(&call, &result);
        *sizep = result.n_received;
        is_there = judge(client, &result, why, sizeof(why), &is_refused);
        http_result_deinit(&result);
        if (!*why) {
                be_good(client, server);
                return is_there ? 0 : DEBUGINFOD_E_NONE;
        }
        (is_refused ? refuse : give_up)(client, server, why);
        return is_refused ? DEBUGINFOD_E_REFUSED : DEBUGINFOD_E_FAILED;
}

/* Return: 0 with *fdp, DEBUGINFOD_E_NONE, _REFUSED, _FAILED. */
static int ask(Debuginfod *client, Server *server, const char *id, int *fdp, uint64_t *sizep) {
        _cleanup_(closep) int fd = openat(client->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        const char *why;
        int r;

        if (fd < 0) {
                give_up(client, server, "no file can be made in the cache");
                return DEBUGINFOD_E_FAILED;
        }
        r = download(client, server, id, fd, sizep);
        if (r)
                return r;
        if (!is_right(client, fd, id, *sizep, &why)) {
                refuse(client, server, why);
                return DEBUGINFOD_E_REFUSED;
        }
        keep(client, fd, id);
        *fdp = take_fd(fd);
        return 0;
}

static bool is_id(const char *id) {
        size_t n = strspn(id, "0123456789abcdef");

        return n >= MIN_ID && !id[n] && n % 2 == 0 && n < MAX_NAME - sizeof(SUFFIX_NONE);
}

/*
 * Picks the worse of one server's answer and the others' answers: a fault or a refusal says nothing on the
 * file.
 */
static int worse(int a, int b) {
        return MAX(a, b);
}

int debuginfod_get_cached(const Debuginfod *client, const char *id, int *fdp, uint64_t *sizep) {
        return is_id(id) && open_cached(client, id, fdp, sizep) ? 0 : DEBUGINFOD_E_NONE;
}

int debuginfod_get(Debuginfod *client, const char *id, int *fdp, uint64_t *sizep) {
        int said = DEBUGINFOD_E_NONE;

        if (!is_id(id))
                return DEBUGINFOD_E_NONE;
        if (open_cached(client, id, fdp, sizep))
                return 0;
        if (is_known_none(client, id))
                return DEBUGINFOD_E_NONE;
        for (size_t i = 0; i < client->n_servers; i++) {
                Server *server = &client->servers[i];
                int r = server->is_bad && clock_monotonic_ns() < server->until_ns
                        ? DEBUGINFOD_E_FAILED
                        : ask(client, server, id, fdp, sizep);

                if (!r)
                        return 0;
                said = worse(said, r);
        }
        if (said == DEBUGINFOD_E_NONE)
                note_none(client, id);
        return said;
}

const char *debuginfod_problem(const Debuginfod *client) {
        return client->problem;
}

/* ---- making it ---- */

static int fetch(const SymbolRemote *remote, const char *id, int *fdp, uint64_t *sizep) {
        return debuginfod_get(remote->userdata, id, fdp, sizep) ? 1 : 0;
}

const SymbolRemote *debuginfod_remote(const Debuginfod *client) {
        return &client->remote;
}

static int add_server(Debuginfod *client, const char *url, size_t size) {
        char why[128], *copy;

        /* tells elfutils' client how to check signatures, and does not change the files */
        if (size >= 4 && !memcmp(url, "ima:", 4))
                return 0;
        while (size && url[size - 1] == '/')
                size--;
        copy = strndup(url, size);
        if (!copy)
                return error_origin(-ENOMEM);
        if (client->n_servers == MAX_URLS || endpoint_check_url(copy, why, sizeof(why))) {
                /* not the word itself: a password may be in it */
                log_warning("DEBUGINFOD_URLS: a word is left out: %s",
                            client->n_servers == MAX_URLS ? "there are more than 8 servers" : why);
                free(copy);
                return 0;
        }
        client->servers[client->n_servers++].url = copy;
        return 0;
}

static int read_urls(Debuginfod *client, const char *urls) {
        static const char blanks[] = " \t\n";

        for (const char *at = urls + strspn(urls, blanks); *at;) {
                size_t n = strcspn(at, blanks);
                int r = add_server(client, at, n);

                if (r)
                        return r;
                at += n;
                at += strspn(at, blanks);
        }
        if (client->n_servers)
                return 0;
        log_error("debuginfod: DEBUGINFOD_URLS %s: which servers are to be asked?",
                  *urls ? "names no server" : "is not set");
        return DEBUGINFOD_E_UNUSABLE;
}

int debuginfod_new(Debuginfod **clientp, const DebuginfodConfig *config) {
        _cleanup_(debuginfod_freep) Debuginfod *client = calloc(1, sizeof(*client));
        DebuginfodConfig *own;
        int r;

        if (!client)
                return error_origin(-ENOMEM);
        own = &client->config;
        *own = *config;
        own->max_file_bytes = own->max_file_bytes ?: UINT64_C(1) << 30;
        own->max_cache_bytes = own->max_cache_bytes ?: UINT64_C(2) << 30;
        /* larger files would be fetched in vain */
        own->max_file_bytes = MIN(own->max_file_bytes, own->max_cache_bytes);
        own->none_s = own->none_s ?: DEFAULT_NONE_S;
        own->timeout_ns = own->timeout_ns ?: 300 * NS_PER_SEC;
        own->idle_ns = own->idle_ns ?: 30 * NS_PER_SEC;
        client->directory = -1;
        client->remote = (SymbolRemote){ .fetch = fetch, .userdata = client };
        r = read_urls(client, config->urls ? config->urls : "");
        if (!r)                         /* a redirect may lead to any */
                r = http_prepare("https:") ? DEBUGINFOD_E_UNUSABLE : 0;
        if (!r)
                r = open_cache(client);
        if (r)
                return r < 0 ? error_fold(r) : r;
        own->urls = own->directory = NULL;      /* the caller's */
        *clientp = take(client);
        return 0;
}

Debuginfod *debuginfod_free(Debuginfod *client) {
        if (!client)
                return NULL;
        for (size_t i = 0; i < client->n_servers; i++)
                free(client->servers[i].url);
        closep(&client->directory);
        free(client);
        return NULL;
}
