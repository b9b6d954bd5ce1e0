// The inner loops for AVX2. Its byte product sums pairs in 16 bits and saturates: query codes stay
// within ±63, as 2 · 255 · 63 < 2^15.

#include "kernels/bound.h"
#include "kernels/kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WINNOW_AVX2 __attribute__((target("avx2,fma")))

namespace winnow {

namespace {

constexpr int CODE_MAX = 63;
constexpr uint32_t GROUP_QUERIES = 6;
/** Rows and queries whose sums fit the sixteen registers together with what they are made of. */
constexpr uint32_t TILE_ROWS = 32;
constexpr uint32_t TILE_VECTORS = TILE_ROWS / 8;

/** Half a block against up to two queries. Writes margins and the survivors' bits. */
template <uint32_t QUERIES>
WINNOW_AVX2 void filterTile(const FilterCall& call, uint32_t firstQuery, uint32_t firstRow) {
  __m256i sums[QUERIES][TILE_VECTORS];
  // Unrolled by order, because an accumulator in an array that is looped over stays in memory.
#pragma GCC unroll 2
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
      sums[q][v] = _mm256_set1_epi32(-call.limits[firstQuery + q]);
    }
  }
  const __m256i ones = _mm256_set1_epi16(1);
  const uint8_t* codes = call.codes + size_t{firstRow} * 4;
  const uint32_t* words = call.words + firstQuery;
  for (uint32_t group = 0; group < call.groups; ++group) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
      const __m256i rows = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes + 32 * v));
#pragma GCC unroll 2
      for (uint32_t q = 0; q < QUERIES; ++q) {
        const __m256i query = _mm256_set1_epi32(static_cast<int32_t>(words[q]));
        const __m256i pairs = _mm256_maddubs_epi16(rows, query);
        sums[q][v] = _mm256_add_epi32(sums[q][v], _mm256_madd_epi16(pairs, ones));
      }
    }
    codes += 4 * BLOCK_ROWS;
    words += call.queries;
  }
#pragma GCC unroll 2
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
      const uint32_t at = firstRow + 8 * v;
      int32_t* margins = call.margins + (firstQuery + q) * BLOCK_ROWS + at;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(margins), sums[q][v]);
      const uint32_t negative =
          static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(sums[q][v])));
      call.survivors[firstQuery + q] |= static_cast<uint64_t>(~negative & 0xffu) << at;
    }
  }
}

WINNOW_AVX2 uint64_t filter(const FilterCall& call) {
  for (uint32_t q = 0; q < call.queries; ++q) call.survivors[q] = 0;
  const size_t aheadBytes = size_t{call.groups} * call.aheadLines * 64;
  for (size_t at = 0; at < aheadBytes; at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(call.ahead + at), _MM_HINT_T0);
  }
  for (uint32_t row = 0; row < BLOCK_ROWS; row += TILE_ROWS) {
    uint32_t q = 0;
    for (; q + 2 <= call.queries; q += 2) filterTile<2>(call, q, row);
    if (q < call.queries) filterTile<1>(call, q, row);
  }
  uint64_t found = 0;
  for (uint32_t q = 0; q < call.queries; ++q) {
    found |= static_cast<uint64_t>(call.survivors[q] != 0 ? 1 : 0) << q;
  }
  return found;
}

WINNOW_AVX2 void computeLimits(const BlockBounds& block, const QueryLanes& lanes,
                               const BoundWeights& weights, int32_t* limits) {
  const double inverse = 1 / block.scale;
  for (uint32_t i = 0; i < lanes.count; ++i) {
    limits[i] = boundLimit(block, lanes, i, weights, inverse);
  }
}

WINNOW_AVX2 size_t countFrom(const float* values, size_t count, float least) {
  uint32_t found = 0;
  for (size_t i = 0; i < count; ++i) found += values[i] >= least ? 1 : 0;
  return found;
}

WINNOW_AVX2 float score(const double* query, const float* row, uint32_t dim) {
  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
  const uint32_t whole = dim - dim % 8;
  for (uint32_t j = 0; j < whole; j += 8) {
    const __m256d first = _mm256_cvtps_pd(_mm_loadu_ps(row + j));
    const __m256d second = _mm256_cvtps_pd(_mm_loadu_ps(row + j + 4));
    low = _mm256_fmadd_pd(_mm256_loadu_pd(query + j), first, low);
    high = _mm256_fmadd_pd(_mm256_loadu_pd(query + j + 4), second, high);
  }
  double lanes[8];
  _mm256_storeu_pd(lanes, low);
  _mm256_storeu_pd(lanes + 4, high);
  for (uint32_t lane = 0; whole + lane < dim; ++lane) {
    lanes[lane] += query[whole + lane] * row[whole + lane];
  }
  const double even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return static_cast<float>(even + odd) + 0.0f;
}

}  // namespace

const Kernel AVX2_KERNEL{"avx2",        GROUP_QUERIES, CODE_MAX, filter,
                         computeLimits, countFrom,     score};

}  // namespace winnow

#endif
