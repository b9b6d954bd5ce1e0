// Any bytes make a search: a table and queries of a kind that has broken searches, odd sizes, rows
// excluded or masked, some kernel, some threads. Its answer must be what sorting gives. The bytes are
// random numbers here, and libFuzzer's in `self-test-fuzz.cpp`.

#include "test/self-test-random.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

namespace winnow::test {

namespace {

/** Reads numbers from bytes; zeros when there are no more. */
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t count) : data_(data), count_(count) {}

  uint32_t next() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | (count_ > 0 ? (--count_, *data_++) : 0u);
    return value;
  }
  /** From 0 to `limit` - 1; for small limits one byte is enough. */
  uint32_t below(uint32_t limit) {
    if (limit > 256) return next() % limit;
    const uint32_t byte = count_ > 0 ? (--count_, *data_++) : 0u;
    return byte % limit;
  }

 private:
  const uint8_t* data_;
  size_t count_;
};

/** One of a family of values. */
class Values {
 public:
  Values(uint32_t family, uint32_t seed) : family_(family % FAMILIES), bits_(seed) {}
  static constexpr uint32_t FAMILIES = 10;

  float at(uint32_t row, uint32_t j) {
    switch (family_) {
      case 0:
        return normal_(bits_);
      case 1:
        return static_cast<float>(static_cast<int>(bits_() % 3) - 1);
      case 2:
        // Codes without error, if the greatest is among them.
        return static_cast<float>(bits_() % 256) - 127.5f;
      case 3:
        return std::ldexp(normal_(bits_), static_cast<int>(row % 200) - 100);
      case 4:
        return std::ldexp(normal_(bits_), static_cast<int>(j * 17 % 120) - 60);
      case 5:
        return std::ldexp(static_cast<float>(bits_() % 2000), -149);
      case 6:
        return oneStepFrom(std::sin(static_cast<float>(j + 1)));
      case 7:
        return normal_(bits_) * (row % 97 == 0 ? 1e6f : 1e-6f);
      case 8:
        return bits_() % 2 == 0 ? 0.0f : -0.0f;
      default:
        return finite(bits_());
    }
  }

