/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Libraries with the marks of virtual machines, as tests/fuzz/make/make-other-jvm-corpus.py makes them: no
 * package has OpenJ9 or Zing. A real native-image: tests/integration/host/runtime/test-long-other-jvm.py.
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/runtime/jvm/other-jvm.h"

static char says[OBJECT_MAX_SAYS];

/* What the file says; "" = it is no such machine's. */
static const char *find(const char *name) {
        char path[4096];
        struct stat stat;
        int fd;

        snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/other-jvm/%s", getenv("BUILD_DIR"), name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        cr_assert_geq(fd, 0, "%s", path);
        cr_assert_eq(fstat(fd, &stat), 0);
        if (!other_jvm_runtime.recognises(fd, (uint64_t)stat.st_size, says))
                *says = '\0';
        close(fd);
        return says;
}

Test(other_jvm, is_called_by_its_name) {
        cr_expect_str_eq(find("openj9"), "OpenJ9 0.41.0");
        cr_expect_str_eq(find("openj9-part"), "OpenJ9");
        cr_expect_str_eq(find("zing"), "Zing");
        cr_expect_str_eq(find("unknown"), "a machine without descriptions");
        cr_expect_str_eq(find("native-image"), "native-image GraalVM CE 25.0.2+10.1");
        cr_expect_str_eq(find("native-image-unsaid"), "native-image");
}

Test(other_jvm, others_are_not_taken) {
        cr_expect_str_eq(find("openj9-redirector"), "", "it passes calls on");
        cr_expect_str_eq(find("hotspot"), "");
        cr_expect_str_eq(find("library"), "");
        cr_expect_str_eq(find("cut"), "");
        cr_expect_str_eq(find("no-sections"), "OpenJ9", "symbols are found without sections");
}

Test(other_jvm, a_version_is_printable_and_short) {
        cr_expect_str_eq(find("native-image-unprintable"), "native-image Graal");
        cr_expect_eq(strlen(find("native-image-long")), strlen("native-image ") + 31);
}

Test(other_jvm, is_said_and_not_walked) {
        RuntimeSubject subject = { .fd = -1, .says = "OpenJ9 0.41.0" };
        char text[RUNTIMES_MAX_TEXT];
        void *state = NULL;

        cr_assert_eq(other_jvm_runtime.attach(&subject, &state, NULL, text), RUNTIME_E_NATIVE);
        cr_assert_str_eq(text, "java: OpenJ9 0.41.0, walked natively");
        cr_assert_null(state);
}
