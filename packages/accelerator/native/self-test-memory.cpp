// Memory regions: zeroed, aligned, movable, and given back whole whatever the size of a page.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "memory-region.h"
#include "self-test.h"

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
  std::printf("self-test: regions are zeroed and given back\n");
}

}  // namespace winnow::test
