// Regions by mmap on Linux, by aligned allocation elsewhere.

#include "memory-region.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace winnow {

namespace {

constexpr size_t PAGE_BYTES = 4096;
constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

#ifdef __linux__
void* mapPages(size_t bytes) {
  // Huge pages need a start aligned to their size: map more, and give back what lies around it.
  const bool isHuge = bytes >= 2 * HUGE_PAGE_BYTES;
  const size_t mapped = isHuge ? bytes + HUGE_PAGE_BYTES : bytes;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  if (!isHuge) return start;
  const uintptr_t from = reinterpret_cast<uintptr_t>(start);
  const uintptr_t aligned = (from + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
  const size_t before = aligned - from;
  const size_t after = mapped - before - bytes;
  if (before > 0) munmap(start, before);
  if (after > 0) munmap(reinterpret_cast<void*>(aligned + bytes), after);
#ifdef MADV_HUGEPAGE
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(aligned);
}

void unmapPages(void* data, size_t bytes) { munmap(data, bytes); }
#else
void* mapPages(size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, PAGE_BYTES, bytes) != 0) throw std::bad_alloc();
  std::memset(data, 0, bytes);
  return data;
}

void unmapPages(void* data, size_t) { std::free(data); }
#endif

}  // namespace

size_t MemoryRegion::occupiedBytes(size_t bytes) {
  return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

MemoryRegion::MemoryRegion(size_t bytes) : bytes_(occupiedBytes(bytes)) {
  if (bytes_ > 0) data_ = mapPages(bytes_);
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) unmapPages(data_, bytes_);
}

}  // namespace winnow
