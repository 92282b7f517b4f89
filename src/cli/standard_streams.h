// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace treadle::cli {

/// Takes the numbers of standard streams that the caller closed, so that no file that is opened gets one of them and
/// what is printed lands in it. Writing to such a stream fails.
void ReserveStandardStreams();

/// Throws RuntimeError where what was printed didn't reach standard output: the disk is full, or it is closed.
void CheckPrinted();

}  // namespace treadle::cli
