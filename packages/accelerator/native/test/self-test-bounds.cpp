// The bounds, one row and one query at a time. What the filter promises is checked at its sharpest:
// with the row's own score as the threshold the row survives, in every kernel. What tables and
// queries say of themselves (norms and errors are rounded up) is compared with exact arithmetic.
// The inputs are those with the least to spare: errors that point the way the query points, codes
// without error whose products round by half a unit, scores below the normal range.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "kernels/bound.h"
#include "search/queries/query-code.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

#if defined(__SIZEOF_FLOAT128__)
__extension__ using Exact = __float128;
#else
using Exact = long double;
#endif

/** What a code stands for is a rounded product, so an error may be off by this share of the norm. */
constexpr double CODE_ROUNDING = 0x1p-50;
constexpr float LEAST = std::numeric_limits<float>::denorm_min();

/** What was checked, and the greatest share of E that rounding and coding used up. */
struct Tally {
  size_t pairs = 0;
  double used = 0;
  double usedByRounding = 0;
};

struct Case {
  const Problem& problem;
  const Table& table;
  const Kernel& kernel;
};

[[noreturn]] void failPair(const Case& of, uint32_t query, uint32_t row, const char* what) {
  fail("%s with %s, query %u, row %u: %s", of.problem.name.c_str(), of.kernel.name, query, row,
       what);
}

bool covers(double bound, Exact squares) {
  return static_cast<Exact>(bound) * static_cast<Exact>(bound) >= squares;
}

int codeAt(const Table& table, uint32_t block, uint32_t r, uint32_t j) {
  return table.codes(block)[size_t{j / 4} * 4 * BLOCK_ROWS + r * 4 + j % 4];
}

int queryCodeAt(const std::vector<uint32_t>& words, uint32_t j) {
  return static_cast<int8_t>(words[j / 4] >> (8 * (j % 4)));
}

/** Every number a block keeps of its rows is at least what exact arithmetic says. */
void checkBlock(const Case& of, uint32_t block) {
  const Table& table = of.table;
  const BlockBounds& bounds = table.bounds(block);
  const uint32_t count = std::min(BLOCK_ROWS, of.problem.rows - block * BLOCK_ROWS);
  for (uint32_t r = 0; r < count; ++r) {
    const uint32_t row = table.order()[block * BLOCK_ROWS + r];
    Exact error = 0, norm = 0, codeNorm = 0, plainNorm = 0;
    for (uint32_t j = 0; j < of.problem.dim; ++j) {
      const Exact plain = static_cast<Exact>(table.row(row)[j]);
      const Exact value = plain / static_cast<Exact>(table.dimScales()[j]);
      const Exact coded = static_cast<Exact>(bounds.scale) *
                          (static_cast<Exact>(codeAt(table, block, r, j)) - CODE_MIDDLE);
      error += (value - coded) * (value - coded);
      norm += value * value;
      codeNorm += coded * coded;
      plainNorm += plain * plain;
    }
    const double rowError = bounds.rowError + CODE_ROUNDING * bounds.rowNorm;
    if (!covers(rowError, error)) failPair(of, 0, row, "its error is greater");
    if (!covers(bounds.rowNorm, norm)) failPair(of, 0, row, "its norm is greater");
    if (!covers(bounds.codeNorm, codeNorm)) failPair(of, 0, row, "its codes' norm is greater");
    if (!covers(table.unitNorm(block / UNIT_BLOCKS), plainNorm)) {
      failPair(of, 0, row, "the norm of its unit is less");
    }
  }
}

/** Codes of one sign whose products a kernel sums in 16 bits: two groups' first, then their last two dims. */
void checkSums(const Case& of, uint32_t query, const std::vector<uint32_t>& words) {
  if (of.kernel.codeSumMax == 0) return;
  for (uint32_t first = 0; first < of.problem.dim; first += 8) {
    int sums[2][2] = {};
    for (uint32_t j = first; j < std::min(first + 8, of.problem.dim); ++j) {
      const int code = queryCodeAt(words, j);
      sums[j % 4 / 2][code < 0 ? 1 : 0] += std::abs(code);
    }
    for (const auto& half : sums) {
      if (std::max(half[0], half[1]) > of.kernel.codeSumMax) {
        failPair(of, query, 0, "its codes are too large together");
      }
    }
  }
}

