// The console's page in a browser, without a router: what it asks is answered from made-up reports. Its pictures are
// compared with those in `pictures/`, and hostile text stays text although the router's policy is not there to help.
// Fonts and browsers draw alike only where they are the same: `pictures/drawn-by.json` says what drew them, and
// elsewhere they are not compared. `PICTURES=rewrite` draws them anew.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Browser, type Page, type Route, chromium } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { consoleFiles } from "../packages/winnow/src/console-files.ts";
import { degradedReport, healthyReport } from "./fixtures/console-reports.ts";

const PLACES = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"];
const executablePath = PLACES.find((place) => place !== undefined && existsSync(place));
const folder = path.resolve(import.meta.dirname, "pictures");
const IS_REWRITTEN = process.env["PICTURES"] === "rewrite";
const ORIGIN = "http://winnow.test";
/** Fraction of the pixels that may differ by more than a shade. */
const DIFFERING_MAX = 0.0002;

if (executablePath === undefined) {
  process.stderr.write(
    "SKIPPED: the console's page; no Chromium here, install it or set CHROMIUM\n",
  );
}

/** Answers to the page, by path; what is not there fails as if the router were gone. */
type Answers = Readonly<Record<string, Told>>;

interface Told {
  readonly json: unknown;
  readonly headers?: object;
  readonly status?: number;
}

const INPUT = { dtype: "DT_STRING", tensor_shape: { dim: [{ size: "-1" }] } };
const SIGNATURES = { signature_def: { serving_default: { inputs: { user_id: INPUT } } } };

const METADATA: Answers = {
  "/v1/models/home-feed/metadata": {
    json: {
      metadata: {
        signature_def: SIGNATURES,
        pipeline: {
          stages: [
            { stage: "retrieve", does: "movies, k=100" },
            { stage: "limit", does: "5" },
          ],
        },
      },
    },
  },
  "/v1/models/movies/metadata": { json: { metadata: { signature_def: SIGNATURES } } },
};

