// Runs the scan without Node, so that sanitizers see every access and every race: each kernel of this
// processor and several thread counts against a sort of all canonical scores, and searches that are
// cancelled while they run. Prints one line; exits 1 at the first difference.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "order-key.h"
#include "search.h"

namespace {

using namespace winnow;

struct Problem {
  const char* name;
  uint32_t rows;
  uint32_t dim;
  uint32_t queries;
  size_t k;
  std::vector<float> table;
  std::vector<float> vectors;
  bool hasExclusions = false;
};

std::mt19937 randomBits(7);

float normal() {
  static std::normal_distribution<float> distribution;
  return distribution(randomBits);
}

Problem makeProblem(const char* name, uint32_t rows, uint32_t dim, uint32_t queries,
                    const std::function<float(uint32_t)>& value) {
  Problem problem{name, rows, dim, queries, std::min<size_t>(rows, 40), {}, {}, false};
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t j = 0; j < dim; ++j) problem.table.push_back(value(row));
  }
  for (uint32_t i = 0; i < queries * dim; ++i) problem.vectors.push_back(normal());
  return problem;
}

std::vector<Problem> makeProblems() {
  const auto plain = [](uint32_t) { return normal(); };
  std::vector<Problem> problems;
  for (const uint32_t dim : {1u, 3u, 8u, 17u, 64u, 65u, 130u}) {
    problems.push_back(makeProblem("normal", 5000, dim, 19, plain));
  }
  problems.push_back(makeProblem("one row", 1, 7, 3, plain));
  problems.push_back(makeProblem("a block and a row", 65, 7, 33, plain));
  problems.push_back(makeProblem("equal rows", 9000, 9, 3, [](uint32_t) { return 0.5f; }));
  problems.push_back(makeProblem("all zero", 300, 9, 3, [](uint32_t) { return 0.0f; }));
  problems.push_back(makeProblem("skewed norms", 9000, 20, 30, [](uint32_t row) {
    return normal() * std::exp(static_cast<float>(row % 97) / 20);
  }));
  problems.push_back(makeProblem("huge", 3000, 12, 5, [](uint32_t) { return normal() * 1e37f; }));
  problems.push_back(makeProblem("excluded", 5000, 12, 9, plain));
  problems.back().hasExclusions = true;
  problems.push_back(makeProblem("a query that is not finite", 3000, 12, 5, plain));
  problems.back().vectors[13] = NAN;
  problems.back().vectors[27] = INFINITY;
  return problems;
}

std::vector<TablePointer> loadTables(const Problem& problem, uint32_t parts) {
  std::vector<TablePointer> tables;
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t first = static_cast<uint32_t>(uint64_t{part} * problem.rows / parts);
    const uint32_t end = static_cast<uint32_t>(uint64_t{part + 1} * problem.rows / parts);
    const auto table = std::make_shared<Table>(TableShape{end - first, problem.dim, first, true});
    table->append(problem.table.data() + size_t{first} * problem.dim,
                  size_t{end - first} * problem.dim);
    table->build();
    tables.push_back(table);
  }
  return tables;
}

bool isExcluded(const Problem& problem, uint32_t row) {
  return problem.hasExclusions && row % 5 == 0;
}

SearchRequest requestOf(const Problem& problem, std::vector<TablePointer> tables) {
  SearchRequest request;
  request.tables = std::move(tables);
  request.dim = problem.dim;
  request.queries = problem.queries;
  request.k = problem.k;
  request.vectors = problem.vectors;
  if (!problem.hasExclusions) return request;
  request.excludedStarts.push_back(0);
  for (uint32_t query = 0; query < problem.queries; ++query) {
    for (uint32_t row = 0; row < problem.rows; row += 5) request.excludedRows.push_back(row);
    request.excludedStarts.push_back(static_cast<uint32_t>(request.excludedRows.size()));
  }
  return request;
}

std::vector<uint64_t> sortedKeys(const Problem& problem, uint32_t query) {
  std::vector<double> wide;
  for (uint32_t j = 0; j < problem.dim; ++j) {
    wide.push_back(problem.vectors[size_t{query} * problem.dim + j]);
  }
  std::vector<uint64_t> keys;
  for (uint32_t row = 0; row < problem.rows; ++row) {
    if (isExcluded(problem, row)) continue;
    const float* values = problem.table.data() + size_t{row} * problem.dim;
    keys.push_back(orderKey(PORTABLE_KERNEL.score(wide.data(), values, problem.dim), row));
  }
  std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
  return keys;
}

void fail(const Problem& problem, const Kernel& kernel, const char* what) {
  std::printf("self-test: %s with %s: %s\n", problem.name, kernel.name, what);
  std::exit(1);
}

void compare(const Problem& problem, const Kernel& kernel, SearchAnswer& answer) {
  for (uint32_t query = 0; query < problem.queries; ++query) {
    const std::vector<uint64_t> keys = sortedKeys(problem, query);
    const size_t count = std::min(problem.k, keys.size());
    if (answer.counts[query] != count) fail(problem, kernel, "wrong number of candidates");
    for (size_t i = 0; i < count; ++i) {
      const size_t at = query * problem.k + i;
      if (orderKey(answer.scores[at], answer.rows[at]) != keys[i]) {
        fail(problem, kernel, "a wrong candidate");
      }
    }
  }
}

void checkCancellation(const Kernel& kernel, ThreadTeam& team) {
  const Problem problem = makeProblem("cancelled", 20000, 32, 40, [](uint32_t) { return normal(); });
  const std::vector<TablePointer> tables = loadTables(problem, 3);
  for (int delayUs : {0, 50, 500, 5000}) {
    Search search(requestOf(problem, tables), kernel);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delayUs));
      search.stopFlag()->store(true);
    });
    const bool isComplete = search.run(team);
    other.join();
    if (isComplete) compare(problem, kernel, search.answer());
  }
}

}  // namespace

int main() {
  std::vector<const Kernel*> kernels;
  for (const char* name : {"amx", "avx512-vnni", "avx2", "portable"}) {
    const Kernel* kernel = selectKernel(name);
    if (std::string(kernel->name) == name) kernels.push_back(kernel);
  }
  int searches = 0;
  for (const uint32_t threads : {1u, 2u, 4u}) {
    ThreadTeam team(threads);
    for (const Problem& problem : makeProblems()) {
      const std::vector<TablePointer> tables = loadTables(problem, std::min(problem.rows, threads));
      for (const Kernel* kernel : kernels) {
        Search search(requestOf(problem, tables), *kernel);
        if (!search.run(team)) fail(problem, *kernel, "the search stopped");
        compare(problem, *kernel, search.answer());
        ++searches;
      }
    }
    for (const Kernel* kernel : kernels) checkCancellation(*kernel, team);
  }
  std::printf("self-test: %d searches with %zu kernels agree\n", searches, kernels.size());
  return 0;
}
