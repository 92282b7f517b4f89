// SPDX-License-Identifier: Apache-2.0
#include <clocale>
#include <locale>

#include "cli/commands.h"

int main(int argc, char** argv) {
  // A library that comes along (LD_PRELOAD) may have chosen another, in which options are written 0,5.
  std::setlocale(LC_ALL, "C");
  std::locale::global(std::locale::classic());
  return treadle::cli::Main(argc, argv);
}
