// Orders to drain: read as they were written, refused where nobody of this cluster wrote them.

import type { Incarnation, WorkerId } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ClusterSecret, noSecret } from "../trust/cluster-secret.ts";
import { type DrainTrust, readDrain, signDrain } from "./drain-order.ts";

const KEY = "a secret of sixteen and more";
const target = { workerId: "w0" as WorkerId, incarnation: 42 as Incarnation };
const trustOf = (keys: readonly string[], cluster = "default"): DrainTrust => ({
  cluster,
  secret: new ClusterSecret({ cluster, keys, acceptsUnsigned: false }),
});
const open: DrainTrust = { cluster: "default", secret: noSecret() };

describe("an order to drain", () => {
  test("that is signed is read as it was written, and proven", () => {
    const signed = signDrain(target, trustOf([KEY]));

    expect(readDrain(signed, trustOf([KEY]))).toEqual({ ...target, isProven: true });
    expect(readDrain(signed, trustOf(["the secret that follows it", KEY])).isProven).toBe(true);
  });

  test("is not proven where there is no secret, signed or not", () => {
    expect(readDrain(signDrain(target, open), open)).toEqual({ ...target, isProven: false });
    expect(readDrain(signDrain(target, trustOf([KEY])), open).isProven).toBe(false);
  });

  test("that is let pass while a secret is introduced is not proven", () => {
    const secret = new ClusterSecret({ cluster: "default", keys: [KEY], acceptsUnsigned: true });

    expect(readDrain(signDrain(target, open), { cluster: "default", secret }).isProven).toBe(false);
  });

  test.each([
    ["without a signature", signDrain(target, open), "UNAUTHENTICATED"],
    [
      "with another secret",
      signDrain(target, trustOf(["quite another secret"])),
      "UNAUTHENTICATED",
    ],
    ["of another cluster", signDrain(target, trustOf([KEY], "other")), "UNAUTHENTICATED"],
    [
      "with another purpose",
      trustOf([KEY]).secret.sign("order", signDrain(target, open)),
      "UNAUTHENTICATED",
    ],
    ["that was changed", signDrain(target, trustOf([KEY])).replace("w0", "w1"), "UNAUTHENTICATED"],
    ["that is no JSON", trustOf([KEY]).secret.sign("order to drain", "{"), "INVALID_ARGUMENT"],
    ["that is a list", trustOf([KEY]).secret.sign("order to drain", "[]"), "INVALID_ARGUMENT"],
    ["that is huge", " ".repeat(5000), "INVALID_ARGUMENT"],
    [
      "of a later format",
      trustOf([KEY]).secret.sign("order to drain", '{"format":2,"cluster":"default"}'),
      "INVALID_ARGUMENT",
    ],
    [
      "without a worker",
      trustOf([KEY]).secret.sign("order to drain", '{"format":1,"cluster":"default"}'),
      "INVALID_ARGUMENT",
    ],
  ])("%s is refused", (_, signed, code) => {
    expect(() => readDrain(signed, trustOf([KEY]))).toThrow(expect.objectContaining({ code }));
  });

  test("that names another cluster is refused where nothing is signed", () => {
    const foreign = signDrain(target, { cluster: "other", secret: noSecret("other") });

    expect(() => readDrain(foreign, open)).toThrow(
      expect.objectContaining({ code: "PERMISSION_DENIED" }),
    );
  });
});
