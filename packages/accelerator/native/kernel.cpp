// Which kernel runs here.

#include "kernel.h"

#include <cstring>

namespace winnow {

const Kernel* selectKernel(const char* name) {
#if defined(__x86_64__)
  struct Choice {
    const Kernel* kernel;
    bool isSupported;
  };
  static const Kernel AMX_KERNEL = amxKernel();
  // Asked for by name, it is used for every batch, so that tests see all of it.
  static const Kernel AMX_ALWAYS = [] {
    Kernel kernel = amxKernel();
    kernel.queriesMin = 0;
    return kernel;
  }();
  const bool hasAvx512 = __builtin_cpu_supports("avx512vnni") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512dq");
  const bool hasAvx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const Choice choices[] = {{name == nullptr ? &AMX_KERNEL : &AMX_ALWAYS, hasAvx512 && hasAmx()},
                            {&AVX512_KERNEL, hasAvx512},
                            {&AVX2_KERNEL, hasAvx2}};
  bool isAllowed = name == nullptr;
  for (const Choice& choice : choices) {
    isAllowed = isAllowed || std::strcmp(choice.kernel->name, name) == 0;
    if (isAllowed && choice.isSupported) return choice.kernel;
  }
#else
  static_cast<void>(name);
#endif
  return &PORTABLE_KERNEL;
}

}  // namespace winnow
