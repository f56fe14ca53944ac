"""Options that turn energy and time into money and carbon, and what they mean; for every verb that prices a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattlaw.cli.options import Duration, InputPath, Name, Number, option_of
from wattlaw.errors import ConfigError, WattlawError
from wattlaw.units import LARGEST_FIGURE, MOST_PUE, SI_PER_UNIT

if TYPE_CHECKING:
    from wattlaw.footprint import Prices, Timing
    from wattlaw.hardware import Embodied
    from wattlaw.law.footprint import Footprint
    from wattlaw.law.prediction import Prediction
    from wattlaw.run.spec import RunSpec

Command = TypeVar("Command", bound=Callable[..., Any])
FIGURE = Number(at_least=0, at_most=LARGEST_FIGURE)


class _Making(Number):
    """Kilograms per device, or the published figure where the option stands alone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number, or ``published``."""
        return value if value == "published" else super().convert(value, param, ctx)


class _Moment(click.ParamType[float]):
    """A time with its offset from UTC, or now."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds since 1970 UTC."""
        if not isinstance(value, str):
            return float(value)
        if value.strip().lower() == "now":
            return datetime.now().astimezone().replace(second=0, microsecond=0).timestamp()
        try:
            time = datetime.fromisoformat(value.strip())
        except ValueError:
            time = None
        if time is None or time.tzinfo is None:
            raise ConfigError(
                "not a time with its offset from UTC",
                given=repr(value),
                allowed="now, 2026-01-31T14:00Z or 2026-01-31T15:00+01:00",
            ).at(option_of(param))
        if not 1900 <= time.year < 9000:
            raise ConfigError(
                "a time that the calendar does not reach", given=repr(value), allowed="the years 1900 to 8999"
            ).at(option_of(param))
        return time.timestamp()


def _scopes() -> tuple[str, ...]:
    from wattlaw.hardware.region import SCOPES

    return SCOPES


_OPTIONS = (
    click.option(
        "--pue", type=Number(at_least=1, at_most=MOST_PUE), help="Energy of the facility over that of its nodes."
    ),
    click.option(
        "--region", metavar="CODE", help="Whose electricity is used, such as DE or US-CA: its mean intensity."
    ),
    click.option("--carbon-g-per-kwh", type=FIGURE, help="Carbon intensity of the electricity."),
    click.option(
        "--carbon-series",
        metavar="CSV",
        type=InputPath(path_type=Path),
        help="Carbon intensity over time: a file of Electricity Maps, or two columns of times and g/kWh.",
    ),
    click.option(
        "--carbon-scope",
        type=Name("scope", _scopes),
        help="Which intensity of Electricity Maps: life-cycle (where none is given) or direct.",
    ),
    click.option("--price-per-kwh", type=FIGURE, help="Price of electricity, in any currency."),
    click.option(
        "--tariff",
        metavar="FILE",
        type=InputPath("a tariff", path_type=Path),
        help="Prices of electricity over time: a time-of-use tariff (.toml), or two columns, times and prices (.csv).",
    ),
    click.option(
        "--price-per-device-hour",
        "--price-per-gpu-hour",
        "price_per_device_hour",
        type=FIGURE,
        help="Price of renting one device, in the same currency.",
    ),
    click.option(
        "--embodied",
        metavar="[KG]",
        type=_Making(at_most=LARGEST_FIGURE, above=0),
        is_flag=False,
        flag_value="published",
        help="Count what making the hardware emitted: KG per device with its share of the host, or the published "
        "figure where none is given.",
    ),
    click.option(
        "--device-life-hours",
        type=Number(at_least=1, at_most=LARGEST_FIGURE),
        help="Hours that a device works in its life, for --embodied.",
    ),
    click.option("--start", metavar="TIME", type=_Moment(), help="When the run starts: now, or 2026-01-31T14:00Z."),
    click.option(
        "--window",
        metavar="TIME",
        type=Duration(at_least=0),
        help="How long the run may wait, such as 48h: tells the best start under --tariff and --carbon-series.",
    ),
)
#: What the options set, by the name that a verb's function gets.
NAMES = (
    "pue",
    "region",
    "carbon_g_per_kwh",
    "carbon_series",
    "carbon_scope",
    "price_per_kwh",
    "tariff",
    "price_per_device_hour",
    "embodied",
    "device_life_hours",
    "start",
    "window",
)
#: Ways to say one thing: one of each.
_EITHER = (("region", "carbon_g_per_kwh", "carbon_series"), ("price_per_kwh", "tariff"))
#: What says nothing without one of the others.
_NEEDS = {
    "carbon_scope": ("carbon_series",),
    "device_life_hours": ("embodied",),
    "start": ("carbon_series", "tariff"),
    "window": ("carbon_series", "tariff"),
}
#: How far prices that change with time are averaged where no deadline says how long a run may take.
WEEK_S = 7 * SI_PER_UNIT["d"]
#: What is paid, worn or looked up by the hour.
_TIMED = ("price_per_device_hour", "embodied", "carbon_series", "tariff")


