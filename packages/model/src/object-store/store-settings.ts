// What the environment says of object stores, in the variables of each cloud's own tools. Credentials of Amazon and
// Google are left to their SDKs; Azure's SDK reads no keys, so that they are read here.

import process from "node:process";

/** The SDK's warning of an old Node, once for each thread. */
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

/** Those of this process. */
export function storeEnvironment(): StoreEnvironment {
  // Which Node is too old is for `winnow doctor` to say.
  process.env[WARNING] ??= "true";
  return Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
}
