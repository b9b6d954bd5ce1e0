// Places helpers by affinity masks on Linux; other systems decide by themselves.

#include "threads/thread-place.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace winnow {

#ifdef __linux__
void ThreadPlace::keepOffCaller(std::vector<std::thread>& helpers) {
  const int here = sched_getcpu();
  if (here < 0 || here == avoided_ || here >= CPU_SETSIZE) return;
  // The caller's own mask, as it may have been changed since the team was made.
  cpu_set_t others;
  if (sched_getaffinity(0, sizeof others, &others) != 0) return;
  CPU_CLR(here, &others);
  if (CPU_COUNT(&others) == 0) return;
  for (std::thread& helper : helpers) {
    // If the system refuses, searches are slower, but no answer depends on it.
    pthread_setaffinity_np(helper.native_handle(), sizeof others, &others);
  }
  avoided_ = here;
}
#else
void ThreadPlace::keepOffCaller(std::vector<std::thread>&) {}
#endif

}  // namespace winnow
