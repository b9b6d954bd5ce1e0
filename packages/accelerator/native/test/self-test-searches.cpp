// Whole searches by every kernel and several numbers of threads, and what can happen while they run:
// they are cancelled, others run on the same team, their tables are released.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "test/self-test.h"

namespace winnow::test {

namespace {

float plain(uint32_t) { return normal(); }

/** Every fifth row is excluded, for all queries but each third. */
void excludeSome(Problem& problem) {
  problem.excludedRows.resize(problem.queries);
  for (uint32_t query = 0; query < problem.queries; ++query) {
    if (query % 3 == 2) continue;
    for (uint32_t row = query % 5; row < problem.rows; row += 5) {
      problem.excludedRows[query].push_back(row);
    }
  }
}

/**
 * Queries by turns: a filter of about half of the rows, which ends before the last rows do, none, one
 * of a row in a hundred, and one of a run of rows.
 */
void admitSome(Problem& problem) {
  problem.filters.resize(3);
  for (uint32_t byte = 0; byte + 9 < problem.rows / 8; ++byte) {
    problem.filters[0].push_back(static_cast<uint8_t>(wholeNumber(0, 255)));
    problem.filters[1].push_back(wholeNumber(0, 11) == 0 ? 16 : 0);
    problem.filters[2].push_back(byte > 20 && byte < 160 ? 255 : 0);
  }
  for (uint32_t query = 0; query < problem.queries; ++query) {
    const uint32_t numbers[] = {0, SearchRequest::NO_FILTER, 1, 2};
    problem.filterOf.push_back(numbers[query % 4]);
  }
}

/**
 * The best row is one of the second unit, by one unit in the last place, and as long as its score is
 * great: a scan that takes norms for smaller than they are ends before it. The rows of the first
 * unit have codes without error, so that the threshold is as high as it can be.
 */
Problem makeNormsAtTheThreshold() {
  Problem problem = makeProblem("norms at the threshold", 2 * UNIT_ROWS, 2, 1, [](uint32_t row) {
    return row < UNIT_ROWS ? 127.5f : 90.0f;
  });
  problem.k = 1;
  problem.vectors = {1, 0};
  float* best = problem.table.data() + size_t{UNIT_ROWS} * 2;
  best[0] = std::nextafter(127.5f, 128.0f);
  best[1] = 0;
  return problem;
}

/** Only short rows are admitted: the first units, of the greatest norms, have none of them. */
Problem makeShortRowsAdmitted() {
  Problem problem = makeProblem("short rows admitted", 6 * UNIT_ROWS, 12, 2, [](uint32_t row) {
    return normal() * (row < 2 * UNIT_ROWS ? 100 : 1);
  });
  problem.filters.emplace_back(6 * UNIT_ROWS / 8, 255);
  for (uint32_t byte = 0; byte < 2 * UNIT_ROWS / 8; ++byte) problem.filters[0][byte] = 0;
  problem.filterOf = {0, 0};
  return problem;
}

/** All scores are infinite and equal, so the first rows are the best, wherever their norm puts them. */
Problem makeInfiniteScores() {
  Problem problem = makeProblem("infinite scores", 3 * UNIT_ROWS, 12, 5, [](uint32_t) {
    return (1 + std::fabs(normal())) * 5e37f;
  });
  for (float& value : problem.vectors) value = 1 + std::fabs(value);
  return problem;
}

/** Codes without error and scores that differ: the threshold lies close below the k-th of them. */
Problem makeDistinctScores(size_t k) {
  Problem problem = makeProblem("distinct scores", 5000, 2, 2, [](uint32_t) {
    return static_cast<float>(wholeNumber(0, 255)) - 127.5f;
  });
  problem.name += ", k = " + std::to_string(k);
  problem.k = k;
  problem.vectors = {127, 1, -2, 127};
  return problem;
}

std::vector<Problem> makeProblems() {
  std::vector<Problem> problems;
  for (const uint32_t dim : {1u, 3u, 8u, 17u, 64u, 65u, 130u}) {
    problems.push_back(makeProblem("normal values", 5000, dim, 19, plain));
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
  excludeSome(problems.back());
  problems.push_back(makeProblem("admitted", 5000, 12, 9, plain));
  admitSome(problems.back());
  problems.push_back(makeProblem("excluded and admitted", 5000, 12, 9, plain));
  excludeSome(problems.back());
  admitSome(problems.back());
  problems.push_back(makeProblem("a query that is not finite", 3000, 12, 5, plain));
  problems.back().vectors[13] = NAN;
  problems.back().vectors[27] = INFINITY;
  // Enough for each of four threads to have queries of its own, and some to have two lots of them.
  problems.push_back(makeProblem("many queries", 300, 12, 139, plain));
  excludeSome(problems.back());
  admitSome(problems.back());
  problems.back().vectors[12 * 100] = NAN;
  problems.push_back(makeNormsAtTheThreshold());
  problems.push_back(makeShortRowsAdmitted());
  problems.push_back(makeInfiniteScores());
  for (const size_t k : {1u, 2u, 5u, 20u}) problems.push_back(makeDistinctScores(k));
  problems.push_back(makeProblem("many best", 9000, 12, 3, plain));
  problems.back().k = 1100;
  problems.push_back(makeProblem("many ties", 5000, 3, 3, [](uint32_t) {
    return static_cast<float>(wholeNumber(-2, 2));
  }));
  problems.back().k = 700;
  problems.back().vectors = {1, 2, 3, 1, 1, 1, 0, -1, 0};
  // Each part of the table scales its dimensions in its own way.
  problems.push_back(makeProblem("rows of several scales", 4096, 12, 5, [](uint32_t row) {
    return normal() * static_cast<float>(1 + row / 1024 * 4);
  }));
  return problems;
}

/** The threads and the memory of searches. With `keptBytesMax` 0 no memory is kept between them. */
struct Device {
  explicit Device(uint32_t threads, size_t keptBytesMax = ScratchStore::KEPT_BYTES_MAX)
      : team(threads), store(keptBytesMax) {}
  ThreadTeam team;
  ScratchStore store;
};

/** `guess`: weight of the sampled rank. Returns the queries that were filtered twice. */
uint64_t run(const Problem& problem, const Kernel& kernel, Device& device,
             const std::vector<TablePointer>& tables, double guess = 1) {
  SearchRequest request = requestOf(problem, tables);
  request.weights.guess = guess;
  Search search(std::move(request), kernel, device.store);
  if (!search.run(device.team)) fail("%s with %s: stopped", problem.name.c_str(), kernel.name);
  compare(problem, kernel, search.answer());
  return search.counters().repeatedQueries.load();
}

/** Returns whether the search ran to its end. */
bool cancelAfter(int delayUs, const Problem& problem, const Kernel& kernel, Device& device,
                 const std::vector<TablePointer>& tables) {
  Search search(requestOf(problem, tables), kernel, device.store);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(delayUs));
    search.stopFlag()->store(true);
  });
  const bool isComplete = search.run(device.team);
  other.join();
  if (isComplete) compare(problem, kernel, search.answer());
  return isComplete;
}

