# SPDX-License-Identifier: Apache-2.0
"""Where onnxruntime defines its sessions and values."""
from .._session import InferenceSession
from .._values import IOBinding, OrtDevice, OrtValue
