"""Commands that ask whether a figure can be believed, and what follows from it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from brinell.commands.app import (
    NO_OPTIONS,
    Options,
    app,
    spec_from,
    subject_from,
)
from brinell.errors import EXIT_DONE, EXIT_OPEN, EXIT_VERIFICATION_FAILED, BadInput

if TYPE_CHECKING:
    from brinell.diagnose.diagnosis import Diagnosis


@app.command
def doctor(
    spec: Path | None = None, /, *, options: Options = NO_OPTIONS, planted: bool = False, json: bool = False
) -> int:
    """Say before an attack what is wrong with model, data and threat model; attacks nothing.

    Parameters
    ----------
    spec
        A TOML file that says what is evaluated; options override it.
    planted
        Plant adversarial examples behind the model on 16 rows, and see whether the suite finds them; takes minutes.
    json
        Print the checks as JSON.
    """
    from brinell.doctor import examined

    subject = subject_from(spec_from(spec, options))
    diagnoses = examined(subject)
    if planted:
        from brinell.planted import planted_examples

        diagnoses = (*diagnoses, planted_examples(subject))
    return _diagnosed(diagnoses, json=json)


@app.command
def diagnose(folder: Path, /, *, json: bool = False) -> int:
    """Say whether a run's figure can be trusted: what speaks against it, what that means, and what to do next.

    Parameters
    ----------
    folder
        The run's folder.
    json
        Print the checks as JSON.
    """
    from brinell.result import read_run

    return _diagnosed(read_run(folder).diagnoses, json=json)


def _diagnosed(diagnoses: "tuple[Diagnosis, ...]", *, json: bool) -> int:
    from brinell.report.findings import diagnoses_as_json, diagnoses_as_text

    (diagnoses_as_json if json else diagnoses_as_text)(diagnoses)
    return EXIT_OPEN if any(diagnosis.open for diagnosis in diagnoses) else EXIT_DONE


@app.command
def compare(
    *sources: str,
    robustbench: Path | None = None,
    json: bool = False,
) -> int:
    """Say what follows from two claims, and what does not; of more than two, which are comparable at all.

    Parameters
    ----------
    sources
        The folder of a run, a claim (.toml or .json), or robustbench:DATASET/THREAT/MODEL; two or more.
    robustbench
        The folder model_info of a checkout of RobustBench's repository. [default: $BRINELL_ROBUSTBENCH]
    json
        Print the verdict as JSON.
    """
    from brinell.claims.compare import compare as compared
    from brinell.claims.groups import grouped
    from brinell.claims.sources import account_from
    from brinell.report import claims as shown

    if len(sources) < 2 or len({os.path.realpath(source) for source in sources}) < len(sources):
        raise BadInput(
            "compare",
            got=" ".join(sources) or "nothing",
            expected="two sources or more, each once",
            remedy="Name them.",
        )
    accounts = [account_from(source, robustbench) for source in sources]
    if len(accounts) > 2:
        groups = grouped(accounts)
        (shown.groups_as_json if json else shown.groups_as_text)(groups)
        followed = any(verdict.better is not None for group in groups for verdict in group.against_first)
        return EXIT_DONE if followed else EXIT_OPEN
    verdict = compared(*accounts)
    (shown.verdict_as_json if json else shown.verdict_as_text)(verdict)
    return EXIT_OPEN if verdict.better is None else EXIT_DONE


@app.command
def check(
    source: str | None = None,
    /,
    *,
    robustbench: Path | None = None,
    schema: bool = False,
    json: bool = False,
) -> int:
    """Ask of a claim what a reader must ask: each question answered, or missing, and what cannot be concluded.

    Parameters
    ----------
    source
        A claim from a paper or a slide (.toml or .json), the folder of a run, or robustbench:DATASET/THREAT/MODEL.
    robustbench
        The folder model_info of a checkout of RobustBench's repository. [default: $BRINELL_ROBUSTBENCH]
    schema
        Print the JSON Schema of a claim instead.
    json
        Print the answers as JSON.
    """
    from brinell.report import claims as shown

    if schema:
        shown.schema_as_json()
        return EXIT_DONE
    if source is None:
        raise BadInput("check", got="nothing", expected="a claim, a run or an entry", remedy="Name it.")
    from brinell.claims.sources import account_from

    claim = account_from(source, robustbench).claim
    return EXIT_DONE if (shown.questions_as_json if json else shown.questions_as_text)(source, claim) else EXIT_OPEN


@app.command
def selftest(
    *,
    suite: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    rows: int | None = None,
    all: bool = False,
    list: bool = False,
    json: bool = False,
) -> int:
    """Attack defences whose true robust accuracy is known, and say how near to it a suite's figures are.

    Parameters
    ----------
    suite
        Suites, each for the defences that it is meant for. [default: brinell brinell-rand]
    only
        Defences by name. [default: the quick ones]
    rows
        How many rows of each, up to 400. [default: 40]
    all
        Every defence.
    list
        Say what the defences are instead; attacks nothing.
    json
        Print the verdicts as JSON.
    """
    from brinell import selftest as test
    from brinell.defences.catalogue import defences, defences_named
    from brinell.report import selftest as shown

    if list:
        shown.defences_as_text(defences_named(only) if only else defences())
        return EXIT_DONE
    trials = test.trials(only, suite or test.SUITES, rows=test.ROWS if rows is None else rows, everything=all)
    ended = (shown.trials_as_json if json else shown.trials_as_text)(trials)
    return EXIT_VERIFICATION_FAILED if any(trial.outcome == "below the truth" for trial in ended) else EXIT_DONE
