// SPDX-License-Identifier: Apache-2.0
// Attributes of annotations: devices, external code generators, memory.
#pragma once

#include <string>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

/// annotation.on_device: computed on, and its result lives on, that device.
class OnDeviceAttrs : public AttrsNode {
 public:
  int device_type = 0;
  bool is_fixed = false;
  TREADLE_DECLARE_NODE(OnDeviceAttrs, AttrsNode, "relay.attrs.OnDeviceAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("device_type", &OnDeviceAttrs::device_type).Doc("DLDeviceType");
    r.Field("is_fixed", &OnDeviceAttrs::is_fixed).Doc("The result must be on the device too, not only the operand");
  }
};

class DeviceCopyAttrs : public AttrsNode {
 public:
  int src_dev_type = 0;
  int dst_dev_type = 0;
  TREADLE_DECLARE_NODE(DeviceCopyAttrs, AttrsNode, "relay.attrs.DeviceCopyAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("src_dev_type", &DeviceCopyAttrs::src_dev_type).Doc("DLDeviceType of the operand");
    r.Field("dst_dev_type", &DeviceCopyAttrs::dst_dev_type).Doc("DLDeviceType of the result");
  }
};

/// annotation.compiler_begin and compiler_end.
class CompilerAttrs : public AttrsNode {
 public:
  std::string compiler;
  TREADLE_DECLARE_NODE(CompilerAttrs, AttrsNode, "relay.attrs.CompilerAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("compiler", &CompilerAttrs::compiler).Doc("External code generator, or \"default\"");
  }
};

class CastHintAttrs : public AttrsNode {
 public:
  DataType dtype;
  TREADLE_DECLARE_NODE(CastHintAttrs, AttrsNode, "relay.attrs.CastHintAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &CastHintAttrs::dtype).Doc("Type that the value is known to fit");
  }
};

}  // namespace treadle::ops
