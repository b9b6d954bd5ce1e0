"""What TensorFlow itself takes for a signature, in this process: no server, no network, no JSON.

load DIRECTORY THREADS       answers "ready VERSION"
call BATCH SECONDS           answers the median milliseconds of a call, and calls per second
"""

import sys
import time

import tensorflow as tf


def main():
    signature, name = None, None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "load":
            threads = int(words[1])
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            model = tf.saved_model.load(words[0])
            signature = model.signatures["serving_default"]
            name = next(iter(signature.structured_input_signature[1]))
            print("ready", tf.__version__, flush=True)
        else:
            batch, seconds = int(words[0]), float(words[1])
            users = [tf.constant([str((n * 31 + i) % 512 + 1) for i in range(batch)]) for n in range(16)]
            times = []
            end = time.perf_counter() + seconds
            while time.perf_counter() < end or len(times) < 8:
                began = time.perf_counter()
                signature(**{name: users[len(times) % 16]})
                times.append((time.perf_counter() - began) * 1000)
            times = sorted(times[4:])
            median = times[len(times) // 2]
            print(median, 1000 / (sum(times) / len(times)), flush=True)


main()
