// The filter of the NEON kernels. Each includes it once, having defined
//
//   WINNOW_NEON          the attribute of functions that may use its instructions
//   WINNOW_NEON_DOT      (sum, codes, words, query): adds the products of one query
//   WINNOW_NEON_START    (call): what the sums of up to four queries start at, beside −limit
//
// because functions of one instruction set cannot be inlined into those of another.

#include <arm_neon.h>

#include "kernels/kernel.h"

namespace winnow {

namespace {

constexpr uint32_t GROUP_QUERIES = 4;
/** Sums of four rows that fit the 32 registers together with what they are made of. */
constexpr uint32_t TILE_SUMS = 16;

/** As many rows of the block as there are sums for against all queries of the call. */
template <uint32_t QUERIES>
WINNOW_NEON bool filterTile(const FilterCall& call, uint32_t firstRow, int32x4_t starts) {
  constexpr uint32_t VECTORS = TILE_SUMS / (QUERIES == 3 ? 4 : QUERIES);
  int32x4_t sums[QUERIES][VECTORS];
  // Unrolled by order, because an accumulator in an array that is looped over stays in memory.
#pragma GCC unroll 4
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 16
    for (uint32_t v = 0; v < VECTORS; ++v) {
      sums[q][v] = vdupq_n_s32(starts[q] - call.limits[q]);
    }
  }
  const uint8_t* codes = call.codes + size_t{firstRow} * 4;
  const uint32_t* words = call.words;
  for (uint32_t group = 0; group < call.groups; ++group) {
    // A group may be read as if it were full.
    const int8x16_t queries = vreinterpretq_s8_u32(vld1q_u32(words));
#pragma GCC unroll 16
    for (uint32_t v = 0; v < VECTORS; ++v) {
      const uint8x16_t rows = vld1q_u8(codes + size_t{v} * 16);
      WINNOW_NEON_DOT(sums[0][v], rows, queries, 0);
      if constexpr (QUERIES > 1) WINNOW_NEON_DOT(sums[1][v], rows, queries, 1);
      if constexpr (QUERIES > 2) WINNOW_NEON_DOT(sums[2][v], rows, queries, 2);
      if constexpr (QUERIES > 3) WINNOW_NEON_DOT(sums[3][v], rows, queries, 3);
    }
    codes += 4 * BLOCK_ROWS;
    words += QUERIES;
  }
  int32x4_t all = sums[0][0];
#pragma GCC unroll 4
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 16
    for (uint32_t v = 0; v < VECTORS; ++v) {
      all = vandq_s32(all, sums[q][v]);
      vst1q_s32(call.margins + q * BLOCK_ROWS + firstRow + 4 * v, sums[q][v]);
    }
  }
  // Negative in all four places if every sum is.
  return vmaxvq_s32(all) >= 0;
}

template <uint32_t QUERIES>
WINNOW_NEON bool filterQueries(const FilterCall& call) {
  constexpr uint32_t TILE_ROWS = TILE_SUMS / (QUERIES == 3 ? 4 : QUERIES) * 4;
  const int32x4_t starts = WINNOW_NEON_START(call);
  bool hasAny = false;
  for (uint32_t row = 0; row < BLOCK_ROWS; row += TILE_ROWS) {
    hasAny = filterTile<QUERIES>(call, row, starts) || hasAny;
  }
  if (!hasAny) return false;
  for (uint32_t q = 0; q < QUERIES; ++q) {
    uint64_t survivors = 0;
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) {
      survivors |= static_cast<uint64_t>(call.margins[q * BLOCK_ROWS + r] >= 0 ? 1 : 0) << r;
    }
    call.survivors[q] = survivors;
  }
  return true;
}

uint64_t filter(const FilterCall& call) {
  const size_t aheadBytes = size_t{call.groups} * call.aheadLines * 64;
  for (size_t at = 0; at < aheadBytes; at += 64) {
    __builtin_prefetch(call.ahead + at);
  }
  constexpr bool (*FILTERS[GROUP_QUERIES])(const FilterCall&) = {
      filterQueries<1>, filterQueries<2>, filterQueries<3>, filterQueries<4>};
  return allOrNone(call, FILTERS[call.queries - 1](call));
}

}  // namespace

}  // namespace winnow
