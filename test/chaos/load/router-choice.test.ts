// Which router the load's balancer asks, by what probes showed of each.

import { expect, test } from "vitest";
import { chosenRouter } from "./router-choice.ts";

test("ready routers take turns", () => {
  expect([0, 1].map((wanted) => chosenRouter(["ready", "ready"], wanted))).toEqual([0, 1]);
});

test("a ready router takes what a silent one, or one that is not ready, would take", () => {
  for (const other of ["silent", "unready"] as const) {
    expect([0, 1].map((wanted) => chosenRouter([other, "ready"], wanted))).toEqual([1, 1]);
    expect([0, 1].map((wanted) => chosenRouter(["ready", other], wanted))).toEqual([0, 0]);
  }
});

// On a busy machine the other router's probe takes more than a second; the one that starts says 503 to everything.
test("while a router starts, the other one is asked though it is silent", () => {
  expect([0, 1].map((wanted) => chosenRouter(["silent", "unready"], wanted))).toEqual([0, 0]);
  expect([0, 1].map((wanted) => chosenRouter(["unready", "silent"], wanted))).toEqual([1, 1]);
});

test("routers that are all alike take turns, ready or not", () => {
  for (const each of ["silent", "unready"] as const) {
    expect([0, 1].map((wanted) => chosenRouter([each, each], wanted))).toEqual([0, 1]);
  }
});
