// The inner loops for AVX-512 with VNNI: one instruction multiplies and sums 64 bytes. Sums start at
// −limit, so that a row survives if its sum is not negative, and one AND over all sums of the call
// tells whether there is anything to look at.

#include "kernels/bound.h"
#include "kernels/kernel.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WINNOW_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,popcnt")))

namespace winnow {

namespace {

constexpr uint32_t GROUP_QUERIES = 6;
constexpr uint32_t ROW_VECTORS = BLOCK_ROWS / 16;

// By hand, because compilers copy and spill the accumulators of the intrinsic in a tile this large.
#define WINNOW_DOT(sum, codes, query) \
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(query))

/** `HINT`: into which cache codes to come are fetched. */
template <uint32_t QUERIES, _mm_hint HINT>
WINNOW_AVX512 bool filterGroup(const FilterCall& call) {
  __m512i sums[QUERIES][ROW_VECTORS];
  // Unrolled by order, because an accumulator in an array that is looped over stays in memory.
#pragma GCC unroll 8
  for (uint32_t q = 0; q < QUERIES; ++q) {
    const __m512i start = _mm512_set1_epi32(-call.limits[q]);
#pragma GCC unroll 4
    for (uint32_t v = 0; v < ROW_VECTORS; ++v) sums[q][v] = start;
  }
  const uint8_t* codes = call.codes;
  const uint32_t* words = call.words;
  const uint8_t* ahead = call.ahead;
  for (uint32_t group = 0; group < call.groups; ++group) {
    const __m512i rows0 = _mm512_load_si512(codes);
    const __m512i rows1 = _mm512_load_si512(codes + 64);
    const __m512i rows2 = _mm512_load_si512(codes + 128);
    const __m512i rows3 = _mm512_load_si512(codes + 192);
    for (uint32_t line = 0; line < call.aheadLines; ++line, ahead += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead), HINT);
    }
#pragma GCC unroll 8
    for (uint32_t q = 0; q < QUERIES; ++q) {
      const __m512i query = _mm512_set1_epi32(static_cast<int32_t>(words[q]));
      WINNOW_DOT(sums[q][0], rows0, query);
      WINNOW_DOT(sums[q][1], rows1, query);
      WINNOW_DOT(sums[q][2], rows2, query);
      WINNOW_DOT(sums[q][3], rows3, query);
    }
    codes += 256;
    words += QUERIES;
  }
  __m512i all = sums[0][0];
#pragma GCC unroll 8
  for (uint32_t q = 0; q < QUERIES; ++q) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < ROW_VECTORS; ++v) all = _mm512_and_si512(all, sums[q][v]);
  }
  if (_mm512_movepi32_mask(all) == 0xffff) return false;
  // Compilers would hoist the stores of this rare path into the loop above.
  __asm__ volatile("" ::: "memory");
#pragma GCC unroll 8
  for (uint32_t q = 0; q < QUERIES; ++q) {
    uint64_t negative = 0;
#pragma GCC unroll 4
    for (uint32_t v = 0; v < ROW_VECTORS; ++v) {
      negative |= static_cast<uint64_t>(_mm512_movepi32_mask(sums[q][v])) << (16 * v);
      _mm512_storeu_si512(call.margins + q * BLOCK_ROWS + 16 * v, sums[q][v]);
    }
    call.survivors[q] = ~negative;
  }
  return true;
}

using FilterGroup = bool (*)(const FilterCall&);
template <_mm_hint HINT>
constexpr FilterGroup FILTERS[GROUP_QUERIES] = {filterGroup<1, HINT>, filterGroup<2, HINT>,
                                                filterGroup<3, HINT>, filterGroup<4, HINT>,
                                                filterGroup<5, HINT>, filterGroup<6, HINT>};

template <_mm_hint HINT>
uint64_t filter(const FilterCall& call) {
  return allOrNone(call, FILTERS<HINT>[call.queries - 1](call));
}

