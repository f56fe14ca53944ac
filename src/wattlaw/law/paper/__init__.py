"""The laws of arXiv 2606.23546, their apparatus and the protocol that the paper judges them by.

::

    scaling        the scaling law, equation (13)       power          the same without efficiency and effects
    additive       the additive roofline, equation (4)  bounds         least time and energy, theorem 3.2
    log_linear     what power and scaling share         least_squares  ordinary least squares, robust errors
    diagnostics    influence, inflation, normality      bootstrap      intervals from resampled residuals
    published      the paper's own coefficients         protocol       its splits and figures
    checkup        the diagnosis of a fit to records
"""

from wattlaw.law.paper.additive import AdditiveLaw
from wattlaw.law.paper.power import PowerLaw
from wattlaw.law.paper.scaling import PaperLaw

__all__ = ["AdditiveLaw", "PaperLaw", "PowerLaw"]
