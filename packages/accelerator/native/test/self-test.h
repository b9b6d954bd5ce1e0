// What the parts of the native self-test share. Each part is a function that ends the process at the
// first thing that is wrong and otherwise says in one line what it has seen.

#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "search/search.h"

namespace winnow::test {

/** A table and what is asked of it. */
struct Problem {
  std::string name;
  uint32_t rows = 0;
  uint32_t dim = 0;
  uint32_t queries = 0;
  size_t k = 0;
  /** float32 [rows, dim] and [queries, dim]. */
  std::vector<float> table;
  std::vector<float> vectors;
  /** Per query, ascending; empty: nothing is excluded. */
  std::vector<std::vector<uint32_t>> excludedRows;
  /** Bitmaps of rows; those past the end of one are not admitted. */
  std::vector<std::vector<uint8_t>> filters;
  /** Per query, the number of its filter or NO_FILTER; empty: no query has one. */
  std::vector<uint32_t> filterOf;
};

/** Ends the process with a message, as printf. */
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

/** The kernels of this processor, the most demanding first. */
const std::vector<const Kernel*>& kernels();

/** One generator for all tests: the same numbers in every run. */
std::mt19937& randomBits();
float normal();
/** A whole number from `least` to `greatest`. */
int wholeNumber(int least, int greatest);

Problem makeProblem(const std::string& name, uint32_t rows, uint32_t dim, uint32_t queries,
                    const std::function<float(uint32_t)>& value);

/** The problem's rows, cut into `parts` tables. */
std::vector<TablePointer> loadTables(const Problem& problem, uint32_t parts);
SearchRequest requestOf(const Problem& problem, std::vector<TablePointer> tables);

/** Fails unless the answer is what sorting all canonical scores gives. */
void compare(const Problem& problem, const Kernel& kernel, const SearchAnswer& answer);

/** The parts. */
void testCoders();
void testBounds();
void testMemory();
void testChecks();
void testKernels();
void testSearches();
void testGuesses();
void testDenseLimits();
void testInterruptions();
void testRandomProblems(int count);

}  // namespace winnow::test
