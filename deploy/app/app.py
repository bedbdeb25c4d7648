"""The application of the examples: it counts words."""

from streamtopo import StreamsBuilder

builder = StreamsBuilder("wordcount")
(
    builder.stream("sentences", value=str)
    .flat_map_values(str.split)
    .group_by(lambda _, word: word, key=str)
    .count(name="counts")
    .to_stream()
    .to("word-counts")
)
