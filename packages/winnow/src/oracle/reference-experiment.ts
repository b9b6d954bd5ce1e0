// The expected answers of an experiment, by docs/experiments.md: each instance gets what the model of its arm
// answers. The arm of a key is computed as by the Python code in that document.

import { createHash } from "node:crypto";
import {
  type Experiment,
  type SignatureProgram,
  type SignatureTensor,
  type Tensor,
  type WarmUpRequest,
  StringColumn,
  WinnowError,
  excerpt,
} from "@winnow/core";
import type { AnswerFormat, AnswerRecord } from "./answer-records.ts";
import type {
  ExpectedAnswer,
  InputOfModel,
  Reference,
  ReferenceQuestion,
  ReferenceSearch,
  SearchedItems,
} from "./reference.ts";
import { scalarAt, tensorOfScalars } from "./scalars.ts";

/** The model of an arm and the version that must answer. */
export interface ArmModel {
  readonly model: string;
  readonly version: number;
  readonly reference: Reference;
}

/** The expected answers of an experiment. */
export class ReferenceExperiment implements Reference {
  readonly signatures: readonly SignatureProgram[];
  readonly warmUp: readonly WarmUpRequest[] = [];
  readonly #own: { readonly model: string; readonly fingerprint: string };
  readonly #experiment: Experiment;
  readonly #arms: readonly ArmModel[];

  /** `own`: the experiment's model. `arms`: in the order of the file. */
  constructor(
    own: { readonly model: string; readonly fingerprint: string },
    experiment: Experiment,
    arms: readonly ArmModel[],
  ) {
    this.#own = own;
    this.#experiment = experiment;
    this.#arms = arms;
    const [first, ...others] = arms.map(({ reference }) => reference.signatures);
    this.signatures = (first ?? []).filter((signature) =>
      others.every((signatures) => signatures.some((other) => isSame(signature, other))),
    );
  }

  get fingerprint(): string {
    const arms = this.#arms.map(({ reference }) => reference.fingerprint);
    return [this.#own.fingerprint, ...arms].join("; ");
  }

  get untold(): string | undefined {
    const labelled = this.#experiment.arms.find(({ label }) => label !== undefined);
    if (labelled === undefined) {
      return this.#arms.map(({ reference }) => reference.untold).find((each) => each !== undefined);
    }
    return `its arm ${labelled.name} names the label "${excerpt(labelled.label!)}", which no file says`;
  }

  get stickyHeader(): string | undefined {
    const { sticky } = this.#experiment;
    return sticky?.by === "header" ? sticky.name.toLowerCase() : undefined;
  }

  inputOf(signature: SignatureProgram, input: SignatureTensor): InputOfModel | undefined {
    const { reference } = this.#arms[0]!;
    const own = signatureOf(reference, signature);
    const declared = own.inputs.find(({ name }) => name === input.name);
    return declared && reference.inputOf(own, declared);
  }

  searchedBy(signature: SignatureProgram): SearchedItems | undefined {
    const searched = this.#arms.map(({ reference }) =>
      reference.searchedBy(signatureOf(reference, signature)),
    );
    const [first] = searched;
    if (first === undefined) return undefined;
    const candidates = searched.map((each) => each?.candidates ?? 1);
    const hasAttributes = searched.every((each) => each?.hasAttributes === true);
    const dim = searched.every((each) => each?.dim !== undefined) ? first.dim : undefined;
    return { ...first, dim, candidates: Math.max(...candidates), hasAttributes };
  }

  find(
    signature: SignatureProgram,
    question: ReferenceQuestion,
  ): Promise<ReferenceSearch | undefined> {
    const { reference } = this.#arms[0]!;
    return reference.find(signatureOf(reference, signature), question);
  }

