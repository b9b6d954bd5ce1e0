// Sorts 64-bit keys by their upper halves, which are values; the lower halves are rows. A radix
// sort, which for many keys is several times faster than a sort by comparisons.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace winnow {

/** With fewer keys, a sort by comparisons is faster. */
constexpr size_t DIGIT_SORT_MIN = 512;
constexpr uint32_t DIGIT_BITS = 11;

/**
 * Sorts ascending by the upper halves. The order of keys with equal upper halves depends on the keys
 * alone. `scratch` is as large as `keys`.
 */
inline void sortKeys(uint64_t* keys, uint64_t* scratch, size_t count) {
  if (count < DIGIT_SORT_MIN) {
    std::sort(keys, keys + count);
    return;
  }
  constexpr uint32_t PASSES = 3;
  constexpr uint32_t DIGITS = 1u << DIGIT_BITS;
  uint32_t starts[PASSES][DIGITS] = {};
  const auto digitOf = [](uint64_t key, uint32_t pass) {
    return static_cast<uint32_t>(key >> (32 + pass * DIGIT_BITS)) & (DIGITS - 1);
  };
  for (size_t i = 0; i < count; ++i) {
    for (uint32_t pass = 0; pass < PASSES; ++pass) ++starts[pass][digitOf(keys[i], pass)];
  }
  uint64_t* from = keys;
  uint64_t* to = scratch;
  for (uint32_t pass = 0; pass < PASSES; ++pass) {
    uint32_t start = 0;
    for (uint32_t& each : starts[pass]) {
      const uint32_t digits = each;
      each = start;
      start += digits;
    }
    for (size_t i = 0; i < count; ++i) to[starts[pass][digitOf(from[i], pass)]++] = from[i];
    std::swap(from, to);
  }
  std::copy(scratch, scratch + count, keys);
}

/** Sorts descending by all 64 bits. */
template <typename Allocator>
void sortKeysDown(std::vector<uint64_t, Allocator>& keys) {
  if (keys.size() < DIGIT_SORT_MIN) {
    std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
    return;
  }
  for (uint64_t& key : keys) key = ~key;
  std::vector<uint64_t, Allocator> scratch(keys.size(), keys.get_allocator());
  sortKeys(keys.data(), scratch.data(), keys.size());
  // Runs of keys with equal upper halves are short, as a rule.
  for (size_t start = 0, end = 0; start < keys.size(); start = end) {
    while (end < keys.size() && keys[end] >> 32 == keys[start] >> 32) ++end;
    std::sort(keys.data() + start, keys.data() + end);
  }
  for (uint64_t& key : keys) key = ~key;
}

}  // namespace winnow
