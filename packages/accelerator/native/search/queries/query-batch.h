// The queries of a request as the scans read them: as float64 values for canonical scores, and coded
// for the filter. Written once per query, by one thread, before any row is read; then only read.
//
// A code depends on how a table scales its dimensions. Tables that scale alike, as parts of one table
// mostly do, share one coding of each query.

#pragma once

#include <cstdint>
#include <vector>

#include "memory/scratch-store.h"
#include "search/queries/query-code.h"
#include "search/search-request.h"

namespace winnow {

class QueryBatch {
 public:
  /** Makes room for all queries of the request, which outlives the batch. */
  QueryBatch(const SearchRequest& request, const Kernel& kernel, ScratchStore& store);

  /**
   * Widens and codes one query. False: the filter cannot serve it, as it is zero or not finite, or as
   * its scores with rows up to `greatestNorm` might overflow a float32; it then has no codes.
   */
  bool prepare(uint32_t query, double greatestNorm);

  /** float64 [dim]. */
  const double* values(uint32_t query) const {
    return values_.data() + size_t{query} * request_.dim;
  }
  /** |q|, rounded up. */
  double norm(uint32_t query) const { return norms_[query]; }

  /** Groups of four dims, each a word of codes. */
  uint32_t groups() const { return groups_; }
  /** A query's code for a table of the request: bounds, and one word per group of dims. */
  const QueryCode& code(uint32_t table, uint32_t query) const {
    return codes_[codeNumber(table, query)];
  }
  const uint32_t* words(uint32_t table, uint32_t query) const {
    return words_.data() + codeNumber(table, query) * groups_;
  }

 private:
  void planCodings();
  size_t codeNumber(uint32_t table, uint32_t query) const {
    return size_t{codings_[table]} * request_.queries + query;
  }

  const SearchRequest& request_;
  const Kernel& kernel_;
  uint32_t groups_;
  /** The number of each table's coding. */
  std::vector<uint32_t> codings_;
  /** One table of each coding. */
  std::vector<uint32_t> codedTables_;
  /** float64 [queries, dim]. */
  ScratchVector<double> values_;
  ScratchVector<double> norms_;
  /** [codings, queries]. */
  ScratchVector<QueryCode> codes_;
  /** [codings, queries, groups]. */
  ScratchVector<uint32_t> words_;
};

}  // namespace winnow
