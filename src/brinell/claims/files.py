"""Claims in files: read, written, and the schema that they follow."""

import json
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from brinell.claims.claim import FORMAT, Claim
from brinell.errors import BadInput


def read_claim(path: Path) -> Claim:
    """The claim in a TOML or JSON file.

    Raises
    ------
    BadInput
        If the file cannot be read or is not a claim; all faults are named at once.
    """
    subject = f"claim {path}"
    try:
        text = path.read_text("utf-8")
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        got = getattr(error, "strerror", None) or "a file that is not text"
        raise BadInput(subject, got=got, expected="a TOML or JSON file", remedy="Check the path.") from None
    except ValueError as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise BadInput(subject, got=str(error), expected=kind, remedy="Mend the line named.") from None
    if isinstance(table, dict) and "claim_fields" in table:  # a run's result.json
        table = table["claim_fields"]
    return claim_from(table, subject)


def claim_from(table: Any, subject: str) -> Claim:
    """The claim that a table describes; see ``read_claim``."""
    try:
        return Claim.model_validate(table)
    except (ValidationError, OverflowError) as error:
        if isinstance(error, OverflowError):
            raise BadInput(subject, got=str(error), expected="numbers of this world", remedy="Mend it.") from None
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'].removeprefix('Value error, ').lower()}"
            for fault in error.errors()
        ]
        raise BadInput(
            subject,
            got="; ".join(faults),
            expected="a claim",
            remedy="See docs/claims.md, or `brinell check --schema` for the schema.",
        ) from None


def schema() -> dict[str, Any]:
    """The JSON Schema of a claim."""
    return {"$id": f"urn:brinell:claim:{FORMAT}", **Claim.model_json_schema()}


def written(claim: Claim) -> str:
    """The claim as a TOML file that reads back as the same."""
    table = claim.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return tomli_w.dumps({"format": FORMAT, **table})
