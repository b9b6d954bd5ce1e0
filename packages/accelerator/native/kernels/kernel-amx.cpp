// The filter for processors with AMX: one instruction multiplies 16 queries by 16 rows by 64 dims.
// Codes lie as its second factor needs them; queries as the first one does, one after the other.
//
//   sums [16 queries × 16 rows] = Σ over 64 dims   queries [16 × 64 bytes] · codes [64 bytes × 16]
//
// Few queries leave most of a tile empty: those go to AVX-512.

#include "kernels/bound.h"
#include "kernels/kernel.h"

// The first header is gcc's, the second clang's.
#if __has_include(<amxint8intrin.h>) || __has_include(<amxintrin.h>)
#define WINNOW_KNOWS_AMX 1
#else
#define WINNOW_KNOWS_AMX 0
#endif

#if defined(__x86_64__) && defined(__linux__) && WINNOW_KNOWS_AMX

#include <algorithm>

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
/** Values in a tile of sums. */
constexpr uint32_t TILE_SUMS = TILE_QUERIES * TILE_ROWS;
/** Groups of four dims in one tile. */
constexpr uint32_t TILE_GROUPS = 16;
/** Rows of a block that one step treats. */
constexpr uint32_t STEP_ROWS = 2 * TILE_ROWS;
/** Below this many queries AVX-512 is faster. */
constexpr uint32_t QUERIES_MIN = 24;
/** A limit that no sum of products reaches. */
constexpr int32_t NO_QUERY = static_cast<int32_t>(LIMIT_MAX);

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
  // The intrinsic declares that it reads the first bytes only, so the other stores could be dropped.
  __asm__ volatile("" : : "r"(&configuration) : "memory");
  _tile_loadconfig(&configuration);
}

WINNOW_AMX void leave() { _tile_release(); }

/** What the steps of one call share. */
struct Progress {
  /** Of two steps, as one is looked at while the next one is multiplied. */
  alignas(64) int32_t sums[2][2][TILE_SUMS];
  /** A sum greater than it survives; also for the queries that do not exist. */
  alignas(64) int32_t below[GROUP_QUERIES_MAX];
  /** Codes that this call has yet to fetch, and how many bytes of them in each step. */
  const uint8_t* ahead;
  const uint8_t* aheadEnd;
  size_t aheadStep;
  /** Queries that a row survives for. */
  uint64_t found = 0;
};

WINNOW_AMX void begin(const FilterCall& call, uint32_t tiles, Progress& progress) {
  for (uint32_t q = 0; q < tiles * TILE_QUERIES; q += 16) {
    const uint32_t left = call.queries - std::min(q, call.queries);
    const __mmask16 some = left >= 16 ? 0xffff : static_cast<__mmask16>((1u << left) - 1);
    const __m512i limits =
        _mm512_mask_loadu_epi32(_mm512_set1_epi32(NO_QUERY), some, call.limits + q);
    _mm512_store_si512(progress.below + q, _mm512_sub_epi32(limits, _mm512_set1_epi32(1)));
  }
  const size_t share = size_t{call.groups} * call.aheadLines * 64;
  progress.ahead = call.ahead;
  progress.aheadEnd = progress.ahead + share;
  progress.aheadStep = (share / (2 * tiles) + 63) / 64 * 64;
}

WINNOW_AMX inline void fetch(Progress& progress) {
  const uint8_t* end = std::min(progress.ahead + progress.aheadStep, progress.aheadEnd);
  for (; progress.ahead < end; progress.ahead += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(progress.ahead), _MM_HINT_T1);
  }
}

/** Adds up all dims of 16 queries and 32 rows. Tiles are named by constants, hence the macro. */
#define WINNOW_MULTIPLY(FIRST, SECOND, words, codes, groups, wordBytes)             \
  _tile_zero(FIRST);                                                                \
  _tile_zero(SECOND);                                                               \
  for (uint32_t group = 0; group < (groups); group += TILE_GROUPS) {                \
    const uint8_t* rows = (codes) + size_t{group} * 4 * BLOCK_ROWS;                 \
    _tile_loadd(4, (words) + size_t{group} * 4, wordBytes);                         \
    _tile_loadd(5, rows, 4 * BLOCK_ROWS);                                           \
    _tile_dpbsud(FIRST, 4, 5);                                                      \
    _tile_loadd(6, rows + 4 * TILE_ROWS, 4 * BLOCK_ROWS);                           \
    _tile_dpbsud(SECOND, 4, 6);                                                     \
  }

