"""Rivals of the filter benchmark, driven line by line: a mask in NumPy, and FAISS's flat index with a bitmap.

load FILE ROWS DIM THREADS KIND   KIND numpy or faiss; answers "ready"
search FROM QUERIES K BUCKETS     of rows whose bucket, row * 7919 mod 10000, is below BUCKETS; answers the
                                  milliseconds without making the mask, then the rows of the first query
"""

import sys
import time

import numpy

BUCKETS = 10_000


def main():
    values, vectors, index, kind = None, None, None, None
    masks = {}
    for line in sys.stdin:
        command, *words = line.split()
        if command == "load":
            path, rows, dim, threads, kind = words[0], *map(int, words[1:4]), words[4]
            stored = numpy.fromfile(path, dtype=numpy.float32)
            values = stored[: rows * dim].reshape(rows, dim)
            vectors = stored[rows * dim :].reshape(-1, dim).copy()
            if kind == "faiss":
                import faiss

                faiss.omp_set_num_threads(threads)
                index = faiss.IndexFlatIP(dim)
                index.add(values)
            print("ready", flush=True)
            continue
        start, queries, k, buckets = map(int, words)
        asked = vectors[start : start + queries]
        if buckets not in masks:
            numbers = numpy.arange(len(values), dtype=numpy.int64) * 7919 % BUCKETS
            masks[buckets] = numbers < buckets
        mask = masks[buckets]
        if kind == "faiss":
            packed = numpy.packbits(mask, bitorder="little")
            selector = faiss.IDSelectorBitmap(packed)
            parameters = faiss.SearchParameters(sel=selector)
            began = time.perf_counter()
            _, found = index.search(asked, k, params=parameters)
        else:
            began = time.perf_counter()
            scores = asked @ values.T
            scores[:, ~mask] = -numpy.inf
            best = numpy.argpartition(-scores, k, axis=1)[:, :k]
            order = numpy.argsort(-numpy.take_along_axis(scores, best, axis=1), axis=1)
            found = numpy.take_along_axis(best, order, axis=1)
        elapsed = (time.perf_counter() - began) * 1000
        print(elapsed, *found[0], flush=True)


main()
