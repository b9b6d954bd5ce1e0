// The entry point for libFuzzer, which invents the bytes and keeps those that reach new code.

#include "test/self-test-random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t count) {
  winnow::test::testBytes(data, count);
  return 0;
}
