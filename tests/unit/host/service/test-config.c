/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/service/config/backend.h"
#include "host/service/config/config-load.h"
#include "host/service/config/option.h"

static Config config;
static Text errors;
static char root[] = "/tmp/spanprof-test-config-XXXXXX";

static void setup(void) {
        cr_assert_eq(config_init(&config), 0);
}

static void teardown(void) {
        config_deinit(&config);
        text_deinit(&errors);
}

TestSuite(config, .init = setup, .fini = teardown);
TestSuite(backend, .init = setup, .fini = teardown);

static int apply(const char *text) {
        return config_apply_text(&config, "x.conf", text, strlen(text), &errors);
}

static int load(const char *const *environment) {
        ConfigSource source = { .root = root, .environment = environment, .verb = VERB_RUN, .files = true };

        return config_load(&config, &source, &errors);
}

static int from_command_line(const char *name, const char *value) {
        return config_set(&config, option_find(name, strlen(name)), value, CONFIG_COMMAND_LINE,
                          "command line", name, &errors);
}

static void expect_lines(int verb, bool expected) {
        static const char *const none[] = { NULL };
        const ConfigSource source = { .root = root, .environment = none, .verb = verb };

        cr_assert_eq(config_load(&config, &source, &errors), 0);
        cr_assert_eq(config.names.lines, expected);
}

/* `convert` changes no profile unasked. */
Test(config, lines_are_on_but_in_convert_where_they_are_asked_for) {
        expect_lines(VERB_RUN, true);
        expect_lines(VERB_REPORT, true);
        expect_lines(VERB_CONVERT, false);
        cr_assert_eq(from_command_line("lines", "on"), 0);
        expect_lines(VERB_CONVERT, true);
}

static const ConfigOrigin *origin(const char *name) {
        return &config.origins[option_index(option_find(name, strlen(name)))];
}

/* A file below the root of a made-up machine. */
static void write_file(const char *path, const char *text) {
        char full[512];
        FILE *file;

        snprintf(full, sizeof(full), "%s%s", root, path);
        for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = 0;
                mkdir(full, 0755);
                *slash = '/';
        }
        file = fopen(full, "w");
        cr_assert_not_null(file);
        fputs(text, file);
        fclose(file);
}

static void make_root(void) {
        cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void) {
        char command[600];

        snprintf(command, sizeof(command), "rm -rf '%s'", root);
        cr_assert_eq(system(command), 0);
}

Test(config, has_the_documented_defaults) {
        cr_assert_eq(config.sampling.frequency, 99);
        cr_assert_eq(config.sampling.depth, 512);
        cr_assert(config.sampling.kernel_stacks && config.sampling.jitter);
        cr_assert(config.form.timestamps && !config.targets.all);
        cr_assert_eq(config.delivery.interval_ns, UINT64_C(15000000000));
        cr_assert_eq(config.delivery.stop_timeout_ns, UINT64_C(1000000000));
        cr_assert_eq(config.delivery.timeout_ns, UINT64_C(10000000000));
        cr_assert_eq(config.delivery.max_queue_bytes, 8388608);
        cr_assert_eq(config.daemon.duration_ns, 0);
        cr_assert_str_eq(config.delivery.compression, "gzip");
        cr_assert_str_eq(config.receiver.listen, "127.0.0.1");
        cr_assert_eq(config.receiver.port, 4318);
        cr_assert_eq(origin("frequency")->level, CONFIG_DEFAULT);
}

Test(config, reads_a_file_and_remembers_the_lines) {
        cr_assert_eq(apply("frequency = 250\n"
                           "\n"
                           "[targets]\n"
                           "comm = xz, gzip\n"
                           "[export]\n"
                           "export-interval = 2m\n"), 0);
        cr_assert_eq(config.sampling.frequency, 250);
        cr_assert_eq(config.targets.comms.n_items, 2);
        cr_assert_eq(config.delivery.interval_ns, UINT64_C(120000000000));
        cr_assert_str_eq(origin("frequency")->where, "x.conf:1");
        cr_assert_str_eq(origin("comm")->where, "x.conf:4");
        cr_assert_str_eq(origin("export-interval")->where, "x.conf:6");
        cr_assert_eq(errors.size, 0);
}

