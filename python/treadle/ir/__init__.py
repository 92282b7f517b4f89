# SPDX-License-Identifier: Apache-2.0
"""What all IRs share: modules, types, constants, operators, structural equality, passes and what watches them."""
from .base import *  # noqa: F403
from .base import _api, as_text, make_attrs
from .lowering import register_intrin_lowering
from . import module, transform
from . import instrument
