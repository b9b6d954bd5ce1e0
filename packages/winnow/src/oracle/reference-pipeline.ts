// What a pipeline must answer, by docs/pipelines.md and the answers of its models: a candidate is one object that
// goes from stage to stage, and every rule is written out as the document says it.
//
//   retrieve ─▶ Candidate[] of each instance ─▶ merge, rank, score, diversify, limit ─▶ scores and ids

// oxlint-disable no-restricted-globals -- `Date` is the calendar, not the clock

import {
  type DiversifyStage,
  type Dtype,
  type Filter,
  type MergeStage,
  type Pipeline,
  type RankSource,
  type RankStage,
  type RetrieveStage,
  type ScoreExpression,
  type SignatureProgram,
  type SignatureTensor,
  type Tensor,
  type UnknownStage,
  type WarmUpRequest,
  WinnowError,
  excerpt,
  itemInputsOf,
  parseFilterText,
  retrievalOf,
  unknownStageOf,
} from "@winnow/core";
import type { ModelVersion } from "@winnow/model";
import { type AnswerFormat, recordsOfTensors, withAttributes } from "./answer-records.ts";
import { type ReferenceModel, attributesOf, itemVectorOf } from "./reference-model.ts";
import type {
  ExpectedAnswer,
  InputOfModel,
  ItemAttributes,
  Reference,
  ReferenceQuestion,
  ReferenceSearch,
  SearchedItems,
} from "./reference.ts";
import { type ScalarValue, scalarAt, tensorOfScalars } from "./scalars.ts";
import { idOfRow } from "./whole-table.ts";

/** A model that a stage asks, with the version that must answer. */
export interface PipelineMember {
  readonly version: number;
  readonly reference: ReferenceModel;
}

/** The pipeline that answers unknown users, with the version that must. */
export interface FallbackPipeline {
  readonly model: string;
  readonly version: number;
  readonly reference: ReferencePipeline;
}

/** An item on its way through the stages. */
interface Candidate {
  readonly id: ScalarValue;
  readonly score: number;
  /** Scores that stages have named. */
  readonly named: ReadonlyMap<string, number>;
  /** Attributes that stages or the request want. */
  readonly attributes: ItemAttributes;
  readonly vector: Float32Array | undefined;
}

type Lists = readonly (readonly Candidate[])[];

/** An opened version of a pipeline, with all of its models. */
export class ReferencePipeline implements Reference {
  readonly #version: ModelVersion;
  readonly #pipeline: Pipeline;
  readonly #members: ReadonlyMap<string, PipelineMember>;
  readonly #fallback: FallbackPipeline | undefined;

  /** `members`: by the names that the stages use. */
  // oxlint-disable-next-line max-params -- a version, what it says, and the two kinds of what that names
  constructor(
    version: ModelVersion,
    pipeline: Pipeline,
    members: ReadonlyMap<string, PipelineMember>,
    fallback?: FallbackPipeline,
  ) {
    this.#version = version;
    this.#pipeline = pipeline;
    this.#members = members;
    this.#fallback = fallback;
  }

  /** The pipeline's own file and the content of its models: where either changes, all is checked again. */
  get fingerprint(): string {
    const members = [...this.#members].map(([name, { version, reference }]) => {
      return `${name}/${version} ${reference.fingerprint}`;
    });
    const { model, version, reference } = this.#fallback ?? {};
    const other = reference === undefined ? [] : [`${model}/${version} ${reference.fingerprint}`];
    return [this.#version.program.fingerprint, ...members.toSorted(), ...other].join(", ");
  }

  get signatures(): readonly SignatureProgram[] {
    return this.#version.program.signatures;
  }

  get warmUp(): readonly WarmUpRequest[] {
    return this.#version.warmUp ?? [];
  }

  get untold(): string | undefined {
    const isSeen = this.#pipeline.stages.some(({ kind }) => kind === "seen");
    if (isSeen) return "it excludes what users have seen, which Redis knows and no file says";
    return this.#fallback?.reference.untold;
  }

