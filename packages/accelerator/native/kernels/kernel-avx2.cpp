// The inner loops for AVX2. It has no instruction that multiplies bytes and sums in 32 bits: one sums pairs of
// products in 16 bits, a second one widens them. So the products of two groups are added in 16 bits before they are
// widened, for which codes of queries that meet there stay small: 255 · 128 < 2^15.

#include "kernels/bound.h"
#include "kernels/kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WINNOW_AVX2 __attribute__((target("avx2,fma")))

namespace winnow {

namespace {

constexpr int CODE_MAX = 127;
constexpr int CODE_SUM_MAX = 128;
constexpr uint32_t GROUP_QUERIES = 6;
/** Rows and queries whose sums fit the sixteen registers together with what they are made of. */
constexpr uint32_t TILE_ROWS = 32;
constexpr uint32_t TILE_VECTORS = TILE_ROWS / 8;
constexpr size_t GROUP_BYTES = 4 * BLOCK_ROWS;

/** Read from memory, as there is no register left for it. */
alignas(32) constexpr int16_t ONES[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// By hand, because compilers order the sums anew, which takes more registers than there are.

/** Adds to two queries' sums of eight rows the products of two groups. `a`, `b`: the groups; uses up `codesA`, `codesB`. */
#define WINNOW_ADD_TO_TWO(sum0, sum1, codesA, codesB, query0a, query0b, query1a, query1b)     \
  do {                                                                                        \
    __m256i first, second;                                                                    \
    __asm__("vpmaddubsw %[q0a], %[a], %[first]\n\t"                                           \
            "vpmaddubsw %[q0b], %[b], %[second]\n\t"                                          \
            "vpmaddubsw %[q1a], %[a], %[a]\n\t"                                               \
            "vpmaddubsw %[q1b], %[b], %[b]\n\t"                                               \
            "vpaddw %[second], %[first], %[first]\n\t"                                        \
            "vpaddw %[b], %[a], %[a]\n\t"                                                     \
            "vpmaddwd %[ones], %[first], %[first]\n\t"                                        \
            "vpmaddwd %[ones], %[a], %[a]\n\t"                                                \
            "vpaddd %[first], %[s0], %[s0]\n\t"                                               \
            "vpaddd %[a], %[s1], %[s1]"                                                       \
            : [s0] "+x"(sum0), [s1] "+x"(sum1), [first] "=&x"(first), [second] "=&x"(second), \
              [a] "+&x"(codesA), [b] "+&x"(codesB)                                            \
            : [q0a] "x"(query0a), [q0b] "x"(query0b), [q1a] "x"(query1a), [q1b] "x"(query1b), \
              [ones] "m"(*reinterpret_cast<const __m256i*>(ONES)));                           \
  } while (false)

/** The same for one query. */
#define WINNOW_ADD_TO_ONE(sum, codesA, codesB, queryA, queryB)          \
  __asm__("vpmaddubsw %[qa], %[a], %[a]\n\t"                            \
          "vpmaddubsw %[qb], %[b], %[b]\n\t"                            \
          "vpaddw %[b], %[a], %[a]\n\t"                                 \
          "vpmaddwd %[ones], %[a], %[a]\n\t"                            \
          "vpaddd %[a], %[s], %[s]"                                     \
          : [s] "+x"(sum), [a] "+&x"(codesA), [b] "+&x"(codesB)         \
          : [qa] "x"(queryA), [qb] "x"(queryB),                         \
            [ones] "m"(*reinterpret_cast<const __m256i*>(ONES)))

WINNOW_AVX2 inline __m256i codesAt(const uint8_t* codes) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
}

WINNOW_AVX2 inline __m256i wordOf(const uint32_t* words, uint32_t query) {
  return _mm256_set1_epi32(static_cast<int32_t>(words[query]));
}

/** Half a block against up to two queries. Writes margins and the survivors' bits where a row survives. */
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
  const uint8_t* codes = call.codes + size_t{firstRow} * 4;
  const uint32_t* words = call.words + firstQuery;
  for (uint32_t pair = call.groups / 2; pair > 0; --pair) {
    const uint32_t* next = words + call.queries;
    const __m256i a = wordOf(words, 0), b = wordOf(next, 0);
    const __m256i lastA = wordOf(words, QUERIES - 1), lastB = wordOf(next, QUERIES - 1);
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
      __m256i rowsA = codesAt(codes + 32 * v);
      __m256i rowsB = codesAt(codes + GROUP_BYTES + 32 * v);
      if constexpr (QUERIES == 2) {
        WINNOW_ADD_TO_TWO(sums[0][v], sums[1][v], rowsA, rowsB, a, b, lastA, lastB);
      } else {
        WINNOW_ADD_TO_ONE(sums[0][v], rowsA, rowsB, a, b);
      }
    }
    codes += 2 * GROUP_BYTES;
    words = next + call.queries;
  }
  if (call.groups % 2 != 0) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
    for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 4
      for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
        const __m256i products = _mm256_maddubs_epi16(codesAt(codes + 32 * v), wordOf(words, q));
        sums[q][v] = _mm256_add_epi32(sums[q][v], _mm256_madd_epi16(products, ones));
      }
    }
  }
  __m256i all = sums[0][0];
