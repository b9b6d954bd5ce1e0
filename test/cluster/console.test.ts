// The console in a real browser, on a live cluster that loses a worker, is given a version that cannot be read and
// a new one. What a person and a screen reader are told is compared, not pixels. `CONSOLE_PICTURES=DIR` keeps
// a picture of each state, light and dark.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { RunningCluster } from "./running-cluster.ts";
import { predict, untilReplicated } from "./served-model.ts";
import { type VersionedCluster, WORKERS, startVersioned } from "./versioned-cluster.ts";
import { cut, publishVersion } from "./written-versions.ts";

const PLACES = [
  process.env["CHROMIUM"],
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];
const executablePath = PLACES.find((place) => place !== undefined && existsSync(place));
const PICTURES = process.env["CONSOLE_PICTURES"];
const WAIT = { timeout: 60_000 };
const COMPRESSED_BYTES_MAX = 150_000;
/** A name that its owner has pointed at this machine. */
const REBOUND = "rebound.example.org";
/** What the browser says of signatures that a router which has just started cannot tell yet. */
const UNTOLD_YET = /status of 503 .*\/v1\/models\/[^/]+\/metadata$/;

if (executablePath === undefined) {
  process.stderr.write(
    "SKIPPED: the console in a browser; no Chromium here, install chromium or set CHROMIUM\n",
  );
}

/** As much of a browser as functions that run there use. */
interface Labelled {
  readonly labels: readonly unknown[];
}
declare const sessionStorage: { readonly length: number };
declare const localStorage: { readonly length: number };
declare const document: { readonly cookie: string };

