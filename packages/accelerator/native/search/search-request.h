// What a search is asked, and what it answers.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "memory/scratch-store.h"
#include "search/queries/row-filter.h"
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
  /** Distinct filters, each a RowFilter for every table. */
  std::vector<std::vector<RowFilterPointer>> filters;
  /** The number of each query's filter, or NO_FILTER. Empty: no query has one. */
  std::vector<uint32_t> filterOf;
  BoundWeights weights;
  /**
   * Values (rows × dim × queries) that may be scored for queries which the filter cannot serve. A search
   * that would score more stops without an answer, before it scores them.
   */
  uint64_t denseValuesMax = ~uint64_t{0};

  static constexpr uint32_t NO_FILTER = ~uint32_t{0};
  /**
   * One row in so many is scored directly, for few queries and for many: where both ways take the same
   * time on a processor with AVX-512, at dim 64.
   */
  static constexpr uint64_t DIRECT_SHARE_MIN = 28;
  static constexpr uint64_t DIRECT_SHARE_MAX = 110;
  /** So few rows are always scored directly. */
  static constexpr uint64_t DIRECT_ROWS = 256;

  /** The number of a query's filter, or NO_FILTER. */
  uint32_t filterNumber(uint32_t query) const {
    return filterOf.empty() ? NO_FILTER : filterOf[query];
  }

  /** Which rows of a table a query may return; null: all of them. */
  const RowFilter* filter(uint32_t query, uint32_t table) const {
    const uint32_t number = filterNumber(query);
    return number == NO_FILTER ? nullptr : filters[number][table].get();
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

  /**
   * Whether a query may return so few rows that scoring all of them is less work than a filter of all
   * codes. A filter reads a byte per value, as the codes lie, once for all queries; of rows that are
   * scored each is four bytes per value at a place of its own, and is scored for each query alone.
   */
  bool isDirect(uint32_t query) const {
    const uint32_t number = filterNumber(query);
    if (number == NO_FILTER) return false;
    const uint64_t admitted = admittedRows(query);
    const uint64_t share = std::min<uint64_t>(DIRECT_SHARE_MIN + queries * 3 / 2, DIRECT_SHARE_MAX);
    return admitted <= DIRECT_ROWS || admitted * share <= rows();
  }

  uint64_t rows() const {
    uint64_t rows = 0;
    for (const TablePointer& table : tables) rows += table->shape().rows;
    return rows;
  }

  /** Rows of all tables that a query with a filter may return. */
  uint64_t admittedRows(uint32_t query) const {
    uint64_t admitted = 0;
    for (const RowFilterPointer& filter : filters[filterNumber(query)]) admitted += filter->admitted();
    return admitted;
  }

  /** Bytes of codes in all tables: what a filter reads that skips nothing. */
  uint64_t codeBytes() const {
    return rows() * ((dim + 3) / 4) * 4;
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
