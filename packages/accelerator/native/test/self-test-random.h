// Turns any bytes into a search and checks its answer.

#pragma once

#include "test/self-test.h"

namespace winnow::test {

/** Fails unless the search that these bytes stand for is answered as sorting does. */
void testBytes(const uint8_t* data, size_t count);

}  // namespace winnow::test
