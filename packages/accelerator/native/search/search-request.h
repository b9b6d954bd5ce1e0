// What a search is asked, and what it answers.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "search/scratch-store.h"
#include "table/table.h"

namespace winnow {

using TablePointer = std::shared_ptr<const Table>;

/** What is asked. Owns copies of everything that came from outside. */
struct SearchRequest {
  std::vector<TablePointer> tables;
  uint32_t dim = 0;
  uint32_t queries = 0;
  /** At most the rows of all tables together; at least 1. */
  size_t k = 0;
  /** float32 [queries, dim]. */
  std::vector<float> vectors;
  /** Ascending rows; query i owns [excludedStarts[i], excludedStarts[i + 1]). Empty: none at all. */
  std::vector<uint32_t> excludedRows;
  std::vector<uint32_t> excludedStarts;
  /** Bit per global row; rows past its end are not admitted. */
  std::vector<uint8_t> admittedRows;
  bool hasAdmittedRows = false;
  BoundWeights weights;

  /** Whether a global row may be in an answer at all. */
  bool isAdmitted(uint32_t row) const {
    if (!hasAdmittedRows) return true;
    const size_t byte = row >> 3;
    return byte < admittedRows.size() && (admittedRows[byte] >> (row & 7) & 1) != 0;
  }

  /** Whether a global row is one that this query's answer must not have. */
  bool isExcluded(uint32_t query, uint32_t row) const {
    if (excludedStarts.empty()) return false;
    const auto rows = excludedRows.begin();
    return std::binary_search(rows + excludedStarts[query], rows + excludedStarts[query + 1], row);
  }

  /** The same for a row that is named by its table's number and its sorted position there. */
  bool isExcludedAt(uint32_t query, uint32_t table, uint32_t position) const {
    if (excludedStarts.empty()) return false;
    const Table& part = *tables[table];
    return isExcluded(query, part.shape().firstRow + part.order()[position]);
  }

  /** Bytes of codes in all tables: what a filter reads that skips nothing. */
  uint64_t codeBytes() const {
    uint64_t rows = 0;
    for (const TablePointer& table : tables) rows += table->shape().rows;
    return rows * ((dim + 3) / 4) * 4;
  }
};

/** What comes back: query i owns [i · k, i · k + counts[i]). */
struct SearchAnswer {
  explicit SearchAnswer(ScratchStore& store) : counts(store), scores(store), rows(store) {}

  /** Makes room for the answers of all queries, which are empty. */
  void resize(const SearchRequest& request) {
    counts.assign(request.queries, 0);
    scores.assign(request.queries * request.k, 0);
    rows.assign(request.queries * request.k, 0);
  }

  ScratchVector<uint32_t> counts;
  ScratchVector<float> scores;
  ScratchVector<uint32_t> rows;
};

}  // namespace winnow
