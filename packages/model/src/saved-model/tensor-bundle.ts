// TensorFlow's checkpoint format.

import type { Dtype } from "@winnow/core";

/** What the index says of one tensor. */
export interface BundleEntry {
  readonly key: string;
  /** `undefined`: a type Winnow does not compute with, named by `typeName`. */
  readonly dtype: Dtype | undefined;
  readonly typeName: string;
  readonly shape: readonly number[];
  /** Number of the data file that holds it. */
  readonly part: number;
  readonly offset: number;
  readonly size: number;
  /** Unmasked CRC-32C. */
  readonly checksum: number;
}
