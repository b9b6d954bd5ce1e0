// What rows are put to while they are read: CRC-32C is carried on over them, and values that are not
// finite are found. The checksum is that of core/src/checksum.ts, its register bare.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace winnow {

/** One way to run the register over bytes. */
struct ChecksumLoop {
  const char* name;
  /** The register after `count` bytes, 0 to any. */
  uint32_t (*extend)(uint32_t value, const uint8_t* bytes, size_t count);
};

/** Those this processor runs, the fastest first; the last one runs everywhere. */
const std::vector<const ChecksumLoop*>& checksumLoops();

/** Position of the first value that is infinite or not a number, else `count`. */
size_t firstNotFinite(const float* values, size_t count);

}  // namespace winnow