Test(config, names_file_and_line_of_every_mistake) {
        cr_assert_eq(apply("freqency = 99\n"
                           "frequency = 99999\n"
                           "[targets]\n"
                           "depth = 5\n"
                           "just words\n"
                           "all = on\n"
                           "all = off\n"
                           "raw = on\n"), CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "x.conf:1: unknown key `freqency`, did you mean `frequency`?\n"
                                      "x.conf:2: frequency: `99999` is out of range (1 to 10000)\n"
                                      "x.conf:4: `depth` belongs to the section [sampling]\n"
                                      "x.conf:5: neither `key = value`, nor `[section]`, nor a comment\n"
                                      "x.conf:7: all: was set in line 6 already\n"
                                      "x.conf:8: unknown key `raw`\n");
        cr_assert_eq(config.sampling.frequency, 99);
        cr_assert_eq(config.sampling.depth, 512);
        cr_assert(config.targets.all, "what is right is applied");
}

Test(config, takes_a_removed_key_in_any_section) {
        cr_assert_eq(apply("max-samples = 5\n"
                           "[daemon]\n"
                           "max-samples = no number\n"
                           "[export b]\n"
                           "max-export-age = 1h\n"), 0);
        cr_assert_eq(errors.size, 0);
        cr_assert_eq(apply("dialect = auto\n"), CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "x.conf:1: unknown key `dialect`\n", "no file has ever set it");
}

Test(config, gives_way_to_the_command_line_but_still_finds_mistakes) {
        cr_assert_eq(from_command_line("frequency", "7"), 0);
        cr_assert_eq(apply("frequency = 99\n"), 0);
        cr_assert_eq(config.sampling.frequency, 7);
        cr_assert_eq(origin("frequency")->level, CONFIG_COMMAND_LINE);
        cr_assert_eq(apply("frequency = many\n"), CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "x.conf:1: frequency: `many` is no number (1 to 10000)\n");
}

Test(config, collects_lists_on_the_command_line_only) {
        cr_assert_eq(apply("pid = 5\n"), 0);
        cr_assert_eq(apply("pid = 6\n"), 0);
        cr_assert_eq(config.targets.pids.n_items, 1);
        cr_assert_eq(from_command_line("pid", "7"), 0);
        cr_assert_eq(from_command_line("pid", "8,9"), 0);
        cr_assert_eq(config.targets.pids.n_items, 3, "the file's list is replaced, not extended");
        cr_assert_eq(config.targets.pids.items[0], 7);
        cr_assert_eq(config.targets.pids.items[2], 9);
}

Test(config, layers_default_otel_file_environment_and_command_line, .init = make_root, .fini = remove_root) {
        static const char *const environment[] = {
                "SPANPROF_DEPTH=64", "SPANPROF_JITTER=off", "OTEL_EXPORTER_OTLP_COMPRESSION=none",
                "OTEL_EXPORTER_OTLP_TIMEOUT=2500", "SPANPROF_TIMESTAMPS=", NULL,
        };

        write_file("/etc/spanprof/spanprof.conf",
                   "frequency = 1\ndepth = 2\njitter = on\ncompression = gzip\n");
        cr_assert_eq(from_command_line("jitter", "on"), 0);
        cr_assert_eq(load(environment), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 1);
        cr_assert_eq(config.sampling.depth, 64);
        cr_assert_str_eq(origin("depth")->where, "SPANPROF_DEPTH");
        cr_assert(config.sampling.jitter);
        cr_assert_str_eq(config.delivery.compression, "gzip");
        cr_assert_eq(config.delivery.timeout_ns, UINT64_C(2500000000));
        cr_assert_str_eq(origin("timeout")->where, "OTEL_EXPORTER_OTLP_TIMEOUT");
        cr_assert(config.form.timestamps, "an empty variable counts as not set");
        cr_assert_eq(origin("timestamps")->level, CONFIG_DEFAULT);
}

