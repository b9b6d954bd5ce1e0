// What this machine can do at most: bytes read from memory per second, and multiply-adds of bytes per
// second with the vector instructions of the scan. Arguments: threads. Prints GB/s and GOPS.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <immintrin.h>
#include <sys/mman.h>

namespace {

constexpr size_t BYTES = size_t{1} << 30;
constexpr int ROUNDS = 4;
constexpr uint64_t STEPS = 20000000;

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

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 1;
  auto* data = static_cast<uint8_t*>(mmap(nullptr, BYTES, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  madvise(data, BYTES, MADV_HUGEPAGE);
  for (size_t at = 0; at < BYTES; at += 4096) data[at] = static_cast<uint8_t>(at);
  const size_t share = BYTES / static_cast<size_t>(threads) / 4096 * 4096;
  double best = 1e9;
  for (int round = 0; round < ROUNDS; ++round) {
    const double seconds = secondsOf(threads, [&](int t) { readAll(data + share * t, share); });
    best = seconds < best ? seconds : best;
  }
  double peak = 1e9;
  for (int round = 0; round < ROUNDS; ++round) {
    const double seconds = secondsOf(threads, [&](int) { multiply(STEPS); });
    peak = seconds < peak ? seconds : peak;
  }
  std::printf("%.2f %.1f\n", static_cast<double>(share) * threads / best / 1e9,
              OPERATIONS_PER_STEP * static_cast<double>(STEPS) * threads / peak / 1e9);
  return 0;
}
