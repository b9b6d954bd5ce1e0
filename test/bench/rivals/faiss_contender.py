"""A rival of the search benchmark: the flat index of FAISS, driven line by line.

load FILE ROWS DIM THREADS BLAS   answers "ready VERSION"; BLAS 1 forces matrix products
search FROM QUERIES K             answers the milliseconds, then the rows of the first query
"""

import sys
import time

import faiss
import numpy


def main():
    index, vectors = None, None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "load":
            path, rows, dim, threads, blas = words[0], *map(int, words[1:])
            faiss.omp_set_num_threads(threads)
            if blas == 1:
                faiss.cvar.distance_compute_blas_threshold = 0
            values = numpy.fromfile(path, dtype=numpy.float32)
            index = faiss.IndexFlatIP(dim)
            index.add(values[: rows * dim].reshape(rows, dim))
            vectors = values[rows * dim :].reshape(-1, dim).copy()
            print("ready", faiss.__version__, flush=True)
        else:
            start, queries, k = map(int, words)
            asked = vectors[start : start + queries]
            began = time.perf_counter()
            _, found = index.search(asked, k)
            elapsed = (time.perf_counter() - began) * 1000
            print(elapsed, *found[0], flush=True)


main()
