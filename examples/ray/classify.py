# SPDX-License-Identifier: Apache-2.0
"""Classifies the column `text` of a Ray Dataset with a pool of actors that each hold the model.

    python classify.py MODEL reviews.parquet answers

The package `exeunt` and the model folder must be on every node.
"""
import sys


class Classifier:
    """One for each actor: Ray makes it once and hands it batches, as tables of Arrow."""

    def __init__(self, folder, threads=1):
        import exeunt
        self.model = exeunt.Classifier(folder, threads=threads)

    def __call__(self, batch):
        import pyarrow
        return pyarrow.table(self.model.arrow(batch))


def main():
    import ray
    folder, source, out = sys.argv[1:4]
    dataset = ray.data.read_parquet(source).map_batches(
        Classifier, fn_constructor_args=(folder,), batch_format='pyarrow', batch_size=256, concurrency=4, num_cpus=1)
    dataset.write_parquet(out)


if __name__ == '__main__':
    main()
