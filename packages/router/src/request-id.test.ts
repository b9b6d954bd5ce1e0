// Which ids of clients are taken, and that made ones differ.

import { createKey } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { RequestIds } from "./request-id.ts";

describe("the id of a request", () => {
  test.each(["a", "0af7651916cd43dd8448eb211c80319c", "x".repeat(128), "trace/1:{}~!"])(
    "is the client's: %s",
    (header) => {
      expect(new RequestIds(() => 0.5).idOf(header)).toBe(header);
    },
  );

  test.each([undefined, "", "two words", "x".repeat(129), "a\r\nb", "ä", ["a", "b"]])(
    "is made where the client's is none: %s",
    (header) => {
      const ids = new RequestIds(() => 0.5);

      expect(ids.idOf(header)).toBe("iiiiiiii-1");
      expect(ids.idOf(header)).toBe("iiiiiiii-2");
    },
  );

  test("is made where the client sends a key as one", () => {
    const { key } = createKey({ id: "shop", roles: ["predict"] });
    const ids = new RequestIds(() => 0.5);

    const made = [key, `trace/${key}`, key.slice(0, -1)].map((header) => ids.idOf(header));

    expect(made).toEqual(["iiiiiiii-1", "iiiiiiii-2", key.slice(0, -1)]);
  });

  test("of two processes differ", () => {
    const [one, other] = [0.1, 0.9].map((value) => new RequestIds(() => value).idOf(undefined));

    expect(one).not.toBe(other);
  });
});