Test(config, sorts_and_masks_drop_ins, .init = make_root, .fini = remove_root) {
        char expected[128];

        write_file("/etc/spanprof/spanprof.conf", "frequency = 10\ndepth = 10\nport = 10\n");
        write_file("/usr/lib/spanprof/spanprof.conf.d/10-a.conf", "frequency = 20\n");
        write_file("/run/spanprof/spanprof.conf.d/50-b.conf", "frequency = 30\nall = on\n");
        write_file("/etc/spanprof/spanprof.conf.d/50-b.conf", "frequency = 40\n");
        write_file("/usr/lib/spanprof/spanprof.conf.d/50-b.conf", "frequency = 50\nall = on\n");
        write_file("/run/spanprof/spanprof.conf.d/20-c.conf", "depth = 60\nfrequency = 60\n");
        write_file("/etc/spanprof/spanprof.conf.d/README", "no configuration");
        write_file("/etc/spanprof/spanprof.conf.d/.hidden.conf", "no configuration");
        cr_assert_eq(load(NULL), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 40, "50-b of /etc comes last, and hides its namesakes");
        cr_assert_not(config.targets.all);
        cr_assert_eq(config.sampling.depth, 60);
        cr_assert_eq(config.receiver.port, 10);
        snprintf(expected, sizeof(expected), "%s/etc/spanprof/spanprof.conf.d/50-b.conf:1", root);
        cr_assert_str_eq(origin("frequency")->where, expected);
}

static void link_file(const char *path, const char *to) {
        char full[512];

        write_file(path, "");
        snprintf(full, sizeof(full), "%s%s", root, path);
        cr_assert_eq(unlink(full), 0);
        cr_assert_eq(symlink(to, full), 0);
}

Test(config, takes_no_file_that_cannot_be_read_for_none, .init = make_root, .fini = remove_root) {
        link_file("/etc/spanprof/spanprof.conf", "nowhere");
        link_file("/etc/spanprof/spanprof.conf.d/10-a.conf", "nowhere");
        link_file("/run/spanprof/spanprof.conf.d", "spanprof.conf.d");
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "/etc/spanprof/spanprof.conf: No such file or directory\n"),
                           "%s", errors.data);
        cr_assert_not_null(
                strstr(errors.data, "/etc/spanprof/spanprof.conf.d/10-a.conf: No such file or directory\n"),
                "%s", errors.data);
        cr_assert_not_null(
                strstr(errors.data, "/run/spanprof/spanprof.conf.d: Too many levels of symbolic links\n"),
                "%s", errors.data);
}

/* ---- what root believes: the daemon's user owns /run/spanprof ---- */

static int load_as_root(void) {
        ConfigSource source = { .root = root, .verb = VERB_RUN, .files = true, .as_root = true };

        return config_load(&config, &source, &errors);
}

static void give(const char *path, uid_t uid, mode_t mode) {
        char full[512];

        snprintf(full, sizeof(full), "%s%s", root, path);
        if (lchown(full, uid, uid))
                cr_skip_test("root: only root may give files away");
        cr_assert(!mode || !chmod(full, mode));
}

static void expect_refusal(const char *path, const char *why) {
        char expected[512];

        cr_assert_eq(load_as_root(), CONFIG_E_INVALID);
        snprintf(expected, sizeof(expected), "%s%s: %s", root, path, why);
        cr_assert_not_null(strstr(errors.data, expected), "%s\n%s", expected, errors.data);
        cr_assert_neq(config.sampling.frequency, 7);
}

enum { DAEMON_USER = 4321 };

Test(config, reads_drop_ins_of_root_in_the_directory_of_the_daemon, .init = make_root, .fini = remove_root) {
        write_file("/etc/spanprof/spanprof.conf", "depth = 60\n");
        write_file("/run/spanprof/spanprof.conf.d/10-a.conf", "frequency = 7\n");
        give("/run/spanprof", DAEMON_USER, 0755);
        cr_assert_eq(load_as_root(), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 7);
        cr_assert_eq(config.sampling.depth, 60);
}

Test(config, refuses_a_directory_that_the_daemon_has_made, .init = make_root, .fini = remove_root) {
        write_file("/run/spanprof/spanprof.conf.d/10-a.conf", "frequency = 7\n");
        give("/run/spanprof", DAEMON_USER, 0755);
        give("/run/spanprof/spanprof.conf.d", DAEMON_USER, 0755);
        expect_refusal("/run/spanprof/spanprof.conf.d", "belongs to user 4321");
}

