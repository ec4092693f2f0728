"""Apply one edit to YAML text without a change of any other character.

The tree of `tui.domain.document.tree` has the span of each value; only this span is rewritten, so comments,
order, quotes and the layout of all other parts stay. If an alias or `<<` shares the value among several
paths, the edited path overrides the shared value by `<<` and a separate key. If `<<` can't express the
override, the edited path gets a copy first, and the other paths do not change. `splice_shared` changes the
shared value itself instead, for all paths that share it.
"""

from __future__ import annotations

from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.sharing import edited_slot, goes_by_value, own_index, slot_of
from tui.domain.document.source import is_merge, plain
from tui.domain.document.tree import YamlNode, parse
from tui.domain.spec import write


class CannotSplice(Exception):
    """The layout of the text does not allow this change in place."""


def splice(text: str, edit: Edit) -> str:
    """Return `text` after one edit whose parents all exist. Raises CannotSplice if the layout does not allow
    the edit; the caller rewrites a larger part."""
    for _ in range(100):
        tree = _Text(text)
        own = tree.owned(edit)
        if own is None:
            return tree.change(edit)
        text = own
    raise CannotSplice("aliases that never end")


def splice_shared(text: str, edit: Edit) -> str:
    """Return `text` after one edit at the definition of the value, for all paths that share it. Raises
    CannotSplice if the layout does not allow the edit."""
    return _Text(text).change_shared(edit)


