"""The same in a browser: a page on this machine, and the JSON interface that it is made of.

::

    server    routes, headers, limits; who may ask
    bodies    what a request may hold, as values; inputs are data, never paths or code
    answers   a request's value -> an answer's value; parse, call, render
    worker    fits of uploaded records, each in a process of its own that ends with it
    openapi   the description of the interface, from the values above
    static    the page: plain HTML, style and scripts of our own, nothing from anywhere else

Nothing is kept between two requests: whoever asks sends everything, so that nobody sees another one's data.
"""
