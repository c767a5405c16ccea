/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/java-name.h"

static void check_class(const char *name, const char *want) {
        char to[256];

        cr_assert_eq(java_class_name(to, name, strlen(name)), strlen(want));
        cr_assert_str_eq(to, want);
}

/* Names as Thread.print of JDK 8 to 25 and their symbols have them. */
Test(java_name, names_classes_that_are_made_at_run_time_alike_in_each_run) {
        check_class("java/lang/String", "java.lang.String");
        check_class("a/Main$$Lambda$14+0x0000000800c03000", "a.Main$$Lambda");
        check_class("a/Main$$Lambda+0x000000005d0032f0", "a.Main$$Lambda");
        check_class("a/Main$$Lambda/0x000000005d0032f0", "a.Main$$Lambda");
        check_class("Main$$Lambda$92+0x00007f8ab0007c30/1049817027", "Main$$Lambda");
        check_class("Main$$Lambda$1", "Main$$Lambda");
        check_class("Main$$Lambda$1/1234567", "Main$$Lambda");
        check_class("java/lang/invoke/LambdaForm$MH+0x0000000800c03000", "java.lang.invoke.LambdaForm$MH");
        check_class("sun/reflect/GeneratedMethodAccessor12", "sun.reflect.GeneratedMethodAccessor");
        check_class("com/sun/proxy/$Proxy7", "com.sun.proxy.$Proxy");
        check_class("jdk/proxy2/$Proxy11", "jdk.proxy.$Proxy");
        check_class("a/Utf8", "a.Utf8");
        check_class("a.Main$$Lambda$14.0x0000000800c03000", "a.Main$$Lambda");
        check_class("jdk.proxy2.$Proxy11", "jdk.proxy.$Proxy");
        check_class("com.sun.proxy.$Proxy7", "com.sun.proxy.$Proxy");
        check_class("a/Main$1", "a.Main$1");
        check_class("a/b1", "a.b1");
        check_class("", "");
}

/* In recordings the library of a native function stands in the place of a class. */
Test(java_name, leaves_names_of_libraries_alone) {
        check_class("libc.so.6", "libc.so.6");
        check_class("libstdc++.so.6.0.30", "libstdc++.so.6.0.30");
        check_class("libfoo.1", "libfoo.1");
}
