// A run of a dense part on zeros, where nothing else tells the width of the query that it computes: ONNX Runtime does
// not infer sizes that depend on computed values. Such a part of another width than the searched table would fail at
// every request. What a trial cannot decide (another rank, a run that fails or takes long) is not held against the
// version: zeros may be no input that clients ever send.

import type { DenseModel } from "@winnow/accelerator";
import { dtypeArrays, elementCount, settledWithin } from "@winnow/core";
import type { Clock, ModelProgram, Tensor } from "@winnow/core";

/** How long one run of a part is waited for. */
const TRIAL_MS_MAX = 5000;
/** Values of an input, at most: those of one instance. */
const VALUES_MAX = 2 ** 20;

/** A query whose width only a run tells. */
export interface DenseTrial {
  /** Name of the output of the part. */
  readonly output: string;
  /** Zeros for one instance, by the part's names. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  /** What is searched, and the width that it takes. */
  readonly table: string;
  readonly width: number;
}

/** The trials of a part: the searches of its outputs, where it reads what clients send and no more. */
export function trialsOf(
  { signatures, tables }: ModelProgram,
  part: number,
  { shapes }: Pick<DenseModel, "shapes">,
): readonly DenseTrial[] {
  return signatures.flatMap(({ inputs: sent, steps }) =>
    steps.flatMap((step) => {
      if (step.kind !== "dense" || step.model !== part || step.when !== undefined) return [];
      const unknown = step.outputs.filter(({ name }) => isUnknown(shapes?.outputs[name]));
      const searches = unknown.flatMap(({ name, value }) =>
        steps.flatMap((each) =>
          each.kind === "topK" && each.query === value
            ? [{ output: name, table: tables[each.table]!, vectors: each.vectors ?? 1 }]
            : [],
        ),
      );
      const inputs = searches.length === 0 ? undefined : zerosOf(step.inputs, sent);
      if (inputs === undefined) return [];
      return searches.map(({ output, table: { name, dim }, vectors }) => {
        return { output, inputs, table: name, width: dim * vectors };
      });
    }),
  );
}

/** Whether the last size is one that only a run tells. */
function isUnknown(shape: readonly number[] | undefined): boolean {
  const width = shape?.at(-1);
  return width === undefined || width < 0;
}

type Signature = ModelProgram["signatures"][number];
type DenseInputs = Extract<Signature["steps"][number], { readonly kind: "dense" }>["inputs"];

/** Zeros for every input; `undefined` where one is no input of the signature, is a text, or has a size of clients' choice. */
function zerosOf(
  inputs: DenseInputs,
  sent: Signature["inputs"],
): ReadonlyMap<string, Tensor> | undefined {
  const zeros = new Map<string, Tensor>();
  for (const { name, value } of inputs) {
    const spec = sent.find((each) => each.value === value);
    if (spec?.shape === undefined || spec.dtype === "string") return undefined;
    const shape = [1, ...spec.shape.slice(1)];
    const count = elementCount(shape);
    if (shape.some((size) => size < 0) || count > VALUES_MAX) return undefined;
    const data = new dtypeArrays[spec.dtype](count);
    zeros.set(name, { dtype: spec.dtype, shape, data } as Tensor);
  }
  return zeros;
}

/** The width that a run gives; `undefined`: it gives no row of values, fails, or is not waited for. */
export async function triedWidth(
  model: DenseModel,
  { inputs, output }: DenseTrial,
  clock: Clock,
): Promise<number | undefined> {
  let shape: readonly number[] = [];
  const run = async (): Promise<void> => {
    const outputs = await model.run(inputs, [output]);
    shape = outputs.get(output)?.shape ?? [];
  };
  await settledWithin(clock, TRIAL_MS_MAX, run());
  return shape.length === 2 ? shape[1] : undefined;
}
