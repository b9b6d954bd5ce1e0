// The settings of object stores in the environment, in the variables of each cloud's own tools. The SDKs of
// Amazon and Google read credentials themselves; Azure's SDK reads no keys, so they are read here.

import process from "node:process";

/** Turns off the SDK's warning of an old Node, which would appear once per thread. */
const WARNING = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";

const VARIABLES = [
  "AWS_REGION",
  "AWS_DEFAULT_REGION",
  "AWS_ENDPOINT_URL",
  "AWS_ENDPOINT_URL_S3",
  "AZURE_STORAGE_ACCOUNT",
  "AZURE_STORAGE_CONNECTION_STRING",
  "AZURE_STORAGE_KEY",
  "AZURE_STORAGE_SAS_TOKEN",
  "AZURE_STORAGE_SERVICE_ENDPOINT",
  "STORAGE_EMULATOR_HOST",
] as const;

/** Regions, endpoints, and keys of Azure. */
export type StoreEnvironment = Readonly<
  Partial<Record<(typeof VARIABLES)[number], string | undefined>>
>;

/** The environment of this process. */
export function storeEnvironment(): StoreEnvironment {
  // `winnow doctor` checks the version of Node.
  process.env[WARNING] ??= "true";
  return Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
}
