// The inner loops of every kernel against what they are defined to be, for every number of dims and
// queries that makes them take another path, and with the extremes of codes and limits.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/bound.h"
#include "memory/memory-region.h"
#include "test/self-test.h"

namespace winnow::test {

namespace {

/** Room that a kernel may read beyond the codes and beyond the words of a group. */
constexpr size_t MARGIN_BYTES = 16 * 4 * BLOCK_ROWS;

struct Codes {
  uint32_t groups;
  MemoryRegion bytes;
  /** [queries][groups]: four signed codes each. */
  std::vector<std::vector<uint32_t>> words;
};

int codeOf(int range, int extreme) {
  if (extreme != 0) return extreme > 0 ? range : -range;
  return wholeNumber(-range, range);
}

/** Makes codes of one sign whose products a kernel sums in 16 bits as small as it wants their sum. */
void fitSums(const Kernel& kernel, std::vector<uint32_t>& words) {
  if (kernel.codeSumMax == 0) return;
  for (size_t first = 0; first < words.size(); first += 2) {
    for (const int half : {0, 2}) {
      int sums[2] = {};
      const auto visit = [&](const auto& use) {
        for (size_t group = first; group < std::min(first + 2, words.size()); ++group) {
          for (int i = half; i < half + 2; ++i) {
            use(words[group], 8 * i, static_cast<int8_t>(words[group] >> (8 * i)));
          }
        }
      };
      visit([&](uint32_t&, int, int code) { sums[code < 0 ? 1 : 0] += std::abs(code); });
      visit([&](uint32_t& word, int shift, int code) {
        const int sum = sums[code < 0 ? 1 : 0];
        if (sum <= kernel.codeSumMax) return;
        const uint32_t fit = static_cast<uint32_t>(code * kernel.codeSumMax / sum);
        word = (word & ~(0xffu << shift)) | (fit & 0xffu) << shift;
      });
    }
  }
}

/** `extreme`: 0 for any codes, else the greatest or the least ones. */
Codes makeCodes(const Kernel& kernel, uint32_t groups, uint32_t queries, int extreme) {
  Codes codes{groups, MemoryRegion(size_t{groups} * 4 * BLOCK_ROWS + MARGIN_BYTES), {}};
  uint8_t* bytes = codes.bytes.as<uint8_t>();
  // Codes past the end may hold anything: they meet words of zero.
  const size_t count = size_t{groups} * 4 * BLOCK_ROWS + MARGIN_BYTES;
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(extreme == 0 ? wholeNumber(0, 255) : 255);
  }
  for (uint32_t q = 0; q < queries; ++q) {
    codes.words.emplace_back();
    for (uint32_t group = 0; group < groups; ++group) {
      uint32_t word = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t code = static_cast<uint32_t>(codeOf(kernel.codeMax, extreme));
        word |= (code & 0xffu) << (8 * i);
      }
      codes.words[q].push_back(word);
    }
    fitSums(kernel, codes.words[q]);
  }
  return codes;
}

int32_t sumOf(const Codes& codes, uint32_t query, uint32_t r) {
  int32_t sum = 0;
  for (uint32_t group = 0; group < codes.groups; ++group) {
    const uint8_t* bytes = codes.bytes.as<uint8_t>() + (size_t{group} * BLOCK_ROWS + r) * 4;
    for (uint32_t i = 0; i < 4; ++i) {
      sum += bytes[i] * static_cast<int8_t>(codes.words[query][group] >> (8 * i));
    }
  }
  return sum;
}

/** Words in the order the kernel wants, with what lies beyond a group of queries. */
std::vector<uint32_t> arrange(const Kernel& kernel, const Codes& codes) {
  const uint32_t queries = static_cast<uint32_t>(codes.words.size());
  const uint32_t padding = std::max(kernel.wordGroups, 1u);
  const uint32_t width = (codes.groups + padding - 1) / padding * padding;
  // A group may be read as if it were full; whatever follows belongs to other queries.
  std::vector<uint32_t> words(size_t{width} * (queries + GROUP_QUERIES_MAX), 0x7f7f7f7fu);
  for (uint32_t q = 0; q < queries; ++q) {
    for (uint32_t group = 0; group < width; ++group) {
      const uint32_t word = group < codes.groups ? codes.words[q][group] : 0;
      words[kernel.wordGroups > 0 ? size_t{q} * width + group : size_t{group} * queries + q] = word;
    }
  }
  return words;
}

