// What this machine can do at most: bytes read from memory and copied in it per second, and operations
// on bytes per second (a multiply-add is two) with the vector instructions of the scan and with AMX,
// where there is one. Arguments: threads. Prints JSON, in GB/s and GOPS; null for what is missing.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <cpuid.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t BYTES = size_t{1} << 30;
constexpr int ROUNDS = 4;
constexpr uint64_t STEPS = 20000000;
constexpr uint64_t TILE_STEPS = 5000000;

template <typename Work>
double secondsOf(int threads, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t) team.emplace_back([&, t] { work(t); });
  for (std::thread& thread : team) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

volatile uint64_t sink;

#if defined(__AVX512VNNI__)
void readAll(const uint8_t* data, size_t bytes) {
  __m512i sums[4] = {};
  for (size_t at = 0; at < bytes; at += 256) {
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm512_xor_si512(sums[i], _mm512_load_si512(data + at + 64 * i));
    }
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 8192), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 8256), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 8320), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + at + 8384), _MM_HINT_T0);
  }
  sums[0] = _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]),
                             _mm512_xor_si512(sums[2], sums[3]));
  sink = static_cast<uint64_t>(_mm512_reduce_add_epi64(sums[0]));
}

/** Multiply-adds per step: 16 instructions of 64. */
constexpr double OPERATIONS_PER_STEP = 16 * 64 * 2;

void multiply(uint64_t steps) {
  const __m512i left = _mm512_set1_epi8(3);
  const __m512i right = _mm512_set1_epi8(-5);
  __m512i s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{}, s8{}, s9{}, sa{}, sb{}, sc{}, sd{}, se{}, sf{};
#define DOT(sum) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right))
  for (uint64_t step = 0; step < steps; ++step) {
    DOT(s0); DOT(s1); DOT(s2); DOT(s3); DOT(s4); DOT(s5); DOT(s6); DOT(s7);
    DOT(s8); DOT(s9); DOT(sa); DOT(sb); DOT(sc); DOT(sd); DOT(se); DOT(sf);
  }
#undef DOT
  sink = static_cast<uint64_t>(_mm512_reduce_add_epi32(_mm512_xor_si512(s0, sf)));
}
#else
void readAll(const uint8_t* data, size_t bytes) {
  uint64_t sums[8] = {};
  const uint64_t* words = reinterpret_cast<const uint64_t*>(data);
  for (size_t at = 0; at < bytes / 8; at += 8) {
    for (int i = 0; i < 8; ++i) sums[i] ^= words[at + i];
  }
  sink = sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4] ^ sums[5] ^ sums[6] ^ sums[7];
}

/** Multiply-adds per step: 8 times the pair of instructions that treats 32 bytes. */
constexpr double OPERATIONS_PER_STEP = 8 * 32 * 2;

void multiply(uint64_t steps) {
  __m256i left = _mm256_set1_epi8(3);
  const __m256i right = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[8] = {};
  for (uint64_t step = 0; step < steps; ++step) {
    for (__m256i& sum : sums) {
      __asm__ volatile("" : "+x"(left));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(left, right), ones));
    }
  }
  sink = static_cast<uint64_t>(_mm256_extract_epi32(_mm256_xor_si256(sums[0], sums[7]), 0));
}
#endif

#if defined(__linux__) && __has_include(<amxint8intrin.h>)
/** Operations per step: 4 products of 16 × 64 by 64 × 16 bytes. */
constexpr double AMX_OPERATIONS_PER_STEP = 4 * 16 * 16 * 64 * 2;

/** Whether the processor has AMX for bytes and the system lets this process use it. */
bool hasAmx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool isThere = (d >> 24 & 1) != 0 && (d >> 25 & 1) != 0;
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
  return isThere && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/** Four independent sums, as the scan has them, so that no product waits for the last. */
__attribute__((target("amx-tile,amx-int8"))) void multiplyTiles(uint64_t steps) {
  struct alignas(64) {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t columnBytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  for (int tile = 0; tile < 8; ++tile) {
    shape.columnBytes[tile] = 64;
    shape.rows[tile] = 16;
  }
  __asm__ volatile("" : : "r"(&shape) : "memory");
  _tile_loadconfig(&shape);
  for (uint64_t step = 0; step < steps; ++step) {
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  _tile_release();
}
#else
constexpr double AMX_OPERATIONS_PER_STEP = 0;
bool hasAmx() { return false; }
void multiplyTiles(uint64_t) {}
#endif

/** The best of some rounds: whatever disturbs one only slows it down. */
template <typename Work>
double bestSecondsOf(int threads, const Work& work) {
  double best = 1e9;
  for (int round = 0; round < ROUNDS; ++round) {
    const double seconds = secondsOf(threads, work);
    best = seconds < best ? seconds : best;
  }
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 1;
  auto* data = static_cast<uint8_t*>(mmap(nullptr, BYTES, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(data, BYTES, MADV_HUGEPAGE);
  for (size_t at = 0; at < BYTES; at += 4096) data[at] = static_cast<uint8_t>(at);
  const size_t share = BYTES / static_cast<size_t>(threads) / 4096 * 4096;
  const double bytes = static_cast<double>(share) * threads;
  const double read = bestSecondsOf(threads, [&](int t) { readAll(data + share * t, share); });
  const double copy = bestSecondsOf(1, [&](int) { std::memcpy(data, data + BYTES / 2, BYTES / 2); });
  const double vector = bestSecondsOf(threads, [&](int) { multiply(STEPS); });
  std::printf("{\"readGigabytes\": %.2f, \"copyGigabytes\": %.2f, \"vectorGigaops\": %.1f, ",
              bytes / read / 1e9, static_cast<double>(BYTES) / 2 / copy / 1e9,
              OPERATIONS_PER_STEP * static_cast<double>(STEPS) * threads / vector / 1e9);
  if (hasAmx()) {
    const double tiles = bestSecondsOf(threads, [&](int) { multiplyTiles(TILE_STEPS); });
    std::printf("\"amxGigaops\": %.1f}\n",
                AMX_OPERATIONS_PER_STEP * static_cast<double>(TILE_STEPS) * threads / tiles / 1e9);
  } else {
    std::printf("\"amxGigaops\": null}\n");
  }
  return 0;
}
