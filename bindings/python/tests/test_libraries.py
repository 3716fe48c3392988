"""pandas, pyarrow and torch."""

import os

import pytest


def test_pandas_reads_what_it_wrote(cluster, home):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"number": range(100_000), "text": [f"row {row}" for row in range(100_000)]})
    frame.to_parquet(f"{cluster.url}{home}/x.parquet")
    assert pandas.read_parquet(f"{cluster.url}{home}/x.parquet").equals(frame)
    columns = pandas.read_parquet(f"{cluster.url}{home}/x.parquet", columns=["number"])
    assert list(columns) == ["number"]
    frame.head(100).to_csv(f"{cluster.url}{home}/x.csv", index=False)
    assert pandas.read_csv(f"{cluster.url}{home}/x.csv").equals(frame.head(100))


def test_pyarrow_datasets(cluster, home):
    pyarrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    import fsspec

    fs = fsspec.filesystem("gupfs", host=cluster.address)
    table = pyarrow.table({"part": [row % 7 for row in range(50_000)], "value": list(range(50_000))})
    dataset.write_dataset(
        table, f"{home}/set", format="parquet", partitioning=["part"], filesystem=fs
    )
    found = dataset.dataset(f"{home}/set", format="parquet", partitioning=["part"], filesystem=fs)
    assert found.count_rows() == 50_000
    part = found.to_table(filter=dataset.field("part") == 3)
    assert sorted(part["value"].to_pylist()) == list(range(3, 50_000, 7))


class Samples:
    """One file a sample."""

    def __init__(self, connection, home, count):
        self.connection, self.home, self.count = connection, home, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return int.from_bytes(self.connection.read_bytes(f"{self.home}/{number}"), "big")


@pytest.mark.parametrize("workers", [0, 2, 8])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torch_data_loaders(connection, home, workers, method):
    data = pytest.importorskip("torch.utils.data")
    for number in range(64):
        connection.write_bytes(f"{home}/{number}", (number * 10**9).to_bytes(8, "big"))
    context = None if workers == 0 else method
    loader = data.DataLoader(
        Samples(connection, home, 64), batch_size=8, num_workers=workers, multiprocessing_context=context, shuffle=True
    )
    for _epoch in range(2):
        seen = [int(number) for batch in loader for number in batch]
        assert sorted(seen) == [number * 10**9 for number in range(64)]
