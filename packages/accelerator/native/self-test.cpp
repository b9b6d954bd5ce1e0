// Runs the scan without Node, so that sanitizers see every access and every race. Called with names
// of parts it runs those, else all; prints one line per part; exits 1 at the first difference.

#include "self-test.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace winnow::test {

namespace {

constexpr int RANDOM_PROBLEMS = 300;

struct Part {
  const char* name;
  void (*run)();
};

const Part PARTS[] = {{"kernels", testKernels},
                      {"bounds", testBounds},
                      {"searches", testSearches},
                      {"interruptions", testInterruptions},
                      {"random", [] { testRandomProblems(RANDOM_PROBLEMS); }}};

}  // namespace

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

int main(int count, char** names) {
  using namespace winnow::test;
  std::printf("self-test:");
  for (const winnow::Kernel* kernel : kernels()) std::printf(" %s", kernel->name);
  std::printf("\n");
  for (const auto& part : PARTS) {
    bool isWanted = count <= 1;
    for (int i = 1; i < count; ++i) isWanted = isWanted || std::strcmp(names[i], part.name) == 0;
    if (isWanted) part.run();
  }
  return 0;
}
