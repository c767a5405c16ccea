#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test-context-stress.py with 100,000 samples a form."""
import importlib.util
import pathlib

import tap

spec = importlib.util.spec_from_file_location("stress",
                                              pathlib.Path(__file__).with_name("test-context-stress.py"))
stress = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stress)


class LongStress(stress.Stress):
    SAMPLES = 100_000


tap.main()