  /** Follows an input to the first model that takes it as it is. */
  inputOf(_: SignatureProgram, input: SignatureTensor): InputOfModel | undefined {
    for (const stage of this.#pipeline.stages) {
      if (stage.kind === "retrieve" && itemInputsOf(stage).includes(input.name)) {
        const { signature, reference } = this.#asked(stage);
        return { model: reference, signature, input, items: reference.itemsOf(signature).table };
      }
      const name = inputTakenBy(stage, input.name);
      if (name === undefined || (stage.kind !== "retrieve" && stage.kind !== "rank")) continue;
      const { signature, reference } = this.#asked(stage);
      const declared = signature.inputs.find((each) => each.name === name);
      if (declared !== undefined) return { model: reference, signature, input: declared };
    }
    return undefined;
  }

  searchedBy(): SearchedItems | undefined {
    const retrievals = this.#retrievals();
    const [first] = retrievals;
    const { signature, reference } = this.#asked(first!);
    const searched = reference.searchedBy(signature);
    if (searched === undefined) return undefined;
    const candidates = retrievals.reduce((sum, { k }) => sum + k, 0);
    const limits = this.#pipeline.stages.flatMap((each) =>
      each.kind === "limit" || (each.kind === "diversify" && each.by === "mmr") ? each.count : [],
    );
    const others = retrievals.map((stage) => this.#asked(stage));
    const all = others.map(({ signature: own, reference: model }) => model.searchedBy(own));
    const hasAttributes = all.every((each) => each?.hasAttributes === true);
    const dim = all.every((each) => each?.dim !== undefined) ? searched.dim : undefined;
    const compared = Math.max(candidates, ...all.map((each) => each?.candidates ?? 1));
    const k = Math.min(candidates, ...limits);
    return { ...searched, dim, k, candidates: compared, hasAttributes };
  }

  async find(
    _: SignatureProgram,
    question: ReferenceQuestion,
  ): Promise<ReferenceSearch | undefined> {
    const [first] = this.#retrievals();
    const { search } = await this.#retrieve(first!, question);
    return search;
  }

