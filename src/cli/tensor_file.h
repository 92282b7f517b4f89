// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NumPy's .npy (format versions 1 to 3) and .npz (zip archives of .npy, stored or deflated),
// and ONNX's .pb (one serialised TensorProto).
// Sources: NumPy enhancement proposal 1, PKWARE's APPNOTE.TXT (zip), onnx.proto3.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "treadle/runtime/ndarray.h"

namespace treadle::cli {

/// Tensors with their names, in the order of the file.
using NamedTensors = std::vector<std::pair<std::string, NDArray>>;

/// The whole file. Throws Error (exit 2) when it is missing or can't be read.
std::string ReadWholeFile(const std::string& path);
/// Writes a text whole or not at all, over no file that isn't text. Throws Error when that fails.
void WriteText(const std::string& path, const std::string& text);

/// Parses one .npy; `what` names the file in errors (ModelFormatError, DTypeError).
NDArray ParseNpy(const std::string& bytes, const std::string& what);
/// Parses a .npz archive; a member "x.npy" is named "x".
NamedTensors ParseNpz(const std::string& bytes, const std::string& what);
/// Parses a serialised TensorProto; its name may be empty.
std::pair<std::string, NDArray> ParseTensorProto(const std::string& bytes, const std::string& what);

std::string FormatNpy(const NDArray& tensor);
/// A stored (not compressed) archive, readable by numpy.load.
std::string FormatNpz(const NamedTensors& tensors);

/// Reads `path` by its extension: .npy and .pb give one tensor (named by the .pb, or ""), .npz all of its members.
NamedTensors ReadTensors(const std::string& path);
/// Writes by extension: .npz all tensors; .npy exactly one.
void WriteTensors(const std::string& path, const NamedTensors& tensors);

}  // namespace treadle::cli
