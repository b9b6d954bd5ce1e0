// A request that works, for the lines that `winnow up` prints when it is ready: built from the signature's inputs with
// keys the model really knows.

import { itemInputsOf } from "@winnow/core";
import type {
  Pipeline,
  RetrieveStage,
  SignatureProgram,
  SignatureTensor,
  Step,
  Tensor,
} from "@winnow/core";
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
 * experiment answers those of its arms, a pipeline those of keys that its models know: these are looked for among the
 * other versions.
 */
export async function exampleRequest(
  found: VersionDirectory,
  others: readonly VersionDirectory[],
): Promise<ExampleRequest | undefined> {
  const { experiment, pipeline, own } = await withVersion(found.directory, (version) => {
    const { program } = version;
    const isModel = program.pipeline === undefined && program.experiment === undefined;
    return { ...program, own: isModel ? exampleOfModel(version, new Map()) : undefined };
  });
  if (pipeline !== undefined) {
    const keys = await keysFor(pipeline, others);
    return await withVersion(found.directory, (version) => exampleOfModel(version, keys));
  }
  if (experiment === undefined) return own;
  const { arms, sticky } = experiment;
  const asked = others.find((other) =>
    arms.some(({ model }) => model === other.model && model !== found.model),
  );
  const example = asked === undefined ? undefined : await exampleRequest(asked, []);
  if (example === undefined) return undefined;
  return sticky?.by === "header" ? { ...example, header: `${sticky.name}: 42` } : example;
}

type KnownKeys = ReadonlyMap<string, unknown>;

/** Keys of inputs of a pipeline that its retrievals know; each of its models is opened once. */
async function keysFor(
  { stages }: Pipeline,
  versions: readonly VersionDirectory[],
): Promise<KnownKeys> {
  const retrievals = stages.filter((stage) => stage.kind === "retrieve");
  const keys = new Map<string, unknown>();
  for (const model of new Set(retrievals.map((stage) => stage.model))) {
    const member = versions.find((each) => each.model === model);
    if (member === undefined) continue;
    await withVersion(member.directory, (version) => {
      for (const stage of retrievals) {
        if (stage.model === model) addKeys(keys, keysOfRetrieval(version, stage));
      }
    });
  }
  return keys;
}

/** The first retrieval that knows a key of an input gives it. */
function addKeys(keys: Map<string, unknown>, more: KnownKeys): void {
  for (const [name, key] of more) if (!keys.has(name)) keys.set(name, key);
}

function keysOfRetrieval(version: ModelVersion, stage: RetrieveStage): KnownKeys {
  const signature = version.program.signatures.find(({ name }) => name === stage.signature);
  if (signature === undefined) return new Map();
  const items = itemInputsOf(stage);
  if (items.length > 0) {
    return new Map(items.map((name, at) => [name, itemAt(version, signature, at)]));
  }
  const keys = stage.inputs.map(({ name, from }) => {
    const input = signature.inputs.find((each) => each.name === name);
    return [from, input && knownKey(version, signature, input)] as const;
  });
  return new Map(keys);
}

/** The id of one of the first items that a signature searches. */
function itemAt(version: ModelVersion, { steps }: SignatureProgram, place: number): unknown {
  const search = steps.find(({ kind }) => kind === "topK");
  if (search?.kind !== "topK") return undefined;
  const { ids } = version.openPartition(search.table, 0);
  if (ids === undefined) return place;
  return valueAt(ids, Math.min(place, ids.data.length - 1));
}

function exampleOfModel(version: ModelVersion, keys: KnownKeys): ExampleRequest | undefined {
  const { signatures } = version.program;
  const signature =
    signatures.find(({ name }) => name === "serving_default") ??
    signatures.find(({ inputs }) => inputs.length > 0);
  if (signature === undefined || signature.steps.some(isOfRecords)) return undefined;
  const areRows = signature.inputs.every(({ shape }) => shape?.length !== 0);
  const values = signature.inputs.map((input) => {
    const sizes = input.shape ?? [-1];
    const asked = { signature, input, sizes: areRows ? sizes.slice(1) : sizes };
    const value = exampleOf(version, { ...asked, known: keys.get(input.name) });
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
    known = knownKey(version, signature, input),
  }: {
    readonly signature: SignatureProgram;
    readonly input: SignatureTensor;
    readonly sizes: readonly number[];
    readonly known: unknown;
  },
): unknown {
  const scalar = known ?? (input.dtype === "string" ? "42" : 1);
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

const firstValue = (keys: Tensor): unknown => valueAt(keys, 0);

function valueAt(keys: Tensor, place: number): unknown {
  if (keys.dtype === "string") return keys.data.textAt(place);
  return Number(keys.data[place]);
}
