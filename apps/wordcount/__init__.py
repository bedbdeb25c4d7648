"""Word count: sentences in, the running count of each word out."""

from apps.wordcount.sample import sentences
from streamtopo import StreamsBuilder
from streamtopo.demo import Demo

builder = StreamsBuilder("wordcount")
(
    builder.stream("sentences", value=str)
    .flat_map_values(str.split)
    .map_values(str.lower)
    .group_by(lambda _, word: word, key=str)
    .count(name="counts")
    .to_stream()
    .to("word-counts")
)
topology = builder.build()
demo = Demo(feed=sentences, shows="word-counts", title="top words")
