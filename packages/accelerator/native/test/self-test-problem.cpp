// Problems for the self-test, and their answers by sorting everything.

#include <algorithm>

#include "search/finish/order-key.h"
#include "table/row-coder.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

bool hasBit(const std::vector<uint8_t>& bits, uint32_t row) {
  return row / 8 < bits.size() && (bits[row / 8] >> (row % 8) & 1) != 0;
}

/** A table's part of a bitmap, which ends where the bitmap does. */
RowFilterPointer filterOf(const std::vector<uint8_t>& bits, const Table& table) {
  std::vector<uint8_t> local;
  for (uint32_t row = 0; row < table.shape().rows; ++row) {
    const uint32_t global = table.shape().firstRow + row;
    if (global / 8 >= bits.size()) break;
    if (row % 8 == 0) local.push_back(0);
    if (hasBit(bits, global)) local.back() = static_cast<uint8_t>(local.back() | 1u << (row % 8));
  }
  return std::make_shared<const RowFilter>(table, local.data(), local.size());
}

bool isCandidate(const Problem& problem, uint32_t query, uint32_t row) {
  const bool isFiltered =
      !problem.filterOf.empty() && problem.filterOf[query] != SearchRequest::NO_FILTER;
  if (isFiltered && !hasBit(problem.filters[problem.filterOf[query]], row)) return false;
  if (problem.excludedRows.empty()) return true;
  const std::vector<uint32_t>& excluded = problem.excludedRows[query];
  return std::find(excluded.begin(), excluded.end(), row) == excluded.end();
}

std::vector<uint64_t> sortedKeys(const Problem& problem, uint32_t query) {
  const float* vector = problem.vectors.data() + size_t{query} * problem.dim;
  const std::vector<double> wide(vector, vector + problem.dim);
  std::vector<uint64_t> keys;
  for (uint32_t row = 0; row < problem.rows; ++row) {
    if (!isCandidate(problem, query, row)) continue;
    const float* values = problem.table.data() + size_t{row} * problem.dim;
    keys.push_back(orderKey(PORTABLE_KERNEL.score(wide.data(), values, problem.dim), row));
  }
  std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
  return keys;
}

}  // namespace

Problem makeProblem(const std::string& name, uint32_t rows, uint32_t dim, uint32_t queries,
                    const std::function<float(uint32_t)>& value) {
  Problem problem;
  problem.name = name;
  problem.rows = rows;
  problem.dim = dim;
  problem.queries = queries;
  problem.k = std::min<size_t>(rows, 40);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t j = 0; j < dim; ++j) problem.table.push_back(value(row));
  }
  for (uint32_t i = 0; i < queries * dim; ++i) problem.vectors.push_back(normal());
  return problem;
}

std::vector<TablePointer> loadTables(const Problem& problem, uint32_t parts) {
  std::vector<TablePointer> tables;
  for (uint32_t part = 0; part < parts; ++part) {
    const uint32_t first = static_cast<uint32_t>(uint64_t{part} * problem.rows / parts);
    const uint32_t end = static_cast<uint32_t>(uint64_t{part + 1} * problem.rows / parts);
    const auto table = std::make_shared<Table>(TableShape{end - first, problem.dim, first, true});
    const float* values = problem.table.data() + size_t{first} * problem.dim;
    const size_t count = size_t{end - first} * problem.dim;
    // In two pieces, neither of which need end with a row.
    const size_t half = count / 2 + 1;
    const bool isTaken = table->append(values, half) == half &&
                         table->append(values + half, count - half) == count - half;
    if (!isTaken) fail("%s: a finite value was refused", problem.name.c_str());
    // Each in turn, so that whatever is tested with tables is tested with every one of them.
    static size_t turn = 0;
    table->build(*rowCoders()[turn++ % rowCoders().size()]);
    tables.push_back(table);
  }
  return tables;
}

SearchRequest requestOf(const Problem& problem, std::vector<TablePointer> tables) {
  SearchRequest request;
  request.tables = std::move(tables);
  request.dim = problem.dim;
  request.queries = problem.queries;
  request.k = problem.k;
  request.vectors = problem.vectors;
  request.filterOf = problem.filterOf;
  for (const std::vector<uint8_t>& bits : problem.filters) {
    request.filters.emplace_back();
    for (const TablePointer& table : request.tables) {
      request.filters.back().push_back(filterOf(bits, *table));
    }
  }
  if (problem.excludedRows.empty()) return request;
  request.excludedStarts.push_back(0);
  for (const std::vector<uint32_t>& rows : problem.excludedRows) {
    request.excludedRows.insert(request.excludedRows.end(), rows.begin(), rows.end());
    request.excludedStarts.push_back(static_cast<uint32_t>(request.excludedRows.size()));
  }
  return request;
}

void compare(const Problem& problem, const Kernel& kernel, const SearchAnswer& answer) {
  const char* name = problem.name.c_str();
  for (uint32_t query = 0; query < problem.queries; ++query) {
    const std::vector<uint64_t> keys = sortedKeys(problem, query);
    const size_t count = std::min(problem.k, keys.size());
    if (answer.counts[query] != count) {
      fail("%s with %s, query %u: %u candidates, not %zu", name, kernel.name, query,
           answer.counts[query], count);
    }
    for (size_t i = 0; i < count; ++i) {
      const size_t at = query * problem.k + i;
      if (orderKey(answer.scores[at], answer.rows[at]) == keys[i]) continue;
      fail("%s with %s, query %u, place %zu: row %u (%.9g), not row %u (%.9g)", name, kernel.name,
           query, i, answer.rows[at], static_cast<double>(answer.scores[at]), rowOfKey(keys[i]),
           static_cast<double>(scoreOfKey(keys[i])));
    }
  }
}

}  // namespace winnow::test
