#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-asyncio.py on Debian's 3.14 and 3.15, and others that are here (SPANPROF_TEST_PYTHONS names more)."""
import importlib

import pythons
import tap

asyncio = importlib.import_module("test-run-asyncio")


class NewerReleases(asyncio.Asyncio):

    def pythons(self):
        newer = {version: python for version, python in pythons.all_of_them().items() if version >= (3, 14)}
        return newer or tap.skip("machine: no Python 3.14 (no network?)")


if __name__ == "__main__":
    tap.main()
