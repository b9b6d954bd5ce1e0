// A certificate chain, its key, and trusted authorities, as files hold them. They are checked before anything
// uses them, so that a half-copied file, a key of another certificate or an expired certificate is refused
// with the name of the file, and not by every client.

import { X509Certificate, createPrivateKey } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { SecureContextOptions } from "node:tls";
import { WinnowError, toWinnowError } from "@winnow/core";
import { isoTime, writtenMs } from "./clock.ts";

/** The names of the files. */
export interface TlsFileNames {
  /** A chain in PEM, the own certificate first. Given together with its key, or not at all. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** Trusted authorities' certificates in PEM. */
  readonly caFile?: string | undefined;
}

/** The checked content of the files. */
export interface TlsMaterial {
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly ca: string | undefined;
  /** When the first certificate of the chain expires, in ms since 1970; `undefined` without a chain. */
  readonly expiresMs: number | undefined;
}

/** TLS 1.2 with forward secrecy, and 1.3. Older versions are broken (RFC 8996). */
export const TLS_LIMITS: SecureContextOptions = {
  minVersion: "TLSv1.2",
  // The ciphers of TLS 1.3, and those of 1.2 with ephemeral keys and authenticated encryption (RFC 9325).
  ciphers: [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
  ].join(":"),
};

/** TLS options of a server or a client. */
export function secureOptions({ cert, key, ca }: TlsMaterial): SecureContextOptions {
  return {
    ...TLS_LIMITS,
    ...(cert !== undefined && { cert, key }),
    ...(ca !== undefined && { ca }),
  };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Any whole block of PEM: a file of certificates may hold others, whose headers have hyphens (`Proc-Type`). */
const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----[^-]+(?:-(?!----)[^-]*)*-----END \1-----/g;
/** What is left of a block whose end has not been written, outside the whole ones. */
const CUT_OFF = /-----BEGIN|(?:^|\n)-+[A-Z0-9 ]*$/;

/**
 * Checks the content of the files. Errors name the file, and quote nothing of a key.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkMaterial(
  texts: Pick<TlsMaterial, "cert" | "key" | "ca">,
  files: TlsFileNames,
  nowMs: number,
): TlsMaterial {
  const { cert, key, ca } = texts;
  const chain = cert === undefined ? [] : certificatesIn(cert, files.certFile);
  if (ca !== undefined) certificatesIn(ca, files.caFile);
  const ends = chain.map(({ validTo }) => writtenMs(validTo));
  const expiresMs = ends.length === 0 ? undefined : Math.min(...ends);
  const [own] = chain;
  if (own !== undefined && !own.checkPrivateKey(privateKey(key, files.keyFile))) {
    const text = `The key in ${files.keyFile} is not that of the certificate in ${files.certFile}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (expiresMs !== undefined && expiresMs <= nowMs) {
    const text = `The certificate in ${files.certFile} ended on ${isoTime(expiresMs)}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  if (own !== undefined && writtenMs(own.validFrom) > nowMs) {
    const text = `The certificate in ${files.certFile} begins on ${own.validFrom}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const material = { cert, key, ca, expiresMs };
  try {
    createSecureContext(secureOptions(material));
  } catch (cause) {
    const names = [files.certFile, files.keyFile, files.caFile].filter(Boolean).join(", ");
    const text = `TLS cannot use ${names}: ${toWinnowError(cause).message}`;
    throw new WinnowError("INVALID_ARGUMENT", text, { cause });
  }
  return material;
}

function certificatesIn(pem: string, file: string | undefined): X509Certificate[] {
  const found = pem.match(CERTIFICATE) ?? [];
  if (found.length === 0) {
    const text = `${file} holds no certificate in PEM ("-----BEGIN CERTIFICATE-----")`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  // The certificates before it alone would trust, or prove, less than the file is meant to.
  if (CUT_OFF.test(pem.replaceAll(BLOCK, ""))) {
    const text = `${file} is cut off behind certificate ${found.length}`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  return found.map((each, at) => {
    try {
      return new X509Certificate(each);
    } catch (cause) {
      const text = `Certificate ${at + 1} of ${file} cannot be read`;
      throw new WinnowError("INVALID_ARGUMENT", text, { cause });
    }
  });
}

function privateKey(pem: string | undefined, file: string | undefined): KeyObject {
  try {
    return createPrivateKey(pem ?? "");
  } catch (cause) {
    const text = `${file} holds no private key in PEM without a passphrase`;
    throw new WinnowError("INVALID_ARGUMENT", text, { cause });
  }
}
