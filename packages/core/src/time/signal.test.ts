// A signal does for its listeners what an AbortSignal does.

import { describe, expect, test } from "vitest";
import { AbortableSignal } from "./signal.ts";
import type { Signal } from "./signal.ts";

const reason = new Error("the client left");

function platformSignal(): { signal: Signal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(reason) };
}

function plainSignal(): { signal: Signal; abort: () => void } {
  const signal = new AbortableSignal();
  return { signal, abort: () => signal.abort(reason) };
}

describe.each([
  ["of the platform", platformSignal],
  ["of Winnow", plainSignal],
])("a signal %s", (_, make) => {
  test("calls its listeners once, in their order, and none that left", () => {
    const { signal, abort } = make();
    const heard: string[] = [];
    const [first, second, third] = ["first", "second", "third"].map(
      (name) => () => void heard.push(`${name} ${signal.aborted}`),
    );
    for (const listener of [first!, second!, third!]) {
      signal.addEventListener("abort", listener, { once: true });
    }
    signal.removeEventListener("abort", second!);

    abort();
    abort();
    signal.addEventListener("abort", second!, { once: true });

    expect(heard).toEqual(["first true", "third true"]);
  });

  test("throws its reason once it is aborted", () => {
    const { signal, abort } = make();
    signal.throwIfAborted();
    expect([signal.aborted, signal.reason]).toEqual([false, undefined]);

    abort();

    expect(() => signal.throwIfAborted()).toThrow(reason);
    expect([signal.aborted, signal.reason]).toEqual([true, reason]);
  });

  test("lets a listener take another one off while it is aborted", () => {
    const { signal, abort } = make();
    const heard: string[] = [];
    const last = (): void => void heard.push("last");
    const taker = (): void => signal.removeEventListener("abort", last);
    signal.addEventListener("abort", taker, { once: true });
    signal.addEventListener("abort", last, { once: true });

    abort();

    expect(heard).toEqual([]);
  });
});
