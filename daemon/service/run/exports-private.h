/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Exports, inside
 *
 * What exports.c keeps and exports-show.c shows.
 */

#include "service/run/exports.h"

typedef struct Export {
        Exporter *exporter;
        const char *name, *url;         /* the configuration's; name "" = the section without one */
} Export;

struct Exports {
        Export *items;
        size_t n, n_stopped;
        void (*done)(void *userdata);
        void *userdata;
};
