"""Messages of argparse in the chosen language. Its own come in English, as strings, and are recognized here."""

from __future__ import annotations

import re

from opdiff.cli.language import said

# Messages by the code of the same sentence in the catalogue; groups are facts.
_MESSAGES = {
    "cli.missing_arguments": r"the following arguments are required: (?P<names>.*)",
    "cli.one_argument_required": r"one of the arguments (?P<names>.*) is required",
    "cli.value_expected": r"expected one argument",
    "cli.value_or_none_expected": r"expected at most one argument",
    "cli.values_expected": r"expected at least one argument",
    "cli.no_value_expected": r"ignored explicit argument (?P<value>.*)",
    "cli.invalid_choice": r"invalid choice: (?P<value>.*) \(choose from (?P<choices>.*)\)",
    "cli.invalid_value": r"invalid (?P<type>\S*) value: (?P<value>.*)",
    "cli.not_allowed_with": r"not allowed with argument (?P<other>.*)",
}
_OF_ARGUMENT = r"argument (?P<name>\S+): (?P<problem>.*)"


def translated(message: str) -> str:
    """Return a message of argparse in the chosen language; unchanged if it is none of the known ones."""
    about = re.fullmatch(_OF_ARGUMENT, message, re.DOTALL)
    if about:
        return said("cli.of_argument", name=about["name"], problem=translated(about["problem"]))
    found = ((code, re.fullmatch(pattern, message, re.DOTALL)) for code, pattern in _MESSAGES.items())
    return next((said(code, **match.groupdict()) for code, match in found if match), message)
