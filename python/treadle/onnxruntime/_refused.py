# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime names without a counterpart in Treadle: they can be imported, and raise an error with the reason when
used."""
from typing import Any, NoReturn

from ._errors import NotImplemented

_SPARSE = "values are dense; give the array that it stands for"
_PACKAGES = "model packages of ONNX Runtime aren't read; `treadle compile` makes one library of a model"
_PROVIDERS = "there are no execution providers to load; treadle.load_plugin loads code generators"
_ADAPTERS = "adapters aren't applied when a model runs; merge them into its weights before it is compiled"
REASONS = {
    "AdapterFormat": _ADAPTERS, "LoraAdapter": _ADAPTERS, "SparseTensor": _SPARSE, "OrtSparseFormat": _SPARSE,
    "ModelCompiler": "models for execution providers can't be made; treadle.compile(..).save(..) writes a compiled one",
    "OrtCompileApiFlags": _PROVIDERS, "ModelPackage": _PACKAGES, "ModelPackageComponentContext": _PACKAGES,
    "ModelPackageContext": _PACKAGES, "ModelPackageOptions": _PACKAGES, "ModelPackageWriteMode": _PACKAGES,
    "OrtEpAssignedNode": _PROVIDERS, "OrtEpAssignedSubgraph": _PROVIDERS, "OrtEpContextData": _PROVIDERS,
    "OrtEpContextDataBuffer": _PROVIDERS, "OrtEpDevice": _PROVIDERS, "OrtHardwareDevice": _PROVIDERS,
    "OrtExternalInitializerInfo": "initializers stay where the model has them", "OrtSyncStream": "there is no stream "
    "to wait for: runs end when they return", "register_execution_provider_library": _PROVIDERS,
    "unregister_execution_provider_library": _PROVIDERS}


class _Refused(type):
    """Of classes that neither are made nor have anything inside."""

    def __call__(cls, *args: Any, **keywords: Any) -> NoReturn:
        _refuse(cls.__name__)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(cls.__name__)


def _refuse(name: str) -> NoReturn:
    raise NotImplemented(f"onnxruntime.{name} isn't there: {REASONS[name]}")


def _stand_in(name: str) -> Any:
    if name[0].isupper():
        return _Refused(name, (), {"__doc__": f"Not there: {REASONS[name]}.", "__module__": __name__})

    def refused(*args: Any, **keywords: Any) -> NoReturn:
        _refuse(name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Not there: {REASONS[name]}."
    return refused


STAND_INS = {name: _stand_in(name) for name in REASONS}
