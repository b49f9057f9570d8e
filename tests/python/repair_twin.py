"""A JSON value as a model writes it, made valid: the slow twin, over the whole value. Knows no markup."""

import json
import re

SPACE = " \t\n\r"  # what white space means here, as in JSON


def escaped(c):
    """One character inside a JSON string ."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c)


NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
WORDS = {"True": "true", "False": "false", "None": "null"}


def literal(word):
    """A bare word of JSON as it is, one of Python as JSON, else None."""
    return word if word in ("true", "false", "null") or NUMBER.fullmatch(word) else WORDS.get(word)


class Repair:
    """A value that begins with `{`, `[` or `"`: the identity on valid JSON and, if not `ended`, on its prefixes.

    `out` is a list of (text, position it came from), `rest` the position behind the value (`complete`: by itself) and
    the white space behind it. `expect` is value, key, colon, next (a comma or a closer) or done; `comma` the place in
    `out` of a comma that nothing has followed yet.
    """

    def __init__(self, s, ended):
        self.s, self.ended, self.p, self.out, self.stack, self.expect, self.comma = s, ended, 0, [], [], "value", None
        while self.p < len(s) and self.expect != "done":
            self.step(s[self.p])
        self.complete = self.expect == "done"
        while self.p < len(s) and s[self.p] in SPACE:
            self.copy()
        self.rest = self.p
        if ended:
            self.close(0)

    def put(self, text):
        self.out.append((text, min(self.p, len(self.s) - 1)))

    def copy(self):
        self.put(self.s[self.p])
        self.p += 1

    def valued(self):
        self.expect = "next" if self.stack else "done"

    def fill_before(self):
        """A comma or colon that is missing before what comes now."""
        self.comma = None
        if self.expect == "next":
            self.put(",")
            self.expect = "key" if self.stack[-1] == "{" else "value"
        elif self.expect == "colon":
            self.put(":")
            self.expect = "value"

    def fill_value(self):
        """A member's value that is missing before a comma, a closer or the end."""
        if self.expect == "colon":
            self.put(":")
        if self.expect == "colon" or (self.expect == "value" and self.stack[-1] == "{"):
            self.put("null")
            self.expect = "next"

    def close(self, depth):
        """Close the open brackets down to `depth`; a comma before a closer is superfluous."""
        while len(self.stack) > depth:
            if self.comma is not None:
                del self.out[self.comma]
                self.comma = None
            self.fill_value()
            self.put("}" if self.stack.pop() == "{" else "]")
            self.valued()

    def step(self, c):
        if c in SPACE:
            self.copy()
        elif c == ",":
            self.fill_value()
            if self.expect == "next":
                self.comma = len(self.out)
                self.put(c)
                self.expect = "key" if self.stack[-1] == "{" else "value"
            self.p += 1  # else superfluous
        elif c in "}]":
            opener = "{" if c == "}" else "["
            if opener in self.stack:
                self.close(len(self.stack) - 1 - self.stack[::-1].index(opener))
            self.p += 1  # else superfluous
        elif c == ":":
            if self.expect == "key":
                self.comma = None
                self.put('""')
                self.expect = "colon"
            if self.expect == "colon":
                self.put(c)
                self.expect = "value"
            self.p += 1  # else superfluous
        else:
            self.fill_before()
            key = self.expect == "key"
            if c in "{[":
                self.put('"":' if key else "")
                self.copy()
                self.stack.append(c)
                self.expect = "key" if c == "{" else "value"
                return
            if c in "\"'":
                self.string(c)
            else:
                self.word(key)
            if key:
                self.expect = "colon"
            else:
                self.valued()

    def string(self, quote):
        """A string in double or single quotes: controls and bad escapes are escaped, an open one is closed."""
        s = self.s
        self.put('"')
        self.p += 1
        while self.p < len(s) and s[self.p] != quote:
            follows = s[self.p + 1 :]
            if s[self.p] != "\\":
                self.put(escaped(s[self.p]))
                self.p += 1
            elif re.match(r'["\\/bfnrt]|u[0-9A-Fa-f]{4}', follows):
                self.copy()
                self.copy()
            elif quote == "'" == follows[:1]:
                self.p += 1
                self.copy()
            elif not self.ended and re.fullmatch(r"(u[0-9A-Fa-f]{0,3})?", follows):
                self.copy()  # an escape that the end of the output cut off
            else:
                self.put("\\\\")
                self.p += 1
        if self.p < len(s) or self.ended:
            self.put('"')
        self.p += self.p < len(s)

    def word(self, key):
        """A bare word: to the next comma, bracket, quote or line break (a key: or colon), without space at its end."""
        start, s = self.p, self.s
        stop = re.compile(r'[,\[\]{}"\n:]' if key else r'[,\[\]{}"\n]').search(s, start)
        word = s[start : stop.start() if stop else len(s)].rstrip(SPACE)
        good = None if key else literal(word)
        if good == word or not (self.ended or stop):  # JSON, or cut off: as it is
            for _ in word:
                self.copy()
            return
        self.put(good or '"')
        for self.p in range(start, start + len(word)):
            self.put("" if good else escaped(s[self.p]))
        self.put("" if good else '"')
        self.p += 1


def unique_object(text):
    """Whether a text is one JSON object without repeated keys at its top."""
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: pairs, parse_constant=int)
    except (ValueError, RecursionError):
        return False
    return text.lstrip(SPACE)[:1] == "{" and len({k for k, _ in value}) == len(value)
