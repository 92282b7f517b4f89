# SPDX-License-Identifier: Apache-2.0
"""Programs: python -m treadle.exec.NAME."""
