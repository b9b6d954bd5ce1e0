// Keeps the helpers of a team off the caller's processor.
//
// A helper is woken while whoever asked for the work has not fallen asleep yet: every processor
// looks busy, and the scheduler may queue the helper behind the caller, where it stays until the
// work is over. On two processors that happened in half of all searches. A helper may run on any
// other processor; on systems without affinity masks nothing is done.

#pragma once

#include <thread>
#include <vector>

namespace winnow {

class ThreadPlace {
 public:
  /** To be called before helpers are woken, by the thread that works beside them. */
  void keepOffCaller(std::vector<std::thread>& helpers);

 private:
  /** The processor that helpers keep off. */
  int avoided_ = -1;
};

}  // namespace winnow
