"""What the paper leaves open in its laws, as one value: how C is counted, where eta_h comes from, which errors."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

from wattlaw.errors import ConfigError
from wattlaw.features.paper import COMPUTE_DEFINITIONS, PROXY_SOURCES, ComputeDefinition, ProxySource
from wattlaw.law.laws import law_named
from wattlaw.law.paper.additive import AdditiveLaw, Weighting
from wattlaw.law.paper.least_squares import COVARIANCES, Covariance
from wattlaw.law.paper.power import PowerLaw
from wattlaw.law.paper.scaling import Efficiency, PaperLaw

if TYPE_CHECKING:
    from wattlaw.law.calibration import Calibration
    from wattlaw.law.protocol import Law

#: Text columns that may have a fixed effect.
EFFECTS = ("strategy", "architecture", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperOptions:
    """Choices of the paper, additive and power laws; every other law leaves them alone.

    Attributes:
        compute: ``eq2``, as the paper states it, or ``artifact``, as the data of its follow-up counts.
        proxies: C, M and steps as a ``spec`` implies them, which is all that is known before the run, or as each
            record ``observed`` them, as the authors fitted.
        efficiency: where eta_h comes from, see ``PaperLaw``.
        covariance: of the coefficients. ``None``: HC3 in the fit, as the paper has it, and by configuration family
            in the diagnosis, which shows both.
        effects: text columns with one effect per level.
        weighting: of the additive law's least squares.
    """

    compute: ComputeDefinition = "eq2"
    proxies: ProxySource = "spec"
    efficiency: Efficiency = "speedup"
    covariance: Covariance | None = None
    effects: tuple[str, ...] = ("strategy",)
    weighting: Weighting = "absolute"

    def __post_init__(self) -> None:
        """Refuse what no law knows; the laws refuse the rest."""
        known = {"compute": COMPUTE_DEFINITIONS, "proxies": PROXY_SOURCES, "covariance": (None, *COVARIANCES)}
        for name, values in known.items():
            if getattr(self, name) not in values:
                allowed = ", ".join(str(value) for value in values if value)
                raise ConfigError(f"unknown {name}", given=getattr(self, name), allowed=allowed)
        unknown = [effect for effect in self.effects if effect not in EFFECTS]
        if unknown:
            raise ConfigError("no column of fixed effects", given=", ".join(unknown), allowed=", ".join(EFFECTS))

    @classmethod
    def of(cls, calibration: Calibration) -> Self:
        """Read back the choices that a calibration was fitted with."""
        options: dict[str, object] = dict(calibration.options)
        if "effects" in options:
            options["effects"] = tuple(calibration.options["effects"].split())
        return cls(**{one.name: options[one.name] for one in fields(cls) if one.name in options})  # type: ignore[arg-type]

    def applied(self, law: Law) -> Law:
        """Return the law with these choices; a law that has none of them comes back as it is."""
        robust = self.covariance or "HC3"
        match law:
            case PaperLaw():
                return replace(law, efficiency=self.efficiency, fixed_effects=self.effects, covariance=robust)
            case PowerLaw():
                return replace(law, covariance=robust)
            case AdditiveLaw():
                return replace(law, weighting=self.weighting)
            case _:
                return law


def law_of(calibration: Calibration) -> Law:
    """Return the law of a calibration with the choices that it was fitted with.

    Raises:
        UnknownNameError: no such law.
    """
    return PaperOptions.of(calibration).applied(law_named(calibration.law))