def price_options(command: Command) -> Command:
    """Add the options to a verb."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a run costs, and where the figures come from.

    Attributes:
        footprint: money and carbon.
        prices: that they were computed with.
        timing: of the start, where prices or intensities change with time.
        sources: of figures that wattlaw looked up or read, by what they are of.
        assumed: what was filled in, since nobody said it.
        location: where the electricity comes from, as far as it was named.
    """

    footprint: Footprint
    prices: Prices
    timing: Timing | None
    sources: Mapping[str, str]
    assumed: Mapping[str, Any]
    location: str | None

    @property
    def carbon_source(self) -> str:
        """Where the intensity comes from, in words; empty where it is not known."""
        given = self.prices.carbon_g_per_kwh
        return self.sources.get("carbon", "" if given is None else f"{given:g} g/kWh, as given")


def account(options: Mapping[str, Any], spec: RunSpec, prediction: Prediction) -> Account:
    """Price a predicted run as the options say.

    Raises:
        ConfigError, UnknownNameError, FileError, DataError: an option that cannot be, or a file that is none; named.
    """
    from wattlaw.footprint import timed
    from wattlaw.law.footprint import footprint

    given = {name: value for name, value in options.items() if value is not None}
    _check_together(given)
    if prediction.duration_s is None and (needing := [name for name in _TIMED if name in given]):
        raise ConfigError("needs to know how long the run takes, which this law does not say", hint="the step law").at(
            _typed(needing[0])
        )
    prices, sources, filled = _prices(given, spec.accelerator.name)
    location = None if prices.region is None else prices.region.name
    timing = None
    changing = _changing(given)
    if changing:
        assert prediction.duration_s is not None
        start_s = given.get("start", _Moment().convert("now", None, None))
        if "start" not in given:
            filled["start"] = "now"
        prices, timing = timed(
            prices,
            duration_s=prediction.duration_s.mid,
            start_s=start_s,
            window_s=given.get("window", 0.0),
            **changing,
        )
        for name, series in changing.items():
            sources["carbon" if name == "carbon" else "electricity"] = f"{series.source}, mean over the run"
        if "carbon" in changing and " of " in changing["carbon"].name:
            location = changing["carbon"].name.rpartition(" of ")[2]
            filled |= {} if "carbon_scope" in given else {"carbon_scope": "life-cycle"}
    try:
        costs = footprint(prediction, prices, num_devices=float(spec.layout.num_devices))
    except ConfigError as error:
        raise error.at("--pue") from None
    return Account(footprint=costs, prices=prices, timing=timing, sources=sources, assumed=filled, location=location)


