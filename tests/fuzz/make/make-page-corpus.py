#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the corpus of fuzz-page: the data of small pages, whole and cut.

What `first-` names begin with was written by version 1 of the format, and stays as it is.

usage: make-page-corpus.py SPANPROF     with tests/harness and tests/oracles in PYTHONPATH
"""
import pathlib
import subprocess
import sys
import tempfile

import page_read

CORPUS = pathlib.Path(__file__).parents[1] / "corpus/page"
INPUTS = {
    "plain": "main;work 3\nmain;work;leaf 5\nmain 1\n",
    "deep": ";".join(f"f{i}" for i in range(60)) + " 2\n",
    "wide": "".join(f"main;f{i} {i + 1}\n" for i in range(40)),
}


RECORDING = pathlib.Path(__file__).parents[2] / "data/kinds.jfr.gz"


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for name, text in INPUTS.items():
            source, page = pathlib.Path(work, f"{name}.folded"), pathlib.Path(work, f"{name}.html")
            source.write_text(text)
            subprocess.run([sys.argv[1], "convert", source, "-o", page], check=True, capture_output=True)
            data = page_read.unpack(page)
            (CORPUS / name).write_bytes(data)
            (CORPUS / f"{name}-cut").write_bytes(data[:len(data) // 2])
        page = pathlib.Path(work, "recording.html")
        subprocess.run([sys.argv[1], "convert", RECORDING, "-o", page], check=True, capture_output=True)
        (CORPUS / "recording").write_bytes(page_read.unpack(page))
    (CORPUS / "html").write_bytes(b'<script type="application/octet-stream" id="data">QUJD</script>')
    (CORPUS / "html-open").write_bytes(b'<script type="application/octet-stream" id="data">QUJD')


main()
