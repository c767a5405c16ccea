#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who may include whom in daemon/ and bpf/, and that docs/ARCHITECTURE.md shows the same tables.

It fails on an include that the tables do not allow, on an allowed edge that no file uses any more, on an
edge to a house above, on a library that a second file includes, on a counter of bpf/border/counters.h that
nothing counts, and on a folder with too many files.

usage: check-layers.py SOURCE-ROOT
"""
import pathlib
import re
import sys

# Houses: each includes what stands before it, and nothing of what stands behind.
HOUSES = ["core", "host", "desk"]

# group of rooms → groups that its files may include; bpf/ and sdk/ headers lie below all groups
GROUPS = {
    "core/base": {"bpf/border"},
    "core/coro": {"core/base", "sdk"},
    "core/http": {"core/base"},
    "core/jfr": {"core/base", "core/profile"},
    "core/otlp": {"core/base", "core/profile"},
    "core/profile": {"core/base"},
    "core/symbol": {"core/base", "core/http", "core/profile", "sdk"},
    "host/cli": {"bpf/border", "core/base", "host/coro", "host/delivery", "host/runtime", "host/sampling",
        "host/service", "sdk"},
    "host/coro": {"core/base", "core/coro", "core/symbol", "host/sampling", "sdk"},
    "host/delivery": {"core/base", "core/http", "core/otlp"},
    "host/heap": {"core/base", "core/profile", "host/runtime", "host/sampling"},
    "host/jfr": {"core/base", "core/jfr", "core/otlp", "core/profile", "host/sampling"},
    "host/naming": {"core/base", "core/http", "core/profile", "core/symbol", "host/runtime", "host/sampling"},
    "host/runtime": {"bpf/border", "bpf/runtimes", "core/base", "host/sampling"},
    "host/sampling": {"bpf/border", "bpf/runtimes", "bpf/walk", "core/base", "core/profile", "core/symbol",
        "sdk"},
    "host/service": {"core/base", "core/http", "core/otlp", "core/profile", "core/symbol",
        "host/coro", "host/delivery", "host/heap", "host/jfr", "host/naming", "host/runtime", "host/sampling"},
    "desk/cli": {"core/base", "core/http", "core/otlp", "core/profile", "core/symbol", "desk/convert",
        "desk/coro", "desk/page", "desk/receive", "desk/report", "host/cli", "host/delivery", "host/sampling",
        "host/service"},
    "desk/convert": {"core/base", "core/otlp", "core/profile", "core/symbol"},
    "desk/coro": {"core/base", "core/coro", "core/symbol", "desk/convert", "host/coro", "host/sampling"},
    "desk/folded": {"core/base", "core/profile", "desk/convert"},
    "desk/jfr": {"core/base", "core/jfr", "desk/convert"},
    "desk/live": {"core/base", "core/profile", "desk/cli", "desk/convert", "desk/page", "desk/report",
        "host/cli", "host/heap", "host/jfr", "host/sampling", "host/service"},
    "desk/page": {"core/base", "core/profile", "core/symbol", "desk/convert", "desk/report"},
    "desk/pprof": {"core/base", "core/profile", "desk/convert"},
    "desk/receive": {"core/base", "core/profile"},
    "desk/report": {"core/base", "core/coro", "core/otlp", "core/profile", "core/symbol", "desk/coro"},
}

# room → other rooms of its own group that its files may include; bpf is one group, its objects on top
ROOMS = {
    "bpf": {"border", "waits", "walk"},
    "bpf/arch": set(),
    "bpf/border": {"arch"},
    "bpf/runtimes": {"arch"},
    "bpf/waits": {"border", "walk"},
    "bpf/walk": {"arch", "border", "runtimes"},
    "core/base/data": {"util"},
    "core/base/elf": {"data", "file", "util"},
    "core/base/file": {"util"},
    "core/base/sandbox": {"file", "util"},
    "core/base/terminal": {"data", "util"},
    "core/base/thread": {"data", "util"},
    "core/base/util": set(),
    "core/symbol/debug": {"function"},
    "core/symbol/function": {"line", "object"},
    "core/symbol/jit": set(),
    "core/symbol/line": set(),
    "core/symbol/object": set(),
    "host/delivery/export": {"spool"},
    "host/delivery/spool": set(),
    "host/runtime": {"beam", "go", "hotspot", "jvm", "php", "python", "ruby", "v8"},
    "host/runtime/go": {"reader"},
    "host/runtime/hotspot": {"reader"},
    "host/runtime/jvm": set(),
    "host/runtime/beam": {"reader"},
    "host/runtime/php": {"reader"},
    "host/runtime/ruby": {"reader"},
    "host/runtime/python": {"reader"},
    "host/runtime/v8": {"reader"},
    "host/runtime/reader": set(),
    "host/sampling/aggregate": {"context", "frames", "sample"},
    "host/sampling/context": {"process"},
    "host/sampling/discover": {"context", "process"},
    "host/sampling/frames": {"process", "runtime"},
    "host/sampling/process": set(),
    "host/sampling/runtime": {"process", "unwind/tables"},
    "host/sampling/sample": {"process"},
    "host/sampling/unwind/cfi": set(),
    "host/sampling/unwind/go": {"unwind/cfi"},
    "host/sampling/unwind/made": {"process", "unwind/cfi", "unwind/scan"},
    "host/sampling/unwind/scan": {"unwind/cfi"},
    "host/sampling/unwind/tables": {"process", "unwind/cfi", "unwind/go", "unwind/scan"},
    "host/sampling/unwind/walk": {"process", "unwind/tables"},
    "host/sampling/walks": {"aggregate", "context", "discover", "process", "runtime", "sample", "unwind/tables",
        "unwind/walk"},
    "host/service/config": set(),
    "host/service/control": {"config", "limits", "recorder", "run"},
    "host/service/doctor": {"config", "control", "limits", "recorder", "run"},
    "host/service/limits": set(),
    "host/service/recorder": set(),
    "host/service/run": {"config", "control", "limits", "recorder", "watch"},
    "host/service/watch": {"config", "limits", "run"},
    "desk/coro/engine": {"trace"},
    "desk/coro/read": {"trace"},
    "desk/coro/trace": set(),
}

CROWDED = 40            # files of one folder: nobody sees through more

# library header → the only files that may include it (one library, one file)
LIBRARIES = {
    # the second: an object that is loaded beside the first, on request
    r"bpf/(libbpf|bpf)\.h": {
        "daemon/host/sampling/sample/kernel-half.c",
        "daemon/host/sampling/sample/kernel-needs.c",
        "daemon/host/sampling/sample/kernel-events.c",
        "daemon/host/sampling/sample/kernel-waits.c",
        "daemon/host/sampling/sample/kernel-threads.c",
        "daemon/host/sampling/sample/obi-map.c",
    },
    r"(libelf|gelf)\.h": {"daemon/host/sampling/process/elf.c"},
    r"curl/.*": {"daemon/core/http/http.c"},
    r"microhttpd\.h": {"daemon/core/http/receiver.c"},
    r"xxhash\.h": {"daemon/core/base/data/intern.c"},
    # the second: answers of three fields, for which no form of OTLP's is of use
    r"cjson/.*": {
        "daemon/core/otlp/json.c",
        "daemon/desk/folded/read-speedscope.c", "daemon/desk/page/page-decode.c",
        "daemon/host/naming/upload-protocol.c",
    },
    r"protobuf-c/.*": {
        "daemon/core/otlp/wire.h",
        "daemon/core/otlp/json.h",
        "daemon/core/otlp/json-name.h",
        "daemon/core/otlp/message-field.h",
    },
    r"(zlib|libdeflate)\.h": {"daemon/core/base/file/gzip.c"},
    r"zstd\.h": {"daemon/core/base/file/zstd.c"},
    r"lz4.*\.h": {"daemon/core/base/file/lz4.c"},
    r"lzma\.h": {"daemon/core/base/file/xz.c"},
    r"sqlite3\.h": {"daemon/desk/coro/trace/trace-db.c"},
    r"(elfutils/.*|dwarf\.h)": {"daemon/core/symbol/line/lines-worker.c"},
    # the second: dates of certificates, which no hash has
    r"openssl/.*": {
        "daemon/core/symbol/object/htlhash.c",
        "daemon/host/delivery/export/certificate.c",
    },
    r"libiberty/.*": {"daemon/core/symbol/function/demangle.c"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def group_of(room):
    return "/".join(room.split("/")[:2])


def room_of(path):
    """The room of a file below daemon/, given as its path from there; None = it is in no room."""
    room = path.rpartition("/")[0]
    return room if room in ROOMS or room in GROUPS else None


def target_of(include):
    """Where an included header lies: a room of daemon/ or bpf/, "sdk", or None = everybody may include it."""
    if include.startswith("spanprof/"):
        return "sdk"
    kernel_half = "bpf/" + include.split("/")[0]
    return kernel_half if "/" in include and kernel_half in ROOMS else room_of(include)


def edge(room, to):
    """What an include from @room to @to needs: (table, key, value), or None = it is always allowed."""
    if room == to:
        return None
    if group_of(room) == group_of(to):
        return ("ROOMS", room, to.removeprefix(group_of(to) + "/"))
    return ("GROUPS", group_of(room), group_of(to))


def upward_edges():
    for group, may in GROUPS.items():
        above = HOUSES[HOUSES.index(group.split("/")[0]) + 1:]
        for other in sorted(may):
            if other.split("/")[0] in above:
                yield f"check-layers.py: {group} → {other} goes up to a house above"


def crowded(root):
    for top in ("daemon", "bpf", "tests"):
        for folder in [root / top, *sorted(path for path in (root / top).rglob("*") if path.is_dir())]:
            name = folder.relative_to(root).as_posix()
            n = sum(path.is_file() for path in folder.iterdir())
            if n >= CROWDED and "__pycache__" not in name and not name.startswith("tests/fuzz/corpus/"):
                yield f"{name}/: {n} files; make rooms of fewer than {CROWDED}"


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


def check_kernel_half(path, relative, used):
    room = relative.rpartition("/")[0]
    if room not in ROOMS:
        yield f"{relative}: lies in no room of the tables"
    for kind, include in INCLUDE.findall(path.read_text()):
        to = target_of(include) if kind == '"' else None
        if to and room_of(include):
            yield f"{relative}: the kernel half includes nothing of daemon/ (\"{include}\")"
        elif to and to not in ("sdk", room):
            need = ("ROOMS", room, to.removeprefix("bpf/"))
            if need not in allowed_edges():
                yield f"{relative}: {room}/ may not include \"{include}\""
            used.add(need)


def idle_counters(root):
    names = re.findall(r"X\((\w+), \"", (root / "bpf/border/counters.h").read_text())
    sources = [*(root / "daemon").rglob("*.[ch]"), *(root / "bpf").rglob("*.[ch]")]
    used = set(
        re.findall(r"\bCOUNTER_(\w+)\b", "\n".join(p.read_text() for p in sources if p.name != "counters.h")))
    if not names:
        yield "bpf/border/counters.h: no counter found"
    for name in names:
        if name not in used and name != "NAME":
            yield f"bpf/border/counters.h: nothing counts {name}"


def table_lines():
    """The tables as docs/ARCHITECTURE.md shows them."""
    for group, may in GROUPS.items():
        yield f"{group} → {', '.join(sorted(group for group in may if group.split('/')[0] in HOUSES)) or '–'}"
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
    for path in sorted((root / "bpf").rglob("*.[ch]")):
        errors += check_kernel_half(path, path.relative_to(root).as_posix(), used)
    errors += [
        f"check-layers.py: no file needs {key} → {value} any more"
        for _, key, value in sorted(allowed_edges() - used)
    ]
    errors += [*upward_edges(), *crowded(root), *idle_counters(root)]
    errors += stale_table(root)
    print("\n".join(sorted(set(errors))) or f"{len(used - {None})} edges between rooms, all allowed and used")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