void checkQuery(const Case& of, uint32_t query, const double* wide, const QueryCode& code,
                const std::vector<uint32_t>& words) {
  Exact error = 0, norm = 0;
  int sum = 0;
  for (uint32_t j = 0; j < of.problem.dim; ++j) {
    const Exact value =
        static_cast<Exact>(wide[j]) * static_cast<Exact>(of.table.dimScales()[j]);
    const Exact coded = static_cast<Exact>(code.scale) * queryCodeAt(words, j);
    error += (value - coded) * (value - coded);
    norm += value * value;
    sum += queryCodeAt(words, j);
    if (std::abs(queryCodeAt(words, j)) > of.kernel.codeMax) failPair(of, query, 0, "a code is too large");
  }
  checkSums(of, query, words);
  const double queryError = code.error + CODE_ROUNDING * code.norm;
  if (!covers(queryError, error)) failPair(of, query, 0, "its error is greater");
  if (!covers(code.norm, norm)) failPair(of, query, 0, "its norm is greater");
  if (code.offset != CODE_MIDDLE * sum) failPair(of, query, 0, "its offset is another");
}

struct Pair {
  uint32_t query;
  uint32_t block;
  uint32_t r;
  int64_t sum;
};

/** The filter's limit for this threshold, by the case's kernel; the scalar limit is within 1 of it. */
int32_t limitOf(const Case& of, const Pair& pair, QueryCode code, float threshold) {
  constexpr uint32_t LANES = 8;
  double values[5][LANES] = {};
  for (uint32_t lane = 0; lane < LANES; ++lane) {
    values[0][lane] = threshold;
    values[1][lane] = code.norm;
    values[2][lane] = code.error;
    values[3][lane] = code.inverseScale;
    values[4][lane] = code.offset;
  }
  // As many lanes as there are, one by one, so that vectors of every fill are seen.
  const uint32_t count = 1 + pair.r % LANES;
  const QueryLanes lanes{count, values[0], values[1], values[2], values[3], values[4]};
  const BlockBounds& bounds = of.table.bounds(pair.block);
  int32_t limits[LANES];
  of.kernel.computeLimits(bounds, lanes, {}, limits);
  const int32_t scalar = boundLimit(bounds, lanes, 0, {}, 1 / bounds.scale);
  for (uint32_t lane = 0; lane < count; ++lane) {
    if (std::abs(int64_t{limits[lane]} - scalar) > 1) failPair(of, pair.query, pair.r, "another limit than the scalar one");
  }
  return limits[count - 1];
}

void checkPair(const Case& of, const Pair& pair, const double* wide, const QueryCode& code,
               Tally& tally) {
  const uint32_t row = of.table.order()[pair.block * BLOCK_ROWS + pair.r];
  const BlockBounds& bounds = of.table.bounds(pair.block);
  const float score = of.kernel.score(wide, of.table.row(row), of.problem.dim);
  const float same = PORTABLE_KERNEL.score(wide, of.table.row(row), of.problem.dim);
  if (!(score == same) || std::signbit(score) != std::signbit(same)) {
    failPair(of, pair.query, row, "another score than the portable kernel's");
  }
  if (pair.sum < limitOf(of, pair, code, score)) failPair(of, pair.query, row, "filtered out");
  const float any = -std::numeric_limits<float>::infinity();
  if (pair.sum < limitOf(of, pair, code, any)) failPair(of, pair.query, row, "out of any limit");
  const double middle = bounds.scale * code.scale * (static_cast<double>(pair.sum) - code.offset);
  const double error = boundError(bounds, code.norm, code.error, {});
  const ScoreRange range = scoreRange(middle, error);
  if (!(range.lower <= score && score <= range.upper)) {
    failPair(of, pair.query, row, "its score is outside its bounds");
  }
  double squares = 0;
  for (uint32_t j = 0; j < of.problem.dim; ++j) squares += wide[j] * wide[j];
  // sqrt may round down, and the sum too: up again by more than both.
  const double queryNorm = std::sqrt(squares) * (1 + 1e-12);
  if (score > scoreReach(queryNorm, of.table.unitNorm(pair.block / UNIT_BLOCKS))) {
    failPair(of, pair.query, row, "its score is out of reach");
  }
  const double used = std::fabs(middle - static_cast<double>(score)) / error;
  tally.used = std::max(tally.used, used);
  if (bounds.rowError == 0 && code.error == 0) {
    tally.usedByRounding = std::max(tally.usedByRounding, used);
  }
  ++tally.pairs;
}

void checkProblem(const Problem& problem, Tally& tally) {
  const TablePointer table = loadTables(problem, 1)[0];
  for (const Kernel* kernel : kernels()) {
    const Case of{problem, *table, *kernel};
    for (uint32_t block = 0; block < table->blocks(); ++block) checkBlock(of, block);
    for (uint32_t query = 0; query < problem.queries; ++query) {
      const float* vector = problem.vectors.data() + size_t{query} * problem.dim;
      const std::vector<double> wide(vector, vector + problem.dim);
      std::vector<uint32_t> words(table->groups());
      const QueryCode code = encodeQuery(*table, *kernel, wide.data(), words.data());
      checkQuery(of, query, wide.data(), code, words);
      for (uint32_t position = 0; position < problem.rows; ++position) {
        Pair pair{query, position / BLOCK_ROWS, position % BLOCK_ROWS, 0};
        for (uint32_t j = 0; j < problem.dim; ++j) {
          pair.sum += codeAt(*table, pair.block, pair.r, j) * queryCodeAt(words, j);
        }
        checkPair(of, pair, wide.data(), code, tally);
      }
    }
  }
}