WINNOW_AVX512 void computeLimits(const BlockBounds& block, const QueryLanes& lanes,
                                 const BoundWeights& weights, int32_t* limits) {
  const __m512d rowError = _mm512_set1_pd(weights.rowError * block.rowError);
  const __m512d codeNorm = _mm512_set1_pd(weights.queryError * block.codeNorm);
  const __m512d size = _mm512_set1_pd((block.rowNorm + block.rowError) * RELATIVE_SLACK);
  const __m512d absolute = _mm512_set1_pd(ABSOLUTE_SLACK);
  const __m512d inverse = _mm512_set1_pd(1 / block.scale);
  const __m512d greatest = _mm512_set1_pd(LIMIT_MAX);
  const __m512d least = _mm512_set1_pd(-LIMIT_MAX);
  for (uint32_t i = 0; i < lanes.count; i += 8) {
    const __mmask8 some = lanes.count - i >= 8 ? 0xff : (1u << (lanes.count - i)) - 1;
    const __m512d norm = _mm512_maskz_loadu_pd(some, lanes.norm + i);
    const __m512d error = _mm512_maskz_loadu_pd(some, lanes.error + i);
    __m512d bound = _mm512_mul_pd(rowError, norm);
    bound = _mm512_fmadd_pd(codeNorm, error, bound);
    bound = _mm512_fmadd_pd(_mm512_add_pd(norm, error), size, bound);
    bound = _mm512_add_pd(bound, absolute);
    __m512d limit = _mm512_sub_pd(_mm512_maskz_loadu_pd(some, lanes.threshold + i), bound);
    const __m512d scale = _mm512_maskz_loadu_pd(some, lanes.inverseScale + i);
    limit = _mm512_mul_pd(limit, _mm512_mul_pd(scale, inverse));
    limit = _mm512_add_pd(limit, _mm512_maskz_loadu_pd(some, lanes.offset + i));
    limit = _mm512_min_pd(_mm512_max_pd(limit, least), greatest);
    const __m256i whole =
        _mm512_cvt_roundpd_epi32(limit, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi32(limits + i, some, whole);
  }
}

WINNOW_AVX512 size_t countFrom(const float* values, size_t count, float least) {
  const __m512 bound = _mm512_set1_ps(least);
  size_t found = 0;
  for (size_t i = 0; i < count; i += 16) {
    const __mmask16 some = count - i >= 16 ? 0xffff : (1u << (count - i)) - 1;
    const __m512 part = _mm512_maskz_loadu_ps(some, values + i);
    found += static_cast<size_t>(
        __builtin_popcount(_mm512_mask_cmp_ps_mask(some, part, bound, _CMP_GE_OQ)));
  }
  return found;
}

WINNOW_AVX512 float score(const double* query, const float* row, uint32_t dim) {
  __m512d sums = _mm512_setzero_pd();
  const uint32_t whole = dim - dim % 8;
  for (uint32_t j = 0; j < whole; j += 8) {
    const __m512d values = _mm512_cvtps_pd(_mm256_loadu_ps(row + j));
    sums = _mm512_fmadd_pd(_mm512_loadu_pd(query + j), values, sums);
  }
  if (whole < dim) {
    const __mmask8 rest = static_cast<__mmask8>((1u << (dim - whole)) - 1);
    const __m512d values = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(rest, row + whole));
    const __m512d factors = _mm512_maskz_loadu_pd(rest, query + whole);
    sums = _mm512_mask3_fmadd_pd(factors, values, sums, rest);
  }
  // (l0+l4, l1+l5, l2+l6, l3+l7), then (even, odd), then their sum: the canonical tree.
  const __m256d halves =
      _mm256_add_pd(_mm512_castpd512_pd256(sums), _mm512_extractf64x4_pd(sums, 1));
  const __m128d pair =
      _mm_add_pd(_mm256_castpd256_pd128(halves), _mm256_extractf128_pd(halves, 1));
  const double sum = _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
  return static_cast<float>(sum) + 0.0f;
}

}  // namespace

const Kernel AVX512_KERNEL{"avx512-vnni", GROUP_QUERIES, 127,  filter<_MM_HINT_T0>,
                           computeLimits, countFrom,     score};

const Kernel AVX512_STREAM_KERNEL = [] {
  Kernel kernel = AVX512_KERNEL;
  kernel.filter = filter<_MM_HINT_T1>;
  kernel.aheadBytes = 2048;
  return kernel;
}();

}  // namespace winnow

#endif
