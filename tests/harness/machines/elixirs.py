# SPDX-License-Identifier: Apache-2.0
"""Elixir as Debian has it for this machine's own Erlang, with what it needs: unpacked, and kept in the tests'
cache."""
import pathlib
import platform

import debian

PACKAGES = ("elixir", "erlang-crypto", "erlang-inets", "erlang-parsetools", "erlang-public-key", "erlang-tools")


def fetched():
    """The folder of that root; None where it cannot be had."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")

    def make(root):
        with debian.Suite(suite) as packages:
            packages.unpack(PACKAGES, root)

    found = debian.kept(f"elixirs/{suite}", "whole", make, lambda root: (root / "whole").touch())
    return found and pathlib.Path(found).parent


def erlang_paths(root):
    """Folders of modules, for `erl -pa`."""
    return sorted([*root.glob("usr/lib/elixir/lib/*/ebin"), *root.glob("usr/lib/erlang/lib/*/ebin")])
