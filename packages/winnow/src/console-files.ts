// The files of the console, as the build has made them; read once, when a router starts. The console is only
// served on loopback, or where clients must show a key or a certificate.

import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { PageFile, PageFiles } from "@winnow/router";

const FILES = [
  ["/console/", "index.html", "text/html; charset=utf-8"],
  ["/console/console.js", "console.js", "text/javascript; charset=utf-8"],
  ["/console/console.css", "console.css", "text/css; charset=utf-8"],
] as const;

const directory = fileURLToPath(new URL("../../console/dist/page/", import.meta.url));

/** The files by path; `undefined` if they were not built. */
export function consoleFiles(): PageFiles | undefined {
  try {
    return new Map(FILES.map(([at, name, contentType]) => [at, fileOf(name, contentType)]));
  } catch {
    return undefined;
  }
}

function fileOf(name: string, contentType: string): PageFile {
  const body = readFileSync(path.join(directory, name));
  return { contentType, body, gzip: gzipSync(body) };
}