  static float finite(uint32_t bits) {
    if ((bits & 0x7f800000u) == 0x7f800000u) bits &= ~0x00800000u;
    return any(bits);
  }
  static float any(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

 private:
  float oneStepFrom(float base) {
    uint32_t bits;
    std::memcpy(&bits, &base, sizeof bits);
    return any(bits + bits_() % 3 - 1);
  }

  uint32_t family_;
  std::mt19937 bits_;
  std::normal_distribution<float> normal_;
};

uint32_t sizeFrom(Bytes& bytes, uint32_t usual, uint32_t greatest) {
  return 1 + (bytes.below(8) == 0 ? bytes.below(greatest) : bytes.below(usual));
}

void fillRows(Bytes& bytes, Problem& problem) {
  Values values(bytes.below(Values::FAMILIES), bytes.next());
  // Few different rows make many ties.
  const uint32_t different = bytes.below(4) == 0 ? 1 + bytes.below(50) : problem.rows;
  for (uint32_t row = 0; row < problem.rows; ++row) {
    for (uint32_t j = 0; j < problem.dim; ++j) {
      const size_t at = size_t{row} * problem.dim + j;
      const bool isCopy = row >= different;
      problem.table.push_back(isCopy ? problem.table[at - size_t{different} * problem.dim]
                                     : values.at(row, j));
    }
  }
  for (uint32_t changes = bytes.below(16); changes > 0; --changes) {
    const uint32_t at = bytes.next() % static_cast<uint32_t>(problem.table.size());
    problem.table[at] = Values::finite(bytes.next());
  }
}

void fillQueries(Bytes& bytes, Problem& problem) {
  Values values(bytes.below(Values::FAMILIES), bytes.next());
  for (uint32_t query = 0; query < problem.queries; ++query) {
    const bool isRow = bytes.below(6) == 0;
    const size_t row = bytes.below(problem.rows);
    for (uint32_t j = 0; j < problem.dim; ++j) {
      problem.vectors.push_back(isRow ? problem.table[row * problem.dim + j] : values.at(query, j));
    }
  }
  for (uint32_t changes = bytes.below(8); changes > 0; --changes) {
    const uint32_t at = bytes.next() % static_cast<uint32_t>(problem.vectors.size());
    problem.vectors[at] = Values::any(bytes.next());
  }
}

void restrictRows(Bytes& bytes, Problem& problem) {
  const uint32_t kind = bytes.below(8);
  if (kind < 3) {
    problem.excludedRows.resize(problem.queries);
    for (std::vector<uint32_t>& rows : problem.excludedRows) {
      const uint32_t stride = 1 + bytes.below(20);
      // Also rows that do not exist, and all rows.
      for (uint32_t row = bytes.below(40); row < problem.rows + 30; row += stride) {
        rows.push_back(row);
        if (bytes.below(16) == 1) rows.push_back(row);
      }
      if (bytes.below(4) == 0) rows.clear();
    }
  }
  if (bytes.below(3) != 0) return;
  problem.filters.resize(1 + bytes.below(3));
  for (std::vector<uint8_t>& bits : problem.filters) {
    const uint32_t filling = bytes.below(5);
    std::mt19937 random(bytes.next());
    for (uint32_t size = bytes.below(2) == 0 ? bytes.below(problem.rows / 8 + 4) : problem.rows / 8 + 1;
         size > 0; --size) {
      const uint32_t some = filling == 2 ? random() & 255 : random() % 40 == 0 ? 1u << random() % 8 : 0;
      bits.push_back(static_cast<uint8_t>(filling == 0 ? 0 : filling == 1 ? 255 : some));
    }
  }
  for (uint32_t query = 0; query < problem.queries; ++query) {
    const uint32_t number = bytes.below(static_cast<uint32_t>(problem.filters.size()) + 1);
    const bool hasNone = number == problem.filters.size();
    problem.filterOf.push_back(hasNone ? SearchRequest::NO_FILTER : number);
  }
}

Problem problemFrom(Bytes& bytes) {
  Problem problem;
  problem.name = "random bytes";
  problem.rows = sizeFrom(bytes, 400, 5000);
  problem.dim = sizeFrom(bytes, 24, 300);
  problem.queries = sizeFrom(bytes, 12, 60);
  problem.k = 1 + bytes.below(std::min(problem.rows, bytes.below(2) == 0 ? 12u : problem.rows));
  fillRows(bytes, problem);
  fillQueries(bytes, problem);
  restrictRows(bytes, problem);
  return problem;
}

/** Threads are costly to start, so teams of each size are kept. */
ThreadTeam& teamOf(uint32_t threads) {
  static std::unique_ptr<ThreadTeam> teams[3];
  std::unique_ptr<ThreadTeam>& team = teams[threads - 1];
  if (team == nullptr) team = std::make_unique<ThreadTeam>(threads);
  return *team;
}

}  // namespace

void testBytes(const uint8_t* data, size_t count) {
  Bytes bytes(data, count);
  const Kernel& kernel = *kernels()[bytes.below(static_cast<uint32_t>(kernels().size()))];
  ThreadTeam& team = teamOf(1 + bytes.below(3));
  const uint32_t parts = 1 + bytes.below(4);
  const Problem problem = problemFrom(bytes);
  const std::vector<TablePointer> tables = loadTables(problem, std::min(parts, problem.rows));
  // Nothing is kept, so that sanitizers see every block.
  ScratchStore store(0);
  Search search(requestOf(problem, tables), kernel, store);
  if (!search.run(team)) fail("%s with %s: stopped", problem.name.c_str(), kernel.name);
  compare(problem, kernel, search.answer());
}

void testRandomProblems(int count) {
  std::vector<uint8_t> bytes(4096);
  for (int i = 0; i < count; ++i) {
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(wholeNumber(0, 255));
    testBytes(bytes.data(), bytes.size());
  }
  std::printf("self-test: %d searches of random bytes give what sorting gives\n", count);
}

}  // namespace winnow::test
