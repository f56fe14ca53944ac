"""From run specs and records to named columns with units: all that a law sees of a run.

::

    table     columns of one length
    batch     runs that differ in numbers only, as one run whose numbers are columns
    physical  the step law's columns: work, traffic and collectives of one device
    paper     the paper's columns: proxies and hardware efficiency
    records   both, beside what was measured
"""
