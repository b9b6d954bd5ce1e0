// The threads of one device. A team runs one piece of work at a time, on all its threads: the caller
// is thread 0, the others wait for it. Phases of the work are separated by `meet`.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace winnow {

class ThreadTeam {
 public:
  explicit ThreadTeam(uint32_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(helpers_.size()) + 1; }

  /** Runs `work(thread)` on every thread; returns when all have returned. It must not throw. */
  void run(const std::function<void(uint32_t)>& work);
  /** Within `run`: returns when every thread has called it. */
  void meet();

 private:
  void help(uint32_t thread);

  std::vector<std::thread> helpers_;
  std::mutex one_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(uint32_t)>* work_ = nullptr;
  uint64_t round_ = 0;
  bool isEnding_ = false;
  std::atomic<uint32_t> running_{0};
  std::atomic<uint32_t> arrived_{0};
  std::atomic<uint32_t> meeting_{0};
};

}  // namespace winnow
