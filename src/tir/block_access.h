// SPDX-License-Identifier: Apache-2.0
// Which regions of which buffers a block touches.
#pragma once

#include "treadle/tir/stmt.h"

namespace treadle::tir {

struct BlockAccess {
  Array<BufferRegion> reads;
  Array<BufferRegion> writes;
};

/// Regions that `body` and `init` (may be null) read and write, in terms of the variables that are free in them:
/// loop variables inside are relaxed to their ranges; an index that isn't affine, or depends on data, gives the whole
/// dimension. Buffers of `allocated` are private to the block and left out. Of nested blocks the declared regions
/// count. With an init, reading back what the block itself writes at the same place isn't a read.
BlockAccess DetectBlockAccess(const Stmt& body, const Stmt& init, const Array<Buffer>& allocated = {});

/// The block with reads and writes computed anew.
Block WithDetectedAccess(Block block);

/// Whether `reader` reads a buffer that a statement of `within` writes.
bool ReadsWhatIsWritten(const Stmt& reader, const Stmt& within);

}  // namespace treadle::tir
