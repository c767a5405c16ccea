/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The state of each file that was asked for:
 *
 *     asked ──▶ awaited ──▶ there      its copy came: no read of it can hang any more
 *                  │
 *                  └──────▶ left       the server refused, or sent nothing for a second
 *
 * A filesystem that was silent is asked for nothing for a minute, so each costs a second and one place of the
 * reader. A copy that no reading has used for a minute gives way to newer ones when there is no room. Of
 * younger ones the oldest of the mount or user with most gives way to who would still have less. What finds
 * no room then is left: two files would take turns for ever.
 */
#include "core/symbol/object/remote-files.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sandbox/remote-reader.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/object-file.h"

enum {
        MAX_FILES = 256,
        MAX_BYTES = 128 << 20,          /* copies together; a longer file is left */
        BLIND_BYTES = 16 << 20,         /* room that a file needs whose size is not known yet */
        BLIND_MAX = 64 << 20,           /* … and room that it has, if there is so much */
        AWAITED_SHARE = REMOTE_READER_SHARE / 2,        /* others may not have ended yet, or hang */
        MAX_REPLIES = 64,               /* replies that are heard at once */
};

#define PATIENCE_NS NS_PER_SEC          /* without a byte more */
#define LONGEST_NS (20 * NS_PER_SEC)    /* time that one file may take */
#define SILENT_NS (60 * NS_PER_SEC)     /* until a filesystem is asked again */
/* Time that an entry stays after its last use. A file that may change without a sign is read anew then. */
#define USED_NS (60 * NS_PER_SEC)

typedef struct RemoteFile {
        ObjectFile file;
        RemoteRequest request;          /* a serial of 0 = the place is free */
        RemoteState state;
        int fd;                         /* the copy, if it is there */
        dev_t copy_device;
        ino_t copy;
        uid_t owner;
        bool is_blind;                  /* size and times are the copier's word alone */
        bool was_silent;                /* left, since its server sent nothing */
        uint64_t asked_ns, heard_ns, used_ns;
} RemoteFile;

static struct {
        RemoteReader *reader;
        int epoll_fd;                   /* with the reader's socket, which may come later; 0 = none yet */
        bool reads_all;
        bool has_limit;
        uint64_t limit;                 /* bytes of all copies, if less than MAX_BYTES */
        bool has_failed;                /* no reader can be had */
        bool has_news;                  /* a file is not awaited any more, and no caller has been told */
        uint32_t last_serial, n_awaited;
        RemoteFile files[MAX_FILES];
} all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void remote_files_choose(bool reads_all) {
        all.reads_all = reads_all;
}

void remote_files_limit(uint64_t bytes) {
        all.has_limit = true;
        all.limit = bytes;
}

static uint64_t max_bytes(void) {
        return all.has_limit ? MIN(all.limit, (uint64_t)MAX_BYTES) : MAX_BYTES;
}

/* With the lock held, as all below up to the next title. */
static int start(void) {
        struct epoll_event ready = { .events = EPOLLIN };
        int r;

        if (all.reader || all.has_failed)
                return 0;
        r = remote_reader_new(&all.reader);
        all.has_failed = r < 0;
        if (!r && all.epoll_fd > 0)
                epoll_ctl(all.epoll_fd, EPOLL_CTL_ADD, remote_reader_fd(all.reader), &ready);
        return r;
}

static void drop(RemoteFile *file) {
        if (file->request.serial && file->state == REMOTE_FILE_THERE)
                close(file->fd);
        all.n_awaited -= file->request.serial && file->state == REMOTE_FILE_AWAITED;
        *file = (RemoteFile){ 0 };
}

static RemoteFile *find(const ObjectFile *file) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++)
                if (all.files[i].request.serial && !memcmp(&all.files[i].file, file, sizeof(*file)))
                        return &all.files[i];
        return NULL;
}

/* For a file of which nothing but device and inode is known. */
static RemoteFile *find_blind(const ObjectFile *file) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                RemoteFile *known = &all.files[i];

                if (known->request.serial && known->is_blind && known->file.device == file->device &&
                    known->file.inode == file->inode)
                        return known;
        }
        return NULL;
}

/* An awaited copy counts for all that it may have. */
static uint64_t bytes_of(const RemoteFile *file) {
        if (!file->request.serial || file->state == REMOTE_FILE_LEFT)
                return 0;
        return file->state == REMOTE_FILE_AWAITED ? file->request.max_bytes : file->file.size;
}