  async expected(
    signature: SignatureProgram,
    question: ReferenceQuestion,
    format: AnswerFormat,
  ): Promise<ExpectedAnswer> {
    const lists = await this.#answerUsers(question);
    const { scores, ids } = this.#pipeline.outputs;
    const dtype = signature.outputs.find(({ name }) => name === ids)?.dtype ?? "string";
    const outputs = new Map([
      [scores, listTensor("float32", lists, ({ score }) => score)],
      [ids, listTensor(dtype, lists, ({ id }) => id)],
    ]);
    const { attributes: wanted = [] } = question;
    const attributes = lists.map((list) => list.map((each) => picked(each.attributes, wanted)));
    return {
      records: withAttributes(
        recordsOfTensors(outputs, format),
        wanted.length === 0 ? undefined : attributes,
      ),
      beside: { members: this.#membersText() },
    };
  }

  async release(): Promise<void> {
    for (const { reference } of this.#members.values()) await reference.release();
  }

  /** As the header names the versions that were asked. */
  #membersText(): string {
    return [...this.#asksOf()]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, version]) => `${encodeURIComponent(name)}=${version}`)
      .join(", ");
  }

  /** Versions of all that it may ask, by name. */
  #asksOf(): ReadonlyMap<string, number> {
    const own = Array.from(this.#members, ([name, { version }]) => [name, version] as const);
    if (this.#fallback === undefined) return new Map(own);
    const { model, version, reference } = this.#fallback;
    return new Map([...own, [model, version], ...reference.#asksOf()]);
  }

  /** What is answered to known users, and to those whom no vocabulary of the model has. */
  async #answerUsers(question: ReferenceQuestion): Promise<Lists> {
    const stage = unknownStageOf(this.#pipeline);
    if (stage === undefined || stage.answer.kind === "oov") return await this.#answer(question);
    const retrieval = retrievalOf(stage, this.#pipeline.stages)!;
    const { reference, signature } = this.#asked(retrieval);
    const { name } = retrieval.inputs.find(({ from }) => from === stage.input)!;
    const values = question.inputs.get(stage.input)!;
    const isKnown = await reference.knows(signature, name, fitted(values, signature, name));
    const [known, unknown] = [true, false].map((wanted) =>
      [...isKnown.keys()].filter((at) => isKnown[at] === wanted),
    ) as [number[], number[]];
    const lists: (readonly Candidate[])[] = [];
    const put = (positions: readonly number[], answers: Lists): void => {
      for (const [at, position] of positions.entries()) lists[position] = answers[at]!;
    };
    if (unknown.length > 0) {
      put(unknown, await this.#answerUnknown(stage, retrieval, partOf(question, unknown)));
    }
    if (known.length > 0) put(known, await this.#answer(partOf(question, known)));
    return lists;
  }

  /** What users are answered of whom all are unknown. @throws WinnowError INVALID_ARGUMENT where the stage refuses them */
  async #answerUnknown(
    { answer }: UnknownStage,
    retrieval: RetrieveStage,
    question: ReferenceQuestion,
  ): Promise<Lists> {
    if (answer.kind === "pipeline") {
      const { reference } = this.#fallback!;
      const [signature] = reference.signatures;
      const inputs = signature!.inputs.map(
        ({ name }) => [name, question.inputs.get(name)!] as const,
      );
      return await reference.#answerUsers({ ...question, inputs: new Map(inputs) });
    }
    if (answer.kind !== "list") throw new WinnowError("INVALID_ARGUMENT", "an unknown user");
    const { reference, signature } = this.#asked(retrieval);
    const { table } = reference.itemsOf(signature);
    const conditions = { ...question, ownFilters: this.#ownFilters(reference, signature) };
    const instances = [...question.inputs.values()][0]!.shape[0]!;
    const asked = { question: conditions, instances };
    const limits = this.#pipeline.stages.flatMap((each) =>
      each.kind === "limit" ? each.count : [],
    );
    const most = Math.min(...limits, question.k ?? Infinity);
    const names = question.attributes ?? [];
    return reference.listedRows(signature, answer.ids, asked).map((rows) => {
      const left = rows.slice(0, most);
      const described = names.length === 0 ? [] : attributesOf(table, left, names);
      return left.map((row, place) => ({
        id: idOfRow(table, row),
        score: 0,
        named: new Map<string, number>(),
        attributes: described[place] ?? {},
        vector: undefined,
      }));
    });
  }

  #ownFilters(reference: ReferenceModel, signature: SignatureProgram): readonly Filter[] {
    return this.#pipeline.stages.flatMap((each) =>
      each.kind === "filter"
        ? [inColumnValues(parseFilterText(each.filter), reference, signature)]
        : [],
    );
  }

  #retrievals(): readonly RetrieveStage[] {
    return this.#pipeline.stages.filter((stage) => stage.kind === "retrieve");
  }

  #asked(stage: RetrieveStage | RankStage): {
    readonly reference: ReferenceModel;
    readonly signature: SignatureProgram;
  } {
    const member = this.#members.get(stage.model);
    const signature = member?.reference.signatures.find(({ name }) => name === stage.signature);
    if (member !== undefined && signature !== undefined) {
      return { reference: member.reference, signature };
    }
    const what = `signature "${excerpt(stage.signature)}" of model ${excerpt(stage.model)}`;
    throw new WinnowError("FAILED_PRECONDITION", `The pipeline names ${what}, which is not there`);
  }

  /** What is left behind all stages. */
  async #answer(question: ReferenceQuestion): Promise<Lists> {
    const retrievals = this.#retrievals();
    const found: Lists[] = [];
    for (const stage of retrievals) found.push((await this.#retrieve(stage, question)).lists);
    let lists = found[0]!;
    for (const stage of this.#pipeline.stages) {
      switch (stage.kind) {
        case "merge": {
          const names = retrievals.map(({ as }) => as!);
          lists = lists.map((_, instance) =>
            mergedLists(
              found.map((each) => each[instance]!),
              names,
              stage,
            ),
          );
          break;
        }
        case "rank":
          lists = await this.#rank(stage, lists, question);
          break;
        case "score":
          lists = lists.map((list) =>
            inOrder(list.map((each) => withScore(each, scoreOf(stage.expression, each)))),
          );
          break;
        case "diversify":
          lists = lists.map((list) => diversified(list, stage));
          break;
        case "limit":
          lists = lists.map((list) => list.slice(0, stage.count));
          break;
        case "retrieve":
        case "filter":
        case "unknown":
          break;
        case "seen":
          throw new RangeError("what users have seen is not in the files");
      }
    }
    return lists.map((list) => list.slice(0, question.k));
  }

  /** The best items of one model for each instance; filters of all stages hold. */
  async #retrieve(
    stage: RetrieveStage,
    asked: ReferenceQuestion,
  ): Promise<{ readonly lists: Lists; readonly search: ReferenceSearch | undefined }> {
    const question = this.#withoutLiked(asked);
    if (stage.like !== undefined) return this.#retrieveLike(stage, question);
    return await this.#retrieveBest(stage, question);
  }

  /** The question, in which items to which similar ones are retrieved are excluded. */
  #withoutLiked(question: ReferenceQuestion): ReferenceQuestion {
    const inputs = this.#retrievals().flatMap(itemInputsOf);
    if (inputs.length === 0) return question;
    const liked = inputs.map((name) => question.inputs.get(name)!);
    const { exclude = [] } = question;
    const [{ dtype, shape }] = liked as [Tensor];
    const lists = Array.from({ length: shape[0]! }, (_, at) => {
      const own = exclude[exclude.length > 1 ? at : 0];
      const count = own?.data.length ?? 0;
      const ids = Array.from({ length: count }, (__, each) => scalarAt(own!, each));
      const all = [...ids, ...liked.flatMap((values) => rowAt(values, at))];
      return tensorOfScalars(dtype, [all.length], all);
    });
    return { ...question, exclude: lists };
  }

  /** The items of one model's search that are most like an item; none that are like one which the model does not have. */
  #retrieveLike(
    stage: RetrieveStage,
    question: ReferenceQuestion,
  ): { readonly lists: Lists; readonly search: ReferenceSearch } {
    const { reference, signature } = this.#asked(stage);
    const ownFilters = this.#ownFilters(reference, signature);
    const asked = { ...question, k: stage.k, ownFilters };
    const [like, unlike] = itemInputsOf(stage).map((name) => question.inputs.get(name)!);
    const { rows, search } = reference.itemsLike(signature, { like: like!, unlike }, asked);
    const { table } = search.items;
    const names = this.#attributesNeeded(question);
    const isCompared = this.#isCompared(stage);
    const lists = rows.map((found, instance) => {
      const described = names.length === 0 ? [] : attributesOf(table, found, names);
      return found.map((row, place): Candidate => {
        const score = search.scoreOf(instance, row);
        return {
          id: idOfRow(table, row),
          score,
          named: new Map(stage.as === undefined ? [] : [[stage.as, score]]),
          attributes: described[place] ?? {},
          vector: isCompared ? itemVectorOf(table, row) : undefined,
        };
      });
    });
    return { lists, search };
  }

  async #retrieveBest(
    stage: RetrieveStage,
    question: ReferenceQuestion,
  ): Promise<{ readonly lists: Lists; readonly search: ReferenceSearch | undefined }> {
    const { reference, signature } = this.#asked(stage);
    const inputs = new Map(
      stage.inputs.map(({ name, from }) => {
        return [name, fitted(question.inputs.get(from)!, signature, name)] as const;
      }),
    );
    const ownFilters = this.#ownFilters(reference, signature);
    const { exclude, include, filter } = question;
    const asked = { inputs, k: stage.k, exclude, include, filter, ownFilters };
    const { outputs, searches } = await reference.answer(signature, asked);
    const [scores, ids] = [outputs.get(stage.scores)!, outputs.get(stage.ids)!];
    const [search] = searches;
    const names = this.#attributesNeeded(question);
    const isCompared = this.#isCompared(stage);
    const lists = Array.from({ length: ids.shape[0]! }, (_, instance) => {
      const width = ids.shape[1]!;
      const length = ids.rowLengths?.[instance] ?? width;
      const rows = [...(search?.rows[instance] ?? [])].slice(0, length);
      const described = names.length === 0 ? [] : attributesOf(search!.items.table, rows, names);
      return Array.from({ length }, (__, place): Candidate => {
        const at = instance * width + place;
        const score = Number(scalarAt(scores, at));
        const row = rows[place];
        return {
          id: scalarAt(ids, at),
          score,
          named: new Map(stage.as === undefined ? [] : [[stage.as, score]]),
          attributes: described[place] ?? {},
          vector:
            isCompared && search !== undefined && row !== undefined
              ? itemVectorOf(search.items.table, row)
              : undefined,
        };
      });
    });
    return { lists, search };
  }

