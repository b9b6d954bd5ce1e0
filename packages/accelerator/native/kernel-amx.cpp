// The filter for processors with AMX: one instruction multiplies 16 queries by 16 rows by 64 dims.
// Codes lie as its second factor needs them; queries as the first one does, one after the other.
//
//   sums [16 queries × 16 rows] = −limit + Σ over 64 dims   queries [16 × 64 bytes] · codes [64 bytes × 16]
//
// Few queries leave most of a tile empty: those go to AVX-512.

#include "bound.h"
#include "kernel.h"

// The one is of gcc, the other of clang.
#if __has_include(<amxint8intrin.h>) || __has_include(<amxintrin.h>)
#define WINNOW_KNOWS_AMX 1
#else
#define WINNOW_KNOWS_AMX 0
#endif

#if defined(__x86_64__) && defined(__linux__) && WINNOW_KNOWS_AMX

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WINNOW_AMX \
  __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512dq,avx2")))

namespace winnow {

namespace {

constexpr uint32_t TILE_QUERIES = 16;
constexpr uint32_t TILE_ROWS = 16;
constexpr uint32_t TILE_BYTES = 1024;
/** Groups of four dims in one tile. */
constexpr uint32_t TILE_GROUPS = 16;
/** Below this many queries AVX-512 is faster. */
constexpr uint32_t QUERIES_MIN = 24;
/** A start from which no sum of products gets to zero. */
constexpr int32_t NO_QUERY = -static_cast<int32_t>(LIMIT_MAX);

struct alignas(64) TileConfiguration {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t columnBytes[16] = {};
  uint8_t rows[16] = {};
};

WINNOW_AMX void enter() {
  TileConfiguration configuration;
  for (uint32_t tile = 0; tile < 8; ++tile) {
    configuration.columnBytes[tile] = 64;
    configuration.rows[tile] = 16;
  }
  // The intrinsic tells the compiler of its first bytes only.
  __asm__ volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
}

WINNOW_AMX void leave() { _tile_release(); }

/** Row i of a tile full of −limit i; queries that do not exist can have no survivor. */
WINNOW_AMX void fillStart(const FilterCall& call, int32_t* start) {
  for (uint32_t q = 0; q < TILE_QUERIES; ++q) {
    const int32_t value = q < call.queries ? -call.limits[q] : NO_QUERY;
    _mm512_store_si512(start + q * TILE_ROWS, _mm512_set1_epi32(value));
  }
  // The tile loads below do not tell the compiler that they read memory.
  __asm__ volatile("" ::: "memory");
}

/** Fetches a quarter of this call's stripes of the 4 KiB from `ahead` on. */
WINNOW_AMX inline void fetch(const FilterCall& call, const uint8_t* ahead, uint32_t quarter) {
  for (uint32_t stripe = call.firstStripe; stripe < 4; stripe += call.stripeStep) {
    const uint8_t* at = ahead + stripe * TILE_BYTES + quarter * (TILE_BYTES / 4);
    for (uint32_t line = 0; line < TILE_BYTES / 4; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T1);
    }
  }
}

/** Adds up all dims of the block into tiles 0 to 3 and stores them. */
WINNOW_AMX void multiply(const FilterCall& call, const int32_t* start, int32_t* sums) {
  const size_t wordBytes = (call.groups + TILE_GROUPS - 1) / TILE_GROUPS * TILE_GROUPS * 4;
  const uint8_t* words = reinterpret_cast<const uint8_t*>(call.words);
  const uint8_t* codes = call.codes;
  _tile_loadd(0, start, 64);
  _tile_loadd(1, start, 64);
  _tile_loadd(2, start, 64);
  _tile_loadd(3, start, 64);
  for (uint32_t group = 0; group < call.groups; group += TILE_GROUPS) {
    const uint8_t* ahead = call.ahead + (codes - call.codes);
    _tile_loadd(4, words, wordBytes);
    _tile_loadd(5, codes, 4 * BLOCK_ROWS);
    _tile_dpbsud(0, 4, 5);
    fetch(call, ahead, 0);
    _tile_loadd(6, codes + 64, 4 * BLOCK_ROWS);
    _tile_dpbsud(1, 4, 6);
    fetch(call, ahead, 1);
    _tile_loadd(5, codes + 128, 4 * BLOCK_ROWS);
    _tile_dpbsud(2, 4, 5);
    fetch(call, ahead, 2);
    _tile_loadd(6, codes + 192, 4 * BLOCK_ROWS);
    _tile_dpbsud(3, 4, 6);
    fetch(call, ahead, 3);
    words += 64;
    codes += size_t{TILE_GROUPS} * 4 * BLOCK_ROWS;
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + TILE_BYTES / 4, 64);
  _tile_stored(2, sums + 2 * TILE_BYTES / 4, 64);
  _tile_stored(3, sums + 3 * TILE_BYTES / 4, 64);
}

/** Sums of one query lie in four tiles; brings them and their signs together. */
WINNOW_AMX void collect(const FilterCall& call, const int32_t* sums) {
  for (uint32_t q = 0; q < call.queries; ++q) {
    uint64_t negative = 0;
    for (uint32_t v = 0; v < 4; ++v) {
      const __m512i part = _mm512_load_si512(sums + (v * TILE_QUERIES + q) * TILE_ROWS);
      negative |= static_cast<uint64_t>(_mm512_movepi32_mask(part)) << (16 * v);
      _mm512_storeu_si512(call.margins + q * BLOCK_ROWS + 16 * v, part);
    }
    call.survivors[q] = ~negative;
  }
}

WINNOW_AMX bool filter(const FilterCall& call) {
  alignas(64) int32_t start[TILE_BYTES / 4];
  alignas(64) int32_t sums[4 * TILE_BYTES / 4];
  fillStart(call, start);
  multiply(call, start, sums);
  __m512i all[4];
  for (uint32_t v = 0; v < 4; ++v) all[v] = _mm512_load_si512(sums + v * TILE_ROWS);
  for (uint32_t at = 4; at < 4 * TILE_QUERIES; at += 4) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < 4; ++v) {
      all[v] = _mm512_and_si512(all[v], _mm512_load_si512(sums + (at + v) * TILE_ROWS));
    }
  }
  const __m512i both = _mm512_and_si512(_mm512_and_si512(all[0], all[1]),
                                        _mm512_and_si512(all[2], all[3]));
  if (_mm512_movepi32_mask(both) == 0xffff) return false;
  collect(call, sums);
  return true;
}

}  // namespace

bool hasAmx() {
  constexpr unsigned AMX_TILE = 1u << 24;
  constexpr unsigned AMX_INT8 = 1u << 25;
  constexpr long REQUEST_PERMISSION = 0x1023;
  constexpr long TILE_DATA = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & AMX_TILE) == 0 || (d & AMX_INT8) == 0) return false;
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

Kernel amxKernel() {
  Kernel kernel = AVX512_KERNEL;
  kernel.name = "amx";
  kernel.groupQueries = TILE_QUERIES;
  kernel.wordGroups = TILE_GROUPS;
  kernel.filter = filter;
  kernel.enter = enter;
  kernel.leave = leave;
  kernel.few = &AVX512_KERNEL;
  kernel.queriesMin = QUERIES_MIN;
  return kernel;
}

}  // namespace winnow

#else

namespace winnow {

bool hasAmx() { return false; }

Kernel amxKernel() {
  Kernel kernel = PORTABLE_KERNEL;
  kernel.name = "amx";
  return kernel;
}

}  // namespace winnow

#endif
