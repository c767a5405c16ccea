# SPDX-License-Identifier: Apache-2.0
"""The extension, with the writer of the SDK's C library in it: its sources lie two folders up, or, in a
source distribution, in sdk/ beside this file."""
import pathlib
import shutil

import setuptools
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = ["src/name.c", "src/otel.c", "src/backend.h", "include/spanprof/context.h", "include/spanprof/otel.h",
           "include/spanprof/process.h", "include/spanprof/thread.h"]
SDK = pathlib.Path("sdk" if (HERE / "sdk/src/otel.c").exists() else "..")


class Sdist(sdist):
    """With the C sources that the extension is made of."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in ["spanprof_otel/_record.c", *(f"sdk/{name}" for name in SOURCES)]:
            to = pathlib.Path(base_dir, name)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HERE / (SDK / name[4:] if name.startswith("sdk/") else name), to)


setuptools.setup(
    license="Apache-2.0",
    cmdclass={"sdist": Sdist},
    ext_modules=[
        setuptools.Extension("spanprof_otel._record", ["spanprof_otel/_record.c", str(SDK / "src/name.c"), str(SDK / "src/otel.c")],
                             include_dirs=[str(SDK / "include"), str(SDK / "src")],
                             depends=[str(SDK / name) for name in SOURCES],
                             extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden"])
    ])
