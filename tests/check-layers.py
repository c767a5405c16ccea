#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who may include whom in daemon/ and bpf/, and that docs/ARCHITECTURE.md shows the same tables.

It fails on an include that the tables do not allow, on an allowed edge that no file uses any more, on a
library that a second file includes, and on a counter of bpf/counters.h that nothing counts.

usage: check-layers.py SOURCE-ROOT
"""
import pathlib
import re
import sys

# group of rooms → groups that its files may include; bpf/ and sdk/ headers ("abi", "sdk") lie below all
# groups
GROUPS = {
    "base": set(),
    "profile": {"base"},
    "sampling": {"base", "profile", "abi", "sdk"},
    "runtime": {"base", "sampling", "abi"},
    "symbol": {"base", "profile", "sampling", "delivery"},
    "coro": {"base", "sampling", "sdk"},
    "delivery": {"base"},
    "formats": {"base", "profile", "symbol", "coro", "delivery"},
    "service": {"base", "profile", "runtime", "sampling", "symbol", "coro", "delivery", "formats"},
    "cli": {"base", "profile", "runtime", "sampling", "symbol", "coro", "delivery", "formats", "service", "sdk"},
}

# room → other rooms of its own group that its files may include
ROOMS = {
    "base/util": set(),
    "base/sandbox": {"util"},
    "base/elf": {"util"},
    "sampling/process": set(),
    "sampling/context": {"process"},
    "sampling/discover": {"context", "process"},
    "sampling/unwind": {"process"},
    "sampling/sample": {"process"},
    "sampling/frames": {"process", "runtime"},
    "sampling/runtime": {"process", "unwind"},
    "sampling/aggregate": {"context", "frames", "sample"},
    "runtime/go": set(),
    "runtime/hotspot": {"reader"},
    "runtime/jvm": set(),
    "runtime/python": {"reader"},
    "runtime/reader": set(),
    "symbol/line": set(),
    "symbol/jit": set(),
    "symbol/function": {"line"},
    "symbol/naming": {"function", "jit"},
    "symbol/remote": {"function", "naming"},
    "coro/station": set(),
    "coro/trace": {"station"},
    "coro/engine": {"station", "trace"},
    "delivery/spool": set(),
    "delivery/export": {"spool"},
    "delivery/receive": set(),
    "formats/convert": set(),
    "formats/otlp": {"convert"},
    "formats/page": {"convert", "report"},
    "formats/coro": {"convert"},
    "formats/folded": {"convert"},
    "formats/jfr": {"convert"},
    "formats/pprof": {"convert"},
    "formats/report": set(),
    "service/config": set(),
    "service/run": {"config"},
    "service/doctor": {"config", "run"},
    "cli": {"desk"},
    "cli/desk": set(),
}

# library header → the only files that may include it (one library, one file)
LIBRARIES = {
    # the second: an object that is loaded beside the first, on request
    r"bpf/(libbpf|bpf)\.h": {"daemon/sampling/sample/kernel-half.c", "daemon/sampling/sample/kernel-waits.c",
        "daemon/sampling/sample/kernel-threads.c"},
    r"(libelf|gelf)\.h": {"daemon/sampling/process/elf.c"},
    r"curl/.*": {"daemon/delivery/export/http.c"},
    r"microhttpd\.h": {"daemon/delivery/receive/receiver.c"},
    r"xxhash\.h": {"daemon/base/util/intern.c"},
    # the second: answers of three fields, for which no form of OTLP's is of use
    r"cjson/.*": {"daemon/formats/otlp/json.c", "daemon/formats/page/page-decode.c", "daemon/symbol/remote/upload-protocol.c"},
    r"protobuf-c/.*": {
        "daemon/formats/otlp/wire.h", "daemon/formats/otlp/json.h", "daemon/formats/otlp/json-name.h",
        "daemon/formats/otlp/message-field.h"
    },
    r"(zlib|libdeflate)\.h": {"daemon/base/util/gzip.c"},
    r"zstd\.h": {"daemon/base/util/zstd.c"},
    r"lz4.*\.h": {"daemon/base/util/lz4.c"},
    r"lzma\.h": {"daemon/base/util/xz.c"},
    r"sqlite3\.h": {"daemon/coro/trace/trace-db.c"},
    r"(elfutils/.*|dwarf\.h)": {"daemon/symbol/line/lines-worker.c"},
    # the second: dates of certificates, which no hash has
    r"openssl/.*": {"daemon/sampling/process/htlhash.c", "daemon/delivery/export/certificate.c"},
    r"libiberty/.*": {"daemon/symbol/function/demangle.c"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    """The room of a file below daemon/, given as its path from there; None = it is in no room."""
    room = path.rpartition("/")[0]
    return room if room in ROOMS or room in GROUPS else None


def target_of(include):
    """Where an included header lies: a room, "abi", "sdk", or None = everybody may include it."""
    if include in ("abi.h", "offcpu_abi.h", "unwind_abi.h", "unwind.bpf.h"):
        return "abi"
    if include.startswith("spanprof/"):
        return "sdk"
    return room_of(include)


def edge(room, to):
    """What an include from @room to @to needs: (table, key, value), or None = it is always allowed."""
    group, to_group = room.split("/")[0], to.split("/")[0]
    if room == to:
        return None
    if group == to_group:
        return ("ROOMS", room, to.split("/")[-1])
    return ("GROUPS", group, to_group)


def allowed_edges():
    tables = {"GROUPS": GROUPS, "ROOMS": ROOMS}
    return {(name, key, value) for name, table in tables.items() for key, values in table.items()
            for value in values}


def wrong_libraries(relative, include):
    for pattern, allowed in LIBRARIES.items():
        if re.fullmatch(pattern, include) and relative not in allowed:
            yield f"{relative}: <{include}> belongs to {', '.join(sorted(allowed))} alone"


def check_file(path, relative, used):
    room = room_of(relative.removeprefix("daemon/"))
    if room is None and relative != "daemon/main.c":
        yield f"{relative}: lies in no room of the tables"
    for kind, include in INCLUDE.findall(path.read_text()):
        if kind == "<":
            yield from wrong_libraries(relative, include)
            continue
        to = target_of(include)
        need = edge(room, to) if room and to else None
        if need and need not in allowed_edges():
            yield f"{relative}: {room}/ may not include \"{include}\""
        used.add(need)


def check_kernel_half(path):
    for kind, include in INCLUDE.findall(path.read_text()):
        if kind == '"' and room_of(include):
            yield f"bpf/{path.name}: the kernel half includes nothing of daemon/ (\"{include}\")"


def idle_counters(root):
    names = re.findall(r"X\((\w+), \"", (root / "bpf/counters.h").read_text())
    sources = [*(root / "daemon").rglob("*.[ch]"), *(root / "bpf").glob("*.[ch]")]
    used = set(
        re.findall(r"\bCOUNTER_(\w+)\b", "\n".join(p.read_text() for p in sources if p.name != "counters.h")))
    if not names:
        yield "bpf/counters.h: no counter found"
    for name in names:
        if name not in used and name != "NAME":
            yield f"bpf/counters.h: nothing counts {name}"


def table_lines():
    """The tables as docs/ARCHITECTURE.md shows them."""
    for group, may in GROUPS.items():
        yield f"{group} → {', '.join(sorted(may - {'abi', 'sdk'})) or '–'}"
    for room, may in ROOMS.items():
        if may:
            yield f"{room}/ → {', '.join(sorted(may))}"


def stale_table(root):
    section = (root / "docs/ARCHITECTURE.md").read_text().split("\n## Layers\n")[-1].split("\n## ")[0]
    said = {
        " ".join(part.split()) for line in section.split("\n") for part in line.split("   ") if "→" in part
    }
    want = set(table_lines())
    yield from (f"docs/ARCHITECTURE.md, Layers: should say {line}" for line in sorted(want - said))
    yield from (f"docs/ARCHITECTURE.md, Layers: should not say {line}" for line in sorted(said - want))


def main():
    root = pathlib.Path(sys.argv[1])
    errors, used = [], set()
    for path in sorted((root / "daemon").rglob("*.[ch]")):
        errors += check_file(path, path.relative_to(root).as_posix(), used)
    for path in sorted((root / "bpf").glob("*.[ch]")):
        errors += check_kernel_half(path)
    errors += [
        f"check-layers.py: no file needs {key} → {value} any more"
        for _, key, value in sorted(allowed_edges() - used)
    ]
    errors += idle_counters(root)
    errors += stale_table(root)
    print("\n".join(sorted(set(errors))) or f"{len(used - {None})} edges between rooms, all allowed and used")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