Test(config, refuses_a_link_that_the_daemon_has_made, .init = make_root, .fini = remove_root) {
        write_file("/etc/other/10-a.conf", "frequency = 7\n");
        link_file("/run/spanprof/spanprof.conf.d", "../../etc/other");
        give("/run/spanprof", DAEMON_USER, 0755);
        expect_refusal("/run/spanprof/spanprof.conf.d", "is a link");
}

Test(config, follows_a_link_that_only_root_can_make, .init = make_root, .fini = remove_root) {
        write_file("/etc/other/10-a.conf", "frequency = 7\n");
        link_file("/run/spanprof/spanprof.conf.d", "../../etc/other");
        cr_assert_eq(load_as_root(), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 7);
}

Test(config, refuses_files_that_other_users_may_write, .init = make_root, .fini = remove_root) {
        write_file("/run/spanprof/spanprof.conf.d/10-a.conf", "frequency = 7\n");
        give("/run/spanprof/spanprof.conf.d/10-a.conf", 0, 0666);
        expect_refusal("/run/spanprof/spanprof.conf.d/10-a.conf", "other users may write it");
}

Test(config, refuses_directories_that_other_users_may_write, .init = make_root, .fini = remove_root) {
        write_file("/etc/spanprof/spanprof.conf.d/10-a.conf", "frequency = 7\n");
        give("/etc/spanprof/spanprof.conf.d", 0, 0777);
        expect_refusal("/etc/spanprof/spanprof.conf.d", "other users may write it");
}

Test(config, refuses_a_main_file_in_a_directory_of_another_user, .init = make_root, .fini = remove_root) {
        write_file("/etc/spanprof/spanprof.conf", "frequency = 7\n");
        give("/etc/spanprof", DAEMON_USER, 0755);
        expect_refusal("/etc/spanprof", "belongs to user 4321");
}

Test(config, lets_the_group_of_root_write, .init = make_root, .fini = remove_root) {
        write_file("/etc/spanprof/spanprof.conf", "frequency = 7\n");
        give("/etc/spanprof/spanprof.conf", 0, 0664);
        cr_assert_eq(load_as_root(), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 7);
}

Test(config, takes_dev_null_for_no_file, .init = make_root, .fini = remove_root) {
        link_file("/etc/spanprof/spanprof.conf", "/dev/null");
        cr_assert_eq(load_as_root(), 0, "%s", errors.data);
}

/* Kubernetes gives directories of ConfigMaps mode 0777, and mounts them read-only. */
Test(config, reads_any_directory_of_a_read_only_volume, .init = make_root, .fini = remove_root) {
        char path[512];

        write_file("/etc/spanprof/spanprof.conf.d/10-a.conf", "frequency = 7\n");
        give("/etc/spanprof/spanprof.conf.d", 0, 0777);
        snprintf(path, sizeof(path), "%s/etc/spanprof/spanprof.conf.d", root);
        if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount(path, path, NULL, MS_BIND, NULL) ||
            mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
                cr_skip_test("root: only root may mount");
        cr_expect_eq(load_as_root(), 0, "%s", errors.data);
        cr_expect_eq(config.sampling.frequency, 7);
        cr_assert_eq(umount(path), 0);
}

/* The file that root names is believed as the command line is. */
Test(config, reads_the_file_that_root_names_whosever_it_is, .init = make_root, .fini = remove_root) {
        ConfigSource source = { .root = root, .verb = VERB_RUN, .files = true, .as_root = true };
        char path[512];

        write_file("/my.conf", "frequency = 7\n");
        give("/my.conf", DAEMON_USER, 0666);
        snprintf(path, sizeof(path), "%s/my.conf", root);
        cr_assert_eq(from_command_line("config", path), 0);
        cr_assert_eq(config_load(&config, &source, &errors), 0, "%s", errors.data);
        cr_assert_eq(config.sampling.frequency, 7);
}

Test(config, says_a_hundred_mistakes_of_a_file, .init = make_root, .fini = remove_root) {
        char text[2 * 100000 + 1] = "";
        size_t n_lines = 0;

        for (size_t i = 0; i < 100000; i++)
                memcpy(text + 2 * i, "x\n", 3);
        write_file("/etc/spanprof/spanprof.conf", text);
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        for (const char *at = errors.data; (at = strchr(at, '\n')); at++)
                n_lines++;
        cr_assert_eq(n_lines, 101);
        cr_assert_not_null(
                strstr(errors.data, "spanprof.conf:101: too many mistakes; the rest was not read\n"));
}

