/* SPDX-License-Identifier: Apache-2.0 */

/*
 * BTF is a header, a section of types and a section of strings. Types have no
 * index: number 1 is the first record, each is 12 bytes and a tail whose size
 * follows from its kind, so one walk finds where each begins. A record names other
 * types by number and strings by offset:
 *
 *     [130] STRUCT 'pid' size=112 vlen=8            copied whole: wanted
 *           'level' type_id=7 bits_offset=32
 *           'numbers' type_id=129 bits_offset=768
 *     [129] ARRAY type_id=128                       copied: a member's type
 *     [128] STRUCT 'upid' size=16 vlen=2            size=16 vlen=0: not wanted itself
 */

#include "host/sampling/sample/kernel-types.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/data/hashmap.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        MAX_DEPTH = 32,                 /* nesting of types in types */
        MAX_BTF_SIZE = 64 << 20,
};

typedef struct Extract {
        const uint8_t *types;           /* section, 4-aligned in the file but not assumed here */
        size_t types_size;
        const char *strings;            /* section; its last byte is NUL */
        size_t strings_size;
        uint32_t *offsets;              /* type number → offset in types; number 0 is void */
        uint32_t n_types;
        const char *const *names;
        size_t n_names;
        Hashmap copied;                 /* old number → new number as a pointer */
        Text out_types, out_strings;
        uint32_t n_out;
        bool malformed;
} Extract;

/* Bytes behind the 12 of a record, or SIZE_MAX for a kind that we do not know. */
static size_t tail_size(uint32_t info) {
        size_t vlen = BTF_INFO_VLEN(info);

        switch (BTF_INFO_KIND(info)) {
        case BTF_KIND_INT:
        case BTF_KIND_VAR:
        case BTF_KIND_DECL_TAG:
                return 4;
        case BTF_KIND_ARRAY:
                return sizeof(struct btf_array);
        case BTF_KIND_STRUCT:
        case BTF_KIND_UNION:
                return vlen * sizeof(struct btf_member);
        case BTF_KIND_ENUM:
                return vlen * sizeof(struct btf_enum);
        case BTF_KIND_ENUM64:
        case BTF_KIND_DATASEC:
                return vlen * 12;
        case BTF_KIND_FUNC_PROTO:
                return vlen * sizeof(struct btf_param);
        case BTF_KIND_PTR:
        case BTF_KIND_FWD:
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_CONST:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_FUNC:
        case BTF_KIND_FLOAT:
        case BTF_KIND_TYPE_TAG:
                return 0;
        }
        return SIZE_MAX;
}

static struct btf_type type_at(const Extract *extract, uint32_t offset) {
        struct btf_type type;

        memcpy(&type, extract->types + offset, sizeof(type));
        return type;
}

static const char *string_at(const Extract *extract, uint32_t offset) {
        return offset < extract->strings_size ? extract->strings + offset : "";
}

/* Fills offsets[], after a first walk that counts. */
static int index_types(Extract *extract) {
        for (int pass = 0; pass < 2; pass++) {
                uint32_t n = 1;

                for (size_t at = 0; at < extract->types_size; n++) {
                        size_t left = extract->types_size - at, tail;

                        if (left < sizeof(struct btf_type))
                                return KERNEL_TYPES_E_MALFORMED;
                        tail = tail_size(type_at(extract, (uint32_t)at).info);
                        if (tail > left - sizeof(struct btf_type))
                                return KERNEL_TYPES_E_MALFORMED;
                        if (extract->offsets)
                                extract->offsets[n] = (uint32_t)at;
                        at += sizeof(struct btf_type) + tail;
                }
                extract->n_types = n;
                if (!pass && !(extract->offsets = calloc(n, sizeof(*extract->offsets))))
                        return error_origin(-ENOMEM);
        }
        return 0;
}

static int parse_header(Extract *extract, const uint8_t *btf, size_t size) {
        struct btf_header header;

        if (size < sizeof(header))
                return KERNEL_TYPES_E_MALFORMED;
        memcpy(&header, btf, sizeof(header));
        if (header.magic != BTF_MAGIC || header.version != BTF_VERSION || header.hdr_len < sizeof(header) ||
            header.hdr_len > size)
                return KERNEL_TYPES_E_MALFORMED;
        btf += header.hdr_len;
        size -= header.hdr_len;
        if (header.type_off > size || header.type_len > size - header.type_off || header.str_off > size ||
            header.str_len > size - header.str_off || !header.str_len ||
            btf[header.str_off + header.str_len - 1])
                return KERNEL_TYPES_E_MALFORMED;
        extract->types = btf + header.type_off;
        extract->types_size = header.type_len;
        extract->strings = (const char *)btf + header.str_off;
        extract->strings_size = header.str_len;
        return 0;
}

