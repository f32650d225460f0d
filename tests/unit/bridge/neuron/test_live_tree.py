"""The driver's tree read again and again, beside documents that come and go."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
from support.neuron import feed, trn2
from support.sysfs import DEVICES, write_tree

from trnfleet.bridge.neuron.host_reader import NEURON_MONITOR, HostReader
from trnfleet.bridge.neuron.sysfs import DriverTree, SysfsValues

if TYPE_CHECKING:
    from pathlib import Path

HOST = {"instance_info": {"instance_type": "trn2.48xlarge"}, "system_data": {}}


def read(tree: DriverTree, *, with_cores: bool = True) -> SysfsValues:
    tree.look()
    return tree.values(
        {number: device.read(with_cores=with_cores) for number, device in tree.devices.items()}
    )


def written(root: Path, name: str) -> Path:
    (path,) = (root / DEVICES / "neuron0").rglob(name)
    return path


def test_the_cores_are_read_less_often(tmp_path: Path) -> None:
    """In between their last values stay, and the device's are new."""
    tree = DriverTree(write_tree(tmp_path))
    read(tree)
    for path in (tmp_path / DEVICES / "neuron0").rglob("success/total"):
        path.write_text("150\n")
    written(tmp_path, "mem_ecc_uncorrected").write_text("7\n")

    values = read(tree, with_cores=False)
    assert values.devices[0]["mem_ecc_uncorrected"] == 7
    assert values.devices[0]["exec_completed"] == 200
    assert read(tree).devices[0]["exec_completed"] == 300


def test_a_reloaded_driver_is_found(tmp_path: Path) -> None:
    """With other nodes, cores and devices; in between its nodes are gone."""
    tree = DriverTree(write_tree(tmp_path, cores=2))
    assert read(tree).devices[0]["exec_completed"] == 200

    shutil.rmtree(tmp_path / DEVICES)
    assert read(tree).devices == {}

    write_tree(tmp_path, devices=3, cores=4, is_moved=True, driver="2.31.0.0")
    values = read(tree, with_cores=False)
    assert values.devices.keys() == {0, 1, 2}
    assert values.devices[0]["exec_completed"] == 400
    assert values.driver == "2.31.0.0"


def test_nodes_that_moved_are_looked_for_again(tmp_path: Path) -> None:
    """The reading that misses one has no value of it, the next has."""
    tree = DriverTree(write_tree(tmp_path))
    read(tree)
    path = written(tmp_path, "mem_ecc_uncorrected")
    path.rename(path.parent.parent / path.name)

    assert "mem_ecc_uncorrected" not in read(tree).devices[0]
    assert read(tree).devices[0]["mem_ecc_uncorrected"] == 0


def live(**values: float) -> SysfsValues:
    return SysfsValues({0: values}, (), (), HostReader().doubts, {})  # type: ignore[arg-type]  # no failures


def value(values: dict[str, Any], name: str) -> float:
    column = values[name]
    return float(column[0])


def test_values_of_an_absent_neuron_monitor_are_unknown() -> None:
    """Those of the tree go on."""
    reader = HostReader(metrics=NEURON_MONITOR)
    reader.update(live(health=1, mem_ecc_uncorrected=3), {"efa_tx_bytes_per_s": 1e9})
    values = feed(reader, trn2())
    assert value(values, "hbm_used_bytes") > 0

    reader.update(live(health=0, mem_ecc_uncorrected=4), {"efa_tx_bytes_per_s": 2e9})
    values = feed(reader, HOST)
    assert np.isnan(values["nc_util_pct"]).all()
    assert np.isnan(values["hbm_used_bytes"]).all()
    assert (value(values, "health"), value(values, "mem_ecc_uncorrected")) == (0, 4)
    assert value(values, "efa_tx_bytes_per_s") == 2e9


def test_a_counter_has_one_source() -> None:
    """ECC is the tree's, executions are the documents' where they came first.

    Where the source is away the counter is unknown, not another source's.
    """
    reader = HostReader(metrics=NEURON_MONITOR)
    reader.update(live(mem_ecc_uncorrected=5, exec_completed=1_000), {})
    values = feed(reader, trn2())
    assert value(values, "mem_ecc_uncorrected") == 5
    executions = value(values, "exec_completed")
    assert executions < 1_000

    assert np.isnan(value(feed(reader, HOST), "exec_completed"))
    reader.update(live(), {})
    assert np.isnan(value(feed(reader, trn2()), "mem_ecc_uncorrected"))

    alone = HostReader(metrics=())
    alone.update(live(exec_completed=1_000), {})
    feed(alone, HOST)
    alone.add_metrics(NEURON_MONITOR)
    assert value(feed(alone, trn2()), "exec_completed") == 1_000


def test_new_metrics_and_versions_are_described_again() -> None:
    reader = HostReader(metrics=())
    reader.update(live(), {})
    feed(reader, HOST)
    assert list(reader.columns) == []
    revision = reader.revision

    reader.update(live(health=0)._replace(driver="2.31.0.0"), {})
    feed(reader, HOST)
    assert list(reader.columns) == ["health"]
    assert reader.versions == {"driver": "2.31.0.0"}
    assert reader.revision > revision
    revision = reader.revision
    feed(reader, HOST)
    assert reader.revision == revision
