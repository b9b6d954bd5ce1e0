// The memory that searches work in, kept by their device from one search to the next. The system's
// allocator would return most of it to the system, which grants it anew, page by page, to the next
// search: 800 page faults with 256 queries, and on a virtual machine the host may have to serve
// each.
//
// Memory is kept in chunks. Blocks are cut from the front of a chunk; a block that was given back
// serves the next request for its size. Once all blocks have been given back, cutting begins anew,
// so that the sizes which one search asked for do not fragment the memory of the next. Chunks stay
// until the device closes, up to a limit; requests beyond the limit are served by the system's
// allocator.

#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "memory/memory-region.h"

namespace winnow {

class ScratchStore {
 public:
  /** Several times what 256 queries take with k = 100, and about what they take with k = 1000. */
  static constexpr size_t KEPT_BYTES_MAX = size_t{16} << 20;

  /** Keeps at most `keptBytesMax` from one search to the next. */
  explicit ScratchStore(size_t keptBytesMax = KEPT_BYTES_MAX);
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  /** Memory aligned for any type; throws std::bad_alloc. Any thread may call `take` and `give`. */
  void* take(size_t bytes);
  /** Takes back what `take` gave for as many bytes. */
  void give(void* data, size_t bytes) noexcept;

  size_t keptBytes() const;
  /** Blocks that were taken and not given back. */
  size_t takenBlocks() const;

 private:
  struct Block {
    Block* next;
  };
  /** How many sizes of blocks there are; a block has the least size that is large enough. */
  static constexpr size_t SIZES = 4 * 64;

  void* cut(size_t bytes);
  bool owns(const void* data) const;

  mutable std::mutex mutex_;
  std::vector<MemoryRegion> chunks_;
  size_t keptBytesMax_;
  size_t keptBytes_ = 0;
  size_t takenBlocks_ = 0;
  /** The chunk that blocks are cut from, and how many of its bytes have been cut. */
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
