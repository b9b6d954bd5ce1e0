// A request that works, for the line `winnow up` prints: built from the signature's inputs with
// keys the model really knows.

import type { SignatureProgram, SignatureTensor, Step, Tensor } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { type VersionDirectory } from "../model-source/model-source.ts";
import { withVersion } from "../model-source/object-versions.ts";

/** A request for the line that `winnow up` prints. */
export interface ExampleRequest {
  /** JSON: with `instances`, or with `inputs` where an input is one value for all instances. */
  readonly body: string;
  /** A header that the request needs, with its value. */
  readonly header?: string;
}

/**
 * A request that this version answers; `undefined` where none is known, as where records are parsed (tf.Example). An
 * experiment answers those of its arms: the model of one of them is looked for among the other versions.
 */
export async function exampleRequest(
  found: VersionDirectory,
  others: readonly VersionDirectory[],
): Promise<ExampleRequest | undefined> {
  const { experiment, own } = await withVersion(found.directory, (version) => ({
    experiment: version.program.experiment,
    own: exampleOfModel(version),
  }));
  if (experiment === undefined) return own;
  const { arms, sticky } = experiment;
  const asked = others.find((other) =>
    arms.some(({ model }) => model === other.model && model !== found.model),
  );
  const example = asked === undefined ? undefined : await exampleRequest(asked, []);
  if (example === undefined) return undefined;
  return sticky?.by === "header" ? { ...example, header: `${sticky.name}: 42` } : example;
}

function exampleOfModel(version: ModelVersion): ExampleRequest | undefined {
  const { signatures } = version.program;
  const signature =
    signatures.find(({ name }) => name === "serving_default") ??
    signatures.find(({ inputs }) => inputs.length > 0);
  if (signature === undefined || signature.steps.some(isOfRecords)) return undefined;
  const areRows = signature.inputs.every(({ shape }) => shape?.length !== 0);
  const values = signature.inputs.map((input) => {
    const sizes = input.shape ?? [-1];
    const value = exampleOf(version, { signature, input, sizes: areRows ? sizes.slice(1) : sizes });
    return [input.name, value] as const;
  });
  const example = values.length === 1 ? values[0]![1] : (Object.fromEntries(values) as unknown);
  return { body: JSON.stringify(areRows ? { instances: [example] } : { inputs: example }) };
}

const isOfRecords = (step: Step): boolean =>
  step.kind === "host" && /^Parse(Single)?Example/.test(step.op);

/** A value of an input in lists of these sizes; -1 is any size. */
function exampleOf(
  version: ModelVersion,
  {
    signature,
    input,
    sizes,
  }: {
    readonly signature: SignatureProgram;
    readonly input: SignatureTensor;
    readonly sizes: readonly number[];
  },
): unknown {
  const scalar = knownKey(version, signature, input) ?? (input.dtype === "string" ? "42" : 1);
  return sizes.reduceRight<unknown>(
    (value, size) => Array.from({ length: Math.max(1, size) }, () => value),
    scalar,
  );
}

/** The first key of the vocabulary that this input is looked up in. */
function knownKey(
  version: ModelVersion,
  signature: SignatureProgram,
  input: SignatureTensor,
): unknown {
  const found = signature.steps.find(
    (step) =>
      step.kind === "host" && step.inputs[0] === input.value && step.vocabulary !== undefined,
  );
  const vocabulary = found?.kind === "host" ? found.vocabulary : undefined;
  const { vocabularies } = version.program;
  if (vocabulary !== undefined) return firstValue(vocabularies[vocabulary]!.keys);
  const lookup = signature.steps.find(
    (step) => step.kind === "lookup" && step.keys === input.value,
  );
  if (lookup?.kind !== "lookup") return undefined;
  const table = version.program.tables[lookup.table];
  for (let partition = 0; partition < (table?.partitions ?? 0); partition += 1) {
    const keys = version.openPartition(lookup.table, partition).keyed?.keys;
    if (keys !== undefined && keys.data.length > 0) return firstValue(keys);
  }
  return undefined;
}

function firstValue(keys: Tensor): unknown {
  if (keys.dtype === "string") return keys.data.textAt(0);
  return Number(keys.data[0]);
}