/** The survivors of four queries among the 32 rows of a step. */
WINNOW_AMX void collect(const FilterCall& call, Progress& progress, uint32_t step, uint32_t first) {
  const int32_t(*sums)[TILE_SUMS] = progress.sums[step % 2];
  const uint32_t row = step % 2 * STEP_ROWS;
  for (uint32_t at = first; at < first + 4; ++at) {
    const uint32_t q = step / 2 * TILE_QUERIES + at;
    if (q >= call.queries) return;
    const __m512i below = _mm512_set1_epi32(progress.below[q]);
    const __m512i left = _mm512_load_si512(sums[0] + at * TILE_ROWS);
    const __m512i right = _mm512_load_si512(sums[1] + at * TILE_ROWS);
    const uint32_t rows =
        static_cast<uint32_t>(_mm512_cmpgt_epi32_mask(left, below)) |
        static_cast<uint32_t>(_mm512_cmpgt_epi32_mask(right, below)) << TILE_ROWS;
    if (rows == 0) continue;
    const uint64_t bit = uint64_t{1} << q;
    const uint64_t others = (progress.found & bit) != 0 ? call.survivors[q] : 0;
    call.survivors[q] = others | static_cast<uint64_t>(rows) << row;
    progress.found |= bit;
    int32_t* margins = call.margins + q * BLOCK_ROWS + row;
    const __m512i limit = _mm512_add_epi32(below, _mm512_set1_epi32(1));
    _mm512_storeu_si512(margins, _mm512_sub_epi32(left, limit));
    _mm512_storeu_si512(margins + TILE_ROWS, _mm512_sub_epi32(right, limit));
  }
}

/** The signs of `below` minus sum, joined for each four queries, tell whether to look closer. */
WINNOW_AMX inline void look(const FilterCall& call, Progress& progress, uint32_t step) {
  const int32_t(*sums)[TILE_SUMS] = progress.sums[step % 2];
  const int32_t* below = progress.below + step / 2 * TILE_QUERIES;
  __m512i signs[4];
#pragma GCC unroll 4
  for (uint32_t four = 0; four < 4; ++four) {
    signs[four] = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (uint32_t q = four * 4; q < four * 4 + 4; ++q) {
      const __m512i bound = _mm512_set1_epi32(below[q]);
      const __m512i left = _mm512_sub_epi32(bound, _mm512_load_si512(sums[0] + q * TILE_ROWS));
      const __m512i right = _mm512_sub_epi32(bound, _mm512_load_si512(sums[1] + q * TILE_ROWS));
      signs[four] = _mm512_ternarylogic_epi32(signs[four], left, right, 0xfe);
    }
  }
  const __m512i all = _mm512_or_si512(_mm512_or_si512(signs[0], signs[1]),
                                      _mm512_or_si512(signs[2], signs[3]));
  if (_mm512_movepi32_mask(all) == 0) return;
#pragma GCC unroll 4
  for (uint32_t four = 0; four < 4; ++four) {
    if (_mm512_movepi32_mask(signs[four]) != 0) collect(call, progress, step, four * 4);
  }
}

/** Step by step 16 queries and 32 rows; sums are looked at one step later, when they are stored. */
WINNOW_AMX uint64_t filter(const FilterCall& call) {
  const uint32_t tiles = (call.queries + TILE_QUERIES - 1) / TILE_QUERIES;
  const size_t wordBytes = (call.groups + TILE_GROUPS - 1) / TILE_GROUPS * TILE_GROUPS * 4;
  Progress progress;
  begin(call, tiles, progress);
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    const uint8_t* words =
        reinterpret_cast<const uint8_t*>(call.words) + size_t{tile} * TILE_QUERIES * wordBytes;
    WINNOW_MULTIPLY(0, 1, words, call.codes, call.groups, wordBytes)
    fetch(progress);
    if (tile > 0) look(call, progress, 2 * tile - 1);
    _tile_stored(0, progress.sums[0][0], 64);
    _tile_stored(1, progress.sums[0][1], 64);
    WINNOW_MULTIPLY(2, 3, words, call.codes + 4 * STEP_ROWS, call.groups, wordBytes)
    fetch(progress);
    look(call, progress, 2 * tile);
    _tile_stored(2, progress.sums[1][0], 64);
    _tile_stored(3, progress.sums[1][1], 64);
  }
  look(call, progress, 2 * tiles - 1);
  return progress.found;
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
  kernel.groupQueries = GROUP_QUERIES_MAX;
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
