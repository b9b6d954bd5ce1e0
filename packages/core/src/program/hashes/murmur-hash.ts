// TensorFlow's own Hash64 (a MurmurHash64A), bit for bit: StringToHashBucket, which graphs of TensorFlow 1 use.

const SEED = 0xde_ca_fc_af_fen;
const MULTIPLIER = 0xc6_a4_a7_93_5b_d1_e9_95n;
const SHIFT = 47n;
const BLOCK = 8;

const wrap = (value: bigint): bigint => BigInt.asUintN(64, value);

/** The bucket of a byte string, as `StringToHashBucket` chooses it. */
export function hashBucketOld(bytes: Uint8Array, buckets: number): number {
  return Number(hash64(bytes) % BigInt(buckets));
}

function hash64(bytes: Uint8Array): bigint {
  let hash = SEED ^ wrap(BigInt(bytes.length) * MULTIPLIER);
  const whole = bytes.length - (bytes.length % BLOCK);
  for (let at = 0; at < whole; at += BLOCK) {
    const word = wrap(wordOf(bytes.subarray(at, at + BLOCK)) * MULTIPLIER);
    hash = wrap((hash ^ wrap((word ^ (word >> SHIFT)) * MULTIPLIER)) * MULTIPLIER);
  }
  if (whole < bytes.length) hash = wrap((hash ^ wordOf(bytes.subarray(whole))) * MULTIPLIER);
  hash = wrap((hash ^ (hash >> SHIFT)) * MULTIPLIER);
  return hash ^ (hash >> SHIFT);
}

/** Up to 8 bytes as a number, the lowest first. */
function wordOf(bytes: Uint8Array): bigint {
  return bytes.reduceRight((word, byte) => (word << 8n) | BigInt(byte), 0n);
}
