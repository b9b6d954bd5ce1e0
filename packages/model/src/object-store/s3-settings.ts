// What the environment says of S3, in the variables of Amazon's own tools. Credentials are left to the SDK.

import process from "node:process";
import type { S3Environment } from "./s3-store.ts";

/** The SDK's warning of an old Node, once for each thread. */
const WARNING = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";

/** Region and endpoint. */
export function s3Environment(): S3Environment {
  // Which Node is too old is for `winnow doctor` to say.
  process.env[WARNING] ??= "true";
  const { AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 } = process.env;
  return { AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 };
}
