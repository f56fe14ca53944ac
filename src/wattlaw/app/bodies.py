"""What a request may hold. Every body is one of these values or is refused with the field that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from wattlaw.errors import ConfigError, FileError, WattlawError
from wattlaw.footprint import Prices
from wattlaw.hardware import region
from wattlaw.law.bundled import bundled
from wattlaw.law.calibration import Calibration
from wattlaw.law.loading import check_law
from wattlaw.run.fields import expect_mapping, expect_text
from wattlaw.run.spec import RunSpec
from wattlaw.run.spec_file import spec_from_mapping
from wattlaw.units import MOST_DEVICES
from wattlaw.workload.config import from_mapping

Tables = dict[str, Any]

#: Larger bodies are refused before they are read to their end.
MOST_BYTES = 4 * 2**20
#: The same for records, and how many of them are fitted.
MOST_RECORD_BYTES = 16 * 2**20
MOST_RECORDS = 5000
#: More devices than this are not searched by a plan.
MOST_PLANNED_DEVICES = 64
#: A tree has a part for each block, and a plan tries the divisors of the batch of all devices.
MOST_BLOCKS = 1000
MOST_GLOBAL_BATCH = 2**20
#: Longest name that is looked up.
MOST_LETTERS = 200


class Run(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A run, in the tables of a spec file.

    Attributes:
        model: ``preset``, or ``config`` with the fields of a config.json, or a family with its sizes; and ``head``.
        recipe: how it is trained, and how much.
        hardware: ``gpu`` by name, and ``node`` and ``power_limit_w`` where they are known.
        layout: ``strategy`` and ``num_devices``.
        name: free text.
    """

    model: Tables
    recipe: Tables
    hardware: Tables
    layout: Tables = msgspec.field(default_factory=dict)
    name: str = ""

    def spec(self) -> RunSpec:
        """Build the run spec; a config.json comes as its fields, and hardware by the names that are shipped.

        Raises:
            WattlawError: what a spec file is refused for, and anything that would be a path.
        """
        for key, count in self.layout.items():
            if isinstance(count, (int, float)) and not count <= MOST_DEVICES:
                raise ConfigError("more than stand in any one place", given=count, allowed=f"<= {MOST_DEVICES}").at(
                    f"[layout] {key}"
                )
        for key in ("gpu", "node"):
            name = self.hardware.get(key)
            if isinstance(name, str) and (name.lower().endswith(".toml") or len(name) > MOST_LETTERS):
                raise ConfigError(
                    "hardware is named here, not read from files", given=name[:MOST_LETTERS], hint="GET /api/options"
                ).at(f"[hardware] {key}")
        tables = {"name": self.name, "model": self._model(), "recipe": self.recipe, "hardware": self.hardware}
        spec = spec_from_mapping({**tables, "layout": self.layout})
        if spec.architecture.num_layers > MOST_BLOCKS:
            raise ConfigError(
                "more blocks than are shown here", given=int(spec.architecture.num_layers), allowed=f"<= {MOST_BLOCKS}"
            ).at("[model]")
        return spec

    def _model(self) -> Tables:
        """Replace the fields of a config.json by the architecture that they describe."""
        if "config" not in self.model:
            return self.model
        head, labels = self.model.get("head"), self.model.get("num_labels")
        unknown = sorted(set(self.model) - {"config", "head", "num_labels"})
        if unknown:
            raise ConfigError("does not go with config", given=", ".join(unknown), allowed="head, num_labels").at(
                "[model]"
            )
        try:
            fields = expect_mapping("config", self.model["config"])
            named = None if head is None else expect_text("head", head)
            return {"architecture": msgspec.to_builtins(from_mapping(fields, head=named, num_labels=labels))}
        except WattlawError as error:
            error.at("config.json" if error.place != "config" else "[model]")
            raise


class PriceTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Figures that money and carbon follow from; what is not given is not guessed.

    Attributes:
        region: whose electricity is used, by its code, in place of ``carbon_g_per_kwh``.
        carbon_g_per_kwh: grams of CO2 equivalent.
        pue: energy of the facility over that of its nodes.
        price_per_kwh: of electricity, in any currency.
        price_per_device_hour: of renting one device, in the same currency.
    """

    region: str | None = None
    carbon_g_per_kwh: float | None = None
    pue: float | None = None
    price_per_kwh: float | None = None
    price_per_device_hour: float | None = None

    def known(self, accelerator: str) -> Prices:
        """Return the figures as values, of one kind of device.

        Raises:
            ConfigError, UnknownNameError: a figure that is none, or a region that is not known.
        """
        return Prices(
            region=None if self.region is None else region(self.region[:MOST_LETTERS]),
            carbon_g_per_kwh=self.carbon_g_per_kwh,
            pue=self.pue,
            price_per_kwh=self.price_per_kwh,
            price_per_device_hour=self.price_per_device_hour,
        ).of(accelerator)

    def sources(self) -> dict[str, str]:
        """Say where the figures come from that were looked up and not given."""
        if self.region is None:
            return {}
        place = region(self.region[:MOST_LETTERS])
        said = f"{place.name}, {place.carbon_g_per_kwh:g} g/kWh ({place.scope}, {place.year}); {place.source}"
        return {"carbon": said}


class Question(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A run, and what to predict it with.

    Attributes:
        run: its tables.
        prices: for money and carbon.
        level: share of runs that the interval is to hold.
        law: the content of a file that ``wattlaw fit`` wrote; the shipped law where none is given.
    """

    run: Run
    prices: PriceTable = msgspec.field(default_factory=PriceTable)
    level: float = 0.95
    law: Tables | None = None

    def calibration(self) -> Calibration:
        """Return the law to predict with.

        Raises:
            FileError, UnknownNameError: not a law that can be used.
        """
        if self.law is None:
            return bundled()
        calibration = Calibration.from_json(msgspec.json.encode(self.law), place="law")
        try:
            return check_law(calibration)
        except WattlawError as error:
            error.at("law")
            raise


class Comparison(Question, forbid_unknown_fields=True, kw_only=True):
    """A run whose other layouts are asked for.

    Attributes:
        counts: device counts to try, at most 16 of them.
    """

    counts: list[int] = msgspec.field(default_factory=lambda: [1, 2, 4, 8])


class PlanQuestion(Question, forbid_unknown_fields=True, kw_only=True):
    """A run whose work is to be planned, on its kind of accelerator.

    Attributes:
        num_devices: at most.
        deadline_s: longest duration of the run.
        max_money: electricity and rent, in the currency of the prices.
        max_carbon_g: of the electricity.
        confidence: level of the intervals whose upper ends must keep the limits; none compares what is expected.
        objective: what is made small: energy, time, money or carbon.
        caps: whether power limits below the board's own are tried.
    """

    num_devices: int = 8
    deadline_s: float | None = None
    max_money: float | None = None
    max_carbon_g: float | None = None
    confidence: float | None = None
    objective: str = "energy"
    caps: bool = True


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A config.json to look at.

    Attributes:
        text: the whole file.
        head: what it is trained with, where the file's own is not meant.
    """

    text: str
    head: str | None = None


def read_body(kind: type[msgspec.Struct], content: bytes) -> Any:
    """Read a body of JSON.

    Raises:
        FileError: not JSON, or a field that is missing, unknown or of the wrong type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise FileError("the request is not understood", given=str(error), hint="GET /openapi.json") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError("the request is not JSON", given=str(error)) from error


def read_config(content: str) -> Mapping[str, Any]:
    """Read the text of a config.json.

    Raises:
        FileError: it is no JSON object.
    """
    try:
        found = msgspec.json.decode(content.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileError("the model's configuration is not JSON", given=error).at("config.json") from error
    return expect_mapping("config.json", found)