Test(config, reads_only_the_named_file_if_there_is_one, .init = make_root, .fini = remove_root) {
        char path[128];

        write_file("/etc/spanprof/spanprof.conf", "frequency = 10\ndepth = 10\n");
        write_file("/my.conf", "frequency = 20\n");
        snprintf(path, sizeof(path), "%s/my.conf", root);
        cr_assert_eq(from_command_line("config", path), 0);
        cr_assert_eq(load(NULL), 0);
        cr_assert_eq(config.sampling.frequency, 20);
        cr_assert_eq(config.sampling.depth, 512);
}

Test(config, says_why_a_file_cannot_be_read, .init = make_root, .fini = remove_root) {
        cr_assert_eq(from_command_line("config", "/nonexistent/x.conf"), 0);
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "/nonexistent/x.conf: No such file or directory\n");
        text_deinit(&errors);
        cr_assert_eq(from_command_line("config", root), 0);
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "Is a directory"));
}

Test(config, never_waits_for_a_pipe, .init = make_root, .fini = remove_root) {
        char path[64];

        snprintf(path, sizeof(path), "%s/pipe", root);
        cr_assert_eq(mkfifo(path, 0600), 0);
        cr_assert_eq(from_command_line("config", path), 0);
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "/pipe: not a regular file\n"), "%s", errors.data);
        text_deinit(&errors);
        cr_assert_eq(from_command_line("config", "/dev/null"), 0);
        cr_assert_eq(load(NULL), 0, "it stands for no configuration");
}

Test(config, looks_whether_the_files_for_tls_can_be_read, .init = make_root, .fini = remove_root) {
        static const char *const environment[] = { "OTEL_EXPORTER_OTLP_CERTIFICATE=/nonexistent/ca.pem",
                                                   NULL };
        char path[64];

        snprintf(path, sizeof(path), "%s/pipe", root);
        cr_assert_eq(mkfifo(path, 0600), 0);
        cr_assert_eq(from_command_line("client-certificate", path), 0);
        cr_assert_eq(from_command_line("client-key", "/proc/self/stat"), 0, "a regular file");
        cr_assert_eq(load(environment), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "certificate: /nonexistent/ca.pem: No such file or directory "
                                               "(OTEL_EXPORTER_OTLP_CERTIFICATE)\n"), "%s", errors.data);
        cr_assert_not_null(strstr(errors.data, "client-certificate: /tmp/"), "%s", errors.data);
        cr_assert_not_null(strstr(errors.data, "/pipe: not a regular file (command line)\n"), "%s",
                           errors.data);
        cr_assert_null(strstr(errors.data, "client-key"), "%s", errors.data);
}

Test(config, names_an_unknown_section) {
        cr_assert_eq(apply("[targets]\n[exports]\ncompression = none\n[nothing-like-it]\n"),
                     CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "x.conf:2: unknown section [exports], did you mean [export]?\n"
                                      "x.conf:4: unknown section [nothing-like-it]\n");
}

Test(config, refuses_endpoints_and_headers_that_cannot_be_used) {
        static const char *const cases[][3] = {
                { "endpoint", "http://[::1", "bracket" },
                { "endpoint", "http://c:99999", "1 to 65535" },
                { "endpoint", "http://", "names no host" },
                { "endpoint", "http://a b", "blank" },
                { "endpoint", "unix:run/c", "path from /" },
                { "endpoint", "ftp://c", "http://HOST[:PORT], https://HOST[:PORT] or unix:/SOCKET" },
                { "forward", "https://c:x", "1 to 65535" },
                { "headers", "secret", "name=value" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                text_deinit(&errors);
                cr_assert_eq(from_command_line(cases[i][0], cases[i][1]), CONFIG_E_INVALID, "%s",
                             cases[i][1]);
                cr_assert_not_null(strstr(errors.data, cases[i][2]), "%s", errors.data);
                cr_assert_null(strstr(errors.data, "secret"), "%s", errors.data);
        }
        cr_assert_eq(from_command_line("headers", "a=b,c=d%20e"), 0);
}

Test(config, names_the_variable_that_is_wrong, .init = make_root, .fini = remove_root) {
        static const char *const environment[] = { "SPANPROF_FREQUENCY=fast",
                                                   "OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318", NULL };

        cr_assert_eq(load(environment), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "SPANPROF_FREQUENCY: `fast` is no number (1 to 10000)\n"));
        cr_assert_not_null(strstr(errors.data, "OTEL_EXPORTER_OTLP_ENDPOINT: `localhost:4318` is no URL"));
}