/** Several searches share a team; one of two is cancelled at once, and each has its own tables. */
void searchTogether(const Problem& problem, const Kernel& kernel, Device& device) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    std::vector<TablePointer> tables = loadTables(problem, 2);
    callers.emplace_back([&problem, &kernel, &device, caller, tables = std::move(tables)]() mutable {
      auto search =
          std::make_unique<Search>(requestOf(problem, std::move(tables)), kernel, device.store);
      // From here on the search alone holds its tables.
      tables.clear();
      if (caller % 2 == 1) search->stopFlag()->store(true);
      const bool isComplete = search->run(device.team);
      if (isComplete != (caller % 2 == 0)) fail("a search ended in the wrong way");
      if (isComplete) compare(problem, kernel, search->answer());
    });
  }
  for (std::thread& caller : callers) caller.join();
}

/** The caller lets go of the tables while a search reads them. */
void releaseWhileSearching(const Problem& problem, const Kernel& kernel, Device& device) {
  std::vector<TablePointer> tables = loadTables(problem, 3);
  auto search = std::make_unique<Search>(requestOf(problem, tables), kernel, device.store);
  std::thread other([&] { tables.clear(); });
  if (!search->run(device.team)) fail("a search stopped");
  other.join();
  compare(problem, kernel, search->answer());
  const std::weak_ptr<const Table> kept = search->request().tables[0];
  search.reset();
  if (!kept.expired()) fail("a search is gone and its tables are not");
}

}  // namespace

