// How fast a process writes to memory that the system has just granted it, in huge pages as a table's
// rows are: the first time, and again after giving the memory back. On a virtual machine the first is
// also the host's work, where the host has taken free memory away. Arguments: bytes. Prints JSON, in
// MB/s.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <sys/mman.h>

namespace {

constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

double megabytesPerSecond(const std::vector<char>& source, size_t bytes) {
  const size_t mapped = bytes + HUGE_PAGE_BYTES;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (start == MAP_FAILED) return 0;
  const size_t from = reinterpret_cast<size_t>(start);
  char* target = reinterpret_cast<char*>((from + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
  madvise(target, bytes, MADV_HUGEPAGE);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t at = 0; at + source.size() <= bytes; at += source.size()) {
    std::memcpy(target + at, source.data(), source.size());
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  munmap(start, mapped);
  return static_cast<double>(bytes) / elapsed.count() / 1e6;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 1;
  const size_t bytes = std::strtoull(arguments[1], nullptr, 10);
  const std::vector<char> source(HUGE_PAGE_BYTES, 1);
  const double fresh = megabytesPerSecond(source, bytes);
  const double again = megabytesPerSecond(source, bytes);
  std::printf("{\"freshMegabytes\": %.0f, \"againMegabytes\": %.0f}\n", fresh, again);
  return 0;
}
