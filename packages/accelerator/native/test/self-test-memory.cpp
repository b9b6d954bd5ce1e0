// Memory regions: zeroed, aligned, movable, and given back whole whatever the size of a page. Scratch
// memory: blocks that do not overlap, used again, and no more of them kept than was agreed.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "memory/memory-region.h"
#include "memory/scratch-store.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

/** Pages of address space this process has taken; 0 where the system does not tell. */
unsigned long takenPages() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long pages = 0;
  const bool isRead = std::fscanf(file, "%lu", &pages) == 1;
  std::fclose(file);
  return isRead ? pages : 0;
}

void checkRegion(size_t bytes) {
  MemoryRegion region(bytes);
  const uint8_t* data = region.as<uint8_t>();
  if (region.bytes() < bytes) fail("a region of %zu bytes has %zu", bytes, region.bytes());
  if (reinterpret_cast<uintptr_t>(data) % 4096 != 0) fail("a region is not aligned");
  if (std::any_of(data, data + bytes, [](uint8_t byte) { return byte != 0; })) {
    fail("a region is not zeroed");
  }
  std::fill_n(region.as<uint8_t>(), bytes, uint8_t{1});
  MemoryRegion other = std::move(region);
  if (other.as<uint8_t>() != data || region.bytes() != 0) fail("a region did not move");
}

struct TakenBlock {
  uint8_t* data;
  size_t bytes;
  uint8_t mark;
};

/** Its bytes must be as they were left. */
void giveBlock(ScratchStore& store, const TakenBlock& block) {
  const auto isMarked = [&](uint8_t byte) { return byte == block.mark; };
  if (!std::all_of(block.data, block.data + block.bytes, isMarked)) fail("two blocks overlap");
  store.give(block.data, block.bytes);
}

/** Takes and gives back blocks of all sizes in any order; now and then there is none left. */
void testRandomBlocks(ScratchStore& store) {
  std::vector<TakenBlock> blocks;
  for (int step = 0; step < 20000; ++step) {
    if (step % 1000 >= 600 && !blocks.empty()) {
      std::swap(blocks.back(), blocks[static_cast<size_t>(step) % blocks.size()]);
      giveBlock(store, blocks.back());
      blocks.pop_back();
      continue;
    }
    const size_t bytes = static_cast<size_t>(wholeNumber(1, 1 << wholeNumber(0, 14)));
    const uint8_t mark = static_cast<uint8_t>(step);
    blocks.push_back({static_cast<uint8_t*>(store.take(bytes)), bytes, mark});
    std::memset(blocks.back().data, mark, bytes);
  }
  for (const TakenBlock& block : blocks) giveBlock(store, block);
  if (store.takenBlocks() != 0) fail("blocks are missing");
}

void testScratch() {
  constexpr size_t KEPT_BYTES_MAX = size_t{6} << 20;
  ScratchStore store(KEPT_BYTES_MAX);
  void* first = store.take(1000);
  void* second = store.take(1000);
  store.give(second, 1000);
  if (store.take(990) != second) fail("a block given back serves nobody");
  // More than is kept, in one block and in many.
  void* large = store.take(2 * KEPT_BYTES_MAX);
  store.give(large, 2 * KEPT_BYTES_MAX);
  std::vector<void*> many(40);
  for (void*& block : many) block = store.take(size_t{1} << 20);
  for (void* block : many) store.give(block, size_t{1} << 20);
  if (store.keptBytes() != KEPT_BYTES_MAX) fail("%zu bytes are kept", store.keptBytes());
  store.give(second, 990);
  store.give(first, 1000);
  if (store.take(5000) != first) fail("memory is not cut anew");
  store.give(first, 5000);
  testRandomBlocks(store);
  ScratchStore nothing(0);
  testRandomBlocks(nothing);
  if (nothing.keptBytes() != 0) fail("what was not to be kept is");
}

}  // namespace

void testMemory() {
  // Between huge pages, and a page more or less than a whole number of them.
  const size_t sizes[] = {1, 4096, 5000, size_t{2} << 20, (size_t{4} << 20) + 1, size_t{5} << 20};
  for (const size_t bytes : sizes) checkRegion(bytes);
  const unsigned long before = takenPages();
  for (int round = 0; round < 40; ++round) {
    for (const size_t bytes : sizes) checkRegion(bytes);
  }
  const size_t kept = (takenPages() - before) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (kept > (size_t{8} << 20)) fail("regions kept %zu bytes", kept);
  testScratch();
  std::printf("self-test: regions are zeroed and given back, scratch memory is used again\n");
}

}  // namespace winnow::test
