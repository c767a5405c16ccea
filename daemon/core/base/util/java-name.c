/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cuts from names of Java classes the addresses and numbers that a JVM gives classes which it makes itself.
 */
#include "core/base/util/java-name.h"

#include <stdbool.h>
#include <string.h>

#include "core/base/util/macro.h"

static bool is_number(const char *text, size_t size, const char *digits) {
        for (size_t i = 0; i < size; i++)
                if (!memchr(digits, text[i], strlen(digits)))
                        return false;
        return size;
}

/*
 * Cuts what a class has got at run time: `+0x0000000800c03000` or `/0x…` (hidden classes since 15) and
 * `/1234567` (anonymous ones before), where a class name of the language has neither + nor a part that begins
 * with a digit. Some writers put dots for slashes; then digits alone may be the version of a library.
 */
static size_t cut_address(const char *name, size_t size) {
        for (size_t i = size; i-- > 1;) {
                const char *rest = name + i + 1;
                size_t n = size - i - 1;

                if (name[i] != '+' && name[i] != '/' && name[i] != '.')
                        continue;
                if ((n > 2 && !memcmp(rest, "0x", 2) && is_number(rest + 2, n - 2, "0123456789abcdef")) ||
                    (name[i] != '.' && is_number(rest, n, "0123456789")))
                        return i;
                return size;
        }
        return size;
}

static bool ends_with(const char *name, size_t size, const char *end) {
        size_t n = strlen(end);

        return size >= n && !memcmp(name + size - n, end, n);
}

/* Cuts the number that the JDK gives classes which it makes, in the order of their making. */
static size_t cut_counter(const char *name, size_t size) {
        static const char *const made[] = { "$$Lambda$",         "$$Lambda",
                                            "MethodAccessor",    "ConstructorAccessor",
                                            "/$Proxy",           ".$Proxy",
                                            "LambdaForm$MH",     "LambdaForm$DMH",
                                            "LambdaForm$BMH" };
        size_t n = size;

        while (n && name[n - 1] >= '0' && name[n - 1] <= '9')
                n--;
        if (n == size)
                return size;
        for (size_t i = 0; i < ARRAY_SIZE(made); i++)
                if (ends_with(name, n, made[i]))
                        return ends_with(name, n, "$$Lambda$") ? n - 1 : n;
        return size;
}

size_t java_class_name(char *to, const char *name, size_t size) {
        static const char proxies[] = "jdk.proxy";
        size_t n = 0, i = 0, whole;

        do {            /* recordings of JDK 17 have both, an address and a hash: `+0x0000000800c03000/1234567` */
                whole = size;
                size = cut_address(name, whole);
        } while (size < whole);
        size = cut_counter(name, size);
        for (; i < size; i++) {
                to[n++] = name[i] == '/' ? '.' : name[i];
                if (n == sizeof(proxies) - 1 && i + 1 == n && !memcmp(to, proxies, n))
                        while (i + 1 < size && name[i + 1] >= '0' && name[i + 1] <= '9')
                                i++;
        }
        to[n] = '\0';
        return n;
}