describe.skipIf(executablePath === undefined)("the console of a running cluster", () => {
  let started: VersionedCluster;
  let cluster: RunningCluster;
  let browser: Browser;
  let page: Page;
  /** What the browser complains of: refused by the policy, failed, thrown. */
  const complaints: string[] = [];
  const asked = new Set<string>();

  beforeAll(async () => {
    started = await startVersioned(["movies"], { partitionBytes: 8192 });
    ({ cluster } = started);
    await untilReplicated(cluster, WORKERS, { model: "movies", version: 1 });
    const args = ["--no-sandbox", `--host-resolver-rules=MAP ${REBOUND} 127.0.0.1`];
    browser = await chromium.launch({ executablePath: executablePath!, args });
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.setDefaultTimeout(WAIT.timeout);
    page.on("console", (message) => {
      if (message.type() === "error")
        complaints.push(`${message.text()} ${message.location().url}`);
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("request", (request) => asked.add(new URL(request.url()).origin));
  });
  afterAll(async () => {
    await browser?.close();
    await started?.end();
  });

  async function picture(name: string): Promise<void> {
    if (PICTURES === undefined) return;
    mkdirSync(PICTURES, { recursive: true });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(300);
      const file = path.join(PICTURES, `${name}-${colorScheme}`);
      await page.screenshot({ path: `${file}.png`, fullPage: true });
      for (const place of ["health", "charts"]) {
        await page.evaluate(`document.querySelector("#${place}")?.scrollIntoView()`);
        await page.screenshot({ path: `${file}-${place}.png` });
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
  }

  const sentence = (text: RegExp): Promise<void> =>
    page.locator("#health-sentence").filter({ hasText: text }).waitFor(WAIT);

  test("a browser is led to it from /, and it says that all is well, in named sections", async () => {
    await page.goto(`${cluster.url}/`);
    await sentence(/OK All 3 workers answer/);

    expect(new URL(page.url()).pathname).toBe("/console/");
    const named = await page
      .getByRole("region")
      .evaluateAll((all) => all.map(({ id }) => id).filter((id) => id !== ""));
    expect(named).toEqual(
      expect.arrayContaining([
        "workers",
        "models",
        "partitions",
        "charts",
        "try",
        "events",
        "settings",
      ]),
    );
    expect(await page.getByRole("main").count()).toBe(1);
    expect(await page.getByRole("navigation", { name: "Sections" }).count()).toBe(1);
    const held = await page.getByRole("img", { name: /^w\d holds \d+ of \d+ partitions$/ }).count();
    expect(held).toBe(2 * WORKERS.length);
    expect(
      await page
        .locator("input, select, textarea")
        .evaluateAll(
          (all) => all.filter((each) => (each as unknown as Labelled).labels.length !== 1).length,
        ),
    ).toBe(0);
  });

  test("the keyboard alone tries a request; the answer is a table, and copies hold no key", async () => {
    const instances = page.getByLabel("Instances (JSON)");
    await expect.poll(() => instances.inputValue(), WAIT).toContain("42");
    await instances.fill('["user 1", "user 2"]');
    await page.getByLabel("k", { exact: true }).fill("3");
    await page.getByLabel("k", { exact: true }).press("Enter");
    const answer = page.getByRole("group", { name: "Answer to instance 2" });
    await answer.waitFor(WAIT);
    await page.getByRole("button", { name: "Copy as curl" }).click();
    const curl = page.getByLabel("The request for curl");
    await curl.waitFor(WAIT);

    expect(await answer.getByRole("row").count()).toBe(4);
    const lanes = page.getByRole("list", { name: /^On the router, / }).getByRole("listitem");
    expect(await lanes.filter({ hasText: "topK" }).count()).toBe(1);
    expect(await lanes.filter({ hasText: /^w\d, \d partitions?/ }).count()).toBeGreaterThan(0);
    expect(await curl.textContent()).toBe(
      `curl -d '{"instances":["user 1", "user 2"],"k":3}' '${cluster.url}/v1/models/movies:predict'`,
    );
    await instances.fill("[42");
    expect(await page.getByRole("alert").textContent()).toContain("Instances are no JSON");
    expect(await instances.getAttribute("aria-invalid")).toBe("true");
    await instances.fill('["user 1"]');
    for (let each = 0; each < 200; each += 1) await predict(cluster.url, { model: "movies" });
    await page.locator("#slow tbody tr").first().waitFor(WAIT);
    await page
      .locator("#charts figcaption")
      .filter({ hasText: /queries a scan \d/ })
      .waitFor(WAIT);
    await page.waitForTimeout(3000);
    await picture("well");
  });

  test("a pipeline is drawn as its stages, an experiment as its arms", async () => {
    const write = (model: string, file: string, text: string): void => {
      mkdirSync(path.join(started.base, model, "1"), { recursive: true });
      writeFileSync(path.join(started.base, model, "1", file), text);
    };
    const retrieve = "  - retrieve: { model: movies, k: 4, inputs: { input_1: user } }\n";
    write("feed", "pipeline.yaml", `inputs: { user: string }\nstages:\n${retrieve}  - limit: 3\n`);
    write("split", "experiment.yaml", "arms: [{ name: control, model: movies, weight: 1 }]\n");
    const stages = page.getByRole("list", { name: "Stages of feed" }).getByRole("listitem");
    const arms = page.getByRole("list", { name: "Arms of split" }).getByRole("listitem");
    await stages.first().waitFor(WAIT);
    await arms.first().waitFor(WAIT);

    expect(await stages.allTextContents()).toEqual(["retrievemovies, k=4", "limit3"]);
    expect(await arms.allTextContents()).toEqual(["control100 % to movies"]);
  });

  test("a worker that dies is told with what to do, and its partitions are seen to miss a replica", async () => {
    cluster.signal("w1", "SIGKILL");
    await sentence(/Degraded Worker w1 cannot be reached/);
    const row = page.locator("#workers tbody tr").filter({ hasText: "w1" });
    await row.filter({ hasText: "unreachable" }).waitFor(WAIT);
    await page.locator(".cell.few").nth(3).waitFor(WAIT);
    await page
      .locator("#events li")
      .filter({ hasText: "Worker w1 cannot be reached" })
      .waitFor(WAIT);
    await picture("lost");

    expect(await page.locator("#health").textContent()).toContain("Look at the log of w1");
    cluster.restart("w1");
    await sentence(/OK All 3 workers answer/);
  });

  test("a worker that stands still is told in the sentence, the table and the map, until it goes on", async () => {
    cluster.signal("w2", "SIGSTOP");
    await sentence(/Degraded Worker w2 (does not answer as it should|cannot be reached)/);
    const stands = /^w2 holds \d+ of 16 partitions, (suspect|unreachable)$/;
    await page.getByRole("img", { name: stands }).waitFor(WAIT);
    await picture("frozen");

    const row = page.locator("#workers tbody tr").filter({ hasText: "w2" });
    expect(await row.textContent()).toMatch(/suspect|unreachable/);
    cluster.signal("w2", "SIGCONT");
    await sentence(/OK All 3 workers answer/);
  });

  test("a version that cannot be read is told with its reason, and a new one as it becomes the default", async () => {
    publishVersion(started.base, {
      model: "movies",
      version: 2,
      spoil: cut("saved_model.pb", 0.6),
    });
    await sentence(/Degraded movies\/2 failed on .*version 1 goes on answering/);
    const failed = page.locator("#models tbody tr").filter({ hasText: "failed on" }).first();
    await expect.poll(() => failed.textContent(), WAIT).toContain("saved_model.pb");
    await picture("failed");
    publishVersion(started.base, { model: "movies", version: 3 });
    await page
      .locator("#events li")
      .filter({ hasText: "movies/3 answers by default, after version 1" })
      .waitFor(WAIT);
    await page
      .locator("#models tbody tr")
      .filter({ hasText: /3.*default/ })
      .waitFor(WAIT);
  });

  test("what comes from the cluster is text: names with markup make no element", async () => {
    await page.route("**/v1/cluster", async (route) => {
      const response = await route.fetch();
      const report = (await response.json()) as {
        models: { name: string }[];
        workers: { id: string; address: string }[];
        events: { severity: string; text: string; agoMs: number }[];
        health: { sentence: string };
      };
      const evil = `<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>`;
      report.models[0]!.name = evil;
      report.workers[0]!.id = evil;
      report.workers[0]!.address = evil;
      report.events.unshift({ severity: "down", text: evil, agoMs: 1 });
      await route.fulfill({ response, json: report });
    });
    await page
      .locator("#events li")
      .filter({ hasText: "<img src=x onerror" })
      .first()
      .waitFor(WAIT);

    expect(await page.locator("img, main script").count()).toBe(0);
    expect(await page.title()).toBe("Winnow");
    await page.unroute("**/v1/cluster");
    await page
      .locator("#events li")
      .filter({ hasText: "<img" })
      .waitFor({ state: "detached", ...WAIT });
  });

  test("says that the router is gone, keeps what it told last, and goes on when it is back", async () => {
    const before = complaints.length;
    cluster.signal("router0", "SIGKILL");
    const banner = page.getByRole("alert").filter({ hasText: "The router has not answered for" });
    await banner.waitFor(WAIT);
    expect(await page.locator("#workers tbody tr").count()).toBe(3);
    await picture("gone");
    cluster.restart("router0");
    await banner.waitFor({ state: "detached", ...WAIT });
    // The browser tells every question that nobody answered.
    const unanswered = /ERR_CONNECTION/;
    const told = complaints.splice(before).filter((text) => !unanswered.test(text));
    expect(told.filter((text) => !UNTOLD_YET.test(text))).toEqual([]);
  });

  test("says that it cannot show an answer that is no report, and goes on asking", async () => {
    await page.route("**/v1/cluster", (route) => route.fulfill({ json: {} }));
    const banner = page.getByRole("alert").filter({ hasText: "reload the page" });
    await banner.waitFor(WAIT);
    expect(await page.locator("#workers tbody tr").count()).toBe(3);
    await page.unroute("**/v1/cluster");
    await banner.waitFor({ state: "detached", ...WAIT });
  });

  test("a router with keys shows a form, takes a key for this tab alone, and tells what is wrong with one", async () => {
    await page.route("**/v1/cluster", async (route) => {
      const key = route.request().headers()["authorization"];
      if (key === "Bearer right") await route.continue();
      else await route.fulfill({ status: 401, json: { error: "The key is not known here" } });
    });
    const field = page.getByLabel("Key", { exact: true });
    await field.waitFor(WAIT);
    await field.fill("wrong");
    await field.press("Enter");
    await page.getByRole("alert").filter({ hasText: "The key is not known here" }).waitFor(WAIT);
    await picture("login");
    await field.fill("right");
    await page.getByRole("button", { name: "Show the cluster" }).click();
    await sentence(/workers answer/);

    const kept = await page.evaluate(() => [
      sessionStorage.length,
      localStorage.length,
      document.cookie,
    ]);
    expect(kept).toEqual([1, 0, ""]);
    await page.getByRole("button", { name: "Forget the key" }).click();
    await field.waitFor(WAIT);
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    await page.unroute("**/v1/cluster");
    complaints.splice(0, complaints.length, ...complaints.filter((text) => !text.includes("401")));
  });

  test("nothing was refused by the policy, nothing failed, and nobody else was asked", () => {
    // The model with markup in its name was asked for its signatures; on a busy machine, the router that was
    // restarted may have been asked for signatures that it did not know yet.
    const told = complaints.filter((text) => !text.includes("%3Cimg"));
    expect(told.filter((text) => !UNTOLD_YET.test(text))).toEqual([]);
    expect([...asked]).toEqual([cluster.url]);
  });

  test("a page whose name was pointed at the router (DNS rebinding) reads nothing of it", async () => {
    const other = await browser.newPage();
    const { port } = new URL(cluster.url);
    const page = await other.goto(`http://${REBOUND}:${port}/v1/cluster`);
    const asked = await other.evaluate(`Promise.all([
      fetch("/v1/cluster"),
      fetch("/monitoring/prometheus/metrics"),
      fetch("/v1/models/movies:predict", { method: "POST", body: '{"instances":["1"]}' }),
    ].map(async (answer) => [(await answer).status, await (await answer).text()]))`);
    await other.close();

    expect(page!.status()).toBe(403);
    const refusal = expect.stringContaining(`not known by the name \\"${REBOUND}\\"`) as string;
    expect(asked).toEqual([1, 2, 3].map(() => [403, refusal]));
  });

  test("its files are small and go out with a strict policy; other clients see nothing of it", async () => {
    const files = ["", "console.js", "console.css"];
    const answers = await Promise.all(files.map((name) => fetch(`${cluster.url}/console/${name}`)));
    const bytes = await Promise.all(
      answers.map(async (each) => Buffer.from(await each.arrayBuffer())),
    );
    const root = await fetch(`${cluster.url}/`, { redirect: "manual" });

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const policy = answers[0]!.headers.get("content-security-policy");
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toContain("unsafe");
    const packed = bytes.reduce((sum, each) => sum + gzipSync(each).length, 0);
    expect(packed).toBeLessThan(COMPRESSED_BYTES_MAX);
    expect([root.status, root.headers.get("content-type")]).toEqual([404, "text/html"]);
  });
});
