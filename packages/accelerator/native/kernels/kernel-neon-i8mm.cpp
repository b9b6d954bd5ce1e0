// The filter for ARM with I8MM, whose dot product takes codes and queries as they are: unsigned bytes
// times signed ones. Everything else is as in `kernel-neon.cpp`.

#include "kernels/kernel.h"

#if WINNOW_HAS_NEON

#if defined(__clang__)
#define WINNOW_NEON __attribute__((target("i8mm")))
#else
#define WINNOW_NEON __attribute__((target("arch=armv8.2-a+i8mm")))
#endif
#define WINNOW_NEON_DOT(sum, codes, words, query) \
  sum = vusdotq_laneq_s32(sum, codes, words, query)
#define WINNOW_NEON_START(call) vdupq_n_s32(0)

#include "kernels/kernel-neon-filter.h"

namespace winnow {

Kernel neonI8mmKernel() {
  Kernel kernel = neonKernel();
  kernel.name = "neon-i8mm";
  kernel.filter = filter;
  return kernel;
}

}  // namespace winnow

#endif
