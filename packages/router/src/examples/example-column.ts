// Serialized tf.Examples that begin with what all of them have in common. Of concatenated messages the last one counts,
// so that a feature that both have is the example's (servables/tensorflow/util.cc, InputToSerializedExampleTensor).

import { StringColumn, WinnowError } from "@winnow/core";

/** Bytes that a context may take in all examples: a request of some KB could ask for GB. */
const REPEATED_BYTES_MAX = 16 * 2 ** 20;

/** The examples, each behind the context, if there is one. @throws WinnowError INVALID_ARGUMENT for too much of it */
export function exampleColumn(context: Uint8Array, examples: readonly Uint8Array[]): StringColumn {
  if (context.length === 0) return StringColumn.fromBytes(examples);
  const repeated = context.length * examples.length;
  if (repeated > REPEATED_BYTES_MAX) {
    const text = `The context would take ${repeated} bytes in ${examples.length} examples`;
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `${text}; at most ${REPEATED_BYTES_MAX}: send fewer at once`,
    );
  }
  return StringColumn.fromBytes(examples.map((example) => Buffer.concat([context, example])));
}
