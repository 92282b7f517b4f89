# SPDX-License-Identifier: Apache-2.0
"""Passes over graphs that are written in Python; they are found in treadle.relay.transform."""
