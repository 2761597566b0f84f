# SPDX-License-Identifier: Apache-2.0
"""onnxruntime/exported.mjs for machines that have ONNX Runtime as a Python package: the same flags, the same JSON."""
import argparse
import json
import resource
import time

import numpy
import onnxruntime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--graph', required=True)
    parser.add_argument('--precision', default='fp32')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--lengths', default='128')
    parser.add_argument('--seconds', type=float, default=1)
    flags = parser.parse_args()
    rows = []
    if flags.precision == 'fp32':
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = flags.threads, 1
        options.add_session_config_entry('session.set_denormal_as_zero', '1')
        session = onnxruntime.InferenceSession(flags.graph, options, providers=['CPUExecutionProvider'])
        names = [one.name for one in session.get_inputs()]
        for length in map(int, flags.lengths.split(',')):
            feeds = {'input_ids': 1 + numpy.arange(length, dtype=numpy.int64)[None] * 7919 % 20000,
                     'attention_mask': numpy.ones((1, length), numpy.int64)}
            if 'token_type_ids' in names:
                feeds['token_type_ids'] = numpy.zeros((1, length), numpy.int64)
            best, cpu, runs, end = 1e300, 1e300, 0, time.perf_counter() + flags.seconds
            while runs == 0 or time.perf_counter() < end or (runs < 2 and length <= 2048):
                start, processor = time.perf_counter(), time.process_time()
                session.run(None, feeds)
                best, cpu = min(best, time.perf_counter() - start), min(cpu, time.process_time() - processor)
                runs += 1
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rows.append({'length': length, 'best_ms': 1e3 * best, 'cpu_ms': 1e3 * cpu, 'peak_mib': peak, 'runs': runs})
    print(json.dumps(rows))


if __name__ == '__main__':
    main()