describe.skipIf(executablePath === undefined)("the console's page", () => {
  let browser: Browser;
  const pages: Page[] = [];

  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: executablePath!,
      args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text"],
    });
  });
  afterEach(async () => {
    for (const page of pages.splice(0)) await page.close();
  });
  afterAll(() => browser?.close());

  /** The page, with a clock that stands still. */
  async function opened(answers: Answers, colorScheme: "light" | "dark" = "light"): Promise<Page> {
    const page = await browser.newPage({
      viewport: { width: 1280, height: 900 },
      deviceScaleFactor: 0.5,
      colorScheme,
      timezoneId: "UTC",
    });
    pages.push(page);
    await page.clock.setFixedTime("2026-01-01T12:00:00Z");
    await page.route("**/*", (route) => answer(route, answers));
    await page.goto(`${ORIGIN}/console/`);
    return page;
  }

  async function answer(route: Route, answers: Answers): Promise<void> {
    const { pathname } = new URL(route.request().url());
    const file = consoleFiles()!.get(pathname);
    const told = answers[decodeURIComponent(pathname)];
    if (file !== undefined) {
      await route.fulfill({ body: Buffer.from(file.body), contentType: file.contentType });
    } else if (told === undefined) {
      await route.abort();
    } else {
      await route.fulfill({ status: 200, ...told, headers: { ...told.headers } });
    }
  }

  /** What draws: the browser's version, and how wide its font makes a line. */
  async function drawnBy(page: Page): Promise<string> {
    const wide = await page.evaluate(`(() => {
      const line = document.createElement("span");
      line.textContent = "All 3 workers answer";
      document.body.append(line);
      const { width } = line.getBoundingClientRect();
      line.remove();
      return width;
    })()`);
    return `{ "browser": "${browser.version()}", "lineWidth": ${String(wide)} }\n`;
  }

  /** The fraction of pixels in which two pictures differ; 1 if they differ in size. */
  async function difference(one: Buffer, other: Buffer): Promise<number> {
    const page = await browser.newPage();
    pages.push(page);
    const urls = [one, other].map((each) => `data:image/png;base64,${each.toString("base64")}`);
    const share = await page.evaluate(`(async () => {
      const [a, b] = await Promise.all(${JSON.stringify(urls)}.map(async (url) => {
        const image = await createImageBitmap(await (await fetch(url)).blob());
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
      }));
      if (a.width !== b.width || a.height !== b.height) return 1;
      let differing = 0;
      for (let at = 0; at < a.data.length; at += 4) {
        const apart = [0, 1, 2].map((each) => Math.abs(a.data[at + each] - b.data[at + each]));
        if (Math.max(...apart) > 40) differing += 1;
      }
      return differing / (a.width * a.height);
    })()`);
    return share as number;
  }

  test.for([
    ["healthy", healthyReport(), "light"],
    ["degraded", degradedReport(), "light"],
    ["degraded-dark", degradedReport(), "dark"],
    ["gone", undefined, "light"],
  ] as const)("looks as its picture %s", async ([name, report, scheme], { skip }) => {
    const cluster = report === undefined ? {} : { "/v1/cluster": { json: report } };
    const page = await opened({ ...METADATA, ...cluster }, scheme);
    if (report === undefined) {
      await page.getByRole("alert").filter({ hasText: "The router does not answer" }).waitFor();
    } else {
      await page.getByRole("list", { name: "Stages of home-feed" }).waitFor();
    }
    const [file, drawing] = [path.join(folder, `console-${name}.png`), await drawnBy(page)];
    const drawn = await page.screenshot({ fullPage: true });
    if (IS_REWRITTEN) {
      writeFileSync(file, drawn);
      writeFileSync(path.join(folder, "drawn-by.json"), drawing);
    }
    skip(
      drawing !== readFileSync(path.join(folder, "drawn-by.json"), "utf8"),
      "another browser or font than that of the pictures",
    );

    expect(await difference(drawn, readFileSync(file))).toBeLessThan(DIFFERING_MAX);
  });

  test.for(["ltr", "rtl"])(
    "on a phone, %s, nothing but tables is wider, a chain is seen whole, and a reason takes few lines",
    async (direction) => {
      const report = degradedReport();
      const message =
        "the file variables/variables.data-00000-of-00001 is shorter than its index says";
      const told = JSON.stringify(report).replaceAll("variables.index is cut short", message);
      const does = ["movies, k=100", "kids = false and year ≥ 1970", "movies-ranking", "5"];
      const stages = does.map((what) => ({ stage: "stage", does: what }));
      const composed = { metadata: { signature_def: SIGNATURES, pipeline: { stages } } };
      const page = await opened({
        ...METADATA,
        "/v1/models/home-feed/metadata": { json: composed },
        "/v1/cluster": { json: JSON.parse(told) as unknown },
      });
      await page.setViewportSize({ width: 390, height: 844 });
      await page.getByRole("list", { name: "Stages of home-feed" }).waitFor();
      await page.evaluate(`document.documentElement.dir = "${direction}"`);

      const [wide, high] = (await page.evaluate(`[
      document.documentElement.scrollWidth,
      [...document.querySelectorAll(".reason")].find((cell) => cell.textContent.includes("shorter than its index")).getBoundingClientRect().height,
    ]`)) as [number, number];

      const scrolled = direction === "rtl" ? -200 : 200;
      const outside = await page.evaluate(`(() => {
        const table = document.querySelector("#models .scroll");
        const seen = table.getBoundingClientRect();
        return [0, ${scrolled}].flatMap((left) => {
          table.scrollLeft = left;
          return [...document.querySelectorAll(".chain-stage")].filter((stage) => {
            const { left, right } = stage.getBoundingClientRect();
            return left < seen.left - 1 || right > seen.right + 1;
          });
        }).length;
      })()`);

      expect(wide).toBe(390);
      expect(outside).toBe(0);
      await page.getByRole("link", { name: "Events" }).waitFor();
      expect(high).toBeLessThan(120);
    },
  );

  test("of a large cluster, a map has cells only while it is open, and few maps open by themselves", async () => {
    const report = healthyReport();
    const movies = report.models.find(({ versions }) => versions[0]!.tables.length > 0)!;
    const [whole] = movies.versions;
    const workers = Array.from({ length: 100 }, (_, at) => ({
      ...report.workers[0]!,
      id: `w${at}`,
    }));
    const replicas = Array.from({ length: 80 }, (_, at) => [at]);
    const tables = [{ ...whole!.tables[0]!, partitions: 80, replicas }];
    const partitions = { covered: 0, underreplicated: 80, lost: 0 };
    const models = Array.from({ length: 12 }, (_, at) => ({
      ...movies,
      name: `movies-${at}`,
      versions: [{ ...whole!, tables, ...(at % 2 === 1 && { partitions }) }],
    }));
    const page = await opened({
      ...METADATA,
      "/v1/cluster": { json: { ...report, workers, models } },
    });
    const maps = page.locator("#partitions details");
    await maps.nth(11).waitFor();
    const cells = (): Promise<number[]> =>
      maps.evaluateAll((all) => all.map((each) => each.querySelectorAll(".cells .cell").length));
    const before = await cells();
    await maps.nth(0).locator("summary").click();
    await maps.nth(0).locator(".cell").first().waitFor();

    expect(before).toEqual([0, 8000, 0, 8000, 0, 8000, 0, 8000, 0, 0, 0, 0]);
    expect((await cells())[0]).toBe(8000);
  });

  test("of many versions, those that are whole are folded, and one that lacks replicas is open", async () => {
    const report = healthyReport();
    const movies = report.models.find(({ versions }) => versions[0]!.tables.length > 0)!;
    const [whole] = movies.versions;
    const partitions = { covered: 7, underreplicated: 1, lost: 0 };
    const models = Array.from({ length: 6 }, (_, at) => ({
      ...movies,
      name: `movies-${at}`,
      versions: [at === 2 ? { ...whole!, partitions } : whole!],
    }));
    const page = await opened({ ...METADATA, "/v1/cluster": { json: { ...report, models } } });
    const maps = page.locator("#partitions details");
    await maps.nth(5).waitFor();
    const open = (): Promise<boolean[]> =>
      maps.evaluateAll((all) => all.map((each) => each.hasAttribute("open")));
    const before = await open();
    await maps.nth(0).locator("summary").click();
    // The first of these may have been on its way already; the second is drawn after it was answered.
    for (let asked = 0; asked < 3; asked += 1) await page.waitForResponse("**/v1/cluster");

    expect(before).toEqual([false, false, true, false, false, false]);
    expect(await open()).toEqual([true, false, true, false, false, false]);
    expect(await maps.nth(2).locator("summary").textContent()).toContain(
      "7 of 8 partitions with all replicas",
    );
  });

  test("screen readers are told again when a sentence says something else, not when its seconds pass", async () => {
    const report = degradedReport();
    const told = (text: string): Answers => {
      const [worst, ...rest] = report.health.findings;
      const findings = [{ ...worst!, text }, ...rest];
      return { "/v1/cluster": { json: { ...report, health: { ...report.health, findings } } } };
    };
    const first = "Worker w1 cannot be reached: last heard 6.0 s ago";
    const page = await opened(told(first));
    const status = page.locator(".page > [role=status]");
    const shown = (text: string): Promise<void> =>
      page.locator("#health-sentence").filter({ hasText: text }).waitFor();
    const next = async (text: string): Promise<string | null> => {
      await page.unrouteAll();
      await page.route("**/*", (route) => answer(route, told(text)));
      await shown(text);
      return status.textContent();
    };
    await shown(first);

    expect(await next("Worker w1 cannot be reached: last heard 12 s ago")).toContain("6.0 s ago");
    expect(await next("Worker w2 cannot be reached: last heard 12 s ago")).toContain("w2");
    expect(await page.locator("[role=status] #health-sentence").count()).toBe(0);
  });

  test("what was typed for a model stays while it does not answer for a while", async () => {
    const report = healthyReport();
    const told = (answers: boolean): Answers => {
      const models = report.models.map((model) => ({ ...model, answers }));
      return { ...(answers && METADATA), "/v1/cluster": { json: { ...report, models } } };
    };
    const page = await opened(told(true));
    const field = page.getByLabel("Instances (JSON)");
    await page.getByRole("list", { name: "Stages of home-feed" }).waitFor();
    await page.waitForFunction(`document.querySelector("#try-instances").value !== ""`);
    await field.fill('["7"]');

    for (const answers of [false, true]) {
      await page.unrouteAll();
      await page.route("**/*", (route) => answer(route, told(answers)));
      for (let reports = 0; reports < 2; reports += 1) await page.waitForResponse("**/v1/cluster");
    }
    const kept = await field.inputValue();
    await page.getByLabel("Model", { exact: true }).selectOption("movies");
    await page.waitForFunction(`document.querySelector("#try-instances").value === '["42"]'`);

    expect(kept).toBe('["7"]');
  });

  test("a key can be typed as soon as the page asks for one", async () => {
    const page = await opened({ "/v1/cluster": { status: 401, json: { error: "no key" } } });
    await page.getByRole("heading", { name: "This router asks for a key" }).waitFor();
    await page.keyboard.type("secret");

    expect(await page.getByRole("textbox", { name: "Key" }).inputValue()).toBe("secret");
  });

  test("a title that is written from right to left keeps its order in the answer", async () => {
    const page = await opened({
      ...METADATA,
      "/v1/cluster": { json: healthyReport() },
      "/v1/models/home-feed:predict": {
        json: { predictions: [{ scores: [1, 0.5], titles: ["فيلم!", "Heat!"] }] },
      },
    });
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("answered in").waitFor();

    const places =
      (await page.evaluate(`[...document.querySelectorAll(".answers td:last-child")].map((cell) => {
      const text = cell.firstChild;
      return [0, text.length - 1].map((at) => {
        const range = document.createRange();
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect().left;
      });
    })`)) as [number, number][];
    const [arabic, latin] = places.map(([first, last]) => first > last);

    expect([arabic, latin]).toEqual([true, false]);
  });

  test("a picture with another word in one badge is told apart", async () => {
    const page = await opened({ ...METADATA, "/v1/cluster": { json: healthyReport() } });
    await page.getByRole("list", { name: "Stages of home-feed" }).waitFor();
    const before = await page.screenshot({ fullPage: true });
    await page.route("**/v1/cluster", () => undefined);
    await page.evaluate(`document.querySelector("#workers .badge").textContent = "draining"`);
    const after = await page.screenshot({ fullPage: true });

    expect(await difference(before, after)).toBeGreaterThan(DIFFERING_MAX);
  });

  test("no text of a report, of metadata, of an answer or of an error becomes an element or a link", async () => {
    const evil = `"><img src=x onerror="window.broken=1"><script>window.broken=1</script><a href="javascript:window.broken=1">x</a>`;
    const key = "javascript:window.broken=1";
    const report = spoilt(degradedReport(), evil) as { models: { name: string }[] };
    const items = { title: [evil, key], [evil]: [key, evil], attributes: [{ [key]: evil }] };
    const timeline = JSON.stringify([{ name: evil, fromMs: 0, toMs: 1, worker: evil }]);
    const [path, signatures] = [`/v1/models/${evil}`, { [evil]: { inputs: { [key]: {} } } }];
    const predicted = {
      json: { predictions: [items, evil, { [key]: [{ [evil]: evil }] }] },
      headers: { "x-winnow-timeline": timeline },
    };
    const page = await opened({
      "/v1/cluster": { json: report },
      [`${path}/metadata`]: {
        json: {
          metadata: {
            pipeline: { stages: [{ stage: evil, does: key }] },
            signature_def: { signature_def: signatures },
          },
        },
      },
      [`${path}:predict`]: predicted,
    });
    await page
      .getByRole("list", { name: /^Stages of/ })
      .first()
      .waitFor();
    await page.getByLabel("Instances (JSON)").fill(JSON.stringify([evil, { user: key }]));
    await page.getByRole("button", { name: "Copy as curl" }).click();
    await page.getByRole("button", { name: "Copy as Python" }).click();
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("answered in").waitFor();

    const text = await page.locator("main").textContent();
    expect(text!.split("<img src=x").length).toBeGreaterThan(20);
    expect(await page.locator("img, main script, main a, iframe").count()).toBe(0);
    expect(await page.locator("[href^='javascript' i], [src]:not(script)").count()).toBe(0);
    expect(await page.evaluate("window.broken")).toBeUndefined();
  });
});

/** Texts of a report that are words of Winnow's own. */
const OWN_WORDS: ReadonlySet<string> = new Set(["severity", "condition", "state", "kind", "code"]);

/** A copy in which every text that a person or a file chose is `evil`. */
function spoilt(value: unknown, evil: string): unknown {
  if (typeof value === "string") return evil;
  if (Array.isArray(value)) return value.map((each) => spoilt(each, evil));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      name,
      OWN_WORDS.has(name) ? each : spoilt(each, evil),
    ]),
  );
}
