// Cuts a batch by arms, and joins the answers: the instances of each arm become a request of their own, in
// their original order. Each instance is answered by one version alone, as if it had been sent alone.

import { StringColumn, WinnowError, excerpt } from "@winnow/core";
import type { Tensor, VersionKey } from "@winnow/core";
import type { Degradation, Prediction, PredictRequest, UnknownUsers } from "../predictor.ts";
import { joinedColumns, turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";

/** Instances of a batch, ascending. */
export type Positions = readonly number[];

/** The answer for some instances of a batch. */
export interface PartAnswer {
  readonly positions: Positions;
  readonly prediction: Prediction;
}

/** Positions of the instances of each arm, arms in the order of their first instance. */
export function instancesByArm(arms: readonly number[]): ReadonlyMap<number, Positions> {
  const byArm = new Map<number, number[]>();
  for (const [position, arm] of arms.entries()) {
    const positions = byArm.get(arm);
    if (positions === undefined) byArm.set(arm, [position]);
    else positions.push(position);
  }
  return byArm;
}

/**
 * The request for these instances alone, made in steps, because its inputs may hold millions of texts.
 * @throws WinnowError INVALID_ARGUMENT where the request cannot be cut
 */
export function* requestFor(
  request: PredictRequest,
  positions: Positions,
  instances: number,
): Steps<PredictRequest> {
  const { exclude, include, filter } = request;
  const inputs = new Map<string, Tensor>();
  for (const [name, input] of request.inputs) {
    if (input.shape[0] !== instances || isSparse(name)) {
      const text = `Cannot send instances to different arms: input "${excerpt(name)}" is not one value per instance`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}; send one instance per request`);
    }
    inputs.set(name, yield* rowsTaken(input, positions));
  }
  return {
    ...request,
    inputs,
    exclude: exclude && perInstance(exclude, positions),
    include: include && perInstance(include, positions),
    filter: filter && perInstance(filter, positions),
  };
}

/** Whether an input is part of a sparse or composite one: its rows are not the instances of the request. */
function isSparse(name: string): boolean {
  return /\/(indices|values|dense_shape)$/.test(name);
}

/** A value for all instances stays one value. */
function perInstance<Value>(values: readonly Value[], positions: Positions): readonly Value[] {
  return values.length <= 1 ? values : positions.map((position) => values[position]!);
}

/** A copy of some rows of a tensor. */
function* rowsTaken(from: Tensor, positions: Positions): Steps<Tensor> {
  const [, ...inner] = from.shape;
  const width = widthOf(from);
  const shape = [positions.length, ...inner];
  const lengths = from.rowLengths;
  const rows = lengths && { rowLengths: Uint32Array.from(positions, (at) => lengths[at]!) };
  if (from.dtype === "string") {
    const texts = from.data;
    // A view of a single text would take longer than its bytes.
    const data =
      width === 1
        ? texts.take(positions)
        : yield* joinedColumns(positions.map((at) => texts.slice(at * width, (at + 1) * width)));
    return { dtype: "string", shape, data, ...rows };
  }
  const values = from.data as Float32Array;
  const data = new (values.constructor as Float32ArrayConstructor)(positions.length * width);
  for (const [to, at] of positions.entries()) {
    data.set(values.subarray(at * width, (at + 1) * width), to * width);
  }
  return { dtype: from.dtype, shape, data, ...rows } as Tensor;
}

/**
 * One answer for the whole batch, made in steps, because it may hold a million items: outputs in the order of the
 * instances, the least coverage, all degradations and members. Lists of different lengths become a ragged tensor.
 * @throws WinnowError FAILED_PRECONDITION where the outputs of two arms do not fit together
 */
export function* joinedAnswer(
  version: VersionKey,
  parts: readonly PartAnswer[],
): Steps<Prediction> {
  const [first] = parts;
  const outputs = new Map<string, Tensor>();
  for (const name of first!.prediction.outputs.keys()) {
    outputs.set(name, yield* joined(parts, name, ({ outputs: of }) => of.get(name)));
  }
  const predictions = parts.map(({ prediction }) => prediction);
  const { attributes, explanation } = first!.prediction;
  const told = attributes && (yield* joined(parts, "attributes", (of) => of.attributes));
  const explained = explanation && (yield* joined(parts, "explain", (of) => of.explanation));
  const degradations = predictions.flatMap(
    (each): readonly Degradation[] => each.degradations ?? [],
  );
  const members = membersOf(predictions);
  const unknownUsers = unknownUsersOf(predictions);
  return {
    version,
    outputs,
    coverage: Math.min(...predictions.map(({ coverage }) => coverage)),
    ...(told && { attributes: told }),
    ...(explained && { explanation: explained }),
    ...(degradations.length > 0 && { degradations }),
    ...(unknownUsers.length > 0 && { unknownUsers }),
    ...(members && { members }),
  };
}

/** Unknown users of all arms, each kind of answer once. */
function unknownUsersOf(predictions: readonly Prediction[]): readonly UnknownUsers[] {
  const byAnswer = new Map<UnknownUsers["answer"], number>();
  for (const { answer, instances } of predictions.flatMap((each) => each.unknownUsers ?? [])) {
    byAnswer.set(answer, (byAnswer.get(answer) ?? 0) + instances);
  }
  return Array.from(byAnswer, ([answer, instances]) => ({ answer, instances }));
}

/** The versions that any arm asked, each once; there may be several of one model. */
function membersOf(predictions: readonly Prediction[]): readonly VersionKey[] | undefined {
  const byText = new Map<string, VersionKey>();
  for (const { members = [] } of predictions) {
    for (const member of members) byText.set(`${member.model}=${member.version}`, member);
  }
  if (byText.size === 0) return undefined;
  return [...byText.values()].toSorted(
    (a, b) => Number(a.model > b.model) - Number(a.model < b.model) || a.version - b.version,
  );
}

interface Part {
  readonly positions: Positions;
  readonly tensor: Tensor;
}

function* joined(
  answers: readonly PartAnswer[],
  name: string,
  tensorOf: (prediction: Prediction) => Tensor | undefined,
): Steps<Tensor> {
  const parts = answers.map(({ positions, prediction }): Part => {
    const tensor = tensorOf(prediction);
    if (tensor === undefined) throw unfit(name, "one of them does not give it");
    if (tensor.shape[0] === positions.length) return { positions, tensor };
    throw unfit(name, "it is not one row for each instance");
  });
  return yield* joinedRows(parts, name);
}

function* joinedRows(parts: readonly Part[], name: string): Steps<Tensor> {
  const instances = parts.reduce((sum, { positions }) => sum + positions.length, 0);
  const { dtype } = parts[0]!.tensor;
  const inner = innerShape(parts, name);
  const width = inner.reduce((product, size) => product * size, 1);
  const shape = [instances, ...inner];
  const lengths = rowLengthsOf(parts, instances);
  const rows = lengths && lengths.some((length) => length < width) ? { rowLengths: lengths } : {};
  if (dtype === "string") {
    const data = yield* joinedColumns(columnsOf(parts, width, name));
    return { dtype, shape, data, ...rows };
  }
  const Values = parts[0]!.tensor.data.constructor as Float32ArrayConstructor;
  const values = new Values(instances * width);
  const isTurnOver = turnMeter();
  for (const { positions, tensor } of parts) {
    if (tensor.dtype !== dtype) throw unfit(name, "their types differ");
    const data = tensor.data as Float32Array;
    const own = widthOf(tensor);
    for (const [row, instance] of positions.entries()) {
      values.set(data.subarray(row * own, (row + 1) * own), instance * width);
      if (isTurnOver(WORK_OF_ROW + own)) yield;
    }
  }
  return { dtype, shape, data: values, ...rows } as Tensor;
}

/** Cost of copying a row beside its values, in units of `turnMeter`. */
const WORK_OF_ROW = 2 ** 6;

const NO_BYTES = new Uint8Array();

/** For each instance the texts of its row, and the empty ones that pad it. */
function columnsOf(parts: readonly Part[], width: number, name: string): readonly StringColumn[] {
  const none = new StringColumn(new Uint32Array(width + 1), NO_BYTES);
  const columns: StringColumn[] = [];
  for (const { positions, tensor } of parts) {
    const { data } = tensor;
    if (!(data instanceof StringColumn)) throw unfit(name, "their types differ");
    const own = widthOf(tensor);
    for (const [row, instance] of positions.entries()) {
      columns[2 * instance] = data.slice(row * own, (row + 1) * own);
      columns[2 * instance + 1] = none.slice(own, width);
    }
  }
  return columns;
}

function widthOf({ shape }: Tensor): number {
  return shape.slice(1).reduce((product, size) => product * size, 1);
}

/** The shape without the first dimension: the common one, or the one of the longest list. */
function innerShape(parts: readonly Part[], name: string): readonly number[] {
  const inners = parts.map(({ tensor }) => tensor.shape.slice(1));
  const [first] = inners;
  if (inners.every((inner) => String(inner) === String(first))) return first!;
  if (inners.every((inner) => inner.length === 1)) return [Math.max(...inners.flat())];
  throw unfit(
    name,
    `their shapes differ: ${inners.map((inner) => `[${inner.join()}]`).join(", ")}`,
  );
}

/** Number of values of each row if rows are lists; `undefined` for other tensors. */
function rowLengthsOf(parts: readonly Part[], instances: number): Uint32Array | undefined {
  if (parts.some(({ tensor }) => tensor.shape.length !== 2)) return undefined;
  const lengths = new Uint32Array(instances);
  for (const { positions, tensor } of parts) {
    for (const [row, instance] of positions.entries()) {
      lengths[instance] = tensor.rowLengths?.[row] ?? tensor.shape[1]!;
    }
  }
  return lengths;
}

function unfit(name: string, why: string): WinnowError {
  const text = `Cannot put the answers of different arms together: of output "${excerpt(name)}" ${why}`;
  return new WinnowError("FAILED_PRECONDITION", `${text}; send one instance per request`);
}
