/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tells a JVM by the contents of its file, since each of these may be renamed and moved:
 *
 *     native-image   section .svm_heap, the objects that were made when it was compiled; it may be static and
 *                    stripped. In .data or .rodata: `com.oracle.svm.core.VM=GraalVM CE 25.0.2+10.1`
 *     OpenJ9         exports J9_CreateJavaVM (libj9vm29.so), or J9VMDllMain, as each of its parts does.
 *                    In .rodata: `openj9-0.41.0`
 *     Zing, others   export JNI_CreateJavaVM without gHotSpotVMStructs. In .rodata: `Zing`
 *
 * libjvm.so of OpenJ9 exports JNI_CreateJavaVM, too. It only passes calls on, and names libj9vm.
 */
#include "host/runtime/jvm/other-jvm.h"

#include <stdio.h>
#include <string.h>

#include "core/base/elf/image.h"
#include "host/sampling/process/dynamic-symbol.h"

enum { MAX_SECTION = 8 << 20 };         /* bytes of one that are searched */

typedef struct JvmFile {
        ElfImage image;
        DynamicImage dynamic;
        bool has_symbols;
} JvmFile;

static bool open_file(JvmFile *file, const OtherJvmInput *input) {
        int r = input->fd >= 0 ? elf_image_init(&file->image, input->fd, 0, input->size)
                               : elf_image_init_memory(&file->image, input->data, input->size);

        if (r)
                return false;
        file->has_symbols = dynamic_image_open(&file->dynamic, input->fd, input->data, input->size);
        return true;
}

static bool exports(const JvmFile *file, const char *name) {
        Elf64_Sym symbol;
        uint32_t index;

        return file->has_symbols && dynamic_image_find(&file->dynamic, name, &index, &symbol);
}

/* Printable bytes from @from on, without those of @end; as many as there is room for. */
static void copy_printable(char *to, size_t room, const char *from, size_t size, const char *end) {
        size_t n = 0;

        while (n < size && n + 1 < room && from[n] >= ' ' && from[n] <= '~' && !strchr(end, from[n]))
                n++;
        memcpy(to, from, n);
        to[n] = '\0';
}

/*
 * Finds the text behind @mark in the section, up to a byte of @end; "" = nothing. Return: whether the mark is
 * there.
 */
static bool find_text(const JvmFile *file, const char *section, const char *mark, const char *end, char *text,
                      size_t room) {
        _cleanup_(freep) char *data = NULL;
        const char *found;
        uint64_t size;

        *text = '\0';
        if (elf_image_read_section(&file->image, section, MAX_SECTION, &data, &size))
                return false;
        found = memmem(data, size, mark, strlen(mark));
        if (!found)
                return false;
        found += strlen(mark);
        copy_printable(text, room, found, size - (size_t)(found - data), end);
        return true;
}

static void say(char says[OBJECT_MAX_SAYS], const char *name, const char *version) {
        snprintf(says, OBJECT_MAX_SAYS, "%s%s%s", name, *version ? " " : "", version);
}

static bool is_native_image(const JvmFile *file, char says[OBJECT_MAX_SAYS]) {
        static const char mark[] = "com.oracle.svm.core.VM=";
        const Elf64_Shdr *heap;
        char version[32];

        if (elf_image_find_section(&file->image, ".svm_heap", &heap))
                return false;
        if (!find_text(file, ".data", mark, "", version, sizeof(version)))
                find_text(file, ".rodata", mark, "", version, sizeof(version));
        say(says, "native-image", version);
        return true;
}

static bool is_openj9(const JvmFile *file, char says[OBJECT_MAX_SAYS]) {
        char version[32];

        if (!exports(file, "J9_CreateJavaVM") && !exports(file, "J9VMDllMain"))
                return false;
        find_text(file, ".rodata", "openj9-", " \"", version, sizeof(version));
        say(says, "OpenJ9", version);
        return true;
}

static bool is_jvm(const JvmFile *file, char says[OBJECT_MAX_SAYS]) {
        char rest[2];

        if (!exports(file, "JNI_CreateJavaVM") || exports(file, "gHotSpotVMStructs"))
                return false;
        if (find_text(file, ".rodata", "libj9vm", "", rest, sizeof(rest)))
                return false;
        say(says, find_text(file, ".rodata", "Zing", "", rest, sizeof(rest)) ? "Zing"
                                                                             : "a machine without descriptions",
            "");
        return true;
}

bool other_jvm_find(const OtherJvmInput *input, char says[OBJECT_MAX_SAYS]) {
        JvmFile file;
        bool is;

        if (!open_file(&file, input))
                return false;
        is = is_native_image(&file, says) || is_openj9(&file, says) || is_jvm(&file, says);
        elf_image_deinit(&file.image);
        return is;
}

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return other_jvm_find(&(OtherJvmInput){ .fd = fd, .size = size }, says);
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        snprintf(text, RUNTIMES_MAX_TEXT, "java: %s, walked natively", subject->says);
        return RUNTIME_E_NATIVE;
}

const RuntimeOps other_jvm_runtime = {
        .name = "jvm",
        .bit = RUNTIME_HAS_OTHER_JVM,
        .recognises = recognises,
        .attach = attach,
};
