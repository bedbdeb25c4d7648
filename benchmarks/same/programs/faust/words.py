import faust

app = faust.App("words", broker="kafka://localhost:9092", topic_partitions=2)
sentences = app.topic("sentences", value_type=bytes, value_serializer="raw")
words = app.topic("words", key_type=str, value_type=str, internal=True)
word_counts = app.topic("word-counts", key_type=str, value_type=int)
counts = app.Table("counts", default=int)


@app.agent(sentences)
async def split(stream):
    async for sentence in stream:
        for word in sentence.decode().split():
            await words.send(key=word, value=word)


@app.agent(words)
async def count(stream):
    async for word in stream:
        counts[word] += 1
        await word_counts.send(key=word, value=counts[word])
