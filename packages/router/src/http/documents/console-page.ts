// The console: a page of a few files, held in memory and found by their whole path. A browser that asks for
// "/" is redirected to it; every other client gets TensorFlow Serving's answer.
//
// The page may run its own scripts and styles and send requests to this router, and nothing else: no inline
// script, no other origin, no frame around it, and no text is parsed as HTML (Trusted Types).

import type { IncomingMessage } from "node:http";
import type { HttpAnswer } from "../http-answer.ts";
import type { PageFiles } from "../http-observer.ts";

const CONSOLE_PATH = "/console/";

const ACCEPTS_GZIP = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/i;

const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache",
  vary: "accept-encoding",
} as const;

/** Whether a path belongs to the console. Its files need no key, because they contain no state. */
export function isConsolePath(path: string, pages: PageFiles | undefined): boolean {
  return pages !== undefined && (pages.has(path) || path === "/console" || path === "/");
}

/** The answer to a GET or HEAD; `undefined` for a path outside the console. */
export function consoleAnswer(
  path: string,
  { headers }: Pick<IncomingMessage, "headers">,
  pages: PageFiles | undefined,
): HttpAnswer | undefined {
  if (pages === undefined) return undefined;
  const page = pages.get(path);
  if (page === undefined) {
    const isBrowser = path === "/" && /\btext\/html\b/i.test(headers.accept ?? "");
    return path === "/console" || isBrowser ? toConsole() : undefined;
  }
  const { contentType, body, gzip } = page;
  const isPacked = ACCEPTS_GZIP.test([headers["accept-encoding"]].flat().join());
  const packed = isPacked ? { "content-encoding": "gzip" } : {};
  return {
    status: 200,
    headers: { ...HEADERS, "content-type": contentType, ...packed },
    body: isPacked ? gzip : body,
  };
}

function toConsole(): HttpAnswer {
  const headers = { location: CONSOLE_PATH, "cache-control": "no-store" };
  return { status: 302, headers, body: Buffer.alloc(0) };
}