int32_t limitFor(int choice, int32_t sum) {
  const int32_t greatest = static_cast<int32_t>(LIMIT_MAX);
  const int32_t limits[] = {sum, sum + 1, greatest, -greatest};
  return limits[choice];
}

/** `limits`: one for each query. */
void checkFilter(const Kernel& kernel, const Codes& codes, std::vector<int32_t> limits) {
  const uint32_t queries = static_cast<uint32_t>(codes.words.size());
  const std::vector<uint32_t> words = arrange(kernel, codes);
  // A group may be read as if it were full.
  limits.resize(queries + GROUP_QUERIES_MAX, -1);
  uint64_t survivors[GROUP_QUERIES_MAX] = {};
  alignas(64) int32_t margins[GROUP_QUERIES_MAX * BLOCK_ROWS] = {};
  const FilterCall call{codes.bytes.as<uint8_t>(), codes.groups, queries, words.data(),
                        limits.data(), codes.bytes.as<uint8_t>(), 4, survivors, margins};
  if (kernel.enter != nullptr) kernel.enter();
  const uint64_t found = kernel.filter(call);
  if (kernel.leave != nullptr) kernel.leave();
  uint64_t anyExpected = 0;
  for (uint32_t q = 0; q < queries; ++q) {
    const bool isFound = (found >> q & 1) != 0;
    uint64_t expected = 0;
    for (uint32_t r = 0; r < BLOCK_ROWS; ++r) {
      const int64_t margin = int64_t{sumOf(codes, q, r)} - limits[q];
      expected |= uint64_t{margin >= 0 ? 1u : 0u} << r;
      // Margins of rows that do not survive may be anything.
      if (!isFound || margin < 0 || margins[q * BLOCK_ROWS + r] == margin) continue;
      fail("%s, %u groups, %u queries: query %u, row %u: margin %d, not %lld", kernel.name,
           codes.groups, queries, q, r, margins[q * BLOCK_ROWS + r],
           static_cast<long long>(margin));
    }
    anyExpected |= expected;
    if ((isFound ? survivors[q] : 0) != expected) {
      fail("%s, %u groups, %u queries: survivors", kernel.name, codes.groups, queries);
    }
  }
  if ((found != 0) != (anyExpected != 0)) fail("%s: whether rows survive", kernel.name);
  if (queries < 64 && found >> queries != 0) fail("%s: a query there is not", kernel.name);
}

/** `choice`: how the limits lie to the sum of one row of each query. */
void checkFilter(const Kernel& kernel, const Codes& codes, int choice) {
  std::vector<int32_t> limits;
  for (uint32_t q = 0; q < codes.words.size(); ++q) {
    int32_t greatest = sumOf(codes, q, 0);
    for (uint32_t r = 1; r < BLOCK_ROWS; ++r) greatest = std::max(greatest, sumOf(codes, q, r));
    limits.push_back(limitFor(choice, q % 2 == 0 ? greatest : sumOf(codes, q, q)));
  }
  checkFilter(kernel, codes, limits);
}

/** A block of which one row alone survives, for each of all queries. */
void checkOnlySurvivor(const Kernel& kernel, uint32_t r) {
  Codes codes = makeCodes(kernel, 3, kernel.groupQueries, 1);
  uint8_t* bytes = codes.bytes.as<uint8_t>();
  for (uint32_t group = 0; group < codes.groups; ++group) {
    std::memset(bytes + size_t{group} * 4 * BLOCK_ROWS, 0, 4 * BLOCK_ROWS);
    std::memset(bytes + (size_t{group} * BLOCK_ROWS + r) * 4, 255, 4);
  }
  std::vector<int32_t> sums;
  for (uint32_t q = 0; q < kernel.groupQueries; ++q) sums.push_back(sumOf(codes, q, r));
  checkFilter(kernel, codes, sums);
}

void checkFilters(const Kernel& kernel) {
  for (const uint32_t groups : {1u, 2u, 3u, 15u, 16u, 17u, 33u, 64u}) {
    for (uint32_t queries = 1; queries <= kernel.groupQueries; ++queries) {
      const Codes codes = makeCodes(kernel, groups, queries, 0);
      for (int choice = 0; choice < 4; ++choice) checkFilter(kernel, codes, choice);
    }
  }
  for (const uint32_t r : {0u, 1u, 31u, 32u, 63u}) checkOnlySurvivor(kernel, r);
  for (const int extreme : {1, -1}) {
    const Codes codes = makeCodes(kernel, 32768 / 4, kernel.groupQueries, extreme);
    for (int choice = 0; choice < 4; ++choice) checkFilter(kernel, codes, choice);
  }
}

