"""One reader a form. A form is recognised by its content; a new one is a file and a line in `gate/reading.py`."""