static uint64_t places_of(const RemoteFile *file) {
        return !!file->request.serial;
}

/* Bytes, or places, of the mount and the user of @by; NULL = of all. */
static uint64_t held(const RemoteRequest *by, uint64_t (*size_of)(const RemoteFile *file)) {
        uint64_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++)
                if (!by || remote_request_shares(by, &all.files[i].request))
                        n += size_of(&all.files[i]);
        return n;
}

static uint64_t n_bytes(void) {
        return held(NULL, bytes_of);
}

/* The file that was used longest ago, of those that are neither awaited nor in use; NULL = there is none. */
static RemoteFile *oldest(bool has_copy, uint64_t now_ns) {
        RemoteFile *found = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                RemoteFile *file = &all.files[i];

                if (file->request.serial && file->state != REMOTE_FILE_AWAITED &&
                    (!has_copy || file->state == REMOTE_FILE_THERE) && now_ns >= file->used_ns + USED_NS &&
                    (!found || file->used_ns < found->used_ns))
                        found = file;
        }
        return found;
}

/* The oldest copy of who holds most, if that is more than @asking would hold with @n more; or NULL. */
static RemoteFile *oldest_of_greatest(const RemoteRequest *asking, uint64_t n,
                                      uint64_t (*size_of)(const RemoteFile *file)) {
        uint64_t most = held(asking, size_of) + n;
        const RemoteFile *holder = NULL;
        RemoteFile *found = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                const RemoteFile *file = &all.files[i];
                uint64_t n_held = size_of(file) && !remote_request_shares(asking, &file->request)
                        ? held(&file->request, size_of)
                        : 0;

                if (n_held > most) {
                        most = n_held;
                        holder = file;
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(all.files) && holder; i++) {
                RemoteFile *file = &all.files[i];

                if (size_of(file) && remote_request_shares(&holder->request, &file->request) &&
                    !remote_request_shares(asking, &file->request) &&
                    (!found || file->used_ns < found->used_ns))
                        found = file;
        }
        return found;
}

/* The process that asked for it hears of news, asks again, and finds no room. */
static void give_way(RemoteFile *file) {
        if (file->state == REMOTE_FILE_AWAITED)
                remote_reader_give_up(all.reader, file->request.serial);
        all.has_news |= file->state == REMOTE_FILE_AWAITED;
        drop(file);
        stat_add(COUNTER_OBJECTS_EVICTED, 1);
}

/* A free place with room for that many bytes, or NULL. */
static RemoteFile *make_room(const RemoteRequest *asking, uint64_t size, uint64_t now_ns) {
        RemoteFile *gone;

        if (size > max_bytes())
                return NULL;
        while (n_bytes() > max_bytes() - size) {
                gone = oldest(true, now_ns) ?: oldest_of_greatest(asking, size, bytes_of);
                if (!gone)
                        return NULL;
                give_way(gone);
        }
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++)
                if (!all.files[i].request.serial)
                        return &all.files[i];
        gone = oldest(false, now_ns) ?: oldest_of_greatest(asking, 1, places_of);
        if (gone)
                give_way(gone);
        return gone;
}

static bool is_silent(uint64_t device, uint64_t now_ns) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                const RemoteFile *file = &all.files[i];

                if (file->request.serial && file->was_silent && file->file.device == device &&
                    now_ns - file->heard_ns < SILENT_NS)
                        return true;
        }
        return false;
}

static bool awaits_blind(void) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                const RemoteFile *file = &all.files[i];

                if (file->request.serial && file->is_blind && file->state == REMOTE_FILE_AWAITED)
                        return true;
        }
        return false;
}

/* Whether so much is awaited, of its mount and user or of all, that the file has to wait for a turn. */
static bool has_to_wait(const RemoteRequest *request, bool is_blind) {
        unsigned n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                const RemoteFile *file = &all.files[i];

                n += file->request.serial && file->state == REMOTE_FILE_AWAITED &&
                        remote_request_shares(&file->request, request);
        }
        return n >= AWAITED_SHARE || all.n_awaited >= REMOTE_READER_MAX_COPIES ||
                (is_blind && awaits_blind());
}

