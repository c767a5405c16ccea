/* SPDX-License-Identifier: Apache-2.0 */

/*
 * blas-busy LIBRARY [ROUNDS]: spends its time in a library of linear algebra (OpenBLAS), whose kernels are
 * assembly that nobody describes, until SIGTERM. With ROUNDS it traps, for a tracer, does that many,
                     and ends.
 * Names of numpy's own build of OpenBLAS are tried,
                     too. Built by test-long-scan.py. Which of its own functions
 * calls which of the library's is all that it does:
 *
 *     main ─▶ do_vectors ─▶ cblas_ddot, daxpy, dscal, …
 *          ─▶ do_matrices ─▶ cblas_dgemm, sgemm, zgemm, dgemv, …
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112, UPPER = 121, NON_UNIT = 131, LEFT = 141 };
enum { N = 40, LENGTH = 300, MAX_NAME = 64 };

static volatile sig_atomic_t is_over;
static volatile double sink;
static void *library;
static double a[2 * N * N], b[2 * N * N], c[2 * N * N];
static float fa[N * N], fb[N * N], fc[N * N];

static void end(int signal) {
        (void)signal;
        is_over = 1;
}

static void *find(const char *name) {
        char theirs[MAX_NAME];
        void *found = dlsym(library, name);

        snprintf(theirs, sizeof(theirs), "scipy_%s64_", name);
        found = found ? found : dlsym(library, theirs);
        if (!found) {
                fprintf(stderr, "no %s\n", name);
                exit(1);
        }
        return found;
}

/* Numbers are long: a library that takes int sees the same. */
static double (*ddot)(long, const double *, long, const double *, long);
static void (*daxpy)(long, double, const double *, long, double *, long);
static void (*dscal)(long, double, double *, long);
static double (*dnrm2)(long, const double *, long);
static double (*dasum)(long, const double *, long);
static void (*dcopy)(long, const double *, long, double *, long);
static void (*dswap)(long, double *, long, double *, long);
static void (*drot)(long, double *, long, double *, long, double, double);
static size_t (*idamax)(long, const double *, long);
static float (*sdot)(long, const float *, long, const float *, long);
static void (*saxpy)(long, float, const float *, long, float *, long);
static void (*dgemm)(int, int, int, long, long, long, double, const double *, long, const double *, long,
                     double, double *, long);
static void (*sgemm)(int, int, int, long, long, long, float, const float *, long, const float *, long, float,
                     float *, long);
static void (*zgemm)(int, int, int, long, long, long, const double *, const double *, long, const double *,
                     long, const double *, double *, long);
static void (*dgemv)(int, int, long, long, double, const double *, long, const double *, long, double,
                     double *, long);
static void (*dger)(int, long, long, double, const double *, long, const double *, long, double *, long);
static void (*dsymv)(int, int, long, double, const double *, long, const double *, long, double, double *,
                     long);
static void (*dtrsm)(int, int, int, int, int, long, long, double, const double *, long, double *, long);
static void (*dsyrk)(int, int, int, long, long, double, const double *, long, double, double *, long);

static void find_all(void) {
        ddot = find("cblas_ddot");
        daxpy = find("cblas_daxpy");
        dscal = find("cblas_dscal");
        dnrm2 = find("cblas_dnrm2");
        dasum = find("cblas_dasum");
        dcopy = find("cblas_dcopy");
        dswap = find("cblas_dswap");
        drot = find("cblas_drot");
        idamax = find("cblas_idamax");
        sdot = find("cblas_sdot");
        saxpy = find("cblas_saxpy");
        dgemm = find("cblas_dgemm");
        sgemm = find("cblas_sgemm");
        zgemm = find("cblas_zgemm");
        dgemv = find("cblas_dgemv");
        dger = find("cblas_dger");
        dsymv = find("cblas_dsymv");
        dtrsm = find("cblas_dtrsm");
        dsyrk = find("cblas_dsyrk");
}

__attribute__((noinline)) static void do_vectors(void) {
        sink += ddot(LENGTH, a, 1, b, 1) + ddot(N, a, 2, b, 3);
        daxpy(LENGTH, 1e-9, a, 1, b, 1);
        daxpy(N, 1e-9, a, 2, b, 2);
        dscal(LENGTH, 0.5, c, 1);
        sink += dnrm2(LENGTH, a, 1) + dasum(LENGTH, a, 1);
        dcopy(LENGTH, a, 1, c, 1);
        dswap(LENGTH, a, 1, c, 1);
        drot(N, a, 1, b, 1, 0.6, 0.8);
        sink += (double)idamax(LENGTH, a, 1);
        sink += (double)sdot(LENGTH, fa, 1, fb, 1);
        saxpy(LENGTH, 1e-9F, fa, 1, fb, 1);
}

__attribute__((noinline)) static void do_matrices(void) {
        static const double one[2] = { 1, 0 };

        dgemm(ROW_MAJOR, PLAIN, PLAIN, N, N, N, 1e-3, a, N, b, N, 0, c, N);
        dgemm(ROW_MAJOR, TURNED, TURNED, N, N, N, 1e-3, a, N, b, N, 0, c, N);
        sgemm(ROW_MAJOR, PLAIN, TURNED, N, N, N, 1e-3F, fa, N, fb, N, 0, fc, N);
        zgemm(ROW_MAJOR, PLAIN, PLAIN, N, N, N, one, a, N, b, N, one, c, N);
        dgemv(ROW_MAJOR, PLAIN, N, N, 1e-3, a, N, b, 1, 0, c, 1);
        dgemv(ROW_MAJOR, TURNED, N, N, 1e-3, a, N, b, 1, 0, c, 1);
        dger(ROW_MAJOR, N, N, 1e-9, a, 1, b, 1, c, N);
        dsymv(ROW_MAJOR, UPPER, N, 1e-3, a, N, b, 1, 0, c, 1);
        dtrsm(ROW_MAJOR, LEFT, UPPER, PLAIN, NON_UNIT, N, N, 1, a, N, c, N);
        dsyrk(ROW_MAJOR, UPPER, PLAIN, N, N, 1e-3, a, N, 0, c, N);
}

static void fill(void) {
        for (int i = 0; i < 2 * N * N; i++) {
                a[i] = 1 + i % 7 + N * (i % (N + 1) == 0);
                b[i] = i % 5;
                c[i] = 0;
                if (i < N * N) {
                        fa[i] = (float)a[i];
                        fb[i] = (float)b[i];
                }
        }
}

int main(int argc, char **argv) {
        long rounds = argc > 2 ? atol(argv[2]) : 0;

        library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
        if (!library) {
                fprintf(stderr, "blas-busy: %s\n", argc > 1 ? dlerror() : "no library");
                return 1;
        }
        find_all();
        signal(SIGTERM, end);
        printf("pid %d\n", (int)getpid());
        fflush(stdout);
        fill();
        do_vectors();
        do_matrices();
        if (rounds)
                __asm__ volatile("int3");
        for (long i = 0; !is_over && (!rounds || i < rounds); i++) {
                fill();
                do_vectors();
                do_matrices();
        }
        return 0;
}
