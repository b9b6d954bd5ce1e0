// The choice of the kernel that this processor runs.

#include "kernels/kernel.h"

#include <cstring>

#if WINNOW_HAS_NEON && defined(__linux__)
#include <sys/auxv.h>
#elif WINNOW_HAS_NEON && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace winnow {

namespace {

struct Choice {
  const Kernel* kernel;
  bool isSupported;
};

/** The first supported choice that is not before the one called `name`. */
template <size_t COUNT>
const Kernel* selectAmong(const Choice (&choices)[COUNT], const char* name) {
  bool isAllowed = name == nullptr;
  for (const Choice& choice : choices) {
    isAllowed = isAllowed || std::strcmp(choice.kernel->name, name) == 0;
    if (isAllowed && choice.isSupported) return choice.kernel;
  }
  return &PORTABLE_KERNEL;
}

#if WINNOW_HAS_NEON
#if defined(__linux__)
// By number, as older headers do not know them all.
bool hasDotProducts() { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; }
bool hasMixedDotProducts() { return (getauxval(AT_HWCAP2) >> 13 & 1) != 0; }
#elif defined(__APPLE__)
bool hasFeature(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool hasDotProducts() { return hasFeature("hw.optional.arm.FEAT_DotProd"); }
bool hasMixedDotProducts() { return hasFeature("hw.optional.arm.FEAT_I8MM"); }
#else
bool hasDotProducts() { return false; }
bool hasMixedDotProducts() { return false; }
#endif
#endif

}  // namespace

#if defined(__x86_64__)

const Kernel* selectKernel(const char* name) {
  static const Kernel AMX_KERNEL = amxKernel();
  // Asked for by name, it is used for every batch, so that tests see all of it.
  static const Kernel AMX_ALWAYS = [] {
    Kernel kernel = amxKernel();
    kernel.queriesMin = 0;
    return kernel;
  }();
  static const Kernel AVX512 = [] {
    Kernel kernel = AVX512_KERNEL;
    if (!__builtin_cpu_is("amd")) return kernel;
    kernel.few = &AVX512_STREAM_KERNEL;
    kernel.queriesMin = kernel.groupQueries + 1;
    return kernel;
  }();
  const bool hasAvx512 = __builtin_cpu_supports("avx512vnni") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512dq");
  const bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const Choice choices[] = {{name == nullptr ? &AMX_KERNEL : &AMX_ALWAYS, hasAvx512 && hasAmx()},
                            {&AVX512, hasAvx512},
                            {&AVX2_KERNEL, hasAvx2}};
  return selectAmong(choices, name);
}

#elif WINNOW_HAS_NEON

const Kernel* selectKernel(const char* name) {
  static const Kernel NEON_KERNEL = neonKernel();
  static const Kernel NEON_I8MM_KERNEL = neonI8mmKernel();
  const Choice choices[] = {{&NEON_I8MM_KERNEL, hasMixedDotProducts()},
                            {&NEON_KERNEL, hasDotProducts()}};
  return selectAmong(choices, name);
}

#else

const Kernel* selectKernel(const char*) { return &PORTABLE_KERNEL; }

#endif

}  // namespace winnow
