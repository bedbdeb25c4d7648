"""The tables that Spark computes from the topics of word count: `streamtopo rollup apps.wordcount`, and `reconcile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtopo.spark import expected, rollup, view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOP = 20


def words_of(sentences: DataFrame) -> DataFrame:
    """One row for each word of the sentences; the same words as in the topology."""
    words = sentences.selectExpr("*", r"explode(split(lower(value), '(?U)[\\s\\x1c-\\x1f]+')) AS word")
    return words.where("word <> ''")


@rollup("words-by-day", every="1 day", keys=["word"], merge={"count": "sum"})
def words_by_day(sentences: DataFrame) -> DataFrame:
    """How often each word occurred."""
    return words_of(sentences).groupBy("day", "word").count()


@rollup("top-words", every="1 day", keys=["rank"])
def top_words(sentences: DataFrame) -> DataFrame:
    """The most frequent words of each day."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("day").orderBy(F.desc("count"), "word")
    counts = words_of(sentences).groupBy("day", "word").count()
    ranked = counts.withColumn("rank", F.row_number().over(order))
    return ranked.where(F.col("rank") <= TOP).select("day", "rank", "word", "count")


@view("vocabulary", of=["words-by-day"])
def vocabulary(words: DataFrame) -> DataFrame:
    """How many new words each day brought, and how many there were in total."""
    from pyspark.sql import functions as F

    new = words.groupBy("word").agg(F.min("day").alias("day")).groupBy("day").agg(F.count("*").alias("new"))
    return new.selectExpr("day", "new", "sum(new) OVER (ORDER BY day) AS words")


@expected("word-counts")
def word_counts(sentences: DataFrame) -> DataFrame:
    return words_of(sentences).groupBy("word").count().selectExpr("word AS key", "count AS value")


counts = expected("counts")(word_counts.function)