/* The variables and paths of the OTLP exporter specification. */
Test(config, makes_the_url_of_the_profiles_signal, .init = make_root, .fini = remove_root) {
        static const struct {
                const char *environment;
                const char *url;
        } cases[] = {
                { "X=", "http://localhost:4318/v1development/profiles" },
                { "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1", "http://c:1/v1development/profiles" },
                { "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1/base//", "http://c:1/base/v1development/profiles" },
                { "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://c:1/x/", "http://c:1/x/" },
                { "SPANPROF_ENDPOINT=unix:/run/c.sock", "unix:/run/c.sock:/v1development/profiles" },
                { "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=unix:/run/c.sock:/x", "unix:/run/c.sock:/x" },
                { "SPANPROF_ENDPOINT=HTTP://c:1", "HTTP://c:1/v1development/profiles" },
                { "SPANPROF_ENDPOINT=https://c/base", "https://c/base/v1development/profiles" },
                { "SPANPROF_ENDPOINT=http://c:1/v1development/profiles",
                  "http://c:1/v1development/profiles" },
                { "SPANPROF_ENDPOINT=http://c:1/base/?tenant=1/#x",
                  "http://c:1/base/v1development/profiles?tenant=1/" },
                { "SPANPROF_ENDPOINT=http://c?t=1", "http://c/v1development/profiles?t=1" },
                { "SPANPROF_ENDPOINT=http://c/v1development/profiles?t=1",
                  "http://c/v1development/profiles?t=1" },
                { "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://c/x/?t=1", "http://c/x/?t=1" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *const environment[] = { cases[i].environment, NULL };

                teardown();
                setup();
                cr_assert_eq(load(environment), 0, "%s", errors.data);
                cr_assert_str_eq(config.delivery.profiles_url, cases[i].url);
        }
}

Test(config, prefers_the_variable_of_the_signal_and_ours_to_both, .init = make_root, .fini = remove_root) {
        const char *environment[] = {
                "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://p/x",
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
                NULL,
                NULL,
        };

        cr_assert_eq(load(environment), 0);
        cr_assert_str_eq(config.delivery.profiles_url, "http://p/x");
        teardown();
        setup();
        environment[2] = "SPANPROF_ENDPOINT=http://own";
        cr_assert_eq(load(environment), 0);
        cr_assert_str_eq(config.delivery.profiles_url, "http://own/v1development/profiles");
}

Test(config, refuses_protocols_that_it_does_not_speak, .init = make_root, .fini = remove_root) {
        static const char *const environment[] = { "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", NULL };

        cr_assert_eq(load(environment), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "OTEL_EXPORTER_OTLP_PROTOCOL: gRPC cannot be sent"));
        text_deinit(&errors);
        cr_assert_eq(from_command_line("endpoint", "http://c"), 0);
        cr_assert_eq(load(environment), 0, "who names an endpoint here knows what it speaks");
}

Test(config, takes_the_protocol_of_the_profiles_before_that_of_all, .init = make_root, .fini = remove_root) {
        static const char *const environment[] = { "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
                                                   "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=http/json", NULL };
        static const char *const unknown[] = { "OTEL_EXPORTER_OTLP_PROTOCOL=smoke-signals", NULL };

        cr_assert_eq(load(environment), 0);
        cr_assert_str_eq(config.delivery.protocol, "http/json");
        cr_assert_eq(load(unknown), CONFIG_E_INVALID);
        cr_assert_not_null(
                strstr(errors.data, "`smoke-signals` is not one of its values (http/protobuf, http/json)"));
}

