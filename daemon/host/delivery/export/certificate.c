/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the certificates of a PEM file by libcrypto, and returns when they end: the earliest of a chain,
 * the latest of authorities.
 */

#include "host/delivery/export/certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/file/file.h"
#include "core/base/util/library.h"
#include "core/base/util/macro.h"

#define FUNCTIONS(X) \
        X(ASN1_TIME_to_tm) X(BIO_free) X(BIO_new_mem_buf) X(ERR_clear_error) X(PEM_read_bio_X509) \
        X(X509_free) X(X509_get0_notAfter)

static struct {
        FUNCTIONS(LIBRARY_POINTER)
} lib;

static Library library = LIBRARY(lib, SONAME_CRYPTO, FUNCTIONS, "to see when certificates end");
LIBRARY_NOTE(SONAME_CRYPTO, "certificates", "recommended", "sees when certificates end")

enum { FILE_MAX_BYTES = 4 << 20 };

static bool read_end(const X509 *certificate, time_t *endp) {
        struct tm tm = { 0 };

        if (!lib.ASN1_TIME_to_tm(lib.X509_get0_notAfter(certificate), &tm))
                return false;
        *endp = timegm(&tm);
        return true;
}

/* Other things in the file, as a key, are passed over. */
static int find_end(BIO *bio, CertificatesOf of, time_t *endp) {
        X509 *certificate;
        bool found = false;
        time_t end;

        while ((certificate = lib.PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
                if (read_end(certificate, &end) &&
                    (!found || (of == CERTIFICATES_CHAIN ? end < *endp : end > *endp))) {
                        *endp = end;
                        found = true;
                }
                lib.X509_free(certificate);
        }
        lib.ERR_clear_error();          /* the end of the file is one */
        return found ? 0 : CERTIFICATE_E_NONE;
}

int certificate_end(const char *path, CertificatesOf of, time_t *endp) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        BIO *bio;
        int r;

        if (library_load(&library))
                return CERTIFICATE_E_LIBRARY;
        r = file_read_regular(path, FILE_MAX_BYTES, &text, &size);
        if (r) {
                if (r == FILE_E_KIND || r == FILE_E_TOO_LARGE)
                        errno = r == FILE_E_KIND ? EINVAL : EFBIG;
                return CERTIFICATE_E_UNREADABLE;
        }
        bio = lib.BIO_new_mem_buf(text, (int)size);
        if (!bio)
                return CERTIFICATE_E_NONE;
        r = find_end(bio, of, endp);
        lib.BIO_free(bio);
        return r;
}
