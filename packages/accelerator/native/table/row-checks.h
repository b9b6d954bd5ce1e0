// Checks of rows while they are read from files: their CRC-32C is extended, and values that are not
// finite are found. The checksum is that of core/src/checksum/checksum.ts; here its register is passed
// without the inversions before the first and after the last byte.

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
