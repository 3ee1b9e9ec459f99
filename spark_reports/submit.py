"""`keyline report` as a program for `spark-submit`, which says where Spark runs.

`spark-submit --master URL --py-files WHEEL submit.py JOURNAL --out DIRECTORY`: only the driver needs the libraries of
the extra `reports`; what runs on executors is Spark's own.
"""

from __future__ import annotations

import typer

from spark_reports.command import report

if __name__ == "__main__":
    typer.run(report)
