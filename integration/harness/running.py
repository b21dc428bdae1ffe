"""Reading what a program prints while it runs."""

import json
import queue
import threading
import time


def line(text):
    """The first line of the text and what comes after it; None as long as it isn't complete."""
    first, end, rest = text.partition("\n")
    return (first, rest) if end else None


def json_value(text):
    """The first JSON value of the text and what comes after it, as `line`."""
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return None
    return value, text.lstrip()[end:]


class Running:
    """A program that goes on until it is stopped; what it prints is read piece by piece."""

    def __init__(self, process, limit_s):
        self.process = process
        self.limit_s = limit_s
        self.printed = queue.Queue()
        self.rest = ""
        self.errors = []
        for read in (self.read_output, self.read_errors):
            threading.Thread(target=read, daemon=True).start()

    def read_output(self):
        while chunk := self.process.stdout.read1():
            self.printed.put(chunk.decode())
        self.printed.put(None)

    def read_errors(self):
        self.errors.extend(self.process.stderr or [])

    def until(self, what, wanted, piece=line):
        """Reads on until a piece is wanted, and gives what `wanted` says of it."""
        deadline = time.monotonic() + self.limit_s
        while True:
            while cut := piece(self.rest):
                first, self.rest = cut
                if found := wanted(first):
                    return found
            try:
                printed = self.printed.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                printed = None
            if printed is None:
                raise AssertionError(f"{what}: not printed within {self.limit_s} s or before its end; the rest was "
                                     f"{self.rest!r}, errors {b''.join(self.errors).decode()}")
            self.rest += printed

    def stop(self):
        """Ends it as a user does, with a signal, so that it takes its leave."""
        self.process.terminate()
        self.process.wait(timeout=self.limit_s)
