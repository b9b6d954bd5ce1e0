// A request that works, for the line `winnow up` prints: built from the signature's inputs with
// keys the model really knows.

import type { SignatureProgram, SignatureTensor, Tensor } from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { type VersionDirectory } from "../model-source/model-source.ts";
import { withVersion } from "../model-source/object-versions.ts";

/** A request for the line that `winnow up` prints. */
export interface ExampleRequest {
  /** JSON for `instances`. */
  readonly instances: string;
  /** A header that the request needs, with its value. */
  readonly header?: string;
}

const NONE: ExampleRequest = { instances: "[]" };

/**
 * A request that this version answers. An experiment answers those of its arms: the model of one of them is looked for
 * among the other versions.
 */
export async function exampleRequest(
  found: VersionDirectory,
  others: readonly VersionDirectory[],
): Promise<ExampleRequest> {
  const { experiment, instances } = await withVersion(found.directory, (version) => ({
    experiment: version.program.experiment,
    instances: exampleInstances(version),
  }));
  if (experiment === undefined) return { instances };
  const { arms, sticky } = experiment;
  const asked = others.find((other) =>
    arms.some(({ model }) => model === other.model && model !== found.model),
  );
  const example = asked === undefined ? NONE : await exampleRequest(asked, []);
  return sticky?.by === "header" ? { ...example, header: `${sticky.name}: 42` } : example;
}

function exampleInstances(version: ModelVersion): string {
  const { signatures } = version.program;
  const signature =
    signatures.find(({ name }) => name === "serving_default") ??
    signatures.find(({ inputs }) => inputs.length > 0);
  return signature === undefined ? "[]" : JSON.stringify([instanceOf(version, signature)]);
}

function instanceOf(version: ModelVersion, signature: SignatureProgram): unknown {
  const values = signature.inputs.map((input) => [
    input.name,
    exampleOf(version, signature, input),
  ]);
  return values.length === 1 ? values[0]?.[1] : (Object.fromEntries(values) as unknown);
}

function exampleOf(
  version: ModelVersion,
  signature: SignatureProgram,
  input: SignatureTensor,
): unknown {
  const scalar = knownKey(version, signature, input) ?? (input.dtype === "string" ? "42" : 1);
  const inner = (input.shape ?? [-1]).slice(1);
  return inner.reduceRight<unknown>(
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
