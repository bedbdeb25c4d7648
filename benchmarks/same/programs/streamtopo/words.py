from streamtopo import StreamsBuilder

builder = StreamsBuilder("words")
sentences = builder.stream("sentences", value=str)
words = sentences.flat_map_values(str.split).group_by(lambda _, word: word, key=str)
words.count(name="counts").to_stream().to("word-counts")
