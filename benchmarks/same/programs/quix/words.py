from quixstreams import Application

app = Application("localhost:9092", consumer_group="words", auto_offset_reset="earliest")
sentences = app.topic("sentences", value_deserializer="str")
word_counts = app.topic("word-counts", key_serializer="str")


def count(word, state):
    total = state.get("total", 0) + 1
    state.set("total", total)
    return total


words = app.dataframe(sentences).apply(str.split, expand=True)
words = words.group_by(lambda word: word, "words", key_serializer="str", key_deserializer="str")
words.apply(count, stateful=True).to_topic(word_counts)
app.run()