static bool is_wanted(const Extract *extract, const char *name) {
        for (size_t i = 0; i < extract->n_names; i++)
                if (!strcmp(extract->names[i], name))
                        return true;
        return false;
}

static uint32_t put_string(Extract *extract, uint32_t offset) {
        const char *text = string_at(extract, offset);
        uint32_t at = (uint32_t)extract->out_strings.size;

        if (!*text)
                return 0;
        text_append(&extract->out_strings, text, strlen(text) + 1);
        return at;
}

static uint32_t put_type(Extract *extract, const struct btf_type *type, const void *tail, size_t tail_bytes) {
        text_append(&extract->out_types, (const char *)type, sizeof(*type));
        text_append(&extract->out_types, tail, tail_bytes);
        return ++extract->n_out;
}

static uint32_t copy_type(Extract *extract, uint32_t number, unsigned depth);

/* Copies members first, since a record is written in one piece behind the types that it names. */
static uint32_t copy_composite(Extract *extract, struct btf_type type, uint32_t offset, bool whole,
                               unsigned depth) {
        size_t vlen = whole ? BTF_INFO_VLEN(type.info) : 0;
        _cleanup_(freep) struct btf_member *members = calloc(vlen ? vlen : 1, sizeof(*members));

        if (!members) {
                extract->out_types.failed = true;
                return 0;
        }
        memcpy(members, extract->types + offset + sizeof(type), vlen * sizeof(*members));
        for (size_t i = 0; i < vlen; i++) {
                members[i].type = copy_type(extract, members[i].type, depth);
                members[i].name_off = put_string(extract, members[i].name_off);
        }
        type.info = (type.info & ~0xffffu) | (uint32_t)vlen;
        return put_type(extract, &type, members, vlen * sizeof(*members));
}

static uint32_t copy_enum(Extract *extract, struct btf_type type, uint32_t offset, bool whole) {
        size_t stride = BTF_INFO_KIND(type.info) == BTF_KIND_ENUM ? sizeof(struct btf_enum) : 12;
        size_t vlen = whole ? BTF_INFO_VLEN(type.info) : 0;
        _cleanup_(freep) uint8_t *values = calloc(vlen ? vlen : 1, stride);

        if (!values) {
                extract->out_types.failed = true;
                return 0;
        }
        memcpy(values, extract->types + offset + sizeof(type), vlen * stride);
        for (size_t i = 0; i < vlen; i++) {
                uint32_t name;          /* the first word of both forms */

                memcpy(&name, values + i * stride, sizeof(name));
                name = put_string(extract, name);
                memcpy(values + i * stride, &name, sizeof(name));
        }
        type.info = (type.info & ~0xffffu) | (uint32_t)vlen;
        return put_type(extract, &type, values, vlen * stride);
}

static uint32_t copy_array(Extract *extract, const struct btf_type *type, uint32_t offset, unsigned depth) {
        struct btf_array array;

        memcpy(&array, extract->types + offset + sizeof(*type), sizeof(array));
        array.type = copy_type(extract, array.type, depth);
        array.index_type = copy_type(extract, array.index_type, depth);
        return put_type(extract, type, &array, sizeof(array));
}

static uint32_t copy_record(Extract *extract, uint32_t number, unsigned depth) {
        uint32_t offset = extract->offsets[number];
        struct btf_type type = type_at(extract, offset);
        bool whole = !type.name_off || is_wanted(extract, string_at(extract, type.name_off));

        type.name_off = put_string(extract, type.name_off);
        switch (BTF_INFO_KIND(type.info)) {
        case BTF_KIND_STRUCT:
        case BTF_KIND_UNION:
                return copy_composite(extract, type, offset, whole, depth);
        case BTF_KIND_ENUM:
        case BTF_KIND_ENUM64:
                return copy_enum(extract, type, offset, whole);
        case BTF_KIND_ARRAY:
                return copy_array(extract, &type, offset, depth);
        case BTF_KIND_PTR:
                type.type = 0;
                return put_type(extract, &type, NULL, 0);
        case BTF_KIND_INT:
                return put_type(extract, &type, extract->types + offset + sizeof(type), 4);
        case BTF_KIND_FWD:
        case BTF_KIND_FLOAT:
                return put_type(extract, &type, NULL, 0);
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_CONST:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_TYPE_TAG:
                type.type = copy_type(extract, type.type, depth);
                return put_type(extract, &type, NULL, 0);
        }
        extract->malformed = true;      /* a function or a variable is no member's type */
        return 0;
}

