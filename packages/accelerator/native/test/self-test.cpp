// What every part of the self-test needs: a way to fail, the kernels there are, numbers.

#include "test/self-test.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace winnow::test {

void fail(const char* format, ...) {
  std::printf("self-test: ");
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::exit(1);
}

const std::vector<const Kernel*>& kernels() {
  static const std::vector<const Kernel*> found = [] {
    std::vector<const Kernel*> all;
    for (const char* name : KERNEL_NAMES) {
      const Kernel* kernel = selectKernel(name);
      if (std::strcmp(kernel->name, name) == 0) all.push_back(kernel);
    }
    return all;
  }();
  return found;
}

std::mt19937& randomBits() {
  static std::mt19937 bits(7);
  return bits;
}

float normal() {
  static std::normal_distribution<float> distribution;
  return distribution(randomBits());
}

int wholeNumber(int least, int greatest) {
  return std::uniform_int_distribution<int>(least, greatest)(randomBits());
}

}  // namespace winnow::test
