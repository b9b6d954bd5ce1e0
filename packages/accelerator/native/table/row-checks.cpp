// CRC-32C by the instruction that x86-64 and ARMv8 have for it, else by tables.
//
// The instruction takes eight bytes and has its result three cycles later, but can begin with others
// in each cycle: so three neighbouring pieces are run over at a time, each from a register of its
// own. The registers are joined as in core/src/checksum/checksum.ts: a register is shifted by the bytes that
// follow its piece, which costs four look-ups, as the lengths of pieces are fixed (Adler's crc32c.c
// does the same).

#include "table/row-checks.h"

#include <array>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define WINNOW_CHECKSUM_LOOPS __attribute__((target("sse4.2")))
#define WINNOW_TAKE_WORD(value, word) _mm_crc32_u64(value, word)
#define WINNOW_TAKE_BYTE(value, byte) _mm_crc32_u8(value, byte)
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__aarch64__)
// By name, as the intrinsics of older compilers want the whole file compiled for processors with it.
#define WINNOW_CHECKSUM_LOOPS
static inline uint64_t takeWord(uint64_t value, uint64_t word) {
  uint32_t result = static_cast<uint32_t>(value);
  __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(result) : "r"(word));
  return result;
}
static inline uint32_t takeByte(uint32_t value, uint32_t byte) {
  __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(value) : "r"(byte));
  return value;
}
#define WINNOW_TAKE_WORD(value, word) takeWord(value, word)
#define WINNOW_TAKE_BYTE(value, byte) takeByte(value, byte)
#endif

namespace winnow {

namespace {

constexpr uint32_t POLYNOMIAL = 0x82f63b78;
/** Bytes of each of three pieces: long ones while there are enough bytes, then short ones. */
constexpr size_t LONG_BYTES = 4096;
constexpr size_t SHORT_BYTES = 256;

using ByteTables = std::array<std::array<uint32_t, 256>, 4>;

/** Table t, byte b: the register after b and t bytes of zero. */
ByteTables sliceTables() {
  ByteTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? POLYNOMIAL : 0);
    tables[0][byte] = value;
  }
  for (size_t table = 1; table < tables.size(); ++table) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

const ByteTables& slices() {
  static const ByteTables tables = sliceTables();
  return tables;
}

uint32_t extendByTables(uint32_t value, const uint8_t* bytes, size_t count) {
  const ByteTables& tables = slices();
  for (; count >= 4; bytes += 4, count -= 4) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; ++i) word |= uint32_t{bytes[i]} << (8 * i);
    word ^= value;
    value = tables[3][word & 255] ^ tables[2][word >> 8 & 255] ^ tables[1][word >> 16 & 255] ^
            tables[0][word >> 24];
  }
  for (; count > 0; ++bytes, --count) value = value >> 8 ^ tables[0][(value ^ *bytes) & 255];
  return value;
}

const ChecksumLoop TABLE_LOOP = {"tables", extendByTables};

#if defined(WINNOW_CHECKSUM_LOOPS)

/** Shifts a register by a fixed number of zero bytes: byte i of it is looked up in table i. */
class Shift {
 public:
  explicit Shift(size_t zeroBytes) {
    const std::array<uint8_t, LONG_BYTES> zeros{};
    // The register is linear: what a byte becomes is the sum of what its bits become.
    for (uint32_t bit = 0; bit < 32; ++bit) {
      uint32_t value = uint32_t{1} << bit;
      for (size_t left = zeroBytes; left > 0;) {
        const size_t step = left < zeros.size() ? left : zeros.size();
        value = extendByTables(value, zeros.data(), step);
        left -= step;
      }
      const uint32_t mask = uint32_t{1} << bit % 8;
      for (uint32_t byte = 0; byte < 256; ++byte) {
        if ((byte & mask) != 0) tables_[bit / 8][byte] ^= value;
      }
    }
  }

  uint32_t of(uint32_t value) const {
    return tables_[0][value & 255] ^ tables_[1][value >> 8 & 255] ^ tables_[2][value >> 16 & 255] ^
           tables_[3][value >> 24];
  }

 private:
  ByteTables tables_{};
};

/** Runs over whole triples of pieces; what is left of the bytes is shorter than one triple. */
template <size_t PIECE_BYTES>
WINNOW_CHECKSUM_LOOPS uint32_t extendTriples(uint32_t value, const uint8_t*& bytes, size_t& count) {
  static const Shift shift(PIECE_BYTES);
  for (; count >= 3 * PIECE_BYTES; bytes += 3 * PIECE_BYTES, count -= 3 * PIECE_BYTES) {
    uint64_t first = value;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t at = 0; at < PIECE_BYTES; at += 8) {
      uint64_t words[3];
      std::memcpy(&words[0], bytes + at, 8);
      std::memcpy(&words[1], bytes + PIECE_BYTES + at, 8);
      std::memcpy(&words[2], bytes + 2 * PIECE_BYTES + at, 8);
      first = WINNOW_TAKE_WORD(first, words[0]);
      second = WINNOW_TAKE_WORD(second, words[1]);
      third = WINNOW_TAKE_WORD(third, words[2]);
    }
    const uint32_t two = shift.of(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
    value = shift.of(two) ^ static_cast<uint32_t>(third);
  }
  return value;
}

WINNOW_CHECKSUM_LOOPS uint32_t extendByInstruction(uint32_t value, const uint8_t* bytes,
                                                   size_t count) {
  value = extendTriples<LONG_BYTES>(value, bytes, count);
  value = extendTriples<SHORT_BYTES>(value, bytes, count);
  for (; count >= 8; bytes += 8, count -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    value = static_cast<uint32_t>(WINNOW_TAKE_WORD(value, word));
  }
  for (; count > 0; ++bytes, --count) value = WINNOW_TAKE_BYTE(value, *bytes);
  return value;
}

const ChecksumLoop INSTRUCTION_LOOP = {"instruction", extendByInstruction};

bool hasInstruction() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") != 0;
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) >> 7 & 1) != 0;
#else
  return true;  // Every ARM processor of macOS has it.
#endif
}

#endif

}  // namespace

const std::vector<const ChecksumLoop*>& checksumLoops() {
  static const std::vector<const ChecksumLoop*> found = [] {
    std::vector<const ChecksumLoop*> all;
#if defined(WINNOW_CHECKSUM_LOOPS)
    if (hasInstruction()) all.push_back(&INSTRUCTION_LOOP);
#endif
    all.push_back(&TABLE_LOOP);
    return all;
  }();
  return found;
}

size_t firstNotFinite(const float* values, size_t count) {
  constexpr size_t STEP = 4096;
  for (size_t start = 0; start < count; start += STEP) {
    const size_t end = start + STEP < count ? start + STEP : count;
    uint32_t faults = 0;
    for (size_t i = start; i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i, sizeof bits);
      faults |= (bits & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
    }
    if (faults == 0) continue;
    for (size_t i = start; i < end; ++i) {
      if (!std::isfinite(values[i])) return i;
    }
  }
  return count;
}

}  // namespace winnow
