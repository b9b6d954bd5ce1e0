// The part of onnxruntime-node that Winnow uses, with types of its own, because the package's
// typings need the DOM library, which no process of Winnow has.

import { createRequire } from "node:module";
import type { DtypeArrays } from "@winnow/core";
import { forbidStatistics } from "./onnx-settings.ts";

type NumberArray = Exclude<DtypeArrays[keyof DtypeArrays], DtypeArrays["string"]>;

/** A tensor of the runtime; element types have the names of `Dtype`. */
export interface OnnxTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: NumberArray;
}

/** An input or output as ONNX Runtime knows it before any run; sizes that it does not know are texts. */
export type OnnxValue =
  | { readonly isTensor: false; readonly name: string }
  | {
      readonly isTensor: true;
      readonly name: string;
      readonly type: string;
      readonly shape: readonly (number | string)[];
    };

/** A loaded model. */
export interface OnnxSession {
  readonly inputMetadata: readonly OnnxValue[];
  readonly outputMetadata: readonly OnnxValue[];
  run(
    feeds: Readonly<Record<string, OnnxTensor>>,
    outputs: readonly string[],
  ): Promise<Readonly<Record<string, OnnxTensor>>>;
  release(): Promise<void>;
}

interface OnnxRuntime {
  readonly InferenceSession: {
    create(onnx: Uint8Array, options: Readonly<Record<string, unknown>>): Promise<OnnxSession>;
  };
  readonly Tensor: new (type: string, data: NumberArray, dims: readonly number[]) => OnnxTensor;
}

forbidStatistics();

/** The runtime, loaded with its native library. */
export const onnxRuntime: OnnxRuntime = createRequire(import.meta.url)(
  "onnxruntime-node",
) as OnnxRuntime;
