// Objects that other threads of this process may use, by number. Handles belong to the thread that made them, numbers
// to all. The objects are not kept alive by it.

#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace winnow {

template <typename T>
class SharedObjects {
 public:
  double add(const std::shared_ptr<T>& object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = objects_.begin(); entry != objects_.end();) {
      entry = entry->second.expired() ? objects_.erase(entry) : std::next(entry);
    }
    objects_.emplace(++last_, object);
    return static_cast<double>(last_);
  }

  /** Null once the object has been released by all that held it. */
  std::shared_ptr<T> at(double number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(static_cast<uint64_t>(number));
    return found == objects_.end() ? nullptr : found->second.lock();
  }

  /** Those of a type. Never destroyed: threads may still end while the process exits. */
  static SharedObjects& ofProcess() {
    static auto* objects = new SharedObjects();
    return *objects;
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, std::weak_ptr<T>> objects_;
};

}  // namespace winnow
