/* SPDX-License-Identifier: Apache-2.0 */

/* What a JVM says at its attach socket, and whether it has one. */

#include "desk/live/jfr-start.h"

#include <criterion/criterion.h>
#include <string.h>

Test(jfr_start, takes_what_is_answered_without_a_failure) {
        static const char good[] = "0\nStarted recording 1.\n";

        cr_assert_str_eq(jfr_start_answer(good, sizeof(good) - 1), "Started recording 1.\n");
        cr_assert_str_eq(jfr_start_answer("0\n", 2), "");
        cr_assert_null(jfr_start_answer("1\njava.lang.IllegalArgumentException", 36));
        cr_assert_null(jfr_start_answer("00\n", 3));
        cr_assert_null(jfr_start_answer("0", 1), "it is cut");
        cr_assert_null(jfr_start_answer("\n", 1));
        cr_assert_null(jfr_start_answer("", 0));
}

Test(jfr_start, knows_a_jvm_without_a_socket_by_its_words) {
        static const char arguments[] = "java\0-Xmx64m\0-XX:+DisableAttachMechanism\0-jar\0shop.jar",
                          environment[] = "HOME=/root\0JAVA_TOOL_OPTIONS=-Xrs -XX:+DisableAttachMechanism",
                          launcher[] = "JDK_JAVA_OPTIONS=-XX:+DisableAttachMechanism",
                          others[] = "java\0-XX:-DisableAttachMechanism\0-Dchild=-XX:+DisableAttachMechanism",
                          children[] = "MAVEN_OPTS=-XX:+DisableAttachMechanism\0JAVA_TOOL_OPTIONS=-Xrs";

        cr_assert(jfr_start_is_disabled(arguments, sizeof(arguments)));
        cr_assert(jfr_start_is_disabled(environment, sizeof(environment)));
        cr_assert(jfr_start_is_disabled(launcher, sizeof(launcher)));
        cr_assert_not(jfr_start_is_disabled(others, sizeof(others)));
        cr_assert_not(jfr_start_is_disabled(children, sizeof(children)), "what programs read that start it");
        cr_assert_not(jfr_start_is_disabled("", 0));
}