/* Return: whether there will be news of it: it was asked for, or has to wait for a turn. */
static bool begin(const ObjectFile *file, uid_t owner, int path_fd, const MountServer *server,
                  uint64_t now_ns) {
        RemoteRequest request = { .serial = all.last_serial + 1, .has_user = server->has_user,
                                  .user = server->user, .group = server->group, .device = file->device,
                                  .max_bytes = file->size };
        RemoteFile *place;

        if (has_to_wait(&request, !file->size))
                return true;
        place = make_room(&request, file->size ?: BLIND_BYTES, now_ns);
        /* An awaited copy that does not come leaves its room. */
        if (!place)
                return all.n_awaited && file->size <= max_bytes();
        if (!file->size)
                request.max_bytes = MIN(max_bytes() - n_bytes(), (uint64_t)BLIND_MAX);
        if (start() || !all.reader || remote_reader_ask(all.reader, &request, path_fd))
                return false;
        all.last_serial++;
        all.n_awaited++;
        *place = (RemoteFile){ .file = *file, .request = request, .state = REMOTE_FILE_AWAITED, .fd = -1,
                               .owner = owner, .is_blind = !file->size, .asked_ns = now_ns,
                               .heard_ns = now_ns, .used_ns = now_ns };
        return true;
}

static int copy_of(RemoteFile *file, int *fdp) {
        *fdp = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
        file->used_ns = clock_monotonic_ns();
        return *fdp < 0;
}

static void leave(RemoteFile *file, uint64_t now_ns) {
        file->state = REMOTE_FILE_LEFT;
        file->heard_ns = file->used_ns = now_ns;
        all.n_awaited--;
}

/* The copy is believed only if the file is as long as it was when we looked at it. */
static bool take_copy(RemoteFile *file, const RemoteReply *reply, int fd, uint64_t now_ns) {
        struct stat st;

        if (fd < 0 || (file->file.size && reply->size != file->file.size) ||
            reply->size > file->request.max_bytes || fstat(fd, &st) < 0 ||
            (uint64_t)st.st_size != reply->size)
                return false;
        if (file->is_blind) {
                file->file.size = reply->size;
                file->file.mtime_ns = reply->mtime_ns;
                file->file.ctime_ns = reply->ctime_ns;
                file->owner = reply->owner;
        }
        file->state = REMOTE_FILE_THERE;
        file->fd = fd;
        file->copy_device = st.st_dev;
        file->copy = st.st_ino;
        file->used_ns = now_ns;
        all.n_awaited--;
        return true;
}

static void hear(const RemoteReply *reply, int fd, uint64_t now_ns) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                RemoteFile *file = &all.files[i];

                if (file->request.serial != reply->serial || file->state != REMOTE_FILE_AWAITED)
                        continue;
                file->heard_ns = now_ns;
                if (reply->result == REMOTE_READER_GOES_ON)
                        break;
                if (!reply->result && take_copy(file, reply, fd, now_ns))
                        return;
                leave(file, now_ns);
                break;
        }
        closep(&fd);
}

static bool is_late(const RemoteFile *file, uint64_t now_ns, int heard) {
        return heard == REMOTE_READER_E_GONE || now_ns - file->asked_ns >= LONGEST_NS ||
                (heard == REMOTE_READER_E_NOTHING && now_ns - file->heard_ns >= PATIENCE_NS);
}

/* @heard: as remote_reader_hear() has returned last. Among replies that wait still may be the file's. */
static void give_up_late(uint64_t now_ns, int heard) {
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++) {
                RemoteFile *file = &all.files[i];

                if (!file->request.serial || file->state != REMOTE_FILE_AWAITED ||
                    !is_late(file, now_ns, heard))
                        continue;
                remote_reader_give_up(all.reader, file->request.serial);
                leave(file, now_ns);
                file->was_silent = true;
        }
}

/* What is left of the replies makes the descriptor readable again. */
static void tend(void) {
        uint64_t now_ns = clock_monotonic_ns();
        uint32_t before = all.n_awaited;
        RemoteReply reply;
        int fd, r = 0;

        for (unsigned n = 0; all.reader && n < MAX_REPLIES && !r; n++) {
                r = remote_reader_hear(all.reader, &reply, &fd);
                if (!r)
                        hear(&reply, fd, now_ns);
        }
        give_up_late(now_ns, r);
        if (r == REMOTE_READER_E_GONE) {
                all.reader = remote_reader_free(all.reader);
                all.has_failed = true;
        }
        all.has_news |= all.n_awaited < before;
}

static bool take_news(void) {
        bool has_news = all.has_news;

        all.has_news = false;
        return has_news;
}

/* ---- for all threads ---- */

int remote_files_start(void) {
        int r;

        pthread_mutex_lock(&lock);
        r = start();
        pthread_mutex_unlock(&lock);
        return r;
}

