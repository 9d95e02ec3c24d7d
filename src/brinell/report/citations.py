"""Which papers the attacks of a run come from, as plain entries; the numbers are those on the attacks' own cards."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """One paper, as a reader cites it."""

    key: str
    authors: str
    title: str
    venue: str
    """Where it was published, abbreviated."""
    year: int
    arxiv: str
    """Its number there."""

    def __str__(self) -> str:
        return f"{self.authors}. {self.title}. {self.venue} {self.year}. arXiv:{self.arxiv}"

    def bibtex(self) -> str:
        """The entry for a bibliography."""
        fields = {
            "author": self.authors.replace(", ", " and ").replace(" & ", " and "),
            "title": f"{{{self.title}}}",
            "booktitle": self.venue,
            "year": str(self.year),
            "eprint": self.arxiv,
            "archiveprefix": "arXiv",
        }
        return f"@inproceedings{{{self.key},\n" + "".join(f"  {k} = {{{v}}},\n" for k, v in fields.items()) + "}"


FGSM = Paper(
    key="goodfellow2015explaining",
    authors="I. J. Goodfellow, J. Shlens & C. Szegedy",
    title="Explaining and Harnessing Adversarial Examples",
    venue="ICLR",
    year=2015,
    arxiv="1412.6572",
)
PGD = Paper(
    key="madry2018towards",
    authors="A. Madry, A. Makelov, L. Schmidt, D. Tsipras & A. Vladu",
    title="Towards Deep Learning Models Resistant to Adversarial Attacks",
    venue="ICLR",
    year=2018,
    arxiv="1706.06083",
)
AUTOATTACK = Paper(
    key="croce2020reliable",
    authors="F. Croce & M. Hein",
    title="Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks",
    venue="ICML",
    year=2020,
    arxiv="2003.01690",
)
FAB = Paper(
    key="croce2020minimally",
    authors="F. Croce & M. Hein",
    title="Minimally distorted Adversarial Examples with a Fast Adaptive Boundary Attack",
    venue="ICML",
    year=2020,
    arxiv="1907.02044",
)
SQUARE = Paper(
    key="andriushchenko2020square",
    authors="M. Andriushchenko, F. Croce, N. Flammarion & M. Hein",
    title="Square Attack: a query-efficient black-box adversarial attack via random search",
    venue="ECCV",
    year=2020,
    arxiv="1912.00049",
)
L1_APGD = Paper(
    key="croce2021mind",
    authors="F. Croce & M. Hein",
    title="Mind the box: l1-APGD for sparse adversarial attacks on image classifiers",
    venue="ICML",
    year=2021,
    arxiv="2103.01208",
)
A3 = Paper(
    key="liu2022practical",
    authors="Y. Liu, Y. Cheng, L. Gao, X. Liu, Q. Zhang & J. Song",
    title="Practical Evaluation of Adversarial Robustness via Adaptive Auto Attack",
    venue="CVPR",
    year=2022,
    arxiv="2203.05154",
)
ODI = Paper(
    key="tashiro2020diversity",
    authors="Y. Tashiro, Y. Song & S. Ermon",
    title="Diversity can be Transferred: Output Diversification for White- and Black-box Attacks",
    venue="NeurIPS",
    year=2020,
    arxiv="2003.06878",
)

TRANSFER = Paper(
    key="papernot2016transferability",
    authors="N. Papernot, P. McDaniel & I. Goodfellow",
    title="Transferability in Machine Learning: from Phenomena to Black-Box Attacks using Adversarial Samples",
    venue="arXiv",
    year=2016,
    arxiv="1605.07277",
)
EOT = Paper(
    key="athalye2018obfuscated",
    authors="A. Athalye, N. Carlini & D. Wagner",
    title="Obfuscated Gradients Give a False Sense of Security: Circumventing Defenses to Adversarial Examples",
    venue="ICML",
    year=2018,
    arxiv="1802.00420",
)
MOMENTUM = Paper(
    key="dong2018boosting",
    authors="Y. Dong, F. Liao, T. Pang, H. Su, J. Zhu, X. Hu & J. Li",
    title="Boosting Adversarial Attacks with Momentum",
    venue="CVPR",
    year=2018,
    arxiv="1710.06081",
)

OF_ATTACK: dict[str, tuple[Paper, ...]] = {
    "fgsm": (FGSM,),
    "pgd": (PGD,),
    "apgd": (AUTOATTACK,),
    "apgd-l1": (L1_APGD,),
    "fab": (FAB,),
    "fab-t": (FAB, AUTOATTACK),
    "square": (SQUARE,),
    "a3": (A3, ODI),
    "transfer": (TRANSFER,),
    "chance": (EOT, MOMENTUM),
}
"""The sources on each attack's card, the algorithm's own first."""

OF_SUITE: dict[str, tuple[Paper, ...]] = {
    "a3": (A3,),
    "apgd": (AUTOATTACK,),
    "autoattack": (AUTOATTACK,),
    "autoattack-plus": (AUTOATTACK,),
    "autoattack-rand": (AUTOATTACK,),
}
"""The programmes that were published under a suite's name or in the part that it runs."""


def papers_of(suite: str, attacks: Iterable[str]) -> list[Paper]:
    """The papers behind a suite and the attacks of it that were run, each once, the suite's first.

    An attack that this version does not know brings none.
    """
    found = list(OF_SUITE.get(suite.partition(" + ")[0], ()))
    for attack in attacks:
        found += OF_ATTACK.get(attack, ())
    return list(dict.fromkeys(found))


def source_of(attack: str) -> str:
    """How an attack's paper is named beside its figures: its first author, its year and its number."""
    papers = OF_ATTACK.get(attack, ())
    return "; ".join(f"{_surnames(paper.authors)} {paper.year} (arXiv:{paper.arxiv})" for paper in papers[:1])


def _surnames(authors: str) -> str:
    names = [name.rpartition(". ")[2] for name in authors.replace(" & ", ", ").split(", ")]
    return names[0] + (f" & {names[1]}" if len(names) == 2 else " et al." if len(names) > 2 else "")
