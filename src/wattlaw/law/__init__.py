"""Laws: from columns to energy and time, with parameters, intervals and a verdict.

::

    protocol     what every law offers          laws        the laws by name
    step         the physical law of a step     hierarchy   its fit, machine by machine
    paper        the paper's laws, apart        baselines   what others estimate by
    calibration  a law's parameters, as a file  bundled     the calibrations that wattlaw ships
    prediction   one run, with an interval      interval    from held-out residuals to ends
    residual     what a law leaves, interpolated  spread    how far a run may be off
    beyond       steps larger than those measured
    design       which runs teach most          suggestion  which of them to measure
    evaluation   how well a law predicts        covered     what the rows of a fit cover
"""
