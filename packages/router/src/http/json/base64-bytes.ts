// Base64 as absl::Base64Unescape reads it: the standard alphabet, white space skipped, padding by
// "=" or "." and optional as a whole, bits beyond the last byte ignored.

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const INVALID = 255;
const PADDING = 254;
const SPACE = 253;

const MEANINGS: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  if ("=.".includes(character)) return PADDING;
  if (" \t\n\v\f\r".includes(character)) return SPACE;
  const value = ALPHABET.indexOf(character);
  return value < 0 ? INVALID : value;
});

/** The bytes that base64 text stands for; `undefined` if the text is not base64. */
export function decodeBase64(text: Uint8Array): Uint8Array | undefined {
  const bytes = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let written = 0;
  let bits = 0;
  let bitCount = 0;
  let paddings = 0;
  let characters = 0;
  for (const byte of text) {
    const meaning = MEANINGS[byte]!;
    if (meaning === SPACE) continue;
    if (meaning === PADDING) paddings++;
    else if (meaning === INVALID || paddings > 0) return undefined;
    else {
      characters++;
      bits = ((bits << 6) | meaning) & 0xffff;
      bitCount += 6;
      if (bitCount >= 8) {
        bitCount -= 8;
        bytes[written++] = (bits >> bitCount) & 0xff;
      }
    }
  }
  const rest = characters % 4;
  const isComplete = rest !== 1 && (paddings === 0 || paddings === (4 - rest) % 4);
  return isComplete ? bytes.subarray(0, written) : undefined;
}
