// What is told of servers that answer something else than a report: another program, another release, a liar.

import { systemClock } from "@winnow/core";
import { expect, test } from "vitest";
import { servedBy } from "../../../../test/doubles/http-listener.ts";
import { RestClient } from "../access/rest-client.ts";
import { askReport } from "./report-question.ts";

const parts = { workers: [], models: [], events: [], slowRequests: [] };
const health = { severity: "ok", sentence: "", remedy: "", findings: [] };

test.each([
  ["a page", "<html>", "its answer is no report"],
  ["a number", "7", "its answer is no report"],
  ["nothing", "null", "its answer is no report"],
  ["another document", JSON.stringify({ status: "ok" }), "its answer is no report"],
  [
    "traffic that is none",
    JSON.stringify({ ...parts, health, router: { traffic: null } }),
    "is it of another release?",
  ],
  [
    "a worker without fields",
    JSON.stringify({ ...parts, health, router: { traffic: {} }, workers: [{}] }),
    "is it of another release?",
  ],
  [
    "empty places",
    JSON.stringify({ ...parts, health: { findings: [null] }, router: { traffic: {} } }),
    "is it of another release?",
  ],
])("a server that answers %s is no router that reports", async (_what, body, why) => {
  const url = await servedBy((_request, response) => response.end(body));

  const asked = askReport(new RestClient(), url, { clock: systemClock });

  await expect(asked).rejects.toMatchObject({ code: "UNIMPLEMENTED" });
  await expect(askReport(new RestClient(), url, { clock: systemClock })).rejects.toThrow(why);
});
