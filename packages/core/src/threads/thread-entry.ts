// The files that threads and processes begin with.

/**
 * The compiled file `./name.js` beside the module whose URL is given. Of a source, the one beside its
 * compiled form: threads cannot run TypeScript on Node 20.
 */
export function entryBeside(moduleUrl: string, name: string): URL {
  const isSource = moduleUrl.endsWith(".ts");
  const source = moduleUrl.lastIndexOf("/src/");
  const compiled = isSource
    ? `${moduleUrl.slice(0, source)}/dist/${moduleUrl.slice(source + "/src/".length)}`
    : moduleUrl;
  return new URL(`./${name}.js`, compiled);
}
