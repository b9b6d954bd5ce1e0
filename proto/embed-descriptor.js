// Writes .proto files as a TypeScript module that holds their descriptor, so that the published
// packages read no file at run time: node embed-descriptor.js INCLUDE_DIR OUT_FILE NAME PROTO...

import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [includeDir, outFile, name, ...protos] = process.argv.slice(2);
const require = createRequire(import.meta.url);
// The parser is proto-loader's own, so that the descriptor fits the version which reads it.
const protobuf = createRequire(require.resolve("@grpc/proto-loader"))("protobufjs");

const root = new protobuf.Root();
root.resolvePath = (_origin, target) => path.join(includeDir, target);
root.loadSync(protos, { keepCase: true });
const from = protos.join(", ");

writeFileSync(
  outFile,
  `// Generated from ${from} by \`npm run generate\`: the descriptor as data.

/** The descriptor of ${from}, as protobufjs reads it. */
export const ${name}: { readonly nested: Readonly<Record<string, unknown>> } = ${JSON.stringify(root.toJSON())};
`,
);
