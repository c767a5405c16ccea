/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the requests of a representative window: DIRECTORY/000000.pb, 000000.json, 000001.pb, … and prints
 * what they hold: `N requests, N events, N lost`.
 *
 * usage: write-window DIRECTORY [MAX-BYTES [PROCESSES [STACKS [no-times]]]]
 */

#include <fcntl.h>
#include <limits.h>

#include "core/base/file/file.h"
#include "core/otlp/decode.h"
#include "core/otlp/encode.h"
#include "core/otlp/json.h"
#include "fill-window.h"

struct output {
        const char *directory;
        unsigned n;
        uint64_t n_events;
};

static int write_file(const struct output *output, const char *suffix, const void *data, size_t size) {
        char path[PATH_MAX];
        int fd, r;

        snprintf(path, sizeof(path), "%s/%06u.%s", output->directory, output->n, suffix);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0)
                return 1;
        r = file_write(fd, data, size);
        close(fd);
        return r;
}

static int write_request(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                         void *userdata) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        struct output *output = userdata;
        Text text = { 0 };
        char where[128];
        int r;

        if (otlp_decode_request(data, size, &request, where, sizeof(where)))
                return 1;
        otlp_json_print(&text, &request->base, 1);
        r = write_file(output, "pb", data, size) || write_file(output, "json", text.data, text.size);
        text_deinit(&text);
        output->n++;
        output->n_events += n_events;
        return r;
}

int main(int argc, char **argv) {
        struct output output = { .directory = argc > 1 ? argv[1] : "." };
        OtlpOptions options = { .max_bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0,
                                .scope_version = "1.2.3",
                                .timestamps = argc <= 5 };
        uint32_t n_processes = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 3;
        uint32_t n_stacks = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 100;
        _cleanup_(window_freep) Window *window = fill_window(n_processes, n_stacks);
        uint64_t n_lost = 0;

        if (otlp_encode(window, &options, write_request, &output, &n_lost))
                return 1;
        printf("%u requests, %lu events, %lu lost\n", output.n, output.n_events, n_lost);
        return output.n_events + n_lost == window_n_events(window) ? 0 : 1;
}