#pragma GCC unroll 2
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) all = _mm256_and_si256(all, sums[q][v]);
  }
  if (_mm256_movemask_ps(_mm256_castsi256_ps(all)) == 0xff) return;
  // Compilers would hoist the stores of this rare path into the loop above.
  __asm__ volatile("" ::: "memory");
#pragma GCC unroll 2
  for (uint32_t q = 0; q < QUERIES; ++q) {
    uint64_t negative = 0;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < TILE_VECTORS; ++v) {
      int32_t* margins = call.margins + (firstQuery + q) * BLOCK_ROWS + firstRow + 8 * v;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(margins), sums[q][v]);
      const int bits = _mm256_movemask_ps(_mm256_castsi256_ps(sums[q][v]));
      negative |= static_cast<uint64_t>(static_cast<uint32_t>(bits)) << (8 * v);
    }
    const uint64_t positive = ~negative & ((uint64_t{1} << TILE_ROWS) - 1);
    call.survivors[firstQuery + q] |= positive << firstRow;
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
  const __m256d rowError = _mm256_set1_pd(weights.rowError * block.rowError);
  const __m256d codeNorm = _mm256_set1_pd(weights.queryError * block.codeNorm);
  const __m256d size = _mm256_set1_pd((block.rowNorm + block.rowError) * RELATIVE_SLACK);
  const __m256d absolute = _mm256_set1_pd(ABSOLUTE_SLACK);
  const __m256d inverse = _mm256_set1_pd(1 / block.scale);
  const __m256d greatest = _mm256_set1_pd(LIMIT_MAX);
  const __m256d least = _mm256_set1_pd(-LIMIT_MAX);
  for (uint32_t i = 0; i < lanes.count; i += 4) {
    const __m256d norm = _mm256_loadu_pd(lanes.norm + i);
    const __m256d error = _mm256_loadu_pd(lanes.error + i);
    __m256d bound = _mm256_mul_pd(rowError, norm);
    bound = _mm256_fmadd_pd(codeNorm, error, bound);
    bound = _mm256_fmadd_pd(_mm256_add_pd(norm, error), size, bound);
    bound = _mm256_add_pd(bound, absolute);
    __m256d limit = _mm256_sub_pd(_mm256_loadu_pd(lanes.threshold + i), bound);
    limit = _mm256_mul_pd(limit, _mm256_mul_pd(_mm256_loadu_pd(lanes.inverseScale + i), inverse));
    limit = _mm256_add_pd(limit, _mm256_loadu_pd(lanes.offset + i));
    limit = _mm256_min_pd(_mm256_max_pd(limit, least), greatest);
    const __m128i whole = _mm256_cvttpd_epi32(_mm256_floor_pd(limit));
    if (lanes.count - i >= 4) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(limits + i), whole);
    } else {
      const int32_t count = static_cast<int32_t>(lanes.count - i);
      const __m128i some = _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3));
      _mm_maskstore_epi32(limits + i, some, whole);
    }
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

const Kernel AVX2_KERNEL = [] {
  Kernel kernel{"avx2", GROUP_QUERIES, CODE_MAX, filter, computeLimits, countFrom, score};
  kernel.codeSumMax = CODE_SUM_MAX;
  return kernel;
}();

}  // namespace winnow

#endif
