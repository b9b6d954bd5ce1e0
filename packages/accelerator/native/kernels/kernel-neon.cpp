// The inner loops for ARM with dot products: one instruction multiplies and sums 16 signed bytes.
// Codes are made signed by taking 128 off; 128 · Σ query codes in the start of a sum makes up for it,
// and every sum on the way stays within 32 bits.

#include "kernels/kernel.h"

#if WINNOW_HAS_NEON

#include "kernels/bound.h"

#if defined(__clang__)
#define WINNOW_NEON __attribute__((target("dotprod")))
#else
#define WINNOW_NEON __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define WINNOW_NEON_DOT(sum, codes, words, query) \
  sum = vdotq_laneq_s32(sum, vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(128))), words, query)
#define WINNOW_NEON_START startOf

#include <arm_neon.h>

namespace winnow {

namespace {

/** 128 · Σ codes of each query. */
WINNOW_NEON int32x4_t startOf(const FilterCall& call) {
  int32x4_t sums = vdupq_n_s32(0);
  for (uint32_t group = 0; group < call.groups; ++group) {
    const uint32x4_t words = vld1q_u32(call.words + size_t{group} * call.queries);
    sums = vdotq_s32(sums, vreinterpretq_s8_u32(words), vdupq_n_s8(1));
  }
  return vshlq_n_s32(sums, 7);
}

}  // namespace

}  // namespace winnow

#include "kernels/kernel-neon-filter.h"

namespace winnow {

namespace {

void computeLimits(const BlockBounds& block, const QueryLanes& lanes, const BoundWeights& weights,
                   int32_t* limits) {
  const double inverse = 1 / block.scale;
  const float64x2_t rowError = vdupq_n_f64(weights.rowError * block.rowError);
  const float64x2_t codeNorm = vdupq_n_f64(weights.queryError * block.codeNorm);
  const float64x2_t size = vdupq_n_f64((block.rowNorm + block.rowError) * RELATIVE_SLACK);
  uint32_t i = 0;
  for (; i + 2 <= lanes.count; i += 2) {
    const float64x2_t norm = vld1q_f64(lanes.norm + i);
    const float64x2_t error = vld1q_f64(lanes.error + i);
    float64x2_t bound = vfmaq_f64(vdupq_n_f64(ABSOLUTE_SLACK), rowError, norm);
    bound = vfmaq_f64(bound, codeNorm, error);
    bound = vfmaq_f64(bound, vaddq_f64(norm, error), size);
    const float64x2_t scale = vmulq_n_f64(vld1q_f64(lanes.inverseScale + i), inverse);
    float64x2_t limit = vmulq_f64(vsubq_f64(vld1q_f64(lanes.threshold + i), bound), scale);
    limit = vaddq_f64(limit, vld1q_f64(lanes.offset + i));
    limit = vmaxq_f64(limit, vdupq_n_f64(-LIMIT_MAX));
    limit = vminq_f64(limit, vdupq_n_f64(LIMIT_MAX));
    vst1_s32(limits + i, vmovn_s64(vcvtmq_s64_f64(limit)));
  }
  if (i < lanes.count) limits[i] = boundLimit(block, lanes, i, weights, inverse);
}

size_t countFrom(const float* values, size_t count, float least) {
  const float32x4_t bound = vdupq_n_f32(least);
  uint32x4_t found = vdupq_n_u32(0);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    // A comparison that holds gives −1.
    found = vsubq_u32(found, vcgeq_f32(vld1q_f32(values + i), bound));
  }
  size_t all = vaddvq_u32(found);
  for (; i < count; ++i) all += values[i] >= least ? 1 : 0;
  return all;
}

float score(const double* query, const float* row, uint32_t dim) {
  float64x2_t sums[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};
  const uint32_t whole = dim - dim % 8;
  for (uint32_t j = 0; j < whole; j += 8) {
    const float32x4_t first = vld1q_f32(row + j);
    const float32x4_t second = vld1q_f32(row + j + 4);
    sums[0] = vfmaq_f64(sums[0], vld1q_f64(query + j), vcvt_f64_f32(vget_low_f32(first)));
    sums[1] = vfmaq_f64(sums[1], vld1q_f64(query + j + 2), vcvt_high_f64_f32(first));
    sums[2] = vfmaq_f64(sums[2], vld1q_f64(query + j + 4), vcvt_f64_f32(vget_low_f32(second)));
    sums[3] = vfmaq_f64(sums[3], vld1q_f64(query + j + 6), vcvt_high_f64_f32(second));
  }
  double lanes[8];
  for (uint32_t pair = 0; pair < 4; ++pair) vst1q_f64(lanes + 2 * pair, sums[pair]);
  for (uint32_t lane = 0; whole + lane < dim; ++lane) {
    lanes[lane] += query[whole + lane] * row[whole + lane];
  }
  const double even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return static_cast<float>(even + odd) + 0.0f;
}

}  // namespace

Kernel neonKernel() {
  return {"neon-dotprod", GROUP_QUERIES, 127, filter, computeLimits, countFrom, score};
}

}  // namespace winnow

#endif