  async expected(
    signature: SignatureProgram,
    question: ReferenceQuestion,
    format: AnswerFormat,
  ): Promise<ExpectedAnswer> {
    const [firstInput] = question.inputs.values();
    const instances = firstInput?.shape[0] ?? 1;
    const arms = this.#armsOf(question, instances);
    const records: AnswerRecord[] = [];
    const members = new Set<string>();
    for (const arm of new Set(arms)) {
      const positions = arms.flatMap((each, at) => (each === arm ? [at] : []));
      const { model, version, reference } = this.#arms[arm]!;
      const isWhole = positions.length === instances;
      const asked = isWhole ? question : questionOf(question, positions, instances);
      const answer = await reference.expected(signatureOf(reference, signature), asked, format);
      members.add(`${encodeURIComponent(model)}=${version}`);
      for (const member of (answer.beside.members ?? "").split(", ")) members.add(member);
      for (const [at, position] of positions.entries()) records[position] = answer.records[at]!;
    }
    members.delete("");
    const names = arms.map((arm) => this.#experiment.arms[arm]!.name);
    return { records, beside: { arm: armsText(names), members: [...members].join(", ") } };
  }

  async release(): Promise<void> {
    for (const { reference } of this.#arms) await reference.release();
  }

  /** The arm of each instance. @throws WinnowError INVALID_ARGUMENT if a request has no key */
  #armsOf({ inputs, headers }: ReferenceQuestion, instances: number): readonly number[] {
    const { arms, sticky, salt = this.#own.model } = this.#experiment;
    const all = (arm: number): readonly number[] => Array.from({ length: instances }, () => arm);
    if (sticky === undefined) return all(0);
    if (sticky.by === "input") {
      const keys = inputs.get(sticky.name)!;
      return Array.from({ length: instances }, (_, at) => armOf(arms, salt, keyBytes(keys, at)));
    }
    const key = headers?.[sticky.name.toLowerCase()] ?? "";
    if (key !== "") return all(armOf(arms, salt, Buffer.from(key)));
    const missing = arms.findIndex(({ name }) => name === sticky.missing);
    if (missing >= 0) return all(missing);
    throw new WinnowError("INVALID_ARGUMENT", `The request has no header ${excerpt(sticky.name)}`);
  }
}

/** Bytes of a key. @throws WinnowError INVALID_ARGUMENT for more than 512 */
function keyBytes({ dtype, data }: Tensor, at: number): Uint8Array {
  const bytes = data instanceof StringColumn ? data.at(at) : Buffer.from(String(data[at]));
  if (dtype !== "string" || bytes.length <= 512) return bytes;
  throw new WinnowError("INVALID_ARGUMENT", `The key has ${bytes.length} bytes`);
}

/** Position of the arm with the least −ln(u) / weight; of equal ones, that with the least name. */
function armOf(arms: Experiment["arms"], salt: string, key: Uint8Array): number {
  const costs = arms.flatMap(({ name, weight }, at) => {
    if (weight === 0) return [];
    const bytes = Buffer.concat([Buffer.from(`${salt}\0${name}\0`), key]);
    const digest = createHash("sha256").update(bytes).digest("hex");
    const fraction = (Number.parseInt(digest.slice(0, 12), 16) + 0.5) / 2 ** 48;
    return [{ at, name, cost: -Math.log(fraction) / weight }];
  });
  return costs.toSorted((a, b) => a.cost - b.cost || (a.name < b.name ? -1 : 1))[0]!.at;
}

/** The value of `X-Winnow-Arm`: one name, or runs of instances; above 2 KiB, each name once. */
function armsText(names: readonly string[]): string {
  const starts = names.flatMap((name, at) => (at > 0 && names[at - 1] === name ? [] : [at]));
  if (starts.length <= 1) return names[0] ?? "";
  const runs = starts.map(
    (start, run) => `${names[start]};n=${(starts[run + 1] ?? names.length) - start}`,
  );
  const text = runs.join(", ");
  return text.length <= 2048 ? text : [...new Set(names)].join(", ");
}

/** The question for some of its instances. */
function questionOf(
  question: ReferenceQuestion,
  positions: readonly number[],
  instances: number,
): ReferenceQuestion {
  const { inputs, exclude, include } = question;
  const lists = (all: readonly Tensor[] | undefined): readonly Tensor[] | undefined =>
    all?.length === instances ? positions.map((at) => all[at]!) : all;
  const [excluded, included] = [lists(exclude), lists(include)];
  return {
    ...question,
    inputs: new Map([...inputs].map(([name, tensor]) => [name, rowsOf(tensor, positions)])),
    ...(excluded && { exclude: excluded }),
    ...(included && { include: included }),
  };
}

function rowsOf(tensor: Tensor, positions: readonly number[]): Tensor {
  const [, ...inner] = tensor.shape;
  const size = inner.reduce((product, each) => product * each, 1);
  const values = positions.flatMap((position) =>
    Array.from({ length: size }, (_, at) => scalarAt(tensor, position * size + at)),
  );
  return tensorOfScalars(tensor.dtype, [positions.length, ...inner], values);
}

function signatureOf(reference: Reference, { name }: SignatureProgram): SignatureProgram {
  return reference.signatures.find((each) => each.name === name)!;
}

function isSame(a: SignatureProgram, b: SignatureProgram): boolean {
  return (
    a.name === b.name &&
    namesOf(a.inputs) === namesOf(b.inputs) &&
    namesOf(a.outputs) === namesOf(b.outputs)
  );
}

function namesOf(tensors: readonly SignatureTensor[]): string {
  return tensors
    .map(({ name, dtype }) => `${name} ${dtype}`)
    .toSorted()
    .join(", ");
}
