# SPDX-License-Identifier: Apache-2.0
"""Our Containerfile, built by buildah without a registry:

    engine = buildah.Buildah(test)                              # skips with a reason where it builds nothing
    # of the image: its configuration, the files of its layers
    config, layers = engine.build(*options, context=folder)
    # of an index: platform → what the image says of itself, the files of its layers
    parts = engine.build_index(["linux/amd64", "linux/arm64"], *options, context=folder)
    root = buildah.unpack(test, layers)
"""
import json
import shutil

import tap

CONTAINERFILE = tap.SOURCE_DIR / "packaging/container/Containerfile"


class Buildah:
    """With a store of its own, which goes with the test."""

    def __init__(self, test):
        program = shutil.which("buildah") or tap.skip("machine: buildah is not installed")
        self.test, store = test, test.directory()
        self.command = [
            program, "--root", store / "root", "--runroot", store / "run", "--storage-driver", "vfs"
        ]
        context = test.directory()
        (context / "Containerfile").write_text("FROM scratch\nCOPY Containerfile /\n")
        done = self.run("bud", "--isolation", "chroot", context)
        if done.returncode:
            tap.skip(f"machine: buildah can build nothing here: {done.stderr[-300:]}")

    def run(self, *arguments, expect=None):
        return self.test.run_command([*self.command, *arguments], expect=expect, timeout=1200)

    def base(self, root):
        """Makes an image of a whole system's root, for `--from`. Return: its name."""
        context = self.test.directory()
        self.test.run_command(["tar", "-C", root, "--exclude=./dev/*", "-cf", context / "base.tar", "."],
                              expect=0, timeout=600)
        (context / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")
        self.run("bud", "--isolation", "chroot", "--tag", "localhost/base", context, expect=0)
        return "localhost/base"

    def bud(self, *options, context):
        self.run("bud", "--isolation", "chroot", "--pull-never", "--file", CONTAINERFILE, *options, context, expect=0)

    def build(self, *options, context):
        layout = self.test.directory() / "oci"
        self.bud("--tag", "spanprof", *options, context=context)
        self.run("push", "spanprof", f"oci:{layout}", expect=0)
        whole, layers = image(layout, load(layout / "index.json")["manifests"][0])
        return whole["config"], layers

    def build_index(self, platforms, *options, context):
        layout = self.test.directory() / "oci"
        self.bud("--platform", ",".join(platforms), "--manifest", "spanprof-index", *options, context=context)
        self.run("manifest", "push", "--all", "spanprof-index", f"oci:{layout}", expect=0)
        index = load(blob(layout, load(layout / "index.json")["manifests"][0]))
        return {f"{part['platform']['os']}/{part['platform']['architecture']}": image(layout, part)
                for part in index["manifests"]}


def load(path):
    return json.loads(path.read_text())


def image(layout, descriptor):
    """What its configuration holds, and the files of its layers."""
    manifest = load(blob(layout, descriptor))
    return load(blob(layout, manifest["config"])), [blob(layout, layer) for layer in manifest["layers"]]


def blob(layout, descriptor):
    return layout / "blobs" / descriptor["digest"].replace(":", "/")


def unpack(test, layers):
    root = test.directory() / "root"
    root.mkdir()
    for layer in layers:
        test.run_command(["tar", "-xzpf", layer, "-C", root], expect=0)
    return root
