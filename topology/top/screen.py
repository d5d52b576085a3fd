"""The live screen of `heliograph top`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Static

from topology.problems import DeployError
from topology.top.show import Table, headline_of, tables_of
from topology.top.view import Snapshot, view_of

TITLES: Final = ("Clusters", "Links", "Brokers", "Groups")


class TopScreen(App[None]):
    """Tables of clusters, links, brokers and groups, taken again at an interval."""

    CSS = """
    #headline { height: 1; text-style: bold; padding: 0 1; }
    DataTable { height: auto; max-height: 50%; border: round $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("p", "pause", "pause or go on"),
    ]

    def __init__(self, take: Callable[[], Snapshot], interval_s: float) -> None:
        """`take` returns a snapshot, or raises DeployError; it runs in a thread."""
        super().__init__()
        self._take = take
        self._interval_s = interval_s
        self._before: Snapshot | None = None
        self._is_paused = False

    def compose(self) -> ComposeResult:
        yield Static("asking every process ...", id="headline", markup=False)
        with VerticalScroll():
            for title in TITLES:
                table: DataTable[str] = DataTable(id=title.lower(), cursor_type="none")
                table.border_title = title
                yield table
        yield Footer()

    def on_mount(self) -> None:
        self.take_and_show()
        self.set_interval(self._interval_s, self.take_and_show)

    def action_pause(self) -> None:
        """Keep the present rows, or go on."""
        self._is_paused = not self._is_paused
        self.query_one("#headline", Static).set_class(self._is_paused, "-paused")

    @work(thread=True, exclusive=True, exit_on_error=False)
    def take_and_show(self) -> None:
        """Take a snapshot in a thread, and show it."""
        if self._is_paused:
            return
        try:
            now = self._take()
        except DeployError as error:
            self.call_from_thread(self._say, str(error))
            return
        before, self._before = self._before, now
        view = view_of(now, before)
        self.call_from_thread(self._say, headline_of(view))
        self.call_from_thread(self._show, tables_of(view))

    def _say(self, text: str) -> None:
        self.query_one("#headline", Static).update(text)

    def _show(self, tables: list[Table]) -> None:
        for each in tables:
            shown: DataTable[str] = self.query_one(f"#{each.title.lower()}", DataTable)
            if not shown.columns:
                shown.add_columns(*each.columns)
            shown.clear()
            shown.add_rows(each.rows)