def prices_of(options: Mapping[str, Any], *, until_s: float | None) -> Prices:
    """Read the prices for runs whose length is not known yet: what changes with time counts with its mean.

    Args:
        options: what was given, by the names of ``NAMES``; what making the hardware emitted is left out.
        until_s: how long after the start the mean is taken; a week where ``None``, or as far as a file goes.

    Raises:
        ConfigError, UnknownNameError, FileError, DataError: an option that cannot be, or a file that is none; named.
    """
    given = {name: value for name, value in options.items() if value is not None}
    _check_together(given)
    fixed = {name: value for name, value in given.items() if name not in ("embodied", "device_life_hours")}
    prices, _, _ = _prices(fixed, "")
    start_s = given.get("start", _Moment().convert("now", None, None))
    means = {}
    for name, changing in _changing(given).items():
        length_s = WEEK_S if until_s is None else until_s
        series = changing if hasattr(changing, "end_s") else changing.series(start_s, start_s + length_s)
        if until_s is None:
            length_s = min(length_s, max(series.end_s - start_s, series.step_s))
        field = "carbon_g_per_kwh" if name == "carbon" else "price_per_kwh"
        means[field] = series.mean_per_kwh(start_s, length_s)
    return replace(prices, **means) if means else prices


def _check_together(given: Mapping[str, Any]) -> None:
    for names in _EITHER:
        both = [_typed(name) for name in names if name in given]
        if len(both) > 1:
            raise ConfigError(
                f"{both[0]} is one way to say it, {both[1]} another",
                given=" and ".join(both),
                allowed=f"one of {', '.join(map(_typed, names))}",
            )
    for name, others in _NEEDS.items():
        if name in given and not set(others) & set(given):
            raise ConfigError("says nothing alone", allowed=f"with {' or '.join(map(_typed, others))}").at(_typed(name))


def _prices(given: Mapping[str, Any], accelerator: str) -> tuple[Prices, dict[str, str], dict[str, Any]]:
    """Read the figures that do not change with time, with their sources and what was filled in."""
    from wattlaw.footprint import Prices
    from wattlaw.hardware import region

    sources: dict[str, str] = {}
    filled: dict[str, Any] = {}
    making = place = None
    if "region" in given:
        with _at("--region"):
            place = region(given["region"])
        sources["carbon"] = (
            f"{place.name}, {place.carbon_g_per_kwh:g} g/kWh ({place.scope}, {place.year}); {place.source}"
        )
    if "embodied" in given:
        with _at("--embodied"):
            making = _making(given, accelerator)
        if "device_life_hours" not in given:
            filled["device_life_hours"] = round(making.life_h)
        if making.sources:
            sources["embodied"] = "; ".join(map(str, making.sources))
    figures = {name: given.get(name) for name in ("pue", "carbon_g_per_kwh", "price_per_kwh", "price_per_device_hour")}
    return Prices(region=place, embodied=making, **figures), sources, filled


def _making(given: Mapping[str, Any], accelerator: str) -> Embodied:
    """Take the published figure of a device, or the user's."""
    from wattlaw.hardware import Embodied, embodied

    life_h = given.get("device_life_hours")
    if given["embodied"] == "published":
        making = embodied(accelerator)
        return making if life_h is None else replace(making, life_h=life_h)
    if life_h is None:
        raise ConfigError(
            "a figure of your own needs the hours that it is spread over",
            given=f"{given['embodied']:g} kg",
            allowed="--device-life-hours as well; six years of which 85 % are worked are 44,700",
        )
    return Embodied(device_kg=given["embodied"], host_kg=0.0, life_h=life_h)


def _changing(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the files of what changes with time."""
    from wattlaw.footprint import read_carbon_series, read_price_series, read_tariff

    found: dict[str, Any] = {}
    if "carbon_series" in given:
        found["carbon"] = read_carbon_series(given["carbon_series"], scope=given.get("carbon_scope", "life-cycle"))
    if "tariff" in given:
        path = given["tariff"]
        found["price"] = read_price_series(path) if path.suffix.lower() == ".csv" else read_tariff(path)
    return found


@contextmanager
def _at(option: str) -> Iterator[None]:
    """Name the option that an error is about."""
    try:
        yield
    except WattlawError as error:
        error.at(option)
        raise


def _typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"
