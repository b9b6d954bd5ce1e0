// How the system's allocator treats large blocks. glibc first maps each block of its own and gives it back when
// it is freed, but after the first such block it takes those of up to 32 MiB from its heaps instead, whose pages
// stay with the process for as long as anything behind them lives. The arrays of a model version (names, look-up
// tables, attributes) are of that size: each version that is replaced would leave some behind.

#pragma once

namespace winnow {

/**
 * Blocks of 1 MiB and more are from now on mapped on their own, whatever was freed before. Where the environment
 * says how large blocks are to be treated (MALLOC_MMAP_THRESHOLD_, GLIBC_TUNABLES), and with other C libraries, nothing changes.
 */
void returnLargeBlocks();

}  // namespace winnow
