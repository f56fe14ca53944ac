"""Laws: from columns to energy and time, with parameters, intervals and a verdict.

::

    protocol     what every law offers          laws        the laws by name
    step         the physical law of a step     hierarchy   its fit, machine by machine
    paper, power, additive                      the paper's laws and yardsticks
    calibration  a law's parameters, as a file  bundled     the calibrations that wattlaw ships
    prediction   one run, with an interval      interval    from held-out residuals to ends
    evaluation   how well a law predicts
"""
