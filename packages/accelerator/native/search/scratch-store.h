// What a search needs while it runs comes from its device and goes back to it. The system's allocator
// would return most of it to the system, which grants it anew page by page to the next search: with
// 256 queries 800 page faults, each of which on a virtual machine may be the host's work too.
//
// Chunks are cut into blocks from the front; a block given back serves the next of its size. Once all
// blocks are back, cutting begins anew: nothing of one search shapes the next one's memory. Chunks
// stay until the device closes, up to a limit; what goes beyond comes from the system and goes back.

#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "table/memory-region.h"

namespace winnow {

class ScratchStore {
 public:
  /** Some times what a search of 256 queries takes with k = 100, about what one with k = 1000 does. */
  static constexpr size_t KEPT_BYTES_MAX = size_t{16} << 20;

  /** `keptBytesMax`: what is kept from one search to the next. */
  explicit ScratchStore(size_t keptBytesMax = KEPT_BYTES_MAX);
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  /** Memory for anything; throws std::bad_alloc. From any thread, as `give`. */
  void* take(size_t bytes);
  /** Takes back what `take` gave for as many bytes. */
  void give(void* data, size_t bytes) noexcept;

  size_t keptBytes() const;
  /** Blocks that are out. */
  size_t takenBlocks() const;

 private:
  struct Block {
    Block* next;
  };
  /** A block has the least of these sizes that is large enough. */
  static constexpr size_t SIZES = 4 * 64;

  void* cut(size_t bytes);
  bool owns(const void* data) const;

  mutable std::mutex mutex_;
  std::vector<MemoryRegion> chunks_;
  size_t keptBytesMax_;
  size_t keptBytes_ = 0;
  size_t takenBlocks_ = 0;
  /** The chunk being cut, and how much of it is. */
  size_t chunk_ = 0;
  size_t position_ = 0;
  Block* free_[SIZES] = {};
};

/** For containers of the standard library. Elements made without a value are left as they are. */
template <typename T>
class ScratchAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  ScratchAllocator(ScratchStore& store) : store_(&store) {}
  template <typename U>
  ScratchAllocator(const ScratchAllocator<U>& other) : store_(other.store()) {}

  T* allocate(size_t count) { return static_cast<T*>(store_->take(count * sizeof(T))); }
  void deallocate(T* data, size_t count) { store_->give(data, count * sizeof(T)); }

  template <typename U, typename... Values>
  void construct(U* place, Values&&... values) {
    if constexpr (sizeof...(Values) == 0) {
      ::new (static_cast<void*>(place)) U;
    } else {
      ::new (static_cast<void*>(place)) U(std::forward<Values>(values)...);
    }
  }

  ScratchStore* store() const { return store_; }
  friend bool operator==(const ScratchAllocator& a, const ScratchAllocator& b) {
    return a.store_ == b.store_;
  }
  friend bool operator!=(const ScratchAllocator& a, const ScratchAllocator& b) { return !(a == b); }

 private:
  ScratchStore* store_;
};

template <typename T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace winnow
