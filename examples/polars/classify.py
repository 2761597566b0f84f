# SPDX-License-Identifier: Apache-2.0
"""Classifies the column `text` of a file that Polars reads.

    python classify.py MODEL reviews.parquet answers.parquet
"""
import sys


def classified(frame, folder, column='text'):
    """The frame with label, score and exit_layer."""
    import exeunt
    import polars
    return polars.DataFrame(exeunt.Classifier(folder).arrow(frame, column))


def main():
    import polars
    folder, source, out = sys.argv[1:4]
    classified(polars.read_parquet(source), folder).write_parquet(out)


if __name__ == '__main__':
    main()