void checkCounts(const Kernel& kernel) {
  const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, 1e-45f, -1e-45f};
  for (size_t count = 0; count < 70; ++count) {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) {
      const int choice = wholeNumber(0, 11);
      values.push_back(choice < 6 ? special[choice] : static_cast<float>(choice - 8));
    }
    for (const float least : {0.0f, -0.0f, 1.0f, 1e-45f, -INFINITY, INFINITY}) {
      const auto expected = std::count_if(values.begin(), values.end(),
                                          [&](float value) { return value >= least; });
      if (kernel.countFrom(values.data(), count, least) != static_cast<size_t>(expected)) {
        fail("%s: %zu values counted wrongly", kernel.name, count);
      }
    }
  }
}

/** The canonical score as the document defines it, one step at a time. */
float scoreOf(const std::vector<double>& query, const std::vector<float>& row) {
  double lanes[8] = {};
  for (size_t j = 0; j < row.size(); ++j) {
    const double product = query[j] * static_cast<double>(row[j]);
    lanes[j % 8] += product;
  }
  const double first = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]);
  const double second = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return static_cast<float>(first + second) + 0.0f;
}

float anyValue(int family) {
  if (family == 0) return normal();
  if (family == 1) return wholeNumber(0, 1) == 0 ? 0.0f : -0.0f;
  if (family == 2) return normal() * std::exp2(static_cast<float>(wholeNumber(-149, 126)));
  const float special[] = {INFINITY, -INFINITY, NAN, 0.0f, 1.0f};
  return special[wholeNumber(0, 4)];
}

void checkScores(const Kernel& kernel) {
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> query;
    std::vector<float> row;
    const int family = round % 4;
    for (int j = wholeNumber(1, 40); j > 0; --j) {
      query.push_back(anyValue(family));
      // Rows are finite.
      row.push_back(anyValue(family % 3));
    }
    const float score = kernel.score(query.data(), row.data(), static_cast<uint32_t>(row.size()));
    const float expected = scoreOf(query, row);
    const bool isSame = std::isnan(expected)
                            ? std::isnan(score)
                            : std::memcmp(&score, &expected, sizeof score) == 0;
    if (!isSame) {
      fail("%s: score %.9g, not %.9g", kernel.name, static_cast<double>(score),
           static_cast<double>(expected));
    }
  }
}

/** With any lanes, as the search never makes them, limits stay within what a margin can hold. */
void checkLimits(const Kernel& kernel) {
  double values[5][16];
  const float thresholds[] = {-INFINITY, std::numeric_limits<float>::max(), 0, -1, 1e30f, 1e-45f};
  for (uint32_t count = 1; count <= 16; ++count) {
    for (uint32_t lane = 0; lane < 16; ++lane) {
      // Lanes past the last are never written, nor may what they hold matter.
      const bool isUsed = lane < count;
      values[0][lane] = isUsed ? thresholds[(lane + count) % 6] : NAN;
      values[1][lane] = isUsed ? std::fabs(normal()) : NAN;
      values[2][lane] = isUsed ? std::fabs(normal()) / 100 : NAN;
      values[3][lane] = isUsed ? std::exp2(wholeNumber(-100, 100)) : NAN;
      values[4][lane] = isUsed ? CODE_MIDDLE * wholeNumber(-4000000, 4000000) : NAN;
    }
    const BlockBounds block{std::exp2(wholeNumber(-60, 60)), 0.01, 2, 2.5};
    const QueryLanes lanes{count, values[0], values[1], values[2], values[3], values[4]};
    int32_t limits[17];
    std::fill_n(limits, 17, 12345);
    kernel.computeLimits(block, lanes, {}, limits);
    for (uint32_t lane = 0; lane < count; ++lane) {
      const int64_t scalar = boundLimit(block, lanes, lane, {}, 1 / block.scale);
      if (std::abs(limits[lane] - scalar) > 1) fail("%s: limit %u", kernel.name, lane);
    }
    for (uint32_t lane = count; lane < 17; ++lane) {
      if (limits[lane] != 12345) fail("%s: %u limits, and one more", kernel.name, count);
    }
  }
}

}  // namespace

void testKernels() {
  for (const Kernel* kernel : kernels()) {
    checkFilters(*kernel);
    checkCounts(*kernel);
    checkScores(*kernel);
    checkLimits(*kernel);
  }
  std::printf("self-test: the inner loops of %zu kernels do what they are defined to do\n",
              kernels().size());
}

}  // namespace winnow::test
