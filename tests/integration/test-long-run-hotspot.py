#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-run-hotspot.py on each JDK of this machine, and on releases from PyPI, kept in the cache."""
import importlib

import jdks
import tap

hotspot = importlib.import_module("test-run-hotspot")


class OtherReleases(hotspot.Hotspot):

    def javas(self):
        return {**jdks.fetched(), **jdks.here()}


if __name__ == "__main__":
    tap.main()