  #attributesNeeded({ attributes = [] }: ReferenceQuestion): readonly string[] {
    const needed = this.#pipeline.stages.flatMap((stage) =>
      stage.kind === "diversify" && stage.by !== "mmr" ? [stage.attribute] : [],
    );
    return [...new Set([...attributes, ...needed])];
  }

  /** Whether a stage compares the vectors of what this one retrieves. */
  #isCompared({ as }: RetrieveStage): boolean {
    return this.#pipeline.stages.some(
      (stage) =>
        stage.kind === "diversify" &&
        stage.by === "mmr" &&
        (stage.of === undefined || stage.of === as),
    );
  }

  /** Every candidate of all instances in one question, as a client would ask the model. */
  async #rank(stage: RankStage, lists: Lists, question: ReferenceQuestion): Promise<Lists> {
    const { reference, signature } = this.#asked(stage);
    const all = lists.flatMap((list, instance) => list.map((item) => ({ item, instance })));
    if (all.length === 0) return lists;
    const valuesOf = (from: RankSource, each: (typeof all)[number]): readonly ScalarValue[] => {
      if (from.kind === "item") return [each.item.id];
      if (from.kind === "score") return [each.item.score];
      return rowAt(question.inputs.get(from.input)!, each.instance);
    };
    const inputs = new Map(
      stage.inputs.map(({ name, from }) => {
        const { dtype } = signature.inputs.find((input) => input.name === name)!;
        const rows = all.map((each) => valuesOf(from, each));
        const isOne =
          from.kind !== "request" || question.inputs.get(from.input)!.shape.length === 1;
        const shape = isOne ? [rows.length] : [rows.length, rows[0]!.length];
        return [name, fitted(tensorOfScalars(dtype, shape, rows.flat()), signature, name)] as const;
      }),
    );
    const { outputs } = await reference.answer(signature, { inputs });
    const ranked = all.map(({ item }, at) => {
      const heads = (stage.heads ?? []).map(
        ({ name, output }) => [name, Number(scalarAt(outputs.get(output)!, at))] as const,
      );
      const score = Number(scalarAt(outputs.get(stage.scores)!, at));
      return withScore(item, score, new Map([...item.named, ...heads]));
    });
    return lists.map((_, instance) =>
      inOrder(ranked.filter((__, at) => all[at]!.instance === instance)),
    );
  }
}

