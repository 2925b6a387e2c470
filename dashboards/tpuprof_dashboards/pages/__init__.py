"""The pages, in the order of the menu. Each has a module here with ``render(page)``, imported when it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Needs = Literal["nothing", "run", "pair"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One page.

    Args:
        slug: its name in URLs.
        title: its name in the menu.
        icon: its Material symbol.
        section: where in the menu it stands.
        summary: what it answers.
        needs: nothing, an open run, or two of them.
        default: the page of the bare address.
    """

    slug: str
    title: str
    icon: str
    section: str
    summary: str
    needs: Needs = "run"
    default: bool = False

    @property
    def module(self) -> str:
        """The module under ``tpuprof_dashboards.pages``."""
        return self.slug


_ENTRIES = (
    Entry("runs", "Runs", ":material/list:", "Runs", "What is in the log directory.", "nothing"),
    Entry("overview", "Overview", ":material/speed:", "Runs",
          "Where the step time goes, and what to do about it.", default=True),
    Entry("timeline", "Timeline", ":material/view_timeline:", "Time", "What ran when, on every core."),
    Entry("steps", "Steps & stragglers", ":material/bar_chart:", "Time",
          "How steps differ, and which cores hold others up."),
    Entry("idle", "Idle", ":material/hourglass_empty:", "Time", "Why devices wait, and what the host did meanwhile."),
    Entry("ops", "Ops", ":material/table_rows:", "Work", "Which ops take the time."),
    Entry("roofline", "Roofline", ":material/show_chart:", "Work",
          "How far each op is from what the hardware allows."),
    Entry("scopes", "Scopes", ":material/account_tree:", "Work", "Which parts of the model take the time."),
    Entry("collectives", "Collectives", ":material/hub:", "Work",
          "What communication costs, and what it could cost."),
    Entry("memory", "Memory", ":material/memory:", "Work", "What fills the memory at its peak."),
    Entry("compare", "Compare", ":material/compare_arrows:", "Change", "What changed between two runs.", "pair"),
    Entry("history", "History", ":material/timeline:", "Change",
          "How a program's step time went over many runs.", "nothing"),
    Entry("planner", "Planner", ":material/calculate:", "Plan and share",
          "How to split a model over chips, before it runs.", "nothing"),
    Entry("report", "Report", ":material/description:", "Plan and share", "The whole analysis as a file."),
)  # fmt: skip

PAGES = {entry.slug: entry for entry in _ENTRIES}
