// The order of candidates as one integer: a greater key comes first. The upper half is the score in
// an order-preserving form (NaN below everything), the lower half the row, turned so that the lower
// row of equal scores is first. Sorting and selecting keys is therefore free of special cases.

#pragma once

#include <cstdint>
#include <cstring>

namespace winnow {

inline uint64_t orderKey(float score, uint32_t row) {
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof bits);
  uint32_t rank = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (score != score) rank = 0;
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(~row);
}

inline uint32_t rowOfKey(uint64_t key) { return ~static_cast<uint32_t>(key); }

inline float scoreOfKey(uint64_t key) {
  const uint32_t rank = static_cast<uint32_t>(key >> 32);
  uint32_t bits = (rank & 0x80000000u) != 0 ? rank & 0x7fffffffu : ~rank;
  if (rank == 0) bits = 0x7fc00000u;
  float score;
  std::memcpy(&score, &bits, sizeof score);
  return score;
}

}  // namespace winnow
