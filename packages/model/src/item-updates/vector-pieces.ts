// Vectors of one length, that come and go one by one, in pieces of memory that never move. An array for each would take as
// much memory again, and a single one that grows would be copied at each growth, and twice as large meanwhile.

const PIECE_VECTORS_MAX = 1024;

/** Vectors by number. The numbers of those that were freed are given again. */
export class VectorPieces {
  readonly #dim: number;
  readonly #pieces: Float32Array[] = [];
  readonly #free: number[] = [];
  #numbers = 0;

  /** `dim`: values of a vector. */
  constructor(dim: number) {
    this.#dim = dim;
  }

  /** Of all vectors. */
  get values(): number {
    return (this.#numbers - this.#free.length) * this.#dim;
  }

  /** Copies a vector, and gives its number. */
  add(vector: Float32Array): number {
    const number = this.#free.pop() ?? this.#numbers;
    if (number === this.#numbers) this.#numbers += 1;
    const piece = Math.floor(number / PIECE_VECTORS_MAX);
    this.#pieces[piece] ??= new Float32Array(PIECE_VECTORS_MAX * this.#dim);
    this.#pieces[piece].set(vector, (number % PIECE_VECTORS_MAX) * this.#dim);
    return number;
  }

  /** Its number may name another vector from now on. */
  free(number: number): void {
    this.#free.push(number);
  }

  /** The vectors of these numbers in a row. */
  take(numbers: readonly number[]): Float32Array<ArrayBuffer> {
    const dim = this.#dim;
    const values = new Float32Array(numbers.length * dim);
    for (const [at, number] of numbers.entries()) {
      const from = (number % PIECE_VECTORS_MAX) * dim;
      const piece = this.#pieces[Math.floor(number / PIECE_VECTORS_MAX)]!;
      values.set(piece.subarray(from, from + dim), at * dim);
    }
    return values;
  }
}
