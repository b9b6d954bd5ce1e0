// Requests that come with a version and are replayed before it serves, so that the first client
// does not wait for what is set up at first use. TensorFlow Serving calls them warm-up records.

import type { Tensor } from "../../tensor/tensor.ts";
import { listOf, optional, read, refuse, text } from "../header-reader.ts";
import type { HeaderReader } from "../header-reader.ts";
import type { SignatureProgram } from "../program.ts";
import type { BlobReader, BlobWriter } from "../program-blobs.ts";
import { checkInputs } from "../step-contract.ts";
import { encodeTensor, tensorReader } from "./tensor-codec.ts";

/** One request to replay. */
export interface WarmUpRequest {
  /** Name of the signature. */
  readonly signature: string;
  /** By input name. */
  readonly inputs: ReadonlyMap<string, Tensor>;
}

/**
 * The signature of a request; `undefined` if the program lacks it.
 * @throws WinnowError INVALID_ARGUMENT for inputs that do not fit the signature
 */
export function signatureOf(
  request: WarmUpRequest,
  signatures: readonly SignatureProgram[],
): SignatureProgram | undefined {
  const signature = signatures.find(({ name }) => name === request.signature);
  if (signature !== undefined) checkInputs(signature, request.inputs);
  return signature;
}

/** A request's part of an encoded program's header; its values go to `blobs`. */
export function encodeWarmUp({ signature, inputs }: WarmUpRequest, blobs: BlobWriter): unknown {
  return {
    signature,
    inputs: Array.from(inputs, ([name, tensor]) => ({ name, tensor: encodeTensor(tensor, blobs) })),
  };
}

/** Reads the requests of an encoded program; none if the header has no such part. */
export function warmUpReader(
  blobs: BlobReader,
  signatures: readonly SignatureProgram[],
): HeaderReader<readonly WarmUpRequest[]> {
  const tensor = tensorReader(blobs);
  const requests = listOf((from) => {
    const inputs = read(
      from,
      "inputs",
      listOf((item) => [read(item, "name", text), read(item, "tensor", tensor)] as const),
    );
    const request = { signature: read(from, "signature", text), inputs: new Map(inputs) };
    if (signatureOf(request, signatures) === undefined) {
      throw refuse(from, "a signature of the program");
    }
    return request;
  });
  return (from) => optional(requests)(from) ?? [];
}