void testSearches() {
  int searches = 0;
  for (const uint32_t threads : {1u, 2u, 4u}) {
    Device device(threads);
    for (const Problem& problem : makeProblems()) {
      const std::vector<TablePointer> tables = loadTables(problem, std::min(problem.rows, threads));
      for (const Kernel* kernel : kernels()) {
        run(problem, *kernel, device, tables);
        ++searches;
      }
    }
  }
  std::printf("self-test: %d searches give what sorting gives\n", searches);
}

void testGuesses() {
  uint64_t repeated = 0, kept = 0;
  for (const uint32_t threads : {1u, 2u, 4u}) {
    Device device(threads, 0);
    std::vector<Problem> problems = makeProblems();
    problems.push_back(makeProblem("many normal values", 30000, 8, 21, plain));
    problems.push_back(makeProblem("ties at the guess", 30000, 2, 21, [](uint32_t) {
      return static_cast<float>(wholeNumber(-3, 3));
    }));
    for (const Problem& problem : problems) {
      const std::vector<TablePointer> tables = loadTables(problem, std::min(problem.rows, threads));
      for (const Kernel* kernel : kernels()) {
        // The best of the sample, a rank that fails now and then, and one that hardly does.
        for (const double guess : {0.0, 0.3, 0.99}) {
          const uint64_t again = run(problem, *kernel, device, tables, guess);
          repeated += again;
          kept += problem.queries - again;
        }
      }
    }
  }
  if (repeated == 0 || kept == 0) fail("guesses are all right or all wrong");
  std::printf("self-test: %llu queries with a wrong guess, %llu with a right one or none\n",
              static_cast<unsigned long long>(repeated), static_cast<unsigned long long>(kept));
}

void testDenseLimits() {
  int stopped = 0;
  Problem problem = makeProblem("a limit for values to be scored", 20000, 32, 3, plain);
  std::fill_n(problem.vectors.begin() + 32, 32, 0.0f);
  Problem alike = makeProblem("all rows alike", 20000, 32, 3, [](uint32_t) { return 0.5f; });
  for (const uint32_t threads : {1u, 3u}) {
    Device device(threads);
    const std::vector<TablePointer> tables = loadTables(problem, 3);
    const std::vector<TablePointer> alikes = loadTables(alike, 3);
    for (const Kernel* kernel : kernels()) {
      // The query of zeros alone has to be scored against all rows.
      for (const uint64_t limit : {20000u * 32u - 1, 20000u * 32u}) {
        SearchRequest request = requestOf(problem, tables);
        request.denseValuesMax = limit;
        Search search(std::move(request), *kernel, device.store);
        const bool isComplete = search.run(device.team);
        if (isComplete != (limit == 20000u * 32u)) fail("a search ignored its limit");
        if (isComplete) compare(problem, *kernel, search.answer());
        stopped += isComplete ? 0 : 1;
      }
      SearchRequest request = requestOf(alike, alikes);
      request.denseValuesMax = 0;
      Search search(std::move(request), *kernel, device.store);
      if (search.run(device.team)) fail("a search of rows that are alike ignored its limit");
      ++stopped;
    }
    if (device.store.takenBlocks() != 0) fail("searches are gone and what they took is not back");
  }
  std::printf("self-test: %d searches stopped before they scored too much\n", stopped);
}

void testInterruptions() {
  int cancelled = 0;
  const Problem problem = makeProblem("interrupted", 20000, 32, 40, plain);
  for (const uint32_t threads : {1u, 3u}) {
    Device device(threads);
    const std::vector<TablePointer> tables = loadTables(problem, 3);
    for (const Kernel* kernel : kernels()) {
      for (const int delayUs : {0, 50, 500, 5000}) {
        cancelled += cancelAfter(delayUs, problem, *kernel, device, tables) ? 0 : 1;
      }
      searchTogether(problem, *kernel, device);
      releaseWhileSearching(problem, *kernel, device);
    }
    if (device.store.takenBlocks() != 0) fail("searches are gone and what they took is not back");
  }
  if (cancelled == 0) fail("no search was cancelled in time");
  std::printf("self-test: %d searches cancelled; others ran at once or lost their tables\n",
              cancelled);
}

}  // namespace winnow::test
