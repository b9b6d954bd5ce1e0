// Runs the scan without Node, so that sanitizers see every access and every race. Called with names
// of parts it runs those, else all; prints one line per part; exits 1 at the first difference.

#include <cstdio>
#include <cstring>

#include "test/self-test.h"

namespace winnow::test {

namespace {

constexpr int RANDOM_PROBLEMS = 300;

struct Part {
  const char* name;
  void (*run)();
};

const Part PARTS[] = {{"memory", testMemory},
                      {"checks", testChecks},
                      {"kernels", testKernels},
                      {"coders", testCoders},
                      {"bounds", testBounds},
                      {"searches", testSearches},
                      {"guesses", testGuesses},
                      {"dense limits", testDenseLimits},
                      {"interruptions", testInterruptions},
                      {"random", [] { testRandomProblems(RANDOM_PROBLEMS); }}};

}  // namespace

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
