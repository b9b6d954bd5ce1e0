// Who says where a worker is, and whose word comes first.

import { incarnation, workerId } from "@winnow/core";
import type { Contact, MemberNews, MembershipView } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { ContactBook } from "./contact-book.ts";

const W0 = workerId("w0");
const at = (address: string, number?: number, id = "w0"): Contact => ({
  workerId: workerId(id),
  address,
  incarnation: number === undefined ? undefined : incarnation(number),
});
const news = (contact: Contact, isGone = false): MemberNews => ({ ...contact, isGone });
const stored = (...contacts: readonly Contact[]): MembershipView =>
  ({ contacts, healthy: true }) as unknown as MembershipView;
const addresses = (book: ContactBook): string =>
  book
    .hintsOf(W0)
    .map(({ address, incarnation: number }) => `${address}/${number ?? "?"}`)
    .join(" ");

describe("ContactBook", () => {
  test("puts the store's word before that of other workers, and the file last", () => {
    const book = new ContactBook({ workersMax: 10 });

    book.setSaved([at("saved:1", 1)]);
    book.tell([news(at("told:1", 5))]);
    book.setStored(stored(at("stored:1", 3)));

    expect(addresses(book)).toBe("stored:1/3 told:1/5 saved:1/1");
    expect([...book.names()]).toEqual([W0]);
  });

  test("keeps the highest number that is said of one address", () => {
    const book = new ContactBook({ workersMax: 10 });

    book.setStored(stored(at("a:1")));
    book.tell([news(at("a:1", 5))]);

    expect(addresses(book)).toBe("a:1/5");
  });

  test("keeps two addresses that workers tell of, the newest first, until they say it is gone", () => {
    const book = new ContactBook({ workersMax: 10 });

    for (const number of [1, 2, 3]) book.tell([news(at(`a:${number}`, number))]);
    expect(addresses(book)).toBe("a:3/3 a:2/2");
    book.tell([news(at("a:2", 2), true)]);
    expect(addresses(book)).toBe("a:3/3");
    book.tell([news(at("a:3", 3), true)]);

    expect(addresses(book)).toBe("");
  });

  test("forgets what was told first where too much is told", () => {
    const book = new ContactBook({ workersMax: 10 });

    for (let each = 0; each < 100; each += 1) book.tell([news(at(`a:${each}`, 1, `w${each}`))]);

    expect([...book.names()]).toEqual(Array.from({ length: 10 }, (_, each) => `w${90 + each}`));
  });

  test("forgets a worker that nobody found, unless the store names it", () => {
    const book = new ContactBook({ workersMax: 10 });
    book.setSaved([at("saved:1", 1)]);
    book.tell([news(at("told:1", 5))]);
    book.setStored(stored(at("stored:1", 3)));

    book.forget(W0);

    expect(addresses(book)).toBe("stored:1/3");
    expect(book.isStored(W0)).toBe(true);
  });
});
