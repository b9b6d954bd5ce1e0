#include "memory/allocator-settings.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace winnow {

void returnLargeBlocks() {
#if defined(__GLIBC__)
  constexpr int MAPPED_FROM_BYTES = 1 << 20;
  // What glibc would keep at the end of its heap after it has seen blocks of 8 MiB; 128 KiB otherwise.
  constexpr int KEPT_BYTES = 16 << 20;
  if (std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr) return;
  if (std::getenv("GLIBC_TUNABLES") != nullptr) return;
  mallopt(M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
  mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
#endif
}

}  // namespace winnow
