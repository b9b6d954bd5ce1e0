// Predictions are cut out of an answer as they were written, and of half an answer nothing is taken.

import fc from "fast-check";
import { expect, test } from "vitest";
import { predictionTexts } from "./answer-parts.ts";

test("numbers that a parser would round or refuse stay as they were written", () => {
  const answer =
    '{\n    "predictions": [{"id": [9007199254740993],\n  "s": NaN}, 1.10, "a\\"],[\\\\"]\n}\n';

  expect(predictionTexts(answer)).toEqual([
    '{"id": [9007199254740993],"s": NaN}',
    "1.10",
    '"a\\"],[\\\\"',
  ]);
});

test("any predictions, laid out in any way, are found between other members", () => {
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue()),
      fc.jsonValue(),
      fc.constantFrom(0, 2),
      (values, other, indent) => {
        const answer = JSON.stringify(
          { other, predictions: values, last: other },
          undefined,
          indent,
        );

        const texts = predictionTexts(answer);

        expect(texts.map((text) => JSON.parse(text) as unknown)).toEqual(
          JSON.parse(JSON.stringify(values)),
        );
        expect(texts.join("")).not.toContain("\n");
      },
    ),
  );
});

test("an answer that was cut anywhere is none", () => {
  const answer = '{"predictions":[{"a":["x,]}"]},[1,2],3.5,"\\\\"],"n":1}';

  for (let end = 0; end < answer.length; end += 1) {
    expect(() => predictionTexts(answer.slice(0, end))).toThrow("The answer has no predictions");
  }
  for (const wrong of ["<html>", '{"predictions":[1,,2]}', '{"predictions":7}', `${answer}x`]) {
    expect(() => predictionTexts(wrong)).toThrow("The answer has no predictions");
  }
});
