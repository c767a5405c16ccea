#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/other-jvm/: small libraries with the marks of virtual machines of Java. Needs gcc and strip.

usage: make-other-jvm-corpus.py  (from anywhere; the files are committed)
"""
import pathlib
import subprocess
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parents[1] / "corpus" / "other-jvm"
TEXT = "__attribute__((used)) static const char text[] = {};\n"
EXPORT = "void {}(void) {{}}\n"
HEAP = '__attribute__((section(".svm_heap"), used)) long heap[4] = { 1 };\n'
VM = '__attribute__((used)) char vm[] = "x\\0com.oracle.svm.core.VM=GraalVM CE 25.0.2+10.1";\n'
FILES = {
    "openj9": EXPORT.format("J9_CreateJavaVM") + TEXT.format('"a\\0openj9-0.41.0\\0b"'),
    "openj9-part": EXPORT.format("J9VMDllMain"),
    "openj9-redirector": EXPORT.format("JNI_CreateJavaVM") + TEXT.format('"libj9vm29.so"'),
    "zing": EXPORT.format("JNI_CreateJavaVM") + TEXT.format('"Zing 64-Bit Tiered VM"'),
    "unknown": EXPORT.format("JNI_CreateJavaVM"),
    "hotspot": EXPORT.format("JNI_CreateJavaVM") + "void *gHotSpotVMStructs;\n",
    "native-image": HEAP + VM,
    "native-image-unsaid": HEAP + EXPORT.format("JNI_CreateJavaVM"),
    "native-image-unprintable": HEAP + VM.replace("GraalVM", "Graal\\nVM"),
    "native-image-long": HEAP + VM.replace("GraalVM", "G" * 200),
    "library": EXPORT.format("main"),
}


def make(source, path):
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "file.c"
        file.write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-s", "-Wl,-z,noseparate-code",
                        "-Wl,-z,max-page-size=512", "-Wl,--build-id=none", "-o", path, file], check=True)


CORPUS.mkdir(parents=True, exist_ok=True)
for name, source in FILES.items():
    make(source, CORPUS / name)
whole = (CORPUS / "openj9").read_bytes()
(CORPUS / "cut").write_bytes(whole[:len(whole) // 2])
(CORPUS / "no-sections").write_bytes(whole[:40] + bytes(8) + whole[48:60] + bytes(4) + whole[64:])
