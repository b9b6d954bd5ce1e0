// Widening and coding queries, and telling which of them the filter can serve.

#include "search/queries/query-batch.h"

#include <cmath>

namespace winnow {

namespace {

constexpr double ROUND_UP = 1 + 1e-9;
/** |q|·|x| from which a score might not be a finite float32. */
constexpr double OVERFLOW_NORM = 1e37;

}  // namespace

QueryBatch::QueryBatch(const SearchRequest& request, const Kernel& kernel, ScratchStore& store)
    : request_(request),
      kernel_(kernel),
      groups_((request.dim + 3) / 4),
      values_(store),
      norms_(store),
      codes_(store),
      words_(store) {
  planCodings();
  const size_t queries = request.queries;
  values_.resize(queries * request.dim);
  norms_.resize(queries);
  codes_.resize(codedTables_.size() * queries);
  words_.resize(codedTables_.size() * queries * groups_);
}

void QueryBatch::planCodings() {
  for (uint32_t t = 0; t < request_.tables.size(); ++t) {
    const std::vector<double>& scales = request_.tables[t]->dimScales();
    uint32_t coding = 0;
    while (coding < codedTables_.size() &&
           request_.tables[codedTables_[coding]]->dimScales() != scales) {
      ++coding;
    }
    if (coding == codedTables_.size()) codedTables_.push_back(t);
    codings_.push_back(coding);
  }
}

bool QueryBatch::prepare(uint32_t query, double greatestNorm) {
  const float* vector = request_.vectors.data() + size_t{query} * request_.dim;
  double* values = values_.data() + size_t{query} * request_.dim;
  double squares = 0;
  bool isFinite = true;
  for (uint32_t j = 0; j < request_.dim; ++j) {
    values[j] = vector[j];
    squares += values[j] * values[j];
    isFinite = isFinite && std::isfinite(vector[j]);
  }
  const double norm = std::sqrt(squares) * ROUND_UP;
  norms_[query] = norm;
  if (!isFinite || norm == 0 || norm * greatestNorm > OVERFLOW_NORM) return false;
  for (const uint32_t table : codedTables_) {
    const size_t at = codeNumber(table, query);
    codes_[at] =
        encodeQuery(*request_.tables[table], kernel_, values, words_.data() + at * groups_);
  }
  return true;
}

}  // namespace winnow
