// How fast a file is read from its beginning to its end, 4 MiB at a time: after the system was told to
// forget it, and again at once. Arguments: file. Prints JSON, in MB/s.

#include <chrono>
#include <cstdio>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr size_t CHUNK_BYTES = size_t{4} << 20;

double megabytesPerSecond(int file, size_t bytes) {
  std::vector<char> chunk(CHUNK_BYTES);
  const auto start = std::chrono::steady_clock::now();
  for (size_t at = 0; at < bytes;) {
    const ssize_t count = pread(file, chunk.data(), CHUNK_BYTES, static_cast<off_t>(at));
    if (count <= 0) return 0;
    at += static_cast<size_t>(count);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(bytes) / elapsed.count() / 1e6;
}

}  // namespace

int main(int count, char** arguments) {
  const int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0) return 1;
  const size_t bytes = static_cast<size_t>(facts.st_size);
  fdatasync(file);
  if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) return 1;
  const double cold = megabytesPerSecond(file, bytes);
  const double warm = megabytesPerSecond(file, bytes);
  std::printf("{\"coldMegabytes\": %.0f, \"warmMegabytes\": %.0f}\n", cold, warm);
  return 0;
}
