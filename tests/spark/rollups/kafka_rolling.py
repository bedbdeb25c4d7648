"""Run rollups on Kafka in a process with its own Spark, since the connector must be there when Spark starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from streamtopo.logs.opening import open_log
from streamtopo.records import Columns, TopicPartition
from streamtopo.spark import read_rollup, read_topic
from streamtopo.spark.rollups.queries import Query
from streamtopo.spark.rollups.rollups import Run
from streamtopo.spark.rollups.turns import queried
from streamtopo.spark.session import open_spark, settings_for
from tests.logs.records import T0, T1
from tests.spark.rollups.delivered import in_topic
from tests.spark.rollups.rolling import HOUR, done_by, merged, recomputed


def main(url: str, out: str) -> None:
    settings = settings_for(url) | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    log = open_log(url)
    seen = []
    with open_spark("kafka", master="local[2]", settings=settings) as spark:
        for hour in (1, 2):
            log.append(T0, Columns([None], [f"a {hour}".encode()], [HOUR]))
            target = T1
            if hour == 2:
                target = TopicPartition("t", 2)
                admin = AdminClient({"bootstrap.servers": url.removeprefix("kafka://")})
                admin.create_partitions([NewPartitions("t", 3)])["t"].result()
                log.close()
                log = open_log(url)  # its producer knows the new partition
            log.append(target, Columns([None, None], [b"b 5", b"\xff"], [hour * HOUR] * 2))
            for one in (merged, recomputed):
                (done,) = Run(spark, one, url, out, into="topic:out" if one is merged else None).commits()
                seen.append([done.records, done.corrupt, done.rows])
            query = Query(spark, recomputed, url, f"{out}-query", "update")
            seen += [[done.records, done.corrupt, done.rows] for done in done_by(queried([query], "available-now"))]
        sunk = [sorted(in_topic(log))]
        list(Run(spark, merged, url, f"{out}-since", 2 * HOUR, into="topic:out").commits())
        sunk.append(sorted(in_topic(log)))
        tables = {"merged": out, "recomputed": out}
        rows = {
            name: sorted(
                map(list, read_rollup(spark, out, name).selectExpr("unix_millis(hour)", "site", "n").collect())
            )
            for name, out in tables.items()
        }
        streamed = (
            read_rollup(spark, f"{out}-query", "recomputed").selectExpr("unix_millis(hour)", "site", "n").collect()
        )
        values = [row.value for row in read_topic(spark, url, "t", value=str).orderBy("partition", "offset").collect()]
    log.close()
    Path(out).with_suffix(".json").write_text(
        json.dumps(
            {"seen": seen, "sunk": sunk, "rows": rows, "streamed": sorted(map(list, streamed)), "values": values}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
