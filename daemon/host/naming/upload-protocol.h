/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Upload Protocols
 *
 * How a server of debug information is asked whether it wants a file, and gets it. Plain HTTP with JSON:
 *
 *     Pyroscope ≥ 1.21 (api/debuginfo/v1alpha1/debuginfo.proto; Connect)
 *         POST /debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload   {"file":{"gnuBuildId": …}}
 *         POST /debuginfo.v1alpha1.DebuginfoService/Upload/BUILD-ID        the file
 *         POST /debuginfo.v1alpha1.DebuginfoService/UploadFinished         {"gnuBuildId": …}
 *     Parca ≥ 0.27 (proto/parca/debuginfo/v1alpha1; its gateway from HTTP to gRPC)
 *         POST /api/shouldinitiateupload                                   {"buildId": …}
 *         POST /api/initiateupload                                         {"buildId": …, "size": …}
 *         PUT  the signed URL of the answer, without our headers           the file
 *         POST /api/markuploadfinished                                     {"buildId": …, "uploadId": …}
 *
 * A Parca without object storage that signs URLs wants the file by a stream of gRPC, which is not supported.
 */

#include <stdbool.h>
#include <stdint.h>

typedef enum UploadProtocol { UPLOAD_PYROSCOPE, UPLOAD_PARCA } UploadProtocol;

typedef struct UploadServer {
        UploadProtocol protocol;
        const char *url;                /* without a slash at its end; or unix:SOCKET */
        const char *const *headers;     /* `Name: value`, NULL at the end; NULL = none */
        const char *certificate, *client_certificate, *client_key;      /* NULL = none */
        uint64_t timeout_ns;            /* time of a question */
        bool (*is_over)(void *userdata);        /* ends a call; NULL = never */
        void *userdata;
} UploadServer;

typedef struct UploadFile {
        const char *gnu;                /* build id, lower-case hex */
        const char *name;               /* base name, for people */
        int fd;                         /* borrowed */
        uint64_t size;
} UploadFile;

typedef enum UploadVerdict {
        UPLOAD_WANTED,                  /* from upload_ask() */
        UPLOAD_DONE,                    /* from upload_send() */
        UPLOAD_KNOWN,                   /* the server has it */
        UPLOAD_BUSY,                    /* another host is uploading it, or has died in the midst of that */
        UPLOAD_REFUSED,                 /* the server will not take it */
        UPLOAD_UNSUPPORTED,             /* the server wants it in a way that we cannot */
        UPLOAD_FAILED,                  /* no answer, or one that asks to try later */
} UploadVerdict;

enum { UPLOAD_PROBLEM_MAX = 256 };

typedef struct UploadAnswer {
        UploadVerdict verdict;
        uint64_t n_sent;                /* bytes of the file */
        char problem[UPLOAD_PROBLEM_MAX];       /* for people, masked; "" = none */
} UploadAnswer;

/* Whether the server wants the file; its descriptor and size need not be there. */
void upload_ask(const UploadServer *server, const UploadFile *file, UploadAnswer *answer);

/* Sends it. Only after upload_ask() said WANTED. */
void upload_send(const UploadServer *server, const UploadFile *file, UploadAnswer *answer);
