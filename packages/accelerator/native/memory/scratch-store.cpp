// Cuts chunks into blocks, and keeps free blocks by size.

#include "memory/scratch-store.h"

#include <algorithm>
#include <new>

namespace winnow {

namespace {

constexpr size_t CHUNK_BYTES = size_t{2} << 20;
/** Blocks are whole cache lines, so that threads with different blocks never write to one line. */
constexpr size_t LINE_BYTES = 64;

/** The size of a block, and that size's number among all sizes. */
struct BlockSize {
  size_t bytes;
  size_t number;
};

/** Sizes are one to four lines, and from there on four sizes to each doubling. */
BlockSize blockSizeOf(size_t bytes) {
  const size_t above = std::max(bytes, 4 * LINE_BYTES + 1) - 1;
  const size_t doublings = 63 - static_cast<size_t>(__builtin_clzll(above));
  const size_t step = size_t{1} << (doublings - 2);
  const size_t steps = std::max<size_t>(1, (bytes + step - 1) / step);
  return {steps * step, 4 * (doublings - 8) + steps - 1};
}

}  // namespace

ScratchStore::ScratchStore(size_t keptBytesMax) : keptBytesMax_(keptBytesMax) {}

void* ScratchStore::take(size_t bytes) {
  const BlockSize size = blockSizeOf(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  void* data = free_[size.number];
  if (data != nullptr) {
    free_[size.number] = static_cast<Block*>(data)->next;
  } else {
    data = cut(size.bytes);
  }
  if (data == nullptr) data = ::operator new(bytes);
  ++takenBlocks_;
  return data;
}

void ScratchStore::give(void* data, size_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (owns(data)) {
    Block*& first = free_[blockSizeOf(bytes).number];
    first = ::new (data) Block{first};
  } else {
    ::operator delete(data);
  }
  if (--takenBlocks_ > 0) return;
  std::fill(std::begin(free_), std::end(free_), nullptr);
  chunk_ = 0;
  position_ = 0;
}

size_t ScratchStore::keptBytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return keptBytes_;
}

size_t ScratchStore::takenBlocks() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return takenBlocks_;
}

/** Null if the limit of kept bytes is reached. */
void* ScratchStore::cut(size_t bytes) {
  while (chunk_ < chunks_.size() && chunks_[chunk_].bytes() - position_ < bytes) {
    ++chunk_;
    position_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t chunkBytes = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
    if (chunkBytes > keptBytesMax_ - keptBytes_) return nullptr;
    chunks_.emplace_back(chunkBytes);
    keptBytes_ += chunkBytes;
  }
  void* data = chunks_[chunk_].as<char>() + position_;
  position_ += bytes;
  return data;
}

bool ScratchStore::owns(const void* data) const {
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const MemoryRegion& chunk) {
    const size_t distance = static_cast<size_t>(static_cast<const char*>(data) - chunk.as<char>());
    return distance < chunk.bytes();
  });
}

}  // namespace winnow
