# SPDX-License-Identifier: Apache-2.0
"""Names of memory, allocators and devices. There is the CPU only: what they say is kept, and has no other effect."""
import enum
from collections.abc import Mapping
from typing import Any

from ._errors import NotImplemented


class OrtAllocatorType(enum.IntEnum):
    """Kinds of allocators."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    """Kinds of memory."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    """Who reaches a device's memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(enum.IntEnum):
    """Devices that memory may be on."""

    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtHardwareDeviceType(enum.IntEnum):
    """Kinds of hardware."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtDeviceVendorId(enum.IntEnum):
    """Makers of devices, by their PCI numbers."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtExecutionProviderDevicePolicy(enum.IntEnum):
    """Which device a session prefers."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtMemoryInfo:
    """A kind of memory, by name."""

    def __init__(self, name: str, allocator_type: OrtAllocatorType = OrtAllocatorType.ORT_ARENA_ALLOCATOR,
                 device_id: int = 0, mem_type: OrtMemType = OrtMemType.DEFAULT) -> None:
        if name.lower() != "cpu":
            raise NotImplemented(f"memory is that of the CPU; there is no '{name}'")
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = OrtDeviceMemoryType.DEFAULT, 0


class OrtArenaCfg:
    """Sizes of an arena; Treadle plans memory when compiling."""

    def __init__(self, *values: Any) -> None:
        given = values[0] if len(values) == 1 and isinstance(values[0], Mapping) else dict(zip(
            ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk"), values))
        for name in ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
                     "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes"):
            setattr(self, name, given.get(name, 0))


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena_config: OrtArenaCfg | None = None) -> None:
    """Of no effect: memory of compiled models is planned when they are compiled."""


def create_and_register_allocator_v2(provider: str, memory_info: OrtMemoryInfo, options: Mapping[str, str],
                                     arena_config: OrtArenaCfg | None = None) -> None:
    """Of no effect: memory of compiled models is planned when they are compiled."""


def get_ep_devices() -> list[Any]:
    """Devices of execution provider libraries: there are none."""
    return []


def has_collective_ops() -> bool:
    return False

