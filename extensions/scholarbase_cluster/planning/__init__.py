"""What a library of any size needs, computed from measurements of small ones (``scholarbase plan``)."""
