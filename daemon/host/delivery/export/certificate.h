/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Certificates in files, and when they end
 */

#include <time.h>

/* Rule for the certificate that matters, of several in a file. */
typedef enum CertificatesOf {
        CERTIFICATES_CHAIN,             /* each must be valid: the first to end */
        /* any one is enough: the last to end, since a rotation has the old and the new */
        CERTIFICATES_AUTHORITIES,
} CertificatesOf;

enum {
        _CERTIFICATE_E_SUCCESS,
        CERTIFICATE_E_UNREADABLE,       /* the file cannot be read, or is larger than 4 MiB; errno says why */
        CERTIFICATE_E_NONE,             /* the file holds no certificate (PEM) */
        CERTIFICATE_E_LIBRARY,          /* libcrypto is not installed; a message was logged */
};

/* So long before its end a certificate is said to be about to end. */
#define CERTIFICATE_SOON_S (14 * 24 * 3600)

/*
 * Never waits for another process: what is no regular file (EINVAL) is not opened for long. @endp: seconds
 * since 1970. Return: 0, CERTIFICATE_E_*.
 */
int certificate_end(const char *path, CertificatesOf of, time_t *endp);
