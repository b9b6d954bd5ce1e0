// TensorFlow Serving's certificate file (`--ssl_config_file`): PEM texts in the fields of one text file, for
// gRPC only. It is followed like other certificate files: each field stands for a file, and has its name in
// errors.

import { type TlsFileNames, readTlsFile } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";
import { type MessageShape, type TextMessage, readMessage } from "../text-proto/text-message.ts";

const CONFIG: MessageShape = {
  name: "SSLConfig",
  fields: {
    server_key: { kind: "string" },
    server_cert: { kind: "string" },
    custom_ca: { kind: "string" },
    client_verify: { kind: "bool" },
  },
};

/** What `openTlsFiles` reads in place of files. */
export interface SslConfig {
  readonly names: TlsFileNames;
  /** The text of a field, from the file as it is at that moment. */
  readonly readText: (name: string) => Promise<string>;
}

/** Refuses a flag that needs gRPC where there is none. @throws WinnowError INVALID_ARGUMENT */
export function assertGrpcServed(flag: string, isServed: boolean): void {
  if (isServed) return;
  const text = `${flag} is only for gRPC, which has no port here: set --grpc-port (--port of winnow serve)`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

/**
 * Which fields are used. Whether clients must show a certificate is decided here, once.
 * @throws WinnowError NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT for content that cannot be
 * used
 */
export async function openSslConfig(
  file: string,
  read: typeof readTlsFile = readTlsFile,
): Promise<SslConfig> {
  const messageIn = async (): Promise<TextMessage> =>
    readMessage(await read(file, `${file} (--ssl_config_file)`), CONFIG, file);
  const config = await messageIn();
  const isVerified = config.flag("client_verify");
  for (const field of ["server_cert", "server_key", ...(isVerified ? ["custom_ca"] : [])]) {
    if (config.text(field) !== "") continue;
    const why = field === "custom_ca" ? `${file} has client_verify, which needs` : `${file} needs`;
    throw new WinnowError("INVALID_ARGUMENT", `${why} ${field}: PEM, with \\n for line ends`);
  }
  const nameOf = (field: string): string => `${file} (${field})`;
  return {
    names: {
      certFile: nameOf("server_cert"),
      keyFile: nameOf("server_key"),
      caFile: isVerified ? nameOf("custom_ca") : undefined,
    },
    readText: async (name) => (await messageIn()).text(/ \((\w+)\)$/.exec(name)![1]!),
  };
}
