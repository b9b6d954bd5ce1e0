// Memory for rows and codes: zeroed, page-aligned, and in pages of 2 MiB where the system grants
// them, because a scan that misses the TLB on every row is bound by these misses and not by memory.

#pragma once

#include <cstddef>

namespace winnow {

/** Owns one region; an empty one holds nothing. */
class MemoryRegion {
 public:
  MemoryRegion() = default;
  /** Throws std::bad_alloc when the system has not that much. */
  explicit MemoryRegion(size_t bytes);
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;
  ~MemoryRegion();

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

  /** Bytes of whole pages that a region of `bytes` occupies. */
  static size_t occupiedBytes(size_t bytes);
  /** `bytes`, or a little more if the region then consists of huge pages only. */
  static size_t hugeBytes(size_t bytes);

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace winnow