Test(config, takes_more_receivers_each_with_what_is_its_own) {
        cr_assert_eq(
                apply("[export]\ntimeout = 5s\n[export eu]\nendpoint = http://eu:4318\nprotocol = http/json\n"
                      "[export us]\nendpoint = http://us/base\n[export]\nmax-queue = 1M\n[sampling]\nfrequency = 7\n"),
                0);
        cr_assert_eq(config_finish_exports(&config, &errors), 0);
        cr_assert_eq(config.n_exports, 2);
        cr_assert_str_eq(config.exports[0].name, "eu");
        cr_assert_str_eq(config.exports[0].config->delivery.profiles_url, "http://eu:4318/v1development/profiles");
        cr_assert_str_eq(config.exports[0].config->delivery.protocol, "http/json");
        cr_assert_eq(config.exports[0].config->delivery.timeout_ns, 10 * UINT64_C(1000000000), "not that of [export]");
        cr_assert_str_eq(config.exports[1].config->delivery.profiles_url, "http://us/base/v1development/profiles");
        cr_assert_eq(config.delivery.max_queue_bytes, 1 << 20);
        cr_assert_eq(config.sampling.frequency, 7);
        cr_assert(!config_first_export(&config), "without an endpoint [export] is none");
        cr_assert_eq(apply("[export]\nendpoint = http://first\n[export eu]\nendpoint = http://other\n"), 0,
                     "a drop-in");
        cr_assert(config_first_export(&config));
        cr_assert_eq(config.n_exports, 2);
        cr_assert_str_eq(config.exports[0].config->delivery.endpoint, "http://other");
}

Test(config, says_what_is_wrong_with_a_receiver) {
        cr_assert_eq(
                apply("[export eu]\nfrequency = 9\nstop-timeout = 1s\nendpoint = nowhere\ntimeout = 1s\ntimeout = 2s\n"
                      "[export us]\nspool = /a\nendpoint = http://us\n[export]\nspool = /a\n[import x]\n"),
                CONFIG_E_INVALID);
        cr_assert_eq(config_finish_exports(&config, &errors), CONFIG_E_INVALID);
        cr_assert_not_null(strstr(errors.data, "x.conf:2: `frequency` is not for one receiver alone\n"));
        cr_assert_not_null(strstr(errors.data, "x.conf:3: `stop-timeout` is not for one receiver alone\n"));
        cr_assert_not_null(strstr(errors.data, "x.conf:4: endpoint: "));
        cr_assert_not_null(strstr(errors.data, "x.conf:6: timeout: was set in line 5 already\n"));
        cr_assert_not_null(strstr(errors.data, "x.conf:12: unknown section [import x]"));
        cr_assert_not_null(strstr(errors.data, "[export eu]: it has no endpoint\n"));
        cr_assert_not_null(strstr(errors.data, "[export us]: its spool is that of [export]\n"));
}

Test(config, makes_the_url_behind_a_socket) {
        char *url;

        cr_assert_eq(config_profiles_url("unix:/run/c.sock", false, &url), 0);
        cr_assert_str_eq(url, "unix:/run/c.sock:/v1development/profiles");
        free(url);
        cr_assert_eq(config_profiles_url("unix:/run/c.sock:/base", false, &url), 0);
        cr_assert_str_eq(url, "unix:/run/c.sock:/base/v1development/profiles");
        free(url);
}

Test(config, wants_certificate_and_key_together, .init = make_root, .fini = remove_root) {
        cr_assert_eq(from_command_line("client-key", "/proc/self/stat"), 0);
        cr_assert_eq(load(NULL), CONFIG_E_INVALID);
        cr_assert_str_eq(errors.data, "client-certificate, client-key: one needs the other\n");
}

/* ---- presets ---- */

Test(backend, sets_what_nothing_else_has_set) {
        cr_assert_eq(apply("[export]\nbackend = pyroscope\ntimestamps = on\n"), 0);
        cr_assert_eq(backend_apply(&config), 0);
        cr_assert_str_eq(config.form.symbols, "local");
        cr_assert_str_eq(config.form.attributes.items[0], "lean");
        cr_assert(config.form.timestamps, "that of the file");
        cr_assert_str_eq(origin("symbols")->where, "backend");
        cr_assert_str_eq(backend_endpoint(&config), "http://localhost:4040");
        cr_assert(backend_payload(&config).encoding.by_type);
        cr_assert_str_eq(backend_dialect(&config).too_old, "outside of ingestion window");
        cr_assert_eq(apply("[export]\nbackend = otlp\n"), 0);
        cr_assert_null(backend_dialect(&config).too_old);
        cr_assert_not(backend_payload(&config).encoding.by_type);
}

