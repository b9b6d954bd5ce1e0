// Loads TypeScript sources of the packages into this process, as the unit tests do: by the export
// condition that names sources, without a build. A change of some source can be put in on the way.

import path from "node:path";
import { createViteServer } from "vitest/node";

const root = path.resolve(import.meta.dirname, "../..");
const conditions = ["@winnow/source"];

/** Loads a module; `change` gets each file's path below the root and its text, and may change it. */
export async function loadSources(entry, change) {
  const server = await createViteServer({
    root,
    configFile: false,
    logLevel: "error",
    appType: "custom",
    optimizeDeps: { noDiscovery: true, include: [] },
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    resolve: { conditions },
    ssr: { resolve: { conditions, externalConditions: ["node"] } },
    plugins: [
      {
        name: "changed-sources",
        enforce: "pre",
        transform: (text, id) => change?.(path.relative(root, id), text),
      },
    ],
  });
  return { module: await server.ssrLoadModule(entry), close: () => server.close() };
}
