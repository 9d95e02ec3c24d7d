"""Claims on the screen: a verdict, a table of groups, and a reader's questions; for people or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from brinell.claims.account import Account
from brinell.claims.claim import Claim
from brinell.claims.files import schema
from brinell.claims.groups import Group
from brinell.claims.questions import not_concluded, questions
from brinell.claims.verdict import Verdict, points
from brinell.report.show import stdout


def verdict_as_text(verdict: Verdict) -> None:
    """The verdict, then each sentence that led to it."""
    console = stdout()
    style = "bold" if verdict.better is not None else "bold yellow"
    console.print(Text(verdict.sentence, style=style), soft_wrap=True)
    for reason in verdict.reasons:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    for name, fields in (("differ", verdict.differs), ("unstated", verdict.unstated)):
        if fields:
            console.print(Text(f"  {name}: {', '.join(fields)}", style="yellow"), soft_wrap=True)


def verdict_as_json(verdict: Verdict) -> None:
    """The same as JSON."""
    print(json.dumps(_verdict(verdict), indent=2))


def groups_as_text(groups: Sequence[Group]) -> None:
    """A table for each group, under what its claims have in common. No ranking goes across groups."""
    console = stdout()
    for number, group in enumerate(groups):
        if number:
            console.print()
        claim = group.first.claim
        console.print(Text(conditions(claim), style="bold"), soft_wrap=True)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for heading in ("claim", heading_of(claim), "beside the first", "verdict"):
            table.add_column(heading)
        for place, account in enumerate(group.accounts):
            beside = ("", "") if place == 0 else _beside(account, group.against_first[place - 1])
            table.add_row(Text(account.name), Text(str(account.claim.figure)), *map(Text, beside))
        console.print(table)
    if len(groups) > 1:
        console.print()
        console.print(
            f"{len(groups)} groups: across them figures are not comparable. For what follows from two of them all the same, "
            "compare these two.",
            soft_wrap=True,
        )


def groups_as_json(groups: Sequence[Group]) -> None:
    """The same as JSON."""
    table = [
        {
            "conditions": conditions(group.first.claim),
            "claims": [_account(account) for account in group.accounts],
            "beside_the_first": [_verdict(verdict) for verdict in group.against_first],
        }
        for group in groups
    ]
    print(json.dumps({"groups": table}, indent=2))


def questions_as_text(name: str, claim: Claim) -> bool:
    """The claim, each question with its answer, and what does not follow; whether all were answered."""
    console = stdout()
    console.print(Text(f"{name}: {claim.line()}", style="bold"), soft_wrap=True)
    console.print()
    asked = questions(claim)
    table = Table.grid(padding=(0, 2))
    for question in asked:
        known = question.answer is not None
        table.add_row(
            Text("✓" if known else "?", style="green" if known else "bold yellow"),
            Text(question.asks),
            Text(question.answer or "missing", style="" if known else "yellow"),
        )
    console.print(table)
    open_ones = [question for question in asked if question.answer is None]
    if open_ones:
        console.print()
        console.print(f"{len(open_ones)} of {len(asked)} questions are open, and this is why they matter:")
        for question in open_ones:
            console.print(Text(f"  {question.asks} {question.why}"), soft_wrap=True)
    console.print()
    console.print("What cannot be concluded:")
    for sentence in not_concluded(claim):
        console.print(Text(f"  {sentence}"), soft_wrap=True)
    return not open_ones


def questions_as_json(name: str, claim: Claim) -> bool:
    """The same as JSON."""
    asked = questions(claim)
    table = {
        "claim": name,
        "line": claim.line(),
        "questions": [asdict(question) for question in asked],
        "missing": claim.missing(),
        "cannot_be_concluded": not_concluded(claim),
    }
    print(json.dumps(table, indent=2))
    return all(question.answer is not None for question in asked)


def schema_as_json() -> None:
    """The JSON Schema of a claim."""
    print(json.dumps(schema(), indent=2))


def conditions(claim: Claim) -> str:
    """What all claims of a group have in common: data, threat model, suite."""
    data = claim.data
    name = data.known_as or data.name or "data unstated"
    rows = f" rows {data.rows}" if data.rows else ""
    budget = f", budget {claim.suite.budget}" if claim.suite.budget else ""
    return f"{name}{rows} | {claim.threat.describe()} | {claim.suite.describe()}{budget}"


def heading_of(claim: Claim) -> str:
    """What a column of such figures must be called."""
    if claim.quantity == "attack success rate":
        return f"attack success rate ({claim.kind}, {'lower' if claim.upper else 'upper'} bound)"
    bound = "upper bound" if claim.kind == "empirical" else "lower bound"
    return f"{claim.quantity} ({claim.kind}, {bound})"


def _beside(account: Account, verdict: Verdict) -> tuple[str, str]:
    paired = verdict.paired
    difference = ""
    if paired is not None:
        low, high = paired.interval
        difference = (
            f"{points((paired.only_second - paired.only_first) / paired.rows)} points [{points(-high)}, {points(-low)}], "
            f"paired, p {paired.p:.2g}"
        )
    if verdict.better is None:
        return difference, verdict.outcome
    higher = verdict.better == account.name
    told = {"more robust": ("less robust", "more robust"), "stands higher": ("stands lower", "stands higher")}
    return difference, told[verdict.outcome][higher]


def _account(account: Account) -> dict[str, Any]:
    return {"name": account.name, "line": account.claim.line(), "claim": account.claim.model_dump(mode="json")}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": verdict.sentence, **asdict(verdict)}
