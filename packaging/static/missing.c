/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a program without shared libraries cannot do, in words
 *
 * Debian has no archives of libsystemd and libcjson, and a library that is loaded while the program runs
 * needs the same C library beside it. So the static program hashes no id of the machine, tells no service
 * manager of itself, reads no JSON, and loads nothing: what somebody could miss says so. It has SHA-256 in
 * itself.
 */

#define OPENSSL_SUPPRESS_DEPRECATED     /* what is deprecated are the parts */
#include <cjson/cJSON.h>
#include <errno.h>
#include <netdb.h>
#include <nss.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>

#include "core/base/util/library.h"
#include "core/base/util/log.h"

/* As SHA256() does it, but without all the other algorithms, which that one brings along. */
static unsigned char *sha256(const unsigned char *data, size_t size, unsigned char *digest) {
        SHA256_CTX state;
        bool done = SHA256_Init(&state) && SHA256_Update(&state, data, size) && SHA256_Final(digest, &state);

        return done ? digest : NULL;
}

static const LibraryFunction own[] = { { "SHA256", (void *)sha256 }, { NULL, NULL } };

/* Before main(), which other programs share. Names of users come from /etc/passwd alone. */
__attribute__((constructor)) static void forbid_libraries(void) {
        library_forbid("this program is static and loads no library", own);
        (void)__nss_configure_lookup("passwd", "files");
        (void)__nss_configure_lookup("group", "files");
}

/* Profiles are then without `host.id`. */
int sd_id128_get_machine(sd_id128_t *id) {
        return -EOPNOTSUPP;
}

int sd_id128_get_machine_app_specific(sd_id128_t application, sd_id128_t *id) {
        return -EOPNOTSUPP;
}

char *sd_id128_to_string(sd_id128_t id, char text[static SD_ID128_STRING_MAX]) {
        text[0] = 0;
        return text;
}

/* The verbs here are no service. */
int sd_notify(int unset_environment, const char *state) {
        return 0;
}

int sd_notifyf(int unset_environment, const char *format, ...) {
        return 0;
}

/* Both fail as for text that is no JSON, after saying why. */
CJSON_PUBLIC(cJSON *) cJSON_ParseWithLength(const char *text, size_t size) {
        return cJSON_ParseWithLengthOpts(text, size, NULL, 0);
}

CJSON_PUBLIC(cJSON *)
cJSON_ParseWithLengthOpts(const char *text, size_t size, const char **endp, cJSON_bool ends) {
        log_error("this program is static and reads no JSON: neither OTLP/JSON nor pages");
        if (endp)
                *endp = text;
        return NULL;
}

/* No value is ever made, so nobody asks these. */
CJSON_PUBLIC(void) cJSON_Delete(cJSON *value) {
}

CJSON_PUBLIC(int) cJSON_GetArraySize(const cJSON *value) {
        return 0;
}

CJSON_PUBLIC(cJSON *) cJSON_GetArrayItem(const cJSON *value, int index) {
        return NULL;
}

CJSON_PUBLIC(cJSON *) cJSON_GetObjectItemCaseSensitive(const cJSON *const value, const char *const name) {
        return NULL;
}

CJSON_PUBLIC(char *) cJSON_GetStringValue(const cJSON *const value) {
        return NULL;
}

CJSON_PUBLIC(double) cJSON_GetNumberValue(const cJSON *const value) {
        return 0;
}

#define IS_NOT(_name) \
        CJSON_PUBLIC(cJSON_bool) _name(const cJSON *const value) { \
                return 0; \
        }
IS_NOT(cJSON_IsArray)
IS_NOT(cJSON_IsBool)
IS_NOT(cJSON_IsNull)
IS_NOT(cJSON_IsNumber)
IS_NOT(cJSON_IsObject)
IS_NOT(cJSON_IsString)
IS_NOT(cJSON_IsTrue)
