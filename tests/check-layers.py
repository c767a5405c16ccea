#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the include rules of daemon/ and bpf/ as a table, and fails on an include that breaks them, on a
counter of bpf/counters.h that nothing counts, and on another table in docs/ARCHITECTURE.md.

usage: check-layers.py SOURCE-ROOT
"""
import pathlib
import re
import sys

# folder → folders of daemon/ that it may include (its own is always allowed); "abi" = bpf/abi.h, "sdk" = sdk/include.
# bpf/counters.h belongs to everybody: it is the one list of counters, and util/stat keeps them.
LAYERS = {
    "util": set(),
    "profile": {"util"},
    "target": {"jail", "profile", "util", "abi", "sdk"},
    "jail": {"util"},
    "unwind": {"jail", "target", "util", "abi"},
    "sample": {"target", "util", "abi", "sdk"},
    "aggregate": {"sample", "frames", "profile", "target", "util", "abi"},
    "frames": {"target", "profile", "util", "abi"},
    "naming": {"jail", "symbol", "frames", "profile", "target", "util"},
    "symbol": {"jail", "target", "profile", "util"},
    "otlp": {"profile", "util"},
    "export": {"util"},
    "coro": {"target", "util", "sdk"},
    "report": {"coro", "profile", "symbol", "otlp", "util"},
    "jfr": {"profile", "util"},
    "page": {"profile", "symbol", "util"},
    "convert": {"coro", "export", "jfr", "otlp", "page", "profile", "symbol", "util"},
    "config": {"export", "otlp", "target", "util"},
    "doctor": {"config", "control", "export", "jail", "sample", "util"},
    "limits": {"util"},
}

# What stands around the stages; no stage includes any of it.
STAGES = set(LAYERS)
AROUND = {
    "run": STAGES - {"doctor", "report", "jfr", "page", "convert"} | {"control"},
    "control": {"run", "naming", "export", "config", "limits", "util"},
    "desk": {"run", "jail", "profile", "page", "report", "config", "limits", "util"},
    "cli": STAGES | {"run", "control", "desk"},
}
LAYERS |= {folder: may | {"abi", "sdk"} for folder, may in AROUND.items()}

# library header → the only files that may include it (one library, one file)
LIBRARIES = {
    r"bpf/(libbpf|bpf)\.h": {"daemon/sample/kernel-half.c"},
    r"(libelf|gelf)\.h": {"daemon/target/elf.c"},
    r"curl/.*": {"daemon/export/http.c"},
    r"microhttpd\.h": {"daemon/export/receiver.c"},
    r"xxhash\.h": {"daemon/util/intern.c"},
    r"cjson/.*": {"daemon/otlp/json.c"},
    r"protobuf-c/.*": {"daemon/otlp/wire.h", "daemon/otlp/json.h", "daemon/otlp/json-name.h", "daemon/otlp/message-field.h"},
    r"zlib\.h": {"daemon/util/gzip.c"},
    r"zstd\.h": {"daemon/util/zstd.c"},
    r"lz4.*\.h": {"daemon/util/lz4.c"},
    r"lzma\.h": {"daemon/util/xz.c"},
    r"sqlite3\.h": {"daemon/coro/trace-db.c"},
    r"(elfutils/.*|dwarf\.h)": {"daemon/symbol/lines-worker.c"},
    r"openssl/.*": {"daemon/target/htlhash.c"},
    r"libiberty/.*": {"daemon/symbol/demangle.c"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def layer_of(include):
    head = include.split("/")[0]
    if include in ("abi.h", "unwind_abi.h", "unwind.bpf.h"):
        return "abi"
    if include == "counters.h":
        return None
    if head == "spanprof":
        return "sdk"
    return head if head in LAYERS else None


def idle_counters(root):
    names = re.findall(r"X\((\w+), \"", (root / "bpf/counters.h").read_text())
    sources = [*(root / "daemon").rglob("*.[ch]"), *(root / "bpf").glob("*.[ch]")]
    used = set(re.findall(r"\bCOUNTER_(\w+)\b", "\n".join(p.read_text() for p in sources if p.name != "counters.h")))
    if not names:
        yield "bpf/counters.h: no counter found"
    for name in names:
        if name not in used and name != "NAME":
            yield f"bpf/counters.h: nothing counts {name}"


def stale_table(root):
    """What docs/ARCHITECTURE.md says of the layers, in lines of `folder → folder, …`."""
    text = (root / "docs/ARCHITECTURE.md").read_text().split("\n## Layers\n")[1].split("\n## ")[0]
    said = dict(re.findall(r"\b(\w+) → (.+?)(?=  |$)", text, re.M))
    for folder, may in LAYERS.items():
        if folder == "cli":
            want = "all"
        elif folder == "run":
            want = "all but " + ", ".join(sorted(set(LAYERS) - may - {folder}))
        else:
            want = ", ".join(sorted(may - {"abi", "sdk"})) or "–"
        if said.pop(folder, None) != want:
            yield f"docs/ARCHITECTURE.md, Layers: should say {folder} → {want}"
    for folder in said:
        yield f"docs/ARCHITECTURE.md, Layers: {folder} is none"


def main():
    root = pathlib.Path(sys.argv[1])
    errors, n = [], 0
    for path in sorted((root / "daemon").rglob("*.[ch]")):
        relative = path.relative_to(root).as_posix()
        parts = relative.split("/")
        folder = parts[1] if len(parts) > 2 else None
        for kind, include in INCLUDE.findall(path.read_text()):
            n += 1
            for pattern, allowed in LIBRARIES.items():
                if kind == "<" and re.fullmatch(pattern, include) and relative not in allowed:
                    errors.append(f"{relative}: <{include}> belongs to {', '.join(sorted(allowed))} alone")
            layer = layer_of(include) if kind == '"' else None
            if folder in LAYERS and layer and layer != folder and layer not in LAYERS[folder]:
                errors.append(f"{relative}: {folder}/ may not include \"{include}\"")
            if folder is None and relative != "daemon/main.c":
                errors.append(f"{relative}: belongs into a folder")
            if folder is not None and folder not in LAYERS:
                errors.append(f"{relative}: {folder}/ is in no layer; add it to the table")
    for path in sorted((root / "bpf").glob("*.[ch]")):
        for kind, include in INCLUDE.findall(path.read_text()):
            n += 1
            if kind == '"' and include.split("/")[0] in LAYERS:
                errors.append(f"bpf/{path.name}: the kernel half includes nothing of daemon/ (\"{include}\")")
    errors += idle_counters(root)
    errors += stale_table(root)
    if n == 0:
        errors.append("no include found: wrong source root?")
    print("\n".join(sorted(set(errors))) or f"{n} includes follow the layers")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
