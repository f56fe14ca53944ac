"""``wattlaw probe``: a minute that calibrates this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattlaw.cli.options import InputPath, OutputPath, as_json_option, print_json, print_rich

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration

EPILOG = """\b
Examples:
  wattlaw probe -o host.json
  wattlaw predict run.toml --law host.json
  wattlaw fit runs/*/records.jsonl --prior host.json -o law.json
"""


@click.command("probe", epilog=EPILOG)
@click.option("-o", "--output", type=OutputPath(path_type=Path, dir_okay=False), default=Path("host.json"),
              show_default=True, help="File for the host's calibration.")  # fmt: skip
@click.option("--figures", type=OutputPath(path_type=Path, dir_okay=False),
              help="File for the figures as measured; beside the calibration where not given.")  # fmt: skip
@click.option("--from", "source", type=InputPath(path_type=Path, dir_okay=False),
              help="Measure nothing: calibrate from the figures of an earlier probe.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
              help="Time for all of it, about.")  # fmt: skip
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True,
              help="What to probe.")  # fmt: skip
@click.option("--gpu", metavar="NAME|FILE", help="The accelerator, where the driver's name is not known.")
@click.option("--num-devices", type=click.IntRange(min=1), help="Devices of the largest collective; all GPUs, or two.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of each rank on a CPU.")
@click.option("--prior", default="bundled", show_default=True, metavar="NAME|FILE",
              help="The step law's calibration that the figures are put on.")  # fmt: skip
@as_json_option
def command(
    *,
    output: Path,
    figures: Path | None,
    source: Path | None,
    seconds: float,
    device: str,
    gpu: str | None,
    num_devices: int | None,
    threads: int,
    prior: str,
    as_json: bool,
) -> None:
    """Find out in about a minute what this machine does, and write it as a calibration.

    Measured are the rate of matrix products per precision, memory bandwidth, the host's work per kernel, step and
    update, latency and rate of collectives, and idle and busy power where there is a sensor. What was not measured is
    null in the figures and stays at the prior in the calibration, which says of each parameter where it comes from.
    """
    from wattlaw.hardware import accelerator
    from wattlaw.law.probed import calibrate_host
    from wattlaw.measure.probe import Options, Probe, run_probe
    from wattlaw.report.probe import probe_document, probe_progress, probe_text

    before = _calibration(prior)
    if source is not None:
        probe, figures = Probe.load(source), source
    else:
        options = Options(seconds=seconds, device=device, gpu=gpu, num_devices=num_devices, threads=threads)
        with probe_progress(shown=not as_json) as watch:
            probe = run_probe(options, watch=watch)
        figures = output.with_suffix(".probe.json") if figures is None else figures
        probe.save(figures)
    host = calibrate_host(probe.figures, accelerator(probe.accelerator), before, date=probe.date, doubts=probe.warnings)
    host.calibration.save(output)
    if as_json:
        print_json(probe_document(probe, host, output=output, figures=figures))
    else:
        print_rich(probe_text(probe, host, output=output, figures=figures))


def _calibration(prior: str) -> Calibration:
    from wattlaw.law.bundled import bundled
    from wattlaw.law.loading import load_law

    return bundled() if prior == "bundled" else load_law(prior)
