# SPDX-License-Identifier: Apache-2.0
"""Options of sessions and runs. Options without meaning for compiled models are stored and can be read back."""
import enum
import numbers
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._core import CancelToken
from ._errors import InvalidArgument, NotImplemented


class _Named(enum.IntEnum):
    """Compares as a number, prints as the name, as ONNX Runtime's do."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Named):
    """Optimisation levels, which correspond to opt_level 0, 2, 3 and 3."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """Without effect: operators run sequentially, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """Has no meaning for compiled models."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Config:
    """Entries of a configuration by key."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def _set(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"configuration entries are strings, not {type(key).__name__}: {type(value).__name__}")
        self._entries[key] = value

    def _get(self, key: str) -> str:
        if key not in self._entries:
            raise InvalidArgument(f"there is no configuration entry '{key}'")
        return self._entries[key]


class SessionOptions(_Config):
    """Options of a session. These have an effect: intra_op_num_threads, graph_optimization_level, enable_profiling,
    profile_file_prefix, add_free_dimension_override_by_name. add_initializer is refused."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    graph_optimization_level: GraphOptimizationLevel
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    enable_profiling: bool
    profile_file_prefix: str
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    use_deterministic_compute: bool
    use_per_session_threads: bool

    _FIELDS: dict[str, Any] = {
        "intra_op_num_threads": 0, "inter_op_num_threads": 0, "graph_optimization_level":
        GraphOptimizationLevel.ORT_ENABLE_ALL, "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT, "enable_profiling": False, "profile_file_prefix": "treadle_profile",
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True, "log_severity_level": -1,
        "log_verbosity_level": 0, "logid": "", "optimized_model_filepath": "", "use_deterministic_compute": False,
        "use_per_session_threads": True}

    def __init__(self) -> None:
        super().__init__()
        for name, value in self._FIELDS.items():
            object.__setattr__(self, name, value)
        self._dims: dict[str, int] = {}

    if not TYPE_CHECKING:  # a type checker has the fields above
        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_") and name not in self._FIELDS:
                raise AttributeError(f"SessionOptions has no field '{name}'; it has: {', '.join(sorted(self._FIELDS))}")
            if name == "optimized_model_filepath" and value:
                warnings.warn("optimized_model_filepath: compiled models aren't written as ONNX; use treadle.compile and "
                              "export_library", stacklevel=2)
            if name.endswith("_num_threads") and (not isinstance(value, numbers.Integral) or value < 0):
                raise InvalidArgument(f"{name} is {value!r}; expected 0 (all) or more")
            kind = type(self._FIELDS[name]) if name in self._FIELDS else None
            if isinstance(kind, enum.EnumMeta) and value not in list(kind):
                raise InvalidArgument(f"{name} is {value!r}; expected one of {', '.join(str(each.name) for each in kind)}")
            if isinstance(kind, enum.EnumMeta):
                value = kind(value)
            object.__setattr__(self, name, value)

    def add_session_config_entry(self, key: str, value: str) -> None:
        self._set(key, value)

    def get_session_config_entry(self, key: str) -> str:
        return self._get(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic dimension: the model is compiled for that size."""
        if not isinstance(size, numbers.Integral) or not 0 <= size < 2**63:
            raise InvalidArgument(f"dimension '{name}' is {size!r}; expected a whole number")
        self._dims[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        raise NotImplemented(f"dimensions are fixed by name, not by denotation ('{denotation}'): use "
                             "add_free_dimension_override_by_name")

    def add_initializer(self, name: Any, value: Any) -> None:
        raise NotImplemented(f"initializers can't be replaced ('{name}'): give the model with its data")

    add_external_initializers = add_initializer

    def register_custom_ops_library(self, path: str) -> None:
        raise NotImplemented(f"libraries of custom operators for ONNX Runtime can't be loaded ({path})")

    def add_provider_for_devices(self, devices: Any, options: Mapping[str, str] | None = None) -> None:
        raise NotImplemented("there are no devices of execution provider libraries")

    def set_provider_selection_policy(self, policy: int) -> None:
        """There is one provider: it is chosen."""

    def set_provider_selection_policy_delegate(self, delegate: Any) -> None:
        """There is one provider: it is chosen."""

    def set_load_cancellation_flag(self, value: bool) -> None:
        if value:
            raise NotImplemented("a session that is being made is ended by KeyboardInterrupt")

    def add_external_initializers_from_files_in_memory(self, names: Any, buffers: Any, lengths: Any) -> None:
        raise NotImplemented("external data is read from files: give the model's path")

    def set_ep_context_data_read_func(self, function: Any) -> None:
        raise NotImplemented("models made for execution providers can't be read")

    def clear_ep_context_data_read_func(self) -> None:
        """There is none."""

    def add_provider(self, name: str, options: Mapping[str, str] | None = None) -> None:
        check_provider(name)

    def has_providers(self) -> bool:
        return True


class RunOptions(_Config):
    """Options of a run. Setting `terminate` to True in another thread cancels the run; the others have no effect."""

    def __init__(self) -> None:
        super().__init__()
        self.log_severity_level, self.log_verbosity_level, self.logid = -1, 0, ""
        self.only_execute_path_to_fetches = False
        self._cancel = CancelToken()

    @property
    def terminate(self) -> bool:
        return self._cancel.cancelled

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._cancel.cancel() if value else self._cancel.reset()

    def add_run_config_entry(self, key: str, value: str) -> None:
        self._set(key, value)

    def add_active_adapter(self, adapter: Any) -> None:
        raise NotImplemented("adapters aren't applied when a model runs; merge them into its weights")

    def get_run_config_entry(self, key: str) -> str:
        return self._get(key)


_threads = {"intra": 0}


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Number of threads of sessions without a value of their own; 0: all."""
    if min(intra_op_num_threads, inter_op_num_threads) < 0:
        raise InvalidArgument("numbers of threads are 0 (all) or more")
    _threads["intra"] = int(intra_op_num_threads)


def global_threads() -> int:
    return _threads["intra"]


CPU = "CPUExecutionProvider"
# Providers that programs ask for; where one isn't available ONNX Runtime warns and takes the CPU, and so does this.
KNOWN_PROVIDERS = [
    "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider",
    "ROCMExecutionProvider", "OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider",
    "QNNExecutionProvider", "NnapiExecutionProvider", "VSINPUExecutionProvider", "JsExecutionProvider",
    "WebGpuExecutionProvider", "WebNNExecutionProvider", "CoreMLExecutionProvider", "XnnpackExecutionProvider",
    "CANNExecutionProvider", "AzureExecutionProvider", "DmlExecutionProvider", "ArmNNExecutionProvider",
    "ACLExecutionProvider", "RknpuExecutionProvider", CPU]


def get_available_providers() -> list[str]:
    return [CPU]


def get_all_providers() -> list[str]:
    return list(KNOWN_PROVIDERS)


def get_device() -> str:
    return "CPU"


def check_provider(name: str) -> None:
    """Warns about unavailable providers and refuses unknown ones."""
    if name not in KNOWN_PROVIDERS:
        raise InvalidArgument(f"unknown execution provider '{name}'; available: {CPU}")
    if name != CPU:
        warnings.warn(f"provider '{name}' isn't available, {CPU} runs the model", stacklevel=5)


def check_providers(providers: Any) -> None:
    """As check_provider, of a list of names, or of pairs of a name and its options."""
    if isinstance(providers, (str, bytes)) or providers is not None and not hasattr(providers, "__iter__"):
        raise InvalidArgument(f"providers: expected a list of names such as ['{CPU}'], got {providers!r}")
    for provider in providers or []:
        name = provider[0] if isinstance(provider, (tuple, list)) and provider else provider
        if not isinstance(name, str):
            raise InvalidArgument(f"providers: expected names such as '{CPU}', got {provider!r}")
        check_provider(name)
