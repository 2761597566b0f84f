# SPDX-License-Identifier: Apache-2.0
"""Classifies the column `text` of a Spark DataFrame, each Python worker with a model of its own.

    spark-submit classify.py MODEL reviews.parquet answers.parquet

The package `exeunt` and the model folder must be on every worker. A worker opens the model once, for all the batches it gets.
"""
import sys

SCHEMA = 'text string, label string, score float, exit_layer int'


def classifier(folder, threads=1):
    """For DataFrame.mapInArrow: a function from batches to batches."""

    def classify(batches):
        import exeunt  # here, on the worker
        import pyarrow
        model = exeunt.Classifier(folder, threads=threads)
        for batch in batches:
            yield from pyarrow.RecordBatchReader.from_stream(model.arrow(batch))

    return classify


def piped(lines, folder):
    """The same without Arrow: an RDD of lines through the command, a JSON line for each."""
    import exeunt
    return lines.pipe(f"{exeunt.command()} predict '{folder}' - --json --quiet")


def main():
    from pyspark.sql import SparkSession
    folder, source, out = sys.argv[1:4]
    spark = SparkSession.builder.appName('exeunt').getOrCreate()
    texts = spark.read.parquet(source).select('text')
    texts.mapInArrow(classifier(folder), schema=SCHEMA).write.parquet(out)


if __name__ == '__main__':
    main()