/** The values of a row: of a tensor of rank 1, one. */
function rowAt(values: Tensor, row: number): readonly ScalarValue[] {
  const [, length = 1] = values.shape;
  return Array.from({ length }, (_, at) => scalarAt(values, row * length + at));
}

/** The question for some of its instances. */
function partOf(question: ReferenceQuestion, positions: readonly number[]): ReferenceQuestion {
  const { inputs, exclude, include } = question;
  const lists = (all: readonly Tensor[] | undefined): readonly Tensor[] | undefined =>
    all === undefined || all.length <= 1 ? all : positions.map((position) => all[position]!);
  const parts = Array.from(inputs, ([name, values]) => {
    const own = positions.flatMap((position) => rowAt(values, position));
    const shape = [positions.length, ...values.shape.slice(1)];
    return [name, tensorOfScalars(values.dtype, shape, own)] as const;
  });
  return { ...question, inputs: new Map(parts), exclude: lists(exclude), include: lists(include) };
}

/** The name of the model's input that takes an input of the pipeline as it is. */
function inputTakenBy(stage: Pipeline["stages"][number], input: string): string | undefined {
  if (stage.kind === "retrieve") return stage.inputs.find(({ from }) => from === input)?.name;
  if (stage.kind !== "rank") return undefined;
  return stage.inputs.find(({ from }) => from.kind === "request" && from.input === input)?.name;
}

/** Values as the signature declares the input: one of each row as `[rows]` or `[rows, 1]`, lists as they are. */
function fitted(values: Tensor, { inputs }: SignatureProgram, name: string): Tensor {
  if (values.shape.length > 1) return values;
  const rows = values.data.length;
  const isColumn = inputs.find((input) => input.name === name)?.shape?.length === 2;
  return { ...values, shape: isColumn ? [rows, 1] : [rows] };
}

/** A filter with its times as columns have them: microseconds. */
function inColumnValues(
  filter: Filter,
  reference: ReferenceModel,
  signature: SignatureProgram,
): Filter {
  const specs = reference.searchedBy(signature)?.table.spec.attributes ?? [];
  const times = new Set(specs.flatMap(({ name, type }) => (type === "timestamp" ? [name] : [])));
  const converted = (each: Filter): Filter => {
    if (each.kind === "not") return { kind: "not", of: converted(each.of) };
    if (each.kind !== "test") return { kind: each.kind, of: each.of.map(converted) };
    if (!times.has(each.attribute)) return each;
    const values = each.values.map((value) =>
      typeof value === "string" ? microsecondsOf(value) : value,
    );
    return { ...each, values };
  };
  return converted(filter);
}

