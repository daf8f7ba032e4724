"""Pieces of a page as HTML. Every text is escaped here, so callers hand over plain text."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from infopt.reports.pages.charts import Chart, chart_rows


class Html(str):
    """HTML made by this module. Any other text is escaped where it is put in."""

    __slots__ = ()


def paragraph(text: str, soft: bool = False) -> Html:
    return Html(f'<p class="soft">{put(text)}</p>' if soft else f"<p>{put(text)}</p>")


def code(text: str) -> Html:
    return Html(f"<code>{escape(text)}</code>")


def code_block(text: str, label: str) -> Html:
    """Text to copy, its lines as they are; `label` says what it is."""
    return Html(f'<pre tabindex="0" role="region" aria-label="{escape(label)}"><code>{escape(text)}</code></pre>')


def datum(key: str, value: float | None, text: str) -> Html:
    """A figure of the result: `key` its path in `--json` (memory.kv_share), `value` in base units, `text` as read."""
    number = "" if value is None else repr(value)
    return Html(f'<data data-key="{escape(key)}" value="{number}">{escape(text)}</data>')


def verdict(status: str, headline: str, text: str) -> Html:
    """The answer in one line; status: pass, fail or open."""
    return Html(f'<p class="verdict {escape(status)}"><strong>{escape(headline)}</strong>: {escape(text)}</p>')


def put(content: str) -> str:
    """HTML as it is, text escaped."""
    return content if isinstance(content, Html) else escape(content)


def facts(rows: Iterable[tuple[str, str]]) -> Html:
    """Labelled texts."""
    lines = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{put(text)}</td></tr>' for name, text in rows)
    return Html(f'<table class="facts">{lines}</table>')


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", numeric: Sequence[int] = ()
) -> Html:
    """Rows under column heads; `numeric` columns are aligned to the right."""

    def one(tag: str, i: int, text: str) -> str:
        kind = ' class="number"' if i in numeric else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{scope}{kind}>{put(text)}</{tag}>"

    head = "".join(one("th", i, name) for i, name in enumerate(columns))
    body = "".join(f"<tr>{''.join(one('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows)
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    # A wide table scrolls by itself, by keyboard too.
    return Html(
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption or "table")}">'
        f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


class Section(Html):
    """A part of a page with its title, which links of the page lead to."""

    id: str
    heading: str


def section(title: str, *parts: Html, note: str = "") -> Section:
    """A titled part. Figures directly in it stand two beside each other where there is room."""
    id = f"part-{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}"
    soft = f'<p class="soft">{escape(note)}</p>' if note else ""
    made = Section(f'<section id="{id}"><h2>{escape(title)}</h2>{soft}{"".join(parts)}</section>')
    made.id, made.heading = id, title
    return made


def subtitle(text: str) -> Html:
    """What the next blocks of a section are about."""
    return Html(f"<h3>{escape(text)}</h3>")


def links(sections: Iterable[Section]) -> Html:
    """Links to sections of this page."""
    items = "".join(f'<li><a href="#{one.id}">{escape(one.heading)}</a></li>' for one in sections)
    return Html(f'<nav class="parts" aria-label="On this page"><ul>{items}</ul></nav>')


def above(text: str, below: str) -> Html:
    """A text, and below it one that is said more quietly."""
    return Html(f'{put(text)}<div class="soft">{put(below)}</div>')


def words(rows: Iterable[tuple[str, str]]) -> Html:
    """Words and what they mean."""
    lines = "".join(f"<dt>{put(word)}</dt><dd>{put(meaning)}</dd>" for word, meaning in rows)
    return Html(f'<dl class="words">{lines}</dl>')


def listing(texts: Iterable[str]) -> Html:
    """A bulleted list."""
    return Html(f"<ul>{''.join(f'<li>{put(text)}</li>' for text in texts)}</ul>")


def details(summary: str, *parts: Html) -> Html:
    """Parts that open on demand."""
    return Html(f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>")


def figure(chart: Chart) -> Html:
    """The place of a chart, what it shows in words, and its data as a table for those who cannot see it."""
    columns, rows = chart_rows(chart)
    data = details("Data of this chart", table(columns, rows, chart.title, range(1, len(columns))))
    return Html(
        f'<figure class="chart {escape(chart.kind)}" id="{escape(chart.id)}"><div class="plot" role="img" '
        f'aria-label="{escape(f"{chart.title}. {chart.description}")}"></div>'
        f"<figcaption><strong>{escape(chart.title)}</strong> {escape(chart.description)}</figcaption>{data}</figure>"
    )