/* Return: the new number; 0 = void. */
static uint32_t copy_type(Extract *extract, uint32_t number, unsigned depth) {
        uintptr_t copy;

        if (!number)
                return 0;
        copy = (uintptr_t)hashmap_get(&extract->copied, number);
        if (copy)
                return (uint32_t)copy;
        if (number >= extract->n_types || depth >= MAX_DEPTH) {
                extract->malformed = true;
                return 0;
        }
        copy = copy_record(extract, number, depth + 1);
        if (copy && hashmap_put(&extract->copied, number, (void *)copy))
                extract->out_types.failed = true;
        return (uint32_t)copy;
}

static void copy_wanted(Extract *extract) {
        for (uint32_t number = 1; number < extract->n_types && !extract->malformed; number++) {
                struct btf_type type = type_at(extract, extract->offsets[number]);
                uint32_t kind = BTF_INFO_KIND(type.info);

                if ((kind == BTF_KIND_STRUCT || kind == BTF_KIND_ENUM || kind == BTF_KIND_ENUM64) &&
                    type.name_off && is_wanted(extract, string_at(extract, type.name_off)))
                        copy_type(extract, number, 0);
        }
}

static int write_out(Extract *extract, void **datap, size_t *sizep) {
        struct btf_header header = {
                .magic = BTF_MAGIC,
                .version = BTF_VERSION,
                .hdr_len = sizeof(header),
                .type_len = (uint32_t)extract->out_types.size,
                .str_off = (uint32_t)extract->out_types.size,
                .str_len = (uint32_t)extract->out_strings.size,
        };
        Text out = { 0 };

        text_append(&out, (const char *)&header, sizeof(header));
        text_append(&out, extract->out_types.data, extract->out_types.size);
        text_append(&out, extract->out_strings.data, extract->out_strings.size);
        if (out.failed || extract->out_types.failed || extract->out_strings.failed) {
                text_deinit(&out);
                return error_origin(-ENOMEM);
        }
        *datap = out.data;
        *sizep = out.size;
        return 0;
}

static int extract_all(Extract *extract, const void *btf, size_t size, void **datap, size_t *sizep) {
        int r = parse_header(extract, btf, size);

        if (!r)
                r = index_types(extract);
        if (r)
                return r;
        text_append(&extract->out_strings, "", 1);      /* offset 0 is the empty string */
        copy_wanted(extract);
        if (extract->malformed)
                return KERNEL_TYPES_E_MALFORMED;
        return write_out(extract, datap, sizep);
}

int kernel_types_extract(const void *btf, size_t size, const char *const *names, size_t n_names, void **datap,
                         size_t *sizep) {
        Extract extract = { .names = names, .n_names = n_names };
        int r = extract_all(&extract, btf, size, datap, sizep);

        free(extract.offsets);
        hashmap_deinit(&extract.copied);
        text_deinit(&extract.out_types);
        text_deinit(&extract.out_strings);
        return r;
}

/* Since 6.16 the file can be mapped, which costs no memory; before, it is read. */
static int extract_file(int fd, const char *const *names, size_t n_names, void **datap, size_t *sizep) {
        _cleanup_(freep) char *text = NULL;
        struct stat st;
        size_t size;
        void *map;
        int r;

        if (fstat(fd, &st) < 0)
                return error_origin(-errno);
        map = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
        if (map != MAP_FAILED) {
                r = kernel_types_extract(map, (size_t)st.st_size, names, n_names, datap, sizep);
                munmap(map, (size_t)st.st_size);
                return r;
        }
        r = file_read_fd(fd, MAX_BTF_SIZE, &text, &size);
        if (r)
                return r > 0 ? KERNEL_TYPES_E_MALFORMED : error_fold(r);
        return kernel_types_extract(text, size, names, n_names, datap, sizep);
}

int kernel_types_open(const char *path, const char *const *names, size_t n_names, int *fdp) {
        _cleanup_(closep) int from = open(path, O_RDONLY | O_CLOEXEC), to = -1;
        _cleanup_(freep) void *data = NULL;
        size_t size;
        int r;

        if (from < 0)
                return error_origin(-errno);
        r = extract_file(from, names, n_names, &data, &size);
        if (r)
                return r;
        to = memfd_create("spanprof-kernel-types", MFD_CLOEXEC);
        if (to < 0)
                return error_origin(-errno);
        r = file_write(to, data, size);
        if (r)
                return error_origin(r);
        *fdp = take_fd(to);
        return 0;
}
