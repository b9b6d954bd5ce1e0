// Numbers in the form of C's printf, for AsString: %d, %f, %e and %g with width, fill, precision.

/** The attributes of AsString. */
export interface NumberFormat {
  readonly precision: number;
  readonly isScientific: boolean;
  readonly isShortest: boolean;
  readonly width: number;
  /** "", " ", "+", "-" or "0". */
  readonly fill: string;
}

/** A float as `%f` (default), `%e` (scientific) or `%g` (shortest). */
export function floatText(value: number, format: NumberFormat): string {
  const size = Math.abs(value);
  const isNegative = value < 0 || Object.is(value, -0);
  return padded(
    Number.isFinite(value) ? digitsOf(size, format) : nameOf(value),
    isNegative,
    format,
  );
}

/** An integer as `%d`. */
export function integerText(value: number | bigint, format: NumberFormat): string {
  const text = String(value);
  const isNegative = text.startsWith("-");
  return padded(isNegative ? text.slice(1) : text, isNegative, format);
}

function nameOf(value: number): string {
  return Number.isNaN(value) ? "nan" : "inf";
}

function digitsOf(value: number, { precision, isScientific, isShortest }: NumberFormat): string {
  const places = precision < 0 ? 6 : Math.min(precision, 60);
  if (isScientific) return exponential(value, places);
  return isShortest ? shortest(value, Math.max(1, places)) : fixed(value, places);
}

/** The most digits that `toFixed` gives: more than enough to recognise an exact tie. */
const DIGITS_MAX = 100;

/** `%.<places>f`: exact ties round to the even digit, as in C; `toFixed` rounds them up. */
function fixed(value: number, places: number): string {
  if (value >= 1e21) return BigInt(value).toString() + (places > 0 ? `.${"0".repeat(places)}` : "");
  const exact = value.toFixed(DIGITS_MAX);
  const cut = exact.indexOf(".") + 1 + places;
  const isTie = /^50*$/.test(exact.slice(cut));
  const kept = exact.slice(0, cut).replace(/\.$/, "");
  return isTie && Number(kept.at(-1)) % 2 === 0 ? kept : value.toFixed(places);
}

function exponential(value: number, places: number): string {
  return value.toExponential(places).replace(/e([+-])(\d)$/, "e$10$2");
}

function shortest(value: number, digits: number): string {
  const exponent = value === 0 ? 0 : Number(value.toExponential(digits - 1).split("e")[1]);
  const isSmall = exponent < -4 || exponent >= digits;
  const text = isSmall ? exponential(value, digits - 1) : fixed(value, digits - 1 - exponent);
  const [mantissa = "", tail] = text.split("e");
  const bare = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return tail === undefined ? bare : `${bare}e${tail}`;
}

function padded(digits: string, isNegative: boolean, { width, fill }: NumberFormat): string {
  const sign = isNegative ? "-" : fill === "+" || fill === " " ? fill : "";
  const room = Math.max(0, Math.min(width, 1024) - sign.length - digits.length);
  if (fill === "0" && /^\d/.test(digits)) return sign + "0".repeat(room) + digits;
  if (fill === "-") return sign + digits + " ".repeat(room);
  return " ".repeat(room) + sign + digits;
}
