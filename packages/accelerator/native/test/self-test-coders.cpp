// Building tables: every set of loops must give the same order and the same codes, the portable one
// those that plain arithmetic gives; and sorting by digits what comparing gives.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "table/key-sort.h"
#include "table/row-coder.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

/** Bounds are sums in float64, which a compiler may round once where another rounds twice. */
constexpr double ROUNDING = 1e-12;

bool isNear(double value, double other) {
  return std::fabs(value - other) <= ROUNDING * std::max(std::fabs(value), std::fabs(other));
}

std::shared_ptr<Table> buildBy(const RowCoder& coder, const Problem& problem) {
  const auto table = std::make_shared<Table>(TableShape{problem.rows, problem.dim, 0, true});
  table->append(problem.table.data(), problem.table.size());
  table->build(coder);
  return table;
}

void compareTables(const Problem& problem, const Table& table, const Table& other) {
  const char* name = problem.name.c_str();
  if (std::memcmp(table.order(), other.order(), problem.rows * sizeof(uint32_t)) != 0) {
    fail("%s: coders order rows differently", name);
  }
  const size_t bytes = size_t{table.blocks()} * table.groups() * 4 * BLOCK_ROWS;
  if (std::memcmp(table.codes(0), other.codes(0), bytes) != 0) fail("%s: codes differ", name);
  for (uint32_t block = 0; block < table.blocks(); ++block) {
    const BlockBounds& a = table.bounds(block);
    const BlockBounds& b = other.bounds(block);
    const bool isSame = a.scale == b.scale && isNear(a.rowError, b.rowError) &&
                        isNear(a.rowNorm, b.rowNorm) && isNear(a.codeNorm, b.codeNorm);
    if (!isSame) fail("%s: bounds of block %u differ", name, block);
  }
  for (uint32_t unit = 0; unit < table.units(); ++unit) {
    if (!isNear(table.unitNorm(unit), other.unitNorm(unit))) fail("%s: norms differ", name);
  }
}

/** Within a block: the errors are those of the codes, and no value could have a much nearer code. */
void checkCodes(const Problem& problem, const Table& table) {
  for (uint32_t at = 0; at < problem.rows; ++at) {
    const uint32_t block = at / BLOCK_ROWS;
    const BlockBounds& bounds = table.bounds(block);
    double codeNorm = 0;
    for (uint32_t j = 0; j < problem.dim; ++j) {
      const double value = table.row(table.order()[at])[j] / table.dimScales()[j];
      const size_t place = size_t{j / 4} * 4 * BLOCK_ROWS + at % BLOCK_ROWS * 4 + j % 4;
      const double coded = bounds.scale * (table.codes(block)[place] - CODE_MIDDLE);
      if (std::fabs(value - coded) > bounds.scale * (0.5 + 1e-4)) {
        fail("%s: a code of row %u is far from its value", problem.name.c_str(), at);
      }
      codeNorm += coded * coded;
    }
    // Whole only if nothing was added for values that a row does not have.
    if (problem.rows == 1 && !isNear(bounds.codeNorm, std::sqrt(codeNorm) * ROUND_UP)) {
      fail("%s: a norm of codes is not that of the row's", problem.name.c_str());
    }
  }
}

void checkCoders(const Problem& problem) {
  const auto expected = buildBy(PORTABLE_ROW_CODER, problem);
  checkCodes(problem, *expected);
  for (const RowCoder* coder : rowCoders()) {
    compareTables(problem, *buildBy(*coder, problem), *expected);
  }
}

void checkSort(size_t count, int bits) {
  std::vector<uint64_t> keys(count), scratch(count);
  for (size_t i = 0; i < count; ++i) {
    keys[i] = static_cast<uint64_t>(randomBits()() >> (32 - bits)) << 32 | i;
  }
  std::vector<uint64_t> expected = keys;
  std::sort(expected.begin(), expected.end());
  sortKeys(keys.data(), scratch.data(), count);
  if (keys != expected) fail("%zu keys of %d bits are not sorted", count, bits);
}

}  // namespace

void testCoders() {
  for (const size_t count : {size_t{0}, size_t{1}, DIGIT_SORT_MIN - 1, DIGIT_SORT_MIN, size_t{5000}}) {
    for (const int bits : {1, 12, 32}) checkSort(count, bits);
  }
  for (const uint32_t dim : {1u, 3u, 4u, 5u, 7u, 8u, 9u, 13u, 16u, 67u}) {
    for (const uint32_t rows : {1u, 63u, 130u, UNIT_ROWS + 70}) {
      const std::string shape = std::to_string(rows) + " x " + std::to_string(dim);
      const auto check = [&](const char* kind, const std::function<float(uint32_t)>& value) {
        checkCoders(makeProblem(shape + kind, rows, dim, 0, value));
      };
      check(" normal", [](uint32_t) { return normal(); });
      check(" zeros", [](uint32_t) { return 0.0f; });
      check(" equal norms", [](uint32_t) { return wholeNumber(0, 1) == 0 ? -1.0f : 1.0f; });
      check(" of many sizes", [](uint32_t row) {
        return std::ldexp(normal(), static_cast<int>(row % 270) - 148);
      });
      check(" huge", [](uint32_t) { return normal() < 0 ? -3.4e38f : 3.4e38f; });
    }
  }
  std::printf("self-test: coders");
  for (const RowCoder* coder : rowCoders()) std::printf(" %s", coder->name);
  std::printf(" give the same codes\n");
}

}  // namespace winnow::test