int remote_files_fd(void) {
        struct epoll_event ready = { .events = EPOLLIN };

        pthread_mutex_lock(&lock);
        if (!all.epoll_fd)
                all.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (all.epoll_fd > 0 && all.reader)
                epoll_ctl(all.epoll_fd, EPOLL_CTL_ADD, remote_reader_fd(all.reader), &ready);
        pthread_mutex_unlock(&lock);
        return all.epoll_fd;
}

void remote_files_stop(void) {
        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < ARRAY_SIZE(all.files); i++)
                drop(&all.files[i]);
        all.reader = remote_reader_free(all.reader);
        all.has_news = false;
        pthread_mutex_unlock(&lock);
}

bool remote_files_may_come(const MountServer *server) {
        return all.reads_all || (server->is_fuse && server->is_own);
}

const char *remote_files_why(const char *type) {
        return !strncmp(type, "fuse", 4) || all.reads_all
                ? "since their server did not answer, or did not let us in"
                : "since their server may never answer; remote-files=yes reads them";
}

/* The entry of the file, unless it is too old. */
static RemoteFile *find_fresh(const ObjectFile *file, uint64_t now_ns) {
        RemoteFile *known = file->size ? find(file) : find_blind(file);

        if (known && ((known->state == REMOTE_FILE_LEFT && now_ns - known->heard_ns >= SILENT_NS) ||
                      (known->is_blind && known->state == REMOTE_FILE_THERE &&
                       now_ns - known->used_ns >= USED_NS))) {
                drop(known);
                known = NULL;
        }
        return known;
}

RemoteState remote_files_ask(ObjectFile *file, uid_t owner, int path_fd, const MountServer *server,
                             int *fdp) {
        RemoteState state = REMOTE_FILE_LEFT;
        RemoteFile *known;
        uint64_t now_ns;

        if (!remote_files_may_come(server))
                return REMOTE_FILE_LEFT;
        pthread_mutex_lock(&lock);
        tend();
        now_ns = clock_monotonic_ns();  /* later than each time in the table */
        known = find_fresh(file, now_ns);
        if (known)
                state = known->state;
        else if (!is_silent(file->device, now_ns) && begin(file, owner, path_fd, server, now_ns))
                state = REMOTE_FILE_AWAITED;
        if (state == REMOTE_FILE_THERE) {
                *file = known->file;
                state = copy_of(known, fdp) ? REMOTE_FILE_LEFT : REMOTE_FILE_THERE;
        }
        pthread_mutex_unlock(&lock);
        return state;
}

int remote_files_open(const ObjectFile *file, int *fdp) {
        RemoteFile *known;
        int r = 1;

        pthread_mutex_lock(&lock);
        known = find(file);
        if (known && known->state == REMOTE_FILE_THERE)
                r = copy_of(known, fdp);
        pthread_mutex_unlock(&lock);
        return r;
}

int remote_files_open_number(uint64_t number, int *fdp) {
        int r = 1;

        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < ARRAY_SIZE(all.files) && r; i++)
                if (all.files[i].request.serial && all.files[i].state == REMOTE_FILE_THERE &&
                    object_file_number(&all.files[i].file) == number)
                        r = copy_of(&all.files[i], fdp);
        pthread_mutex_unlock(&lock);
        return r;
}

bool remote_files_number_of(dev_t device, ino_t copy, uint64_t *numberp, uid_t *ownerp) {
        bool is_found = false;

        pthread_mutex_lock(&lock);
        for (size_t i = 0; i < ARRAY_SIZE(all.files) && !is_found; i++) {
                const RemoteFile *file = &all.files[i];

                is_found = file->request.serial && file->state == REMOTE_FILE_THERE && file->copy == copy &&
                        file->copy_device == device;
                if (!is_found)
                        continue;
                *numberp = object_file_number(&file->file);
                *ownerp = file->owner;
        }
        pthread_mutex_unlock(&lock);
        return is_found;
}

bool remote_files_tend(void) {
        bool has_news;

        pthread_mutex_lock(&lock);
        tend();
        has_news = take_news();
        pthread_mutex_unlock(&lock);
        return has_news;
}

bool remote_files_wait(void) {
        bool has_news;

        pthread_mutex_lock(&lock);
        while (all.n_awaited) {
                remote_reader_wait(all.reader, clock_monotonic_ns() + 50 * NS_PER_MS);
                tend();
        }
        has_news = take_news();
        pthread_mutex_unlock(&lock);
        return has_news;
}