Test(backend, keeps_what_a_lean_form_names_as_well) {
        cr_assert_eq(apply("[export]\nattributes = lean, http.route\n"), 0);
        cr_assert(backend_payload(&config).reshape.lean);
        cr_assert_str_eq(backend_payload(&config).reshape.keep.items[1], "http.route");
        cr_assert_eq(apply("[export]\nattributes = http.route\n"), 0);
        cr_assert(backend_payload(&config).reshape.lean, "as attributes-keep had it");
        cr_assert_eq(apply("[export]\nattributes = full, http.route\n"), 0);
        cr_assert_not(backend_payload(&config).reshape.lean);
        cr_assert_eq(apply("[export]\nattributes = lean, [a\n"), CONFIG_E_INVALID);
}

Test(backend, gives_each_receiver_a_form_of_its_own) {
        const Config *a, *b;

        cr_assert_eq(apply("[export]\nbackend = pyroscope\nlinks = off\n"
                           "[export a]\nendpoint = http://a\n"
                           "[export b]\nendpoint = http://b\nbackend = parca\nsymbols = local\n"),
                     0, "%s", errors.data);
        cr_assert_eq(backend_apply(&config), 0);
        cr_assert_eq(config_finish_exports(&config, &errors), 0);
        a = config.exports[0].config;
        b = config.exports[1].config;
        cr_assert_str_eq(a->form.backend, "otlp", "a preset is that of one receiver");
        cr_assert_str_eq(a->form.attributes.items[0], "full");
        cr_assert_str_eq(a->form.symbols, "remote");
        cr_assert_str_eq(a->form.links, "off", "what [export] sets itself holds for all");
        cr_assert_str_eq(b->form.links, "off");
        cr_assert_str_eq(b->form.resource_numbers, "text");
        cr_assert_not(b->form.timestamps);
        cr_assert_not(backend_payload(b).reshape.nameless, "names are asked for");
        cr_assert(backend_wants_names(&config));
        cr_assert_not(backend_has_names(a));
}

Test(backend, knows_whether_processes_are_told_apart) {
        cr_assert_not(backend_merges_processes(&config));
        cr_assert_eq(apply("[export]\nattributes-deny = process.executable.*\n"), 0);
        cr_assert_not(backend_merges_processes(&config));
        cr_assert_eq(apply("[export]\nattributes-deny = process.*\n"), 0);
        cr_assert(backend_merges_processes(&config));
        cr_assert_eq(apply("[export]\nattributes-deny =\nattributes-allow = service.*\n"), 0);
        cr_assert(backend_merges_processes(&config));
}

Test(backend, refuses_a_tenant_that_no_backend_takes) {
        cr_assert_eq(apply("[export]\ntenant = team/../other\n"), CONFIG_E_INVALID);
        cr_assert_eq(apply("[export]\ntenant = team-a|team_b\n"), 0);
}

static uint32_t ticks(uint64_t frequency, uint64_t recorder_frequency) {
        const Config asked = { .sampling = { .frequency = frequency, .recorder_ns = 1,
                                             .recorder_frequency = recorder_frequency } };

        return config_ticks_per_sample(&asked);
}

Test(config, ticks_of_a_recorder_are_no_more_than_a_clock_may_have) {
        const Config none = { .sampling = { .frequency = 99, .recorder_frequency = 999 } };

        cr_assert_eq(config_ticks_per_sample(&none), 1);
        cr_assert_eq(ticks(99, 999), 10);
        cr_assert_eq(ticks(999, 99), 1);
        cr_assert_eq(ticks(4000, 10000), 2, "12,000 Hz are nearer, and too many");
        cr_assert_eq(ticks(10000, 10000), 1);
        cr_assert_eq(ticks(1, 10000), 10000);
}
