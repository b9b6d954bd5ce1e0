// Tables for the search benchmark, the same in every run. `normal` is the hard case: independent
// values, so that nothing but the filter's precision helps. `skewed` looks like trained embeddings:
// clusters of Zipf sizes, a spectrum that falls as 1/j under a random rotation, log-normal norms, and
// queries near cluster centres.

const CLUSTERS = 2000;
const NORM_DEVIATION = 0.4;

/** Normal values from a seeded generator (mulberry32, Box-Muller). */
function normalSource(seed) {
  let state = seed >>> 0;
  let spare;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = () => {
    if (spare !== undefined) {
      const value = spare;
      spare = undefined;
      return value;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    const angle = 2 * Math.PI * uniform();
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
  return { uniform, normal };
}

function normalData({ rows, dim, queries }) {
  const { normal } = normalSource(1000 + dim);
  const fill = (count) => Float32Array.from({ length: count }, normal);
  const table = new Float32Array(rows * dim);
  for (let at = 0; at < table.length; at += 1) table[at] = normal();
  return { table, vectors: fill(queries * dim) };
}

/** Orthogonal `[dim, dim]` by Gram-Schmidt on normal values. */
function randomRotation(dim, normal) {
  const basis = [];
  while (basis.length < dim) {
    const vector = Float64Array.from({ length: dim }, normal);
    for (const other of basis) {
      const product = vector.reduce((sum, value, j) => sum + value * other[j], 0);
      for (let j = 0; j < dim; j += 1) vector[j] -= product * other[j];
    }
    const norm = Math.hypot(...vector);
    basis.push(vector.map((value) => value / norm));
  }
  return basis;
}

function skewedData({ rows, dim, queries }) {
  const { normal, uniform } = normalSource(2000 + dim);
  const rotation = randomRotation(dim, normal);
  const spectrum = Float64Array.from({ length: dim }, (_, j) => 1 / (j + 1));
  const centres = Array.from({ length: CLUSTERS }, () =>
    Float64Array.from(spectrum, (s) => s * normal()),
  );
  const cumulative = new Float64Array(CLUSTERS);
  let total = 0;
  for (let cluster = 0; cluster < CLUSTERS; cluster += 1) {
    total += 1 / (cluster + 1);
    cumulative[cluster] = total;
  }
  const pickCluster = () => {
    const wanted = uniform() * total;
    let low = 0;
    let high = CLUSTERS - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (cumulative[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const plain = new Float64Array(dim);
  const write = (target, at, scale) => {
    const centre = centres[pickCluster()];
    for (let j = 0; j < dim; j += 1) plain[j] = scale * (centre[j] + 0.5 * spectrum[j] * normal());
    for (let j = 0; j < dim; j += 1) {
      const axis = rotation[j];
      let value = 0;
      for (let i = 0; i < dim; i += 1) value += axis[i] * plain[i];
      target[at + j] = value;
    }
  };
  const table = new Float32Array(rows * dim);
  for (let row = 0; row < rows; row += 1) {
    write(table, row * dim, Math.exp(NORM_DEVIATION * normal()));
  }
  const vectors = new Float32Array(queries * dim);
  for (let query = 0; query < queries; query += 1) write(vectors, query * dim, 1);
  return { table, vectors };
}

/** A table `[rows, dim]` and queries `[queries, dim]`. */
export function searchData(kind, size) {
  return kind === "normal" ? normalData(size) : skewedData(size);
}
