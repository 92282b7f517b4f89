// SPDX-License-Identifier: Apache-2.0
// seal_model FROM TO: a copy of a library with its seal.
#include <filesystem>

#include "treadle/runtime/artifact.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::filesystem::copy_file(argv[1], argv[2], std::filesystem::copy_options::overwrite_existing);
  treadle::runtime::SealFile(argv[2]);
  return 0;
}
