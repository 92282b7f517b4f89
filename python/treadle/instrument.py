# SPDX-License-Identifier: Apache-2.0
"""Instruments: objects that watch passes. Give them to PassContext(instruments=[...])."""
from .ir.instrument import (NumericCheck, PassInstrument, PassPrintingInstrument, PassTimingInstrument, PassVerifier,
                            PrintAfterAll, PrintBeforeAll, PrintDiff, pass_instrument)

__all__ = ["NumericCheck", "PassInstrument", "PassPrintingInstrument", "PassTimingInstrument", "PassVerifier",
           "PrintAfterAll", "PrintBeforeAll", "PrintDiff", "pass_instrument"]
