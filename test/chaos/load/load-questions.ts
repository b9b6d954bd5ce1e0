// What the load asks: some hundreds of requests of every kind, drawn from a seed, as the bytes that
// are sent and a judge of what comes back. Items to exclude are named by the versions published last,
// so the questions are drawn again whenever a version comes.

import {
  type BodyFault,
  type GivenList,
  type Judge,
  type PublishedVersion,
  listFault,
  predictionJudge,
  toldJudge,
} from "../answers/answer-check.ts";
import type { AnswerOracle, WantedList } from "../answers/answer-oracle.ts";
import {
  type ModelName,
  RANKING_SHAPE,
  RETRIEVAL_SHAPES,
  itemName,
  numbersOf,
  titleName,
  userName,
} from "../answers/model-content.ts";
import { listsOfPredictAnswer, predictMessage } from "./predict-messages.ts";
import { judgeMetadata, judgeStatus } from "../answers/told-answers.ts";

/** Kinds of requests, with their share of the load in percent. */
const QUESTION_SHARES = {
  retrieval: 24,
  batch: 12,
  k: 8,
  "exclude for all": 8,
  "exclude per instance": 10,
  pinned: 8,
  "partial allowed": 4,
  ranking: 10,
  status: 3,
  metadata: 3,
  grpc: 10,
} as const;

/** A kind of request. */
export type QuestionKind = keyof typeof QUESTION_SHARES;

/** A request, ready to be sent again and again. */
export interface Question {
  readonly kind: QuestionKind;
  readonly door: "rest" | "grpc";
  /** REST: a whole HTTP request. gRPC: a Predict message. */
  readonly bytes: Buffer;
  readonly judge: Judge;
}

/** What questions are drawn from. */
export interface QuestionSource {
  readonly seed: number;
  readonly oracle: AnswerOracle;
  readonly published: readonly PublishedVersion[];
  /** Versions that pinned requests name. */
  readonly pins: Readonly<Partial<Record<ModelName, number>>>;
}

const QUESTIONS = 600;

/** The questions in the order in which they are asked, over and over. */
export function drawQuestions(source: QuestionSource): Question[] {
  const random = numbersOf(`questions ${source.seed}`);
  const below = (count: number): number => Math.floor(random() * count);
  const kinds = Object.entries(QUESTION_SHARES).flatMap(([kind, percent]) =>
    Array.from({ length: (percent * QUESTIONS) / 100 }, () => kind as QuestionKind),
  );
  for (let at = kinds.length - 1; at > 0; at -= 1) {
    const other = below(at + 1);
    [kinds[at], kinds[other]] = [kinds[other]!, kinds[at]!];
  }
  const draw = { ...source, below };
  return kinds.map((kind) => Object.assign(DRAWN[kind](draw), { kind }));
}

interface Draw extends QuestionSource {
  readonly below: (count: number) => number;
}

type Drawn = Omit<Question, "kind">;

const DRAWN: Readonly<Record<QuestionKind, (draw: Draw) => Drawn>> = {
  retrieval: (draw) => retrieval(draw, { users: 1 }),
  batch: (draw) => retrieval(draw, { users: 2 + draw.below(15) }),
  k: (draw) => retrieval(draw, { users: 1 + draw.below(2), k: 1 + draw.below(40) }),
  "exclude for all": (draw) => retrieval(draw, { users: 2, exclude: "all" }),
  "exclude per instance": (draw) => retrieval(draw, { users: 3, exclude: "each" }),
  pinned: (draw) => retrieval(draw, { users: 1, isPinned: true }),
  "partial allowed": (draw) => retrieval(draw, { users: 2, allowsPartial: true }),
  ranking,
  status: () => told("catalog", judgeStatus),
  metadata: () => told("catalog/metadata", judgeMetadata),
  grpc: overGrpc,
};

type RetrievalName = "catalog" | "boutique";

interface RetrievalWish {
  readonly users: number;
  readonly k?: number;
  readonly exclude?: "all" | "each";
  readonly isPinned?: boolean;
  readonly allowsPartial?: boolean;
}

function retrieval(draw: Draw, wish: RetrievalWish): Drawn {
  const model: RetrievalName = draw.below(4) === 0 ? "boutique" : "catalog";
  const shape = RETRIEVAL_SHAPES[model];
  const users = Array.from({ length: wish.users }, () => drawnUser(draw, shape.users));
  const k = Math.min(wish.k ?? shape.k, shape.rows);
  const { field, sets } = exclusions(draw, { model, users, exclude: wish.exclude });
  const wanted = users.map((user, at): WantedList => ({ user, k, excluded: sets?.[at] }));
  const body = JSON.stringify({
    instances: users.map(userName),
    ...(wish.k !== undefined && { k }),
    ...(field !== undefined && { exclude: field }),
  });
  const pin = wish.isPinned === true ? draw.pins[model] : undefined;
  const target = `${model}${pin === undefined ? "" : `/versions/${pin}`}:predict`;
  const allowsPartial = wish.allowsPartial === true;
  return {
    door: "rest",
    bytes: post(target, body, allowsPartial ? ["x-winnow-allow-partial: true"] : []),
    judge: predictionJudge({
      model,
      fault: wholeLists(draw.oracle, wanted),
      partialFault: allowsPartial ? partialLists(draw.oracle, wanted) : undefined,
      isPinned: pin !== undefined,
    }),
  };
}

/** Now and then one whom no vocabulary holds. */
function drawnUser({ below }: Draw, users: number): number {
  return below(users + Math.ceil(users / 16));
}

