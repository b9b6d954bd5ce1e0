// What a search is asked, and what it answers.

#pragma once

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
};

/** What comes back: query i owns [i · k, i · k + counts[i]). */
struct SearchAnswer {
  explicit SearchAnswer(ScratchStore& store) : counts(store), scores(store), rows(store) {}
  ScratchVector<uint32_t> counts;
  ScratchVector<float> scores;
  ScratchVector<uint32_t> rows;
};

}  // namespace winnow
