// The four inner loops that exist once per instruction set. All sets give the same survivors up to
// the slack of the bounds, and exactly the same canonical scores, so answers never depend on them.

#pragma once

#include <cstddef>
#include <cstdint>

#include "table/table.h"

// Older compilers offer those instructions only when the whole program may use them.
#if !defined(__aarch64__)
#define WINNOW_HAS_NEON 0
#elif defined(__clang__)
#define WINNOW_HAS_NEON (__clang_major__ >= 16)
#else
#define WINNOW_HAS_NEON (__GNUC__ >= 10)
#endif

namespace winnow {

/** Queries one filter call can take, in any instruction set. */
constexpr uint32_t GROUP_QUERIES_MAX = 64;

/** One block of 64 coded rows against a group of coded queries. */
struct FilterCall {
  /** uint8 [groups][64 rows][4 dims]. */
  const uint8_t* codes;
  /** Groups of four dims. */
  uint32_t groups;
  /** Queries in the group, 1 to the kernel's `groupQueries`. */
  uint32_t queries;
  /** Four signed codes each: [groups][queries], or [queries][groups padded to `wordGroups`]. */
  const uint32_t* words;
  /** Per query, the least sum of products a row must have to survive. */
  const int32_t* limits;
  /** Codes to come, of which the call fetches so many cache lines for each group, in their order. */
  const uint8_t* ahead;
  uint32_t aheadLines;
  /** Out: per query, one bit per surviving row. Valid only for queries that the call returns. */
  uint64_t* survivors;
  /** Out: sum of products minus limit, [queries][64 rows]. Valid only where a row survives. */
  int32_t* margins;
};

/** What `filter` returns if it does not tell queries apart. */
inline uint64_t allOrNone(const FilterCall& call, bool hasAny) {
  return hasAny ? ~uint64_t{0} >> (GROUP_QUERIES_MAX - call.queries) : 0;
}

/** The weight of each part of the bound: 1, unless a test weakens one to see that it is needed. */
struct BoundWeights {
  double rowError = 1;
  double queryError = 1;
  double norm = 1;
  /** Of the rank in the sample at which a threshold is guessed; small: guesses are too high. */
  double guess = 1;
};

/** What the bound of one (block, query) needs to know of its queries; one array entry per query. */
struct QueryLanes {
  uint32_t count = 0;
  /** A row with a score below it cannot be among the k best. */
  double* threshold = nullptr;
  /** |q| of the scaled query and |q − its codes' values|, rounded up. */
  double* norm = nullptr;
  double* error = nullptr;
  /** 1 / query scale, and CODE_MIDDLE · Σ codes. */
  double* inverseScale = nullptr;
  double* offset = nullptr;
};

struct Kernel {
  const char* name;
  /** Queries per filter call at which it is fastest. */
  uint32_t groupQueries;
  /** Query codes lie in −codeMax…codeMax. */
  int codeMax;
  /** The queries that rows may survive for: bit i for the call's query i, none set if none does. */
  uint64_t (*filter)(const FilterCall& call);
  /** Per query, the least sum of products with which a row of the block could reach its threshold. */
  void (*computeLimits)(const BlockBounds& block, const QueryLanes& lanes,
                        const BoundWeights& weights, int32_t* limits);
  /** How many of the values are at least `least`. */
  size_t (*countFrom)(const float* values, size_t count, float least);
  /** The canonical score (canonical-score.ts) of a float64 query and a float32 row. */
  float (*score)(const double* query, const float* row, uint32_t dim);

  /**
   * 0: any codes may meet. Else the codes of one sign in the same half of the words of groups 2i and 2i + 1 add up to
   * at most so much, as their products are summed in 16 bits.
   */
  int codeSumMax = 0;
  /** 0: a word of every query of a call, then the next; else each query's words, so padded. */
  uint32_t wordGroups = 0;
  /** Called by a thread before its first filter call and after its last; may be null. */
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
  /** With fewer queries than `queriesMin`, this kernel is faster; it codes queries alike. */
  const Kernel* few = nullptr;
  uint32_t queriesMin = 0;
  /** How far ahead of a call's codes those lie that it fetches. */
  uint32_t aheadBytes = 8192;
};

/** Every kernel by name, the most demanding of each architecture first. */
constexpr const char* KERNEL_NAMES[] = {"amx", "avx512-vnni", "avx2", "neon-i8mm", "neon-dotprod",
                                        "portable"};

/** The best kernel this processor runs among those at most as demanding as `name`; null: any. */
const Kernel* selectKernel(const char* name);

extern const Kernel PORTABLE_KERNEL;
#if defined(__x86_64__)
extern const Kernel AVX2_KERNEL;
extern const Kernel AVX512_KERNEL;
/**
 * The same for one group of queries on AMD's processors, which read codes ahead by themselves: fetches
 * from further ahead are in their way (docs/benchmarks/top-k-limits.md).
 */
extern const Kernel AVX512_STREAM_KERNEL;
#endif
#if WINNOW_HAS_NEON
Kernel neonKernel();
Kernel neonI8mmKernel();
#endif
/** Whether this process may use AMX; asks the system for it. */
bool hasAmx();
/** To be called only once AVX512_KERNEL is initialised. */
Kernel amxKernel();

}  // namespace winnow
