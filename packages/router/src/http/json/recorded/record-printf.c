// Records what C's printf makes of floating-point numbers by TensorFlow Serving's rule
// (util/json_tensor.cc, WriteDecimal). Writes lines like those of printf-answers.txt, which are a
// sample of them: f<bits of a float32> <text>, d<bits of a float64> <text>.
//
//   gcc -O2 record-printf.c -o record -lm && ./record

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static void print_float32(float value) {
  char text[64];
  uint32_t bits;
  snprintf(text, sizeof text, "%.6g", value);
  if (strtof(text, NULL) != value) snprintf(text, sizeof text, "%.9g", value);
  memcpy(&bits, &value, 4);
  printf("f%u %s%s\n", bits, text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_float64(double value) {
  char text[64];
  uint64_t bits;
  snprintf(text, sizeof text, "%.6g", value);
  if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
  memcpy(&bits, &value, 8);
  printf("d%llu %s%s\n", (unsigned long long)bits, text, strpbrk(text, ".e") ? "" : ".0");
}

int main(void) {
  for (int i = 0; i < 1500000; i++) {
    uint32_t bits = (uint32_t)next_random();
    float value;
    memcpy(&value, &bits, 4);
    if (isfinite(value)) print_float32(value);
  }
  for (int i = 0; i < 300000; i++) {
    double whole = (double)((int64_t)(next_random() % 2000001) - 1000000);
    print_float32((float)(whole / (1 << (next_random() % 20))));
  }
  for (int i = 0; i < 300; i++) {
    print_float32(ldexpf(1, i - 149));
    print_float32(powf(10, i % 77 - 38));
    print_float32(nextafterf(powf(10, i % 77 - 38), 0));
  }
  for (int i = 0; i < 200000; i++) {
    uint64_t bits = next_random();
    double value;
    memcpy(&value, &bits, 8);
    if (isfinite(value)) print_float64(value);
  }
}