interface ExclusionWish {
  readonly model: RetrievalName;
  readonly users: readonly number[];
  readonly exclude: "all" | "each" | undefined;
}

interface Exclusions {
  /** The value of `exclude` in the body. */
  readonly field?: readonly string[] | readonly (readonly string[])[];
  /** Per instance. */
  readonly sets?: readonly ReadonlySet<string>[];
}

function exclusions(draw: Draw, { model, users, exclude }: ExclusionWish): Exclusions {
  if (exclude === undefined) return {};
  const lists = users.map((user, at) => excludedIds(draw, { model, user, isLong: at % 2 === 1 }));
  if (exclude === "each") return { field: lists, sets: lists.map((ids) => new Set(ids)) };
  const ids = new Set(lists.flat());
  return { field: [...ids], sets: users.map(() => ids) };
}

interface ExcludedItems {
  readonly model: RetrievalName;
  readonly user: number;
  /** Of a small table, so many that fewer than k items are left. */
  readonly isLong: boolean;
}

/** Some of a user's best items in the two versions published last, and items drawn at random. */
function excludedIds(draw: Draw, { model, user, isLong }: ExcludedItems): string[] {
  const { rows } = RETRIEVAL_SHAPES[model];
  const count = isLong && model === "boutique" ? 22 + draw.below(18) : draw.below(6);
  const contents = draw.published.filter((each) => each.model === model && each.sound);
  return contents
    .slice(-2)
    .flatMap((content) =>
      draw.oracle.best(content, { user, k: count }).ids.concat(itemName(content, draw.below(rows))),
    );
}

function ranking(draw: Draw): Drawn {
  const pairs = Array.from({ length: 1 + draw.below(4) }, () => ({
    user: drawnUser(draw, RANKING_SHAPE.users),
    item: draw.below(RANKING_SHAPE.items + 8),
  }));
  const instances = pairs.map(({ user, item }) => ({
    user_id: userName(user),
    movie_title: titleName(item),
  }));
  const fault: BodyFault = (body, content) => {
    const { predictions } = JSON.parse(body.toString("utf8")) as { predictions: number[][] };
    const given = JSON.stringify(predictions.map((scores) => scores.map(Math.fround)));
    const expected = pairs.map(({ user, item }) => [draw.oracle.ranked(content, user, item)]);
    const text = JSON.stringify(expected);
    return given === text ? undefined : `${given} instead of ${text}`;
  };
  return {
    door: "rest",
    bytes: post("ranking:predict", JSON.stringify({ instances }), []),
    judge: predictionJudge({ model: "ranking", fault }),
  };
}

function told(target: string, judgeBody: Parameters<typeof toldJudge>[0]): Drawn {
  const bytes = Buffer.from(`GET /v1/models/${target} HTTP/1.1\r\nhost: winnow\r\n\r\n`);
  return { door: "rest", bytes, judge: toldJudge(judgeBody) };
}

function post(target: string, body: string, headers: readonly string[]): Buffer {
  const head = [
    `POST /v1/models/${target} HTTP/1.1`,
    "host: winnow",
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    ...headers,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}

function givenLists(body: Buffer): GivenList[] {
  const { predictions } = JSON.parse(body.toString("utf8")) as {
    readonly predictions: readonly { readonly output_1: number[]; readonly output_2: string[] }[];
  };
  return predictions.map(({ output_1: scores, output_2: ids }) => ({
    scores: scores.map(Math.fround),
    ids,
  }));
}

function wholeLists(oracle: AnswerOracle, wanted: readonly WantedList[]): BodyFault {
  return (body, content) =>
    firstFault(givenLists(body), wanted, (list, wish) =>
      listFault(list, oracle.best(content, wish)),
    );
}

/** Lists that may lack items: those there are must be right, in order, and not excluded. */
function partialLists(oracle: AnswerOracle, wanted: readonly WantedList[]): BodyFault {
  return (body, content) =>
    firstFault(givenLists(body), wanted, ({ ids, scores }, { user, k, excluded }) => {
      if (ids.length > k || ids.length !== scores.length) return `${ids.length} items for k ${k}`;
      const place = ids.findIndex(
        (id, at) =>
          excluded?.has(id) === true ||
          scores[at] !== oracle.scoreOf(content, user, id) ||
          (at > 0 && scores[at]! > scores[at - 1]!) ||
          ids.indexOf(id) < at,
      );
      return place < 0 ? undefined : `place ${place}: ${ids[place]} (${scores[place]})`;
    });
}

function firstFault(
  lists: readonly GivenList[],
  wanted: readonly WantedList[],
  faultOf: (list: GivenList, wish: WantedList) => string | undefined,
): string | undefined {
  if (lists.length !== wanted.length) return `${lists.length} lists, not ${wanted.length}`;
  for (const [at, wish] of wanted.entries()) {
    const fault = faultOf(lists[at]!, wish);
    if (fault !== undefined) return `instance ${at}: ${fault}`;
  }
  return undefined;
}

function overGrpc(draw: Draw): Drawn {
  const { users: count, k } = RETRIEVAL_SHAPES.catalog;
  const users = Array.from({ length: 1 + draw.below(3) }, () => drawnUser(draw, count));
  const wanted = users.map((user): WantedList => ({ user, k }));
  const fault: BodyFault = (body, content) =>
    firstFault(listsOfPredictAnswer(body, users.length), wanted, (list, wish) =>
      listFault(list, draw.oracle.best(content, wish)),
    );
  return {
    door: "grpc",
    bytes: predictMessage("catalog", users.map(userName)),
    judge: predictionJudge({ model: "catalog", fault }),
  };
}
