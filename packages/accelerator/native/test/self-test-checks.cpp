// The checks of rows: every loop against the register run bit by bit, over any length from any address;
// and the search for values that are not finite against looking at each.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "table/row-checks.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

uint32_t extendBitwise(uint32_t value, const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    value ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78u : 0);
  }
  return value;
}

void testChecksums() {
  const char* digits = "123456789";
  std::vector<uint8_t> bytes(60'000);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(randomBits()());
  for (const ChecksumLoop* loop : checksumLoops()) {
    const auto* known = reinterpret_cast<const uint8_t*>(digits);
    if (~loop->extend(~0u, known, 9) != 0xe3069283u) fail("%s: a known checksum", loop->name);
    for (int round = 0; round < 200; ++round) {
      const auto start = static_cast<size_t>(wholeNumber(0, 16));
      const int longest = round % 4 == 0 ? 50'000 : 1'000;
      const auto count = static_cast<size_t>(wholeNumber(0, longest));
      // In memory of exactly this size, so that a byte read outside of it is seen.
      const std::vector<uint8_t> piece(bytes.begin() + static_cast<ptrdiff_t>(start),
                                       bytes.begin() + static_cast<ptrdiff_t>(start + count));
      const uint32_t before = static_cast<uint32_t>(randomBits()());
      const uint32_t expected = extendBitwise(before, piece.data(), count);
      if (loop->extend(before, piece.data(), count) != expected ||
          loop->extend(before, bytes.data() + start, count) != expected) {
        fail("%s: %zu bytes from address %zu", loop->name, count, start);
      }
    }
  }
}

void testNotFinite() {
  const float faults[] = {std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()};
  for (int round = 0; round < 300; ++round) {
    std::vector<float> values(static_cast<size_t>(wholeNumber(0, 10'000)));
    for (float& value : values) value = round % 3 == 0 ? std::numeric_limits<float>::max() : normal();
    size_t expected = values.size();
    for (int fault = wholeNumber(0, 3); fault > 0 && !values.empty(); --fault) {
      const auto at = static_cast<size_t>(wholeNumber(0, static_cast<int>(values.size()) - 1));
      values[at] = faults[fault % 3];
      expected = at < expected ? at : expected;
    }
    const size_t found = firstNotFinite(values.data(), values.size());
    if (found != expected) fail("not finite at %zu instead of %zu", found, expected);
  }
}

}  // namespace

void testChecks() {
  testChecksums();
  testNotFinite();
  std::printf("self-test: checks:");
  for (const ChecksumLoop* loop : checksumLoops()) std::printf(" %s", loop->name);
  std::printf("\n");
}

}  // namespace winnow::test
