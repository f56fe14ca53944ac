"""Figures: one description each, for PNG, SVG, a page, and a table of the same numbers.

Altair with vl-convert draws them without a browser; matplotlib would need a second library for the page.

::

    drawing      a figure as a value, its style, and SVG that follows light and dark
    energy_time  fastest against greenest
    records      the paper's figures 1 to 7 for any records
    fit          figure 8, and the diagnostics of any fit
    run          where a run's energy and time go, and its roofline
    saving       figures as pages, PNG and SVG
"""

from wattlaw.report.figures.energy_time import energy_against_time
from wattlaw.report.figures.saving import save

__all__ = ["energy_against_time", "save"]
