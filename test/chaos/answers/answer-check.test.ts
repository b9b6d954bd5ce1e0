// The oracle against a dumb twin and the product's own score, and the judges against every kind of lie.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import { describe, expect, test } from "vitest";
import {
  type CheckedReply,
  type PublishedVersion,
  listFault,
  predictionJudge,
  toldJudge,
} from "./answer-check.ts";
import { AnswerOracle } from "./answer-oracle.ts";
import { drawQuestions } from "../load/load-questions.ts";
import {
  RETRIEVAL_SHAPES,
  type VersionContent,
  candidateRows,
  itemName,
  userRows,
} from "./model-content.ts";
import { judgeMetadata, judgeStatus } from "./told-answers.ts";

const oracle = new AnswerOracle();
const first: VersionContent = { model: "catalog", version: 1, edition: 0 };
const second: VersionContent = { model: "catalog", version: 2, edition: 0 };
const published: readonly PublishedVersion[] = [
  { ...first, sound: true },
  { ...second, sound: true },
  { model: "catalog", version: 3, edition: 0, sound: false },
];

describe("the oracle", () => {
  const { dim, rows } = RETRIEVAL_SHAPES.catalog;
  const values = candidateRows(first);

  test.each([0, 7, 239, 500])(
    "ranks all rows as a sort by the product's score: user %d",
    (user) => {
      const row = user < RETRIEVAL_SHAPES.catalog.users ? user + 1 : 0;
      const embedding = userRows(first).slice(row * dim, (row + 1) * dim);
      const [query] = widenQueries(embedding, dim);
      const sorted = Array.from({ length: rows }, (_, item) => ({
        item,
        score: canonicalScore(query!, values, item * dim),
      })).toSorted((a, b) => b.score - a.score || a.item - b.item);

      const best = oracle.best(first, { user, k: rows });

      expect(best.ids).toEqual(sorted.map(({ item }) => itemName(first, item)));
      expect(best.scores).toEqual(sorted.map(({ score }) => score));
    },
  );

  test("knows ties, which rows decide", () => {
    const { ids, scores } = oracle.best(first, { user: 1, k: rows });

    const twins = scores.flatMap((score, at) => (score === scores[at + 1] ? [at] : []));

    expect(twins.length).toBeGreaterThanOrEqual(60);
    for (const at of twins) {
      const [one, other] = [ids[at]!, ids[at + 1]!].map((id) => Number(id.split(" ").at(-1)));
      expect(one).toBeLessThan(other!);
    }
  });

  test("leaves out what is excluded, and only that", () => {
    const whole = oracle.best(first, { user: 3, k: 12 }).ids;
    const excluded = new Set([whole[0]!, whole[4]!, "no item"]);

    const rest = oracle.best(first, { user: 3, k: 10, excluded }).ids;

    expect(rest).toEqual(whole.filter((id) => !excluded.has(id)));
  });
});

function replyOf(body: unknown, more: Partial<CheckedReply> = {}): CheckedReply {
  return {
    status: 200,
    version: "1",
    coverage: "1",
    hasRetryAfter: false,
    body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
    ...more,
  };
}

const answerOf = (content: VersionContent, user: number, k = 10): object => {
  const { scores, ids } = oracle.best(content, { user, k });
  return { predictions: [{ output_1: scores, output_2: ids }] };
};

describe("predictions", () => {
  const wanted = { user: 5, k: 10 };
  const judge = predictionJudge({
    model: "catalog",
    fault: (body, content) => {
      const { predictions } = JSON.parse(body.toString("utf8")) as {
        predictions: { output_1: number[]; output_2: string[] }[];
      };
      const { output_1: scores, output_2: ids } = predictions[0]!;
      return listFault({ scores, ids }, oracle.best(content, wanted));
    },
  });
  const right = answerOf(first, 5);

  test("are exact when they are the named version's, at the first look and at later ones", () => {
    expect(judge(replyOf(right), published).class).toBe("exact");
    expect(judge(replyOf(right), published).class).toBe("exact");
    const other = replyOf(answerOf(second, 5), { version: "2" });
    expect(judge(other, published).class).toBe("exact");
  });

  test.each([
    ["another user's", replyOf(answerOf(first, 6))],
    ["a shorter list", replyOf(answerOf(first, 5, 9))],
    ["another version's", replyOf(answerOf(second, 5))],
    ["a version's that was never published", replyOf(right, { version: "9" })],
    ["a spoilt version's", replyOf(right, { version: "3" })],
    ["of no named version", replyOf(right, { version: undefined })],
    ["partial though nobody asked", replyOf(right, { coverage: "0.9" })],
    ["no JSON", replyOf("{")],
  ])("are wrong when they are %s", (_, reply) => {
    expect(judge(reply, published).class).toBe("wrong");
  });

  test("may be either content of a directory that was replaced in place", () => {
    const edition: VersionContent = { ...first, edition: 1 };
    const both = [...published, { ...edition, sound: true }];

    expect(judge(replyOf(answerOf(edition, 5)), published).class).toBe("wrong");
    expect(judge(replyOf(answerOf(edition, 5)), both).class).toBe("exact");
  });

  test.each([
    [503, true, "refused"],
    [429, true, "refused"],
    [503, false, "failed"],
    [504, false, "failed"],
    [404, false, "failed"],
    [0, false, "failed"],
  ])("with status %d (Retry-After: %s) are %s", (status, hasRetryAfter, expected) => {
    const reply = replyOf({ error: "…" }, { status, hasRetryAfter });

    expect(judge(reply, published).class).toBe(expected);
  });

  test("of a pinned version that was replaced are gone, not failed", () => {
    const pinned = predictionJudge({ model: "catalog", fault: () => undefined, isPinned: true });

    expect(pinned(replyOf({}, { status: 404 }), published).class).toBe("gone");
  });
});

describe("what a router says of a model", () => {
  const status = (version: string) =>
    replyOf({ model_version_status: [{ version, state: "AVAILABLE" }] });
  const metadata = (version: string, output: string) =>
    replyOf({
      model_spec: { version },
      metadata: {
        signature_def: {
          signature_def: {
            serving_default: { inputs: { input_1: {} }, outputs: { output_1: {}, [output]: {} } },
          },
        },
      },
    });

  test("is right for a sound version alone", () => {
    expect(toldJudge(judgeStatus)(status("2"), published).class).toBe("exact");
    expect(toldJudge(judgeStatus)(status("3"), published).class).toBe("wrong");
    expect(toldJudge(judgeMetadata)(metadata("1", "output_2"), published).class).toBe("exact");
    expect(toldJudge(judgeMetadata)(metadata("1", "other"), published).class).toBe("wrong");
    expect(toldJudge(judgeMetadata)(metadata("3", "output_2"), published).class).toBe("wrong");
  });
});

test("questions are the same from one seed, of every kind, and follow the versions", () => {
  const source = { seed: 4, oracle, published: published.slice(0, 1), pins: { catalog: 1 } };
  const bytesOf = (questions: ReturnType<typeof drawQuestions>): string =>
    questions.map(({ bytes }) => bytes.toString("latin1")).join("\n");

  const questions = drawQuestions(source);
  const later = drawQuestions({ ...source, published });

  expect(bytesOf(drawQuestions(source))).toBe(bytesOf(questions));
  expect(bytesOf(later)).toContain("v2e0 item");
  expect(bytesOf(questions)).not.toContain("v2e0 item");
  expect(new Set(questions.map(({ kind }) => kind)).size).toBe(11);
  expect(questions).toHaveLength(600);
});