/** Rows of the greatest code with some dims a few codes less: nearly parallel to their query. */
Problem makeExact(const std::string& name, uint32_t dim, float rowScale, int queryPeak,
                  float queryScale) {
  Problem problem = makeProblem(name, 128, dim, 2, [](uint32_t) { return 0.0f; });
  for (float& value : problem.table) value = 127.5f * rowScale;
  for (float& value : problem.vectors) value = static_cast<float>(queryPeak) * queryScale;
  for (uint32_t row = 1; row < problem.rows; ++row) {
    for (int change = 0; change < 24; ++change) {
      const uint32_t j = static_cast<uint32_t>(wholeNumber(0, static_cast<int>(dim) - 1));
      problem.table[size_t{row} * dim + j] -= static_cast<float>(wholeNumber(0, 30)) * rowScale;
    }
  }
  for (uint32_t j = 1; j < dim; j += 37) {
    problem.vectors[dim + j] -= static_cast<float>(wholeNumber(0, 5)) * queryScale;
  }
  return problem;
}

/** Codes whose errors all point as the query does, or all against it. */
Problem makeAlignedErrors(uint32_t dim, float part) {
  Problem problem = makeProblem("aligned errors", 64, dim, 2, [](uint32_t) { return 0.0f; });
  problem.name += " of " + std::to_string(part) + " steps, dim " + std::to_string(dim);
  for (uint32_t row = 0; row < problem.rows; ++row) {
    float* values = problem.table.data() + size_t{row} * dim;
    for (uint32_t j = 0; j < dim; ++j) {
      const int step = row % 2 == 0 ? 0 : wholeNumber(-90, 90);
      values[j] = static_cast<float>(step) + 0.5f + (row % 4 < 2 ? part : -part);
    }
    values[0] = 127.5f;
  }
  for (uint32_t j = 0; j < 2 * dim; ++j) problem.vectors[j] = j < dim ? 127.0f : -63.0f;
  return problem;
}

std::vector<Problem> makeProblems() {
  const auto plain = [](uint32_t) { return normal(); };
  std::vector<Problem> problems;
  for (const uint32_t dim : {1u, 2u, 5u, 24u, 64u, 129u}) {
    problems.push_back(makeProblem("normal values", 300, dim, 6, plain));
  }
  problems.push_back(makeProblem("wide norms", 300, 7, 6, [](uint32_t row) {
    return normal() * std::exp2(static_cast<float>(row % 61) - 30);
  }));
  problems.push_back(makeProblem("subnormal rows", 300, 3, 6, [](uint32_t) {
    return static_cast<float>(wholeNumber(-900, 900)) * LEAST;
  }));
  problems.push_back(makeProblem("zeros", 100, 3, 2, [](uint32_t) { return 0.0f; }));
  problems.push_back(makeProblem("subnormal scores", 300, 3, 6, [](uint32_t) {
    return normal() * std::exp2(-75.0f);
  }));
  for (float& value : problems.back().vectors) value *= std::exp2(-72.0f);
  for (const int peak : {127, 63}) {
    // Products beyond 2^25 steps, where half a unit of float32 is more than one step.
    for (const uint32_t dim : {2304u, 4400u, 16640u, 32768u}) {
      problems.push_back(makeExact("exact codes, dim " + std::to_string(dim), dim, 1, peak, 1));
    }
    // Scores of 1 to 40 times 2^-149, and halves of it.
    for (int exponent = 0; exponent < 6; ++exponent) {
      const float queryScale = std::exp2(static_cast<float>(exponent - 90));
      const std::string name = "exact codes of subnormal scores " + std::to_string(exponent);
      problems.push_back(makeExact(name, 5, std::exp2(-75.0f), peak, queryScale));
    }
  }
  // The least sum there can be.
  problems.push_back(makeExact("opposite codes", 32768, 1, -127, 1));
  for (const uint32_t dim : {24u, 1024u}) {
    for (const float part : {0.49f, 0.3f}) problems.push_back(makeAlignedErrors(dim, part));
  }
  return problems;
}

}  // namespace

void testBounds() {
  Tally tally;
  for (const Problem& problem : makeProblems()) checkProblem(problem, tally);
  // Otherwise the inputs would be too kind to show anything.
  if (tally.used < 0.98) fail("the sharpest input uses %.3f of its bound", tally.used);
  std::printf("self-test: %zu rows within their bounds, using up to %.5f; %.4f by rounding\n",
              tally.pairs, tally.used, tally.usedByRounding);
}

}  // namespace winnow::test
