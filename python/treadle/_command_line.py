# SPDX-License-Identifier: Apache-2.0
"""Arguments of programs in Python, whose mistakes are told as the program `treadle` tells them."""
import argparse
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from ._arguments import suggest

_EXPECTED = {"int": "a whole number", "float": "a number", "_address": "host:port"}


class Parser(argparse.ArgumentParser):
    """`meant`: options of other programs, and what is called otherwise here."""

    def __init__(self, prog: str, meant: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(prog=prog, **options)
        self._meant = dict(meant or {})

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {self._said(message)}\nhelp: {self.prog} --help lists its arguments\n")

    def _said(self, message):
        """A message of argparse in the program's words."""
        name, _, what = re.sub(r"^argument (-\w/)?", "", message).partition(": ")
        if match := re.match(r"invalid choice: (.*) \(choose from (.*)\)", what):
            known = re.sub("'", "", match[2]).split(", ")
            given = match[1].strip("'")
            return f"{name}: expected one of {', '.join(known)}, got '{given}'{suggest(given, known)}"
        if match := re.match(r"invalid (\w+) value: '(.*)'", what):
            return f"{name}: expected {_EXPECTED.get(match[1], match[1])}, got '{match[2]}'"
        if what == "expected one argument":
            return f"{name} needs a value"
        if match := re.match(r"not allowed with argument (?:-\w/)?(.*)", what):
            return f"{name} and {match[1]} contradict each other"
        if name == "the following arguments are required":
            return re.sub(r"^-\w/", "", what.split(", ")[0]) + " is required"
        if name == "unrecognized arguments":
            return self._unknown(what.split(" ")[0])
        return message

    def _unknown(self, argument):
        program = self.prog.rsplit(" ", 1)[-1]
        if not argument.startswith("-"):
            return f"unexpected argument '{argument}' for {program}"
        option = argument.split("=")[0]
        known = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        meant = f"; did you mean '{self._meant[option]}'?" if option in self._meant else suggest(option, known)
        return f"{program} has no option '{option}'{meant}"