class _Text:
    """A text with its tree; each change returns a new text."""

    def __init__(self, text: str) -> None:
        root = parse(text)
        if root is None:
            raise CannotSplice("an empty text")
        self.text, self.root = text, root
        self.aliases = [node for node in _inside(root) if node.kind == "alias"]
        self.newline = "\r\n" if "\r\n" in text else "\n"

    # Sharing

    def owned(self, edit: Edit) -> str | None:
        """Return the text with one shared node on the path of `edit` copied, or None if no node is shared."""
        node, flow, column = self.root, self.root.flow, 0
        for depth, part in enumerate(edit.path):
            last = depth == len(edit.path) - 1
            shared = self._overridden(node, part, flow, column, edit, last=last)
            if shared is None:
                shared = self._unshared(node, flow, column, {node})
            if shared == self.text:
                shared = None
            if shared is not None:
                return shared
            index = own_index(node, part)
            merged = index is None and isinstance(part, str) and slot_of(node, part).index is not None
            if merged and (not last or edit.value is REMOVED):
                return self._unmerged(node, None if last else str(part), flow)
            if index is None or index >= len(node.items):
                return None
            column = self._column(node)
            node = node.items[index]
            flow = flow or node.flow
        if edit.insert:
            return None
        if node.kind == "alias":
            return None
        return self._unshared(node, flow, column, set(_inside(node)))

    def _overridden(
        self, node: YamlNode, part: str | int, flow: bool, column: int, edit: Edit, *, last: bool
    ) -> str | None:
        """Return the text after one step towards an override of `part` by `<<`; None if the value stays
        shared. An unchanged text means that each other path has a separate value."""
        if not isinstance(part, str) or node.real.kind != "map" or not node.real.items:
            return None
        if node.kind == "alias":
            return None if last and edit.value is REMOVED else self._merging(node, flow, column)
        index = own_index(node, part)
        others = [alias for alias in self.aliases if alias.target is node]
        if index is None or not others or set(others) & set(_inside(node)):
            return None
        for alias in others:
            parent, flow, column = self._around(alias)
            if parent.kind != "map" or not is_merge(parent.keys[parent.items.index(alias)]):
                return self._merging(alias, flow, column)
            if own_index(parent, part) is None:
                return self._given_key(parent, part, node.items[index], flow or parent.flow, last=last)
        return self.text

    def _merging(self, alias: YamlNode, flow: bool, column: int) -> str | None:
        """Return the text in which a map merges the alias' target instead of the alias, or None."""
        parent, *_ = self._around(alias)
        merge = f"<<: *{alias.real.anchor}"
        if parent.kind == "map" and is_merge(parent.keys[parent.items.index(alias)]):
            return None
        if flow or alias.real.flow:
            return self._replaced(alias, f"{{{merge}}}")
        lead = "" if parent.kind == "list" else self.newline + " " * (column + 2)
        return self._replaced(alias, lead + merge)

    def _given_key(self, node: YamlNode, key: str, value: YamlNode, flow: bool, *, last: bool) -> str:
        """Add the merged value under the map's own key: as an alias if the edit continues inside."""
        if last or value.real.kind != "map" or not value.real.items or value.kind == "alias":
            raw = f"*{value.real.anchor}" if value.kind == "alias" else ""
            return self._add_key(node, key, plain(value), flow, raw=raw)
        if value.anchor is None:
            return self._anchored(value, key)
        return self._add_key(node, key, None, flow, raw=f"*{value.anchor}")

    def _anchored(self, value: YamlNode, key: str) -> str:
        """Return the text with an anchor, named like the key, at a map's value."""
        parent, *_ = self._around(value)
        anchors = {node.anchor for node in _inside(self.root)}
        names = (key, *(f"{key}-{number}" for number in range(2, len(anchors) + 3)))
        name = next(name for name in names if name not in anchors)
        at = self.text.index(":", parent.keys[parent.items.index(value)].end) + 1
        return f"{self.text[:at]} &{name}{self.text[at:]}"

    def _unshared(self, node: YamlNode, flow: bool, column: int, gone: set[YamlNode]) -> str | None:
        if node.kind == "alias":
            return self._replaced(node, self._value(node.real, flow, column))
        outside = [alias for alias in self.aliases if alias.target in gone]
        if outside:
            inside = set(_inside(node))
            for alias in outside:
                if alias not in inside:
                    return self._moved_anchor(alias, alias.real)
        return None

    def _moved_anchor(self, alias: YamlNode, owner: YamlNode) -> str:
        """Move the anchor to the first path that used it."""
        parent, flow, column = self._around(alias)
        flow = flow or (parent.kind == "map" and is_merge(parent.keys[parent.items.index(alias)]))
        copy = self._value(owner, flow, column, anchor=owner.anchor or "")
        text = self._replaced(alias, copy)
        others = [a for a in self.aliases if a.target is owner and a.start < alias.start]
        if others:
            return text
        mark = f"&{owner.anchor}"
        at = text.index(mark, owner.start)
        end = at + len(mark)
        while text[end : end + 1] == " ":
            end += 1
        if text[end : end + 1] in {"\n", "\r", ""}:
            at = len(text[:at].rstrip(" "))
        return text[:at] + text[end:]

    def _unmerged(self, node: YamlNode, expected: str | None, flow: bool) -> str:
        """Replace a key from `<<` with a key of the map itself; for None, replace all keys and remove
        `<<`."""
        flow = flow or node.flow
        if expected is not None:
            slot = slot_of(node, expected)
            assert slot.index is not None
            return self._given_key(node, expected, slot.holder.items[slot.index], flow, last=False)
        text, own = self.text, {k.text for k in node.keys if not is_merge(k)}
        at = next(i for i, key in enumerate(node.keys) if is_merge(key))
        source = plain(node.items[at])
        values = [source] if isinstance(source, dict) else list(source)
        merged = {k: v for value in reversed(values) for k, v in value.items()}
        lines = [write.entry(k, v) for k, v in merged.items() if k not in own]
        start, end = node.keys[at].start, node.items[at].end
        if flow:
            copies = write.flow({k: v for k, v in merged.items() if k not in own})[1:-1]
        else:
            pad = self.newline + " " * (node.keys[at].column - 1)
            copies = pad.join(line for entry in lines for line in entry)
        if not copies:
            return self._remove_key(node, at, flow)
        return text[:start] + copies + text[end:]

    def _around(self, expected: YamlNode) -> tuple[YamlNode, bool, int]:
        """Return the parent of a node, whether it is in flow style, and the parent's column."""
        stack = [(self.root, self.root.flow)]
        while stack:
            node, flow = stack.pop()
            for child in node.items:
                if child is expected:
                    return node, flow, self._column(node)
                stack.append((child, flow or child.flow))
        raise CannotSplice("a node without a parent")

    # Changes

    def change(self, edit: Edit) -> str:
        """Make the edit. No node on its path may be shared."""
        node, flow = self.root, self.root.flow
        if not edit.path:
            return self._replaced(node, "\n".join(write.block(edit.value)))
        for part in edit.path[:-1]:
            index = own_index(node, part)
            if index is None or index >= len(node.items):
                raise CannotSplice("a parent is missing")
            node = node.items[index].real
            flow = flow or node.flow
        last = edit.path[-1]
        if node.kind == "map" and isinstance(last, str):
            return self._change_map(node, last, edit, flow)
        if node.kind == "list" and isinstance(last, int):
            return self._change_list(node, last, edit, flow)
        raise CannotSplice("a scalar has no parts")

    def change_shared(self, edit: Edit) -> str:
        """Make the edit at the definition of its value: at the anchor, or in the map that others merge."""
        slot = edited_slot(self.root, edit)
        if slot is None:
            raise CannotSplice("a parent is missing")
        value, node, last = slot.value, slot.holder, edit.path[-1]
        if value is not None and edit.value is not REMOVED and goes_by_value(slot, edit):
            parent, flow, _ = self._around(value)
            return self._set(parent, value, edit.value, flow)
        flow = node.flow or (node is not self.root and self._around(node)[1])
        if node.kind == "map" and isinstance(last, str):
            return self._change_map(node, last, edit, flow)
        if node.kind == "list" and isinstance(last, int):
            return self._change_list(node, last, edit, flow)
        raise CannotSplice("a scalar has no parts")

    def _change_map(self, node: YamlNode, key: str, edit: Edit, flow: bool) -> str:
        index = own_index(node, key)
        if edit.value is REMOVED:
            if index is None:
                return self.text
            return self._remove_key(node, index, flow)
        if index is None:
            return self._add_key(node, key, edit.value, flow)
        return self._set(node, node.items[index], edit.value, flow)

    def _change_list(self, node: YamlNode, index: int, edit: Edit, flow: bool) -> str:
        if edit.value is REMOVED:
            return self._remove_item(node, index, flow)
        if index < len(node.items) and not edit.insert:
            return self._set(node, node.items[index], edit.value, flow)
        return self._add_item(node, index, edit.value, flow)

    def _set(self, parent: YamlNode, node: YamlNode, value: Any, flow: bool) -> str:
        style = node.style if node.kind == "scalar" else ""
        if flow or (isinstance(value, str) and style in {"'", '"'}):
            new = write.scalar(value, flow=True, style=style) if _is_scalar(value) else write.flow(value)
        else:
            # A list or mapping on one line stays on one line if it fits.
            new = self._value_text(value, parent.kind == "list", self._column(parent))
        return self._with_value(node, new)

    def _with_value(self, node: YamlNode, new: str) -> str:
        """Return the text with another value of the node, whose anchor stays while an alias needs it."""
        kept = node.anchor is not None and any(alias.target is node for alias in self.aliases)
        return self._replaced(node, f"&{node.anchor} {new}" if kept else new)

    def _remove_key(self, node: YamlNode, index: int, flow: bool) -> str:
        spans = [(k.start, v.end) for k, v in zip(node.keys, node.items, strict=True)]
        if flow:
            return self._cut_flow(spans, index)
        if len(spans) == 1:
            return self._with_value(node, "{}")
        start, end = spans[index]
        if self._first_on_line(start):
            return self.text[: self._line_start(start)] + self.text[self._line_end(end) :]
        end = self._line_end(end)
        while self.text[end : end + 1] in {" ", "\n", "\r"}:
            end += 1
        return self.text[:start] + self.text[end:]

    def _remove_item(self, node: YamlNode, index: int, flow: bool) -> str:
        spans = [(i.start, i.end) for i in node.items]
        if flow:
            return self._cut_flow(spans, index)
        if len(spans) == 1:
            return self._with_value(node, "[]")
        start = self._dash(node.items[index])
        if not self._first_on_line(start):
            raise CannotSplice("a list inside a list")
        return self.text[: self._line_start(start)] + self.text[self._line_end(spans[index][1]) :]

    def _cut_flow(self, spans: list[tuple[int, int]], index: int) -> str:
        start, end = spans[index]
        if index + 1 < len(spans):
            end = spans[index + 1][0]
        elif index:
            start = spans[index - 1][1]
        else:
            rest = self.text[end:].lstrip()
            end = len(self.text) - len(rest[1:]) if rest.startswith(",") else end
        return self.text[:start] + self.text[end:]

    def _add_key(self, node: YamlNode, key: str, value: Any, flow: bool, raw: str = "") -> str:
        """Add a key with a value, or with the text `raw` as its value."""
        if flow or node.flow:
            text = f"{write.scalar(key, flow=True)}: {raw or write.flow(value)}"
            return self._add_flow(node, len(node.items), text)
        pad = " " * self._column(node)
        entry = [f"{key}: {raw}"] if raw else write.entry(key, value, write.WIDE - len(pad))
        lines = [pad + line if line else "" for line in entry]
        # An override of a merged key is easiest to read after the `<<`.
        ranks = [-1 if is_merge(k) else write.RANKS.get(k.text, len(write.RANKS)) for k in node.keys]
        before = [i for i, r in enumerate(ranks) if r <= write.RANKS.get(key, len(write.RANKS))]
        if not before and self._first_on_line(node.keys[0].start):
            return self._insert_lines(self._line_start(node.keys[0].start), lines)
        last = node.items[before[-1] if before else -1]
        return self._insert_lines(self._line_end(last.end), lines)

    def _add_item(self, node: YamlNode, index: int, value: Any, flow: bool) -> str:
        if flow or node.flow:
            return self._add_flow(node, index, write.flow(value))
        pad = " " * self._column(node)
        lines = [pad + line if line else "" for line in write.item(value, write.WIDE - len(pad))]
        if index:
            return self._insert_lines(self._line_end(node.items[index - 1].end), lines)
        start = self._dash(node.items[0])
        if not self._first_on_line(start):
            raise CannotSplice("a list inside a list")
        return self._insert_lines(self._line_start(start), lines)

    def _add_flow(self, node: YamlNode, index: int, new: str) -> str:
        starts = [k.start for k in node.keys] or [i.start for i in node.items]
        if not starts:
            opening = self.text.index("{" if node.kind == "map" else "[", node.start) + 1
            return self.text[:opening] + new + self.text[opening:]
        own_line = len(starts) > 1 and self._first_on_line(starts[-1])
        gap = self.newline + " " * self._indent(starts[-1]) if own_line else " "
        if index < len(starts):
            at = starts[index]
            return self.text[:at] + new + "," + gap + self.text[at:]
        at = node.items[-1].end
        return self.text[:at] + "," + gap + new + self.text[at:]

    # Text

    def _value(self, node: YamlNode, flow: bool, column: int, anchor: str = "") -> str:
        """Return a copy of a node's value for another position."""
        value, mark = plain(node), f"&{anchor} " if anchor else ""
        if flow or node.flow or node.kind == "scalar" or write.is_leaf(value, write.WIDE):
            return mark + (write.flow(value) if not _is_scalar(value) else write.scalar(value, flow=True))
        pad = self.newline + " " * (column + 2)
        return mark.rstrip() + "".join(pad + line if line else "" for line in write.block(value))

    def _value_text(self, value: Any, in_list: bool, column: int) -> str:
        """Return the text after `key:` or `-` in block style."""
        pad = self.newline + " " * (column + 2)
        if write.is_leaf(value, write.WIDE - column):
            return write.inline(value)
        if _is_scalar(value):
            lines = write.lines_of(value)
            return write.literal_mark(value) + "".join(
                pad + line if line else pad.rstrip(" ") for line in lines
            )
        lines = write.block(value, write.WIDE - column)
        body = pad.join(lines)
        return body if in_list else pad + body

    def _replaced(self, node: YamlNode, new: str) -> str:
        """Return the text with `new` in place of `node`, close to its key or dash."""
        before, after = self.text[: node.start], self.text[node.end :]
        if node is self.root:
            return before + new + after
        head = before.rstrip(" \r\n")
        commented = "#" in head[self._line_start(len(head)) :] and "\n" in before[len(head) :]
        if head.endswith((":", "-")) and not commented:
            before = head + ("" if new[:1] in {"\n", "\r"} else " ")
        return before + new + after

    def _insert_lines(self, at: int, lines: list[str]) -> str:
        before = self.text[:at]
        if before and before[-1] not in {"\n", "\r"}:
            before += self.newline
        return before + "".join(line + self.newline for line in lines) + self.text[at:]

    def _column(self, node: YamlNode) -> int:
        """Return the column of a block's keys or dashes."""
        if node.flow or not node.items:
            return node.column - 1
        start = node.keys[0].start if node.keys else self._dash(node.items[0])
        return start - self._line_start(start)

    def _dash(self, item: YamlNode) -> int:
        at = self.text.rfind("-", 0, item.start)
        if at < 0:
            raise CannotSplice("an item without a dash")
        return at

    def _line_start(self, at: int) -> int:
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def _line_end(self, at: int) -> int:
        """Return the start of the next line."""
        ends = [e for e in (self.text.find("\n", at), self.text.find("\r", at)) if e >= 0]
        if not ends:
            return len(self.text)
        end = min(ends)
        return end + (2 if self.text[end : end + 2] == "\r\n" else 1)

    def _indent(self, at: int) -> int:
        return at - self._line_start(at)

    def _first_on_line(self, at: int) -> bool:
        return not self.text[self._line_start(at) : at].strip(" ")


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _inside(node: YamlNode) -> list[YamlNode]:
    """Return a node and all nodes in it in text order; aliases are not followed."""
    nodes, stack = [], [node]
    while stack:
        here = stack.pop()
        nodes.append(here)
        stack += [*here.keys, *here.items]
    return sorted(nodes, key=lambda n: n.start)
