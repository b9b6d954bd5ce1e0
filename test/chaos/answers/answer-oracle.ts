// The expected answers of a version, by brute force over its whole table in this process. The score is
// computed here from its definition in ARCHITECTURE.md, not with the product's code: float64, lane j mod 8 in
// increasing j, one tree, rounded once to float32.

import {
  RANKING_SHAPE,
  RETRIEVAL_SHAPES,
  type VersionContent,
  candidateRows,
  contentKey,
  denseLayers,
  itemName,
  rankedItemRows,
  userRows,
} from "./model-content.ts";

/** Items of one instance, best first. */
export interface RankedList {
  readonly scores: readonly number[];
  readonly ids: readonly string[];
}

/** Which items are wanted. */
export interface WantedList {
  readonly user: number;
  readonly k: number;
  readonly excluded?: ReadonlySet<string> | undefined;
}

interface UserRanking {
  /** Rows by falling score, equal scores by ascending row. */
  readonly order: Uint32Array;
  /** By row. */
  readonly scores: Float32Array;
}

interface LoadedContent {
  readonly users: Float32Array;
  readonly candidates: Float32Array;
  readonly ids: readonly string[];
  readonly rowOfId: ReadonlyMap<string, number>;
  readonly rankings: Map<number, UserRanking>;
}

/** Answers of any version; computed once and kept. */
export class AnswerOracle {
  readonly #contents = new Map<string, LoadedContent>();
  readonly #rankingScores = new Map<string, number>();

  /** The best items of a retrieval model for a user; a number beyond the vocabulary is an unknown user. */
  best(content: VersionContent, { user, k, excluded }: WantedList): RankedList {
    const loaded = this.#load(content);
    const { order, scores } = this.#ranking(content, loaded, user);
    const rows: number[] = [];
    for (let place = 0; place < order.length && rows.length < k; place += 1) {
      const row = order[place]!;
      if (excluded?.has(loaded.ids[row]!) !== true) rows.push(row);
    }
    return { scores: rows.map((row) => scores[row]!), ids: rows.map((row) => loaded.ids[row]!) };
  }

  /** The score of an item by its name; `undefined` if the version has no such item. */
  scoreOf(content: VersionContent, user: number, id: string): number | undefined {
    const loaded = this.#load(content);
    const row = loaded.rowOfId.get(id);
    return row === undefined ? undefined : this.#ranking(content, loaded, user).scores[row];
  }

  /** The ranking model's score of a pair. */
  ranked(content: VersionContent, user: number, item: number): number {
    const key = `${contentKey(content)} ${user} ${item}`;
    const known = this.#rankingScores.get(key);
    if (known !== undefined) return known;
    const { dim, users, items } = RANKING_SHAPE;
    const userRow = user < users ? user + 1 : 0;
    const itemRow = item < items ? item + 1 : 0;
    const input = Float64Array.of(
      ...userRows(content).subarray(userRow * dim, (userRow + 1) * dim),
      ...rankedItemRows(content).subarray(itemRow * dim, (itemRow + 1) * dim),
    );
    const score = throughLayers(content, input)[0]!;
    this.#rankingScores.set(key, score);
    return score;
  }

  #load(content: VersionContent): LoadedContent {
    const key = contentKey(content);
    let loaded = this.#contents.get(key);
    if (loaded === undefined) {
      const { rows } = RETRIEVAL_SHAPES[content.model === "boutique" ? "boutique" : "catalog"];
      const ids = Array.from({ length: rows }, (_, row) => itemName(content, row));
      loaded = {
        users: userRows(content),
        candidates: candidateRows(content),
        ids,
        rowOfId: new Map(ids.map((id, row) => [id, row])),
        rankings: new Map(),
      };
      this.#contents.set(key, loaded);
    }
    return loaded;
  }

  #ranking(content: VersionContent, loaded: LoadedContent, user: number): UserRanking {
    const known = loaded.rankings.get(user);
    if (known !== undefined) return known;
    const shape = RETRIEVAL_SHAPES[content.model === "boutique" ? "boutique" : "catalog"];
    const userRow = user < shape.users ? user + 1 : 0;
    const embedding = loaded.users.subarray(userRow * shape.dim, (userRow + 1) * shape.dim);
    const query = throughLayers(content, Float64Array.from(embedding));
    const scores = new Float32Array(shape.rows);
    for (let row = 0; row < shape.rows; row += 1) {
      scores[row] = definedScore(query, loaded.candidates.subarray(row * shape.dim));
    }
    const order = Uint32Array.from(scores.keys()).toSorted(
      (a, b) => scores[b]! - scores[a]! || a - b,
    );
    const ranking = { order, scores };
    loaded.rankings.set(user, ranking);
    return ranking;
  }
}

/** The dense part of a version on one input. The sums are exact: see the values in `model-content.ts`. */
function throughLayers(content: VersionContent, input: Float64Array): Float64Array {
  let values = input;
  for (const { kernel, bias, relu } of denseLayers(content)) {
    const units = bias.length;
    const next = Float64Array.from(bias);
    for (let unit = 0; unit < units; unit += 1) {
      for (const [at, value] of values.entries()) next[unit]! += value * kernel[at * units + unit]!;
      if (relu) next[unit] = Math.max(0, next[unit]!);
    }
    values = next;
  }
  return values;
}

/** A score as ARCHITECTURE.md defines it. */
function definedScore(query: ArrayLike<number>, row: ArrayLike<number>): number {
  const lanes = [0, 0, 0, 0, 0, 0, 0, 0];
  for (let j = 0; j < query.length; j += 1) lanes[j % 8]! += query[j]! * row[j]!;
  const [l0, l1, l2, l3, l4, l5, l6, l7] = lanes as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const sum = l0 + l4 + (l2 + l6) + (l1 + l5 + (l3 + l7));
  const score = Math.fround(sum);
  return score === 0 ? 0 : score;
}
