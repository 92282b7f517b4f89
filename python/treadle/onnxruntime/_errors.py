# SPDX-License-Identifier: Apache-2.0
"""Exception types by ONNX Runtime's names, which programs catch; all are Treadle errors too."""
from ..error import Error


class Fail(Error):
    """A failure without a class of its own."""


class InvalidArgument(Error):
    """An input or option that doesn't fit the model."""


class NoSuchFile(Error):
    """A model file that doesn't exist."""


class NoModel(Error):
    """A session without a model."""


class InvalidProtobuf(Error):
    """A file that isn't an ONNX model."""


class InvalidGraph(Error):
    """A model that breaks ONNX's rules."""


class NotImplemented(Error):  # noqa: A001 - ONNX Runtime's name
    """An operator or option that Treadle doesn't implement."""


class RuntimeException(Error):
    """A failure while a model runs."""


class EngineError(Error):
    """Never raised; for programs that name it."""


class EPFail(Error):
    """Never raised; for programs that name it."""


class ModelLoaded(Error):
    """Never raised; for programs that name it."""


class NotFound(Error):
    """Never raised; for programs that name it."""


class DeviceReset(Error):
    """Never raised; for programs that name it."""


class ModelLoadCanceled(Error):
    """Never raised; for programs that name it."""


class ModelRequiresCompilation(Error):
    """Never raised; for programs that name it."""
