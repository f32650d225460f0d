"""Jobs that report themselves: docs/examples/report_job.py and `trnfleet job`, on Mosquitto."""

from __future__ import annotations

import asyncio
import contextlib
import runpy
import sys
from typing import TYPE_CHECKING

import pytest
from support.documents import DOCS
from support.neuron import feed, trn2
from support.processes.programs import environment, run
from support.processes.waiting import eventually, running

from trnfleet.bridge.neuron.host_reader import HostReader
from trnfleet.bridge.neuron.telemetry import Holder, HostTelemetry
from trnfleet.clock import SystemClock
from trnfleet.services.files.rules import load_rules
from trnfleet.services.live_monitor import monitor_fleet
from trnfleet.services.session import BrokerSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.processes.mosquitto import MosquittoProcess

    from trnfleet.monitor.monitor import Monitor

pytestmark = pytest.mark.broker

EXAMPLE = DOCS / "examples" / "report_job.py"
HOST = "uc1/standalone/trn2-0001"
NAME = "ml/linear.v1"


@contextlib.asynccontextmanager
async def fleet(mosquitto: MosquittoProcess) -> AsyncIterator[Monitor]:
    """Yield a monitor with all rules, beside a host on whose 16 chips a scheduler put the job."""
    session = BrokerSession(mosquitto.url)
    source, monitor = monitor_fleet(session, "lab", rules=load_rules())
    publisher = session.publisher("host-1")
    reader = HostReader()
    feed(reader, trn2())
    telemetry = HostTelemetry(reader, "lab", HOST, boot="b", period_s=1.0)
    telemetry.holders = (Holder(NAME, frozenset(range(16)), "job-mapping"),)

    async def publish() -> None:
        await publisher.wait_connected(10)
        while True:
            await publisher.publish(telemetry.envelopes(SystemClock().wall_ns()))
            await asyncio.sleep(0.5)

    async with running(source.run(), monitor.run(), publisher.run(), publish()):
        yield monitor


def is_alerted(monitor: Monitor) -> bool:
    return "job-failed" in [alert.name for alert in monitor.alerts.active()]


async def test_a_training_loop_is_seen_and_missed(mosquitto: MosquittoProcess) -> None:
    """Its figures are shown where its host claims it; killed, it is lost within a moment."""
    async with fleet(mosquitto) as monitor:
        jobs = monitor.ingest.jobs
        loop = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), NAME, f"127.0.0.1:{mosquitto.port}", env=environment()
        )
        try:
            await eventually(lambda: "ml-linear-v1" in jobs and jobs["ml-linear-v1"].loss)
            await eventually(lambda: jobs["ml-linear-v1"].on == (HOST,))
            job = jobs["ml-linear-v1"]
            assert (job.state, job.kind, job.display_name) == ("running", "training", NAME)
            assert job.steps_completed
            assert None not in (job.step_time_s, job.tokens_per_s, job.mfu, job.goodput)
            assert not is_alerted(monitor)
        finally:
            loop.kill()
            await loop.wait()
        await eventually(lambda: jobs["ml-linear-v1"].state == "lost")
        await eventually(lambda: is_alerted(monitor))
        reporter = runpy.run_path(str(EXAMPLE))["Reporter"]
        with reporter(NAME, "127.0.0.1", mosquitto.port, kind="training") as again:
            await eventually(again.client.is_connected)
            again.report("running", steps_completed=7)
            await eventually(lambda: jobs["ml-linear-v1"].steps_completed == 7)
        await eventually(lambda: jobs["ml-linear-v1"].state == "finished")
        await eventually(lambda: not is_alerted(monitor))


async def test_a_loop_that_raises_has_failed(mosquitto: MosquittoProcess) -> None:
    reporter = runpy.run_path(str(EXAMPLE))["Reporter"]
    async with fleet(mosquitto) as monitor:
        with (
            contextlib.suppress(FloatingPointError),
            reporter("nan", "127.0.0.1", mosquitto.port, kind="training") as job,
        ):
            await eventually(job.client.is_connected)
            raise FloatingPointError
        await eventually(lambda: "nan" in monitor.ingest.jobs)
        await eventually(lambda: monitor.ingest.jobs["nan"].state == "failed")


async def test_a_script_reports_a_job(mosquitto: MosquittoProcess) -> None:
    """`trnfleet job` publishes, ends and clears; each message replaces the last."""
    to = ("--broker", str(mosquitto.url), "--name", "lab")
    async with fleet(mosquitto) as monitor:
        jobs = monitor.ingest.jobs

        async def tell(*arguments: str) -> str:
            done = await asyncio.to_thread(run, "job", *arguments, *to)
            assert done.returncode == 0, done.stderr
            return done.stdout

        figures = ("--step", "12", "--tokens-per-s", "91000", "--loss", "-2.5", "--model", "llama")
        assert await tell("ns/llama3.1", *figures, "--on", "uc1/standalone") == (
            "job ns-llama3-1 (ns/llama3.1) is running, uc1/standalone\n"
        )
        await eventually(lambda: "ns-llama3-1" in jobs)
        job = jobs["ns-llama3-1"]
        assert (job.steps_completed, job.tokens_per_s, job.loss) == (12, 91_000, -2.5)
        assert (job.on, job.model, job.state) == (("uc1/standalone",), "llama", "running")
        await tell("ns/llama3.1", "--end")
        await eventually(lambda: jobs["ns-llama3-1"].state == "finished")
        assert (jobs["ns-llama3-1"].on, jobs["ns-llama3-1"].loss) == ((), None)
        assert await tell("ns/llama3.1", "--clear") == "job ns-llama3-1 is cleared\n"
        await eventually(lambda: "ns-llama3-1" not in jobs)
