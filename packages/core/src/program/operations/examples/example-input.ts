// `tensorflow.serving.Input`, the tf.Examples of a request (tensorflow_serving/apis/input.proto). Examples stay bytes: the
// graph parses them. What all have in common comes before each of them: of concatenated messages the last one counts, so that a
// feature that both have is the example's (servables/tensorflow/util.cc, InputToSerializedExampleTensor).

import { WinnowError } from "../../../errors/errors.ts";
import type { ProtobufReader } from "../../../protobuf/protobuf-reader.ts";
import { StringColumn } from "../../../tensor/string-column.ts";

/** Bytes that a context may take in all examples: a request of some KB could ask for GB. */
const REPEATED_BYTES_MAX = 4 * 2 ** 20;
/** Parts in which lists and a context may come: one, but for a sender that wants them merged. */
const PARTS_MAX = 64;

/** Fields of `Input`, of which the last one counts, and of the messages in them. */
const KINDS: ReadonlySet<number> = new Set([1, 2]);
const EXAMPLES = 1;
const CONTEXT = 2;

/** The name of the input that takes examples in signatures for Classify and Regress. */
export const EXAMPLES_INPUT = "inputs";

/** The examples of one request. */
export class ExampleInput {
  readonly #onExample: (examples: number) => void;
  #lists = 0;
  #kind = 0;
  #context: Uint8Array[] = [];
  #examples: Uint8Array[] = [];

  /** `onExample` is told how many there are after each that is read, and may refuse more. */
  constructor(onExample: (examples: number) => void) {
    this.#onExample = onExample;
  }

  /** Reads an `Input`, merged into those before it as protobuf merges them. @throws WinnowError INVALID_ARGUMENT */
  read(input: ProtobufReader): void {
    while (input.next()) {
      const kind = input.field;
      if (!KINDS.has(kind)) continue;
      this.#lists += 1;
      if (this.#lists > PARTS_MAX) throw invalid(`The input comes in more than ${PARTS_MAX} parts`);
      if (this.#kind !== kind) [this.#kind, this.#context, this.#examples] = [kind, [], []];
      this.#readList(input.message());
    }
  }

  /** `ExampleList` and `ExampleListWithContext`, which begin alike. */
  #readList(list: ProtobufReader): void {
    while (list.next()) {
      if (list.field === EXAMPLES) {
        this.#examples.push(list.view());
        this.#onExample(this.#examples.length);
      } else if (list.field === CONTEXT && this.#kind === CONTEXT) {
        if (this.#context.length === PARTS_MAX) {
          throw invalid(`The context comes in more than ${PARTS_MAX} parts`);
        }
        this.#context.push(list.view());
      }
    }
  }

  /** The examples, each behind the context. @throws WinnowError INVALID_ARGUMENT where there are none */
  column(): StringColumn {
    if (this.#examples.length === 0) throw invalid("Input is empty.");
    return exampleColumn(joined(this.#context), this.#examples);
  }
}

/** The examples, each behind the context, if there is one; one without it stays where it is. @throws WinnowError INVALID_ARGUMENT for too much of it */
export function exampleColumn(context: Uint8Array, examples: readonly Uint8Array[]): StringColumn {
  const [only] = examples;
  if (context.length === 0 && only !== undefined && examples.length === 1) {
    return new StringColumn(Uint32Array.of(0, only.length), only);
  }
  if (context.length === 0) return StringColumn.fromBytes(examples);
  const repeated = context.length * examples.length;
  if (repeated > REPEATED_BYTES_MAX) {
    const text = `The context would take ${repeated} bytes in ${examples.length} examples`;
    throw invalid(`${text}; at most ${REPEATED_BYTES_MAX}: send fewer at once`);
  }
  return StringColumn.fromBytes(examples.map((example) => joined([context, example])));
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  return StringColumn.fromBytes(parts).bytes;
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