/** A time of RFC 3339, or a date; UTC where it names no offset. */
function microsecondsOf(text: string): number {
  const [, time, fraction = "", zone = "Z"] =
    /^([^.Zz+]*?)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?$/.exec(text.replace(" ", "T")) ?? [];
  const isDate = time !== undefined && /^\d{4}-\d\d-\d\d$/.test(time);
  const seconds = Date.parse(isDate ? time : `${time}${zone.toUpperCase()}`) * 1000;
  return seconds + Number(fraction.padEnd(6, "0").slice(0, 6));
}

function withScore(each: Candidate, score: number, named = each.named): Candidate {
  return { ...each, score, named };
}

/** By score, descending; equal scores as they stood, NaN behind every number. */
function inOrder<Item extends { readonly score: number }>(list: readonly Item[]): readonly Item[] {
  const numbers = list.filter(({ score }) => !Number.isNaN(score));
  const others = list.filter(({ score }) => Number.isNaN(score));
  // `toSorted` is stable. 0 and -0 are equal.
  return [...numbers.toSorted((a, b) => (a.score === b.score ? 0 : b.score - a.score)), ...others];
}

/** One list, in which each item stands once. */
function mergedLists(
  lists: readonly (readonly Candidate[])[],
  names: readonly string[],
  merge: MergeStage,
): readonly Candidate[] {
  const { by, parts } = merge;
  const sources = lists.map((list) => list.filter((each, at) => firstPlace(list, each) === at));
  const valueOf = (from: number): number => parts.find(({ name }) => name === names[from])!.value;
  // An item has 0 by the name of a retrieval that did not find it, and is otherwise as the first found it.
  const whole = (id: ScalarValue): Candidate => {
    const found = sources.map((list) => list.find((each) => each.id === id));
    const first = found.find((each) => each !== undefined)!;
    const named = new Map(names.map((name, from) => [name, found[from]?.score ?? 0]));
    const vector = found.find((each) => each?.vector !== undefined)?.vector;
    return { ...first, named, vector };
  };
  if (by !== "quotas") {
    const ids = [...new Set(sources.flatMap((list) => list.map(({ id }) => id)))];
    const summed = ids.map((id) => {
      let sum = 0;
      for (const [from, list] of sources.entries()) {
        const place = list.findIndex((each) => each.id === id);
        if (place < 0) continue;
        sum +=
          merge.by === "reciprocal-ranks"
            ? valueOf(from) / (merge.constant + place + 1)
            : valueOf(from) * list[place]!.score;
      }
      return withScore(whole(id), Math.fround(sum));
    });
    return inOrder(summed);
  }
  const taken: Candidate[] = [];
  const took = sources.map(() => 0);
  for (;;) {
    const offers = sources.flatMap((list, from) => {
      const item = list.find(({ id }) => taken.every((each) => each.id !== id));
      const isDone = item === undefined || took[from]! >= valueOf(from);
      return isDone ? [] : [{ item, from, part: took[from]! / valueOf(from) }];
    });
    const [next] = offers.toSorted((a, b) => a.part - b.part || a.from - b.from);
    if (next === undefined) return taken;
    taken.push(withScore(whole(next.item.id), next.item.score));
    took[next.from]! += 1;
  }
}

function firstPlace(list: readonly Candidate[], { id }: Candidate): number {
  return list.findIndex((each) => each.id === id);
}

/** The value of an expression, in float64, rounded to float32 once. */
function scoreOf(expression: ScoreExpression, { score, named }: Candidate): number {
  const stack: number[] = [];
  for (const step of expression) {
    if (step.kind === "number") stack.push(step.value);
    else if (step.kind === "name")
      stack.push(step.name === "score" ? score : named.get(step.name)!);
    else {
      const last = stack.pop()!;
      stack.push(appliedTo(step.operation, last, () => stack.pop()!));
    }
  }
  return Math.fround(stack[0]!);
}

type Operation = Extract<ScoreExpression[number], { readonly kind: "apply" }>["operation"];

