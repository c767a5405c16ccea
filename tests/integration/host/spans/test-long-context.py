#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-context-stress.py with 100,000 samples a form."""
import importlib

import tap

stress = importlib.import_module("test-context-stress")


class LongStress(stress.Stress):
    SAMPLES = 100_000


tap.main()
