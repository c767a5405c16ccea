#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-hotspot.py on releases of the JDK that this machine has not: from PyPI, kept in the cache."""
import importlib

import jdks
import tap

hotspot = importlib.import_module("test-hotspot")


class OtherReleases(hotspot.Hotspot):

    def javas(self):
        return jdks.fetched()


if __name__ == "__main__":
    tap.main()