/** `before` takes the operands in front of the last one, from the right. */
function appliedTo(operation: Operation, last: number, before: () => number): number {
  switch (operation) {
    case "add":
      return before() + last;
    case "subtract":
      return before() - last;
    case "multiply":
      return before() * last;
    case "divide":
      return before() / last;
    case "negate":
      return -last;
    case "log":
      return Math.log(last);
    case "exp":
      return Math.exp(last);
    case "min":
      return Math.min(before(), last);
    case "max":
      return Math.max(before(), last);
    case "clip": {
      const least = before();
      return Math.min(Math.max(before(), least), last);
    }
  }
}

/** A list made less alike; candidates keep their scores. */
function diversified(list: readonly Candidate[], stage: DiversifyStage): readonly Candidate[] {
  switch (stage.by) {
    case "at-most": {
      const kept: Candidate[] = [];
      for (const each of list) {
        const isFull = valuesOf(each, stage.attribute).some((value) => {
          const same = kept.filter((other) => valuesOf(other, stage.attribute).includes(value));
          return same.length >= stage.count;
        });
        if (!isFull) kept.push(each);
      }
      return kept;
    }
    case "round-robin": {
      const first = (each: Candidate): string => valuesOf(each, stage.attribute)[0] ?? "none";
      const kinds = [...new Set(list.map(first))];
      const turnOf = (each: Candidate): number =>
        list.slice(0, list.indexOf(each)).filter((other) => first(other) === first(each)).length;
      const places = list.map((each) => ({
        each,
        turn: turnOf(each),
        kind: kinds.indexOf(first(each)),
      }));
      return places.toSorted((a, b) => a.turn - b.turn || a.kind - b.kind).map(({ each }) => each);
    }
    case "mmr":
      return marginallyRelevant(list, stage);
  }
}

/** An item's values of an attribute as texts that are equal where the values are; none where it has none. */
function valuesOf({ attributes }: Candidate, name: string): readonly string[] {
  const value = attributes[name] ?? null;
  const values = Array.isArray(value) ? value : [value];
  return values.filter((each) => each !== null).map((each) => `${typeof each} ${String(each)}`);
}

/** The largest balance × scaled score − (1 − balance) × largest cosine to one that is taken, again and again. */
function marginallyRelevant(
  list: readonly Candidate[],
  { balance, count }: Extract<DiversifyStage, { readonly by: "mmr" }>,
): readonly Candidate[] {
  const finite = list.map(({ score }) => score).filter((score) => Number.isFinite(score));
  const [least, most] = [Math.min(...finite), Math.max(...finite)];
  const scaled = ({ score }: Candidate): number => {
    if (!Number.isFinite(score)) return score === Infinity ? 1 : 0;
    return most > least ? (score - least) / (most - least) : 1;
  };
  const taken: Candidate[] = [];
  while (taken.length < Math.min(count, list.length)) {
    const open = list.filter((each) => !taken.includes(each));
    const values = open.map((each) => {
      const likeness = Math.max(...taken.map((other) => cosine(each.vector, other.vector)));
      return balance * scaled(each) - (taken.length === 0 ? 0 : (1 - balance) * likeness);
    });
    taken.push(open[values.indexOf(Math.max(...values))]!);
  }
  return taken;
}

/** 0 where one has no vector, or one of length 0. */
function cosine(a: Float32Array | undefined, b: Float32Array | undefined): number {
  if (a === undefined || b === undefined) return 0;
  const norms = Math.sqrt(dot(a, a)) * Math.sqrt(dot(b, b));
  return norms > 0 ? dot(a, b) / norms : 0;
}

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, at) => sum + value * b[at]!, 0);
}

/** One value of each candidate, as `[instances, longest list]`. */
function listTensor(dtype: Dtype, lists: Lists, valueOf: (each: Candidate) => ScalarValue): Tensor {
  const lengths = Uint32Array.from(lists, ({ length }) => length);
  const width = Math.max(0, ...lengths);
  const none: ScalarValue = dtype === "string" ? "" : 0;
  const values = lists.flatMap((list) =>
    Array.from({ length: width }, (_, at) => (list[at] === undefined ? none : valueOf(list[at]))),
  );
  const tensor = tensorOfScalars(dtype, [lists.length, width], values);
  return lengths.some((length) => length !== width) ? { ...tensor, rowLengths: lengths } : tensor;
}

function picked(attributes: ItemAttributes, names: readonly string[]): ItemAttributes {
  return Object.fromEntries(names.map((name) => [name, attributes[name]!]));
}
