// Regions by mmap, in huge pages where the system has them.

#include "memory/memory-region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <utility>

namespace winnow {

namespace {

// Sizes are computed without checks for overflow, which 64 bits make safe. On 32 bits this does not
// compile, and searches run in JavaScript.
static_assert(sizeof(size_t) == 8, "rows of a table take up to 2^49 bytes");

constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;
/** Bytes are rounded up to whole huge pages if that adds at most one part in so many. */
constexpr size_t ROUNDING_SHARE = 16;

size_t roundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/** 4 KiB as a rule, but 16 or 64 KiB on some ARM systems. */
size_t pageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* mapPages(size_t bytes) {
  // Huge pages need a start aligned to their size: map more, and give back what lies around it.
  const bool isHuge = bytes >= HUGE_PAGE_BYTES;
  const size_t mapped = isHuge ? bytes + HUGE_PAGE_BYTES : bytes;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  if (!isHuge) return start;
  const uintptr_t from = reinterpret_cast<uintptr_t>(start);
  const uintptr_t aligned = roundUp(from, HUGE_PAGE_BYTES);
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

}  // namespace

size_t MemoryRegion::occupiedBytes(size_t bytes) {
  return roundUp(bytes, pageBytes());
}

size_t MemoryRegion::hugeBytes(size_t bytes) {
  const size_t huge = roundUp(bytes, HUGE_PAGE_BYTES);
  return huge - bytes <= bytes / ROUNDING_SHARE ? huge : bytes;
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
