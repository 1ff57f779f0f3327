"""Questions to the tables of an archive: python spark_tables.py TABLES

The folder that `nostr-agent reindex --out OUT` wrote, OUT/tables; needs the extras spark and plot.
"""

import argparse

import matplotlib.pyplot as plt
from pyspark.sql import functions as f

from agent.reindex.spark.session import SparkOptions, open_session

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("tables")
folder = parser.parse_args().tables
spark = open_session(SparkOptions())  # also finds the Java that the extra installed

follows = spark.read.parquet(f"{folder}/follows")
stayed = f.count_if(f.col("left_at").isNull())
now = follows.groupBy("followed").agg(stayed, f.count("left_at"))
for key, followers, gone in now.toDF("key", "n", "gone").orderBy(f.desc("n"), "key").take(10):
    print(f"{followers:>8} follow {key}, {gone} left")

# The people of a month: the sketches of its days merge, and count nobody twice.
days = spark.read.parquet(f"{folder}/daily_actives").where("day BETWEEN '2020-11-01' AND now()")
people = f.hll_sketch_estimate(f.hll_union_agg("sketch")).alias("people")
months = days.groupBy(f.trunc("day", "month").alias("month")).agg(people).orderBy("month")
for month, estimate in months.collect():
    print(f"{month:%Y-%m}  about {estimate} people")

pairs = spark.read.parquet(f"{folder}/relay_overlap").groupBy("relay").pivot("other").sum("events")
overlap = pairs.orderBy("relay").toPandas().set_index("relay").fillna(0)
figure, (above, below) = plt.subplots(2, figsize=(8, 9), layout="constrained")
above.plot(*zip(*months.collect(), strict=True))
if len(overlap):
    below.imshow(overlap)
    below.set_xticks(range(len(overlap.columns)), overlap.columns, rotation=30)
    below.set_yticks(range(len(overlap)), overlap.index)
figure.savefig("tables.png")
