"""What the output of a model says: the slow twin of the stream machine, over the whole output at once.

Chunks are ["text", text], ["tokens", ids, log probabilities or None], ["finish", reason] or ["error", message]. Events:

    ["reasoning", text] ["content", text]
    ["call_start", index, name] ["call_arguments", index, text] ["call_end", index]
    then one ["finish", reason, stop sequence or None] (stop, tool_calls, length, content_filter) or ["error", message],
    or ["refused"] where the processor raises (the events before it are those of the chunks before)

An event is a delta: the texts are cut as the deltas are. When a delta is released is not modelled. `§` stands for
`｜DSML｜`. Knows no package: the vocabulary comes in as a function.
"""

import codecs
import re

from repair_twin import SPACE, Repair, escaped, literal, unique_object

DSML, THINK, END_THINK, EOS = "｜DSML｜", "<think>", "</think>", "<｜end▁of▁sentence｜>"
OPEN, CLOSE = "<" + DSML, "</" + DSML
BLOCK_NAMES = ("calls", "tool_calls", "function_calls")
NO_FINISH = "the output ended without a finish reason"


# ------------------------------------------------------------------------------------------------ input
class Input:
    """The whole output, a character an entry.

    `kind` is t for a text chunk, p for a plain token, s for a special token; `piece` numbers the pieces.
    `empty` counts the empty pieces before a position, `end` is the length without a last end-of-sentence spelling
    (which counts only for stop sequences), `outcome` is ("finish", reason), ("error", message), ("refused",) or None.
    """

    def __init__(self):
        self.text, self.kind, self.piece, self.count, self.empty, self.outcome = "", "", [], 0, {}, None

    def add(self, text, kind):
        if not text:
            self.empty[len(self.text)] = self.empty.get(len(self.text), 0) + 1
        self.text += text
        self.kind += kind * len(text)
        self.piece += [self.count] * len(text)
        self.count += 1


def read(chunks, token=None):
    """Chunks to pieces. `token` gives the bytes of an ordinary id, the spelling of an added one, None for another.

    Ordinary ids collect bytes until a chunk does not end inside a character. The id 1 is counted and vanishes.
    """
    out, waiting = Input(), b""
    for chunk in chunks:
        if chunk[0] == "text":
            out.add(chunk[1], "t")
        elif chunk[0] == "tokens":
            if token is None or (len(chunk) > 2 and chunk[2] is not None and len(chunk[2]) != len(chunk[1])):
                out.outcome = ("refused",)
                break
            for i in chunk[1]:
                found = token(i)
                if isinstance(found, str):
                    if waiting:
                        out.add(waiting.decode("utf8", "replace"), "p")
                    waiting = b""
                    if i != 1:
                        out.add(found, "s")
                else:
                    waiting += found or b""
            decoder = codecs.getincrementaldecoder("utf8")("replace")
            text = decoder.decode(waiting)
            if text and not decoder.getstate()[0]:  # the bytes do not end inside a character
                out.add(text, "p")
                waiting = b""
        elif chunk[0] in ("finish", "error"):
            out.outcome = (chunk[0], chunk[1])
            break
    if waiting and out.outcome != ("refused",):
        out.add(waiting.decode("utf8", "replace"), "p")
    out.end = len(out.text)
    if out.text.endswith(EOS) and set(out.kind[-len(EOS) :]) == {"t"}:
        out.end -= len(EOS)
    return out


# ------------------------------------------------------------------------------------------------ tags
class Tag:
    """`name` (None: unknown), `attrs` name -> (from, to) of the value, `end`, and how it ended."""

    def __init__(self, name, closer):
        self.name, self.closer, self.attrs, self.end, self.complete, self.cut = name, closer, {}, 0, False, False


ATTRIBUTE = re.compile(r"([A-Za-z0-9_-]+)[ \t]*=[ \t]*([\"'])")
TAG_NAME = re.compile(r" ?(calls|tool_calls|function_calls|invoke|parameter)(?![A-Za-z])")


def quoted(s, start, quote, end):
    """Where the attribute value that starts at `start` ends.

    None: it opens none. `end`: the end of the output cuts it off.
    """
    for p in range(start, end):
        if s.startswith((OPEN, CLOSE), p):
            return None
        if s[p] == quote and p + 1 < end and s[p + 1] in SPACE + ">/":
            return p
    return None if "\n" in s[start:end] else end


class Call:
    """One call: its deltas, and the text that stood between its parameters."""

    def __init__(self, machine, index, name):
        self.m, self.index, self.keys, self.wrapper, self.runs, self.begun = machine, index, set(), None, [], ""
        tool = machine.tools.get(name)
        self.properties = (tool or {}).get("properties")
        self.custom = name in machine.custom
        machine.event("call_start", index, name)

    def put(self, text, piece=None):
        self.begun += text
        self.m.delta(["call_arguments", self.index, text], piece)

    def is_string(self, key, word):
        """Which values are strings."""
        if word in ("true", "false"):
            return word == "true"
        declared = self.properties.get(key) if isinstance(self.properties, dict) else None
        kind = declared.get("type") if isinstance(declared, dict) else None
        return kind is None or kind == "string" or (isinstance(kind, list) and "string" in kind)

    def key_and_kind(self, tag):
        """The parameter's name, and its `string` attribute (None: missing)."""
        return tuple(self.m.slice(range(*tag.attrs[k])) if k in tag.attrs else None for k in ("name", "string"))

    def takes_parameters(self):
        """Behind a custom tool's input, parameters are text."""
        return not (self.custom and self.begun.startswith('{"input": "'))

    def parameter(self, tag, value, ended):
        """A parameter whose value is the positions `value`; a first `arguments` may be the whole object: held."""
        text = self.m.slice(value)
        key, _ = self.key_and_kind(tag)
        if (
            not self.keys
            and key == "arguments"
            and isinstance(self.properties, dict)
            and self.properties
            and "arguments" not in self.properties
            and not self.wrapper
        ):
            self.wrapper = (tag, value, ended, len(self.runs))
            return
        self.unwrap()
        self.write(tag, key, text, value, ended, len(self.runs))

    def unwrap(self):
        """The held parameter is an ordinary one."""
        if self.wrapper:
            (tag, value, ended, place), self.wrapper = self.wrapper, None
            self.write(tag, "arguments", self.m.slice(value), value, ended, place)

    def write(self, tag, key, text, value, ended, place):
        piece = self.m.input.piece
        self.put(", " if self.keys else "{")
        start, end = tag.attrs["name"]
        free, n = key, 1
        while free in self.keys:
            n += 1
            free = f"{key}_{n}"
        self.keys.add(free)
        self.m.cut()
        self.put('"', piece[start - 1])
        for p in range(start, end):
            self.put(escaped(self.m.input.text[p]), piece[p])
        self.put(free[len(key) :] + '"', piece[end])
        self.put(": ")
        bare = text.strip(SPACE)
        self.m.cut()
        if self.is_string(*self.key_and_kind(tag)):
            self.put('"')
            for p in value:
                self.put(escaped(self.m.input.text[p]), piece[p])
            if ended:
                self.put('"')
        elif bare[:1] in ("{", "[", '"') and bare:
            fixed = Repair(text, ended)
            for out, at in fixed.out:
                self.put(out, piece[value[at]])
            self.runs.insert(place, list(value)[fixed.rest :])
        elif not ended or literal(bare) == bare:
            for p in value:
                self.put(self.m.input.text[p], piece[p])
        elif not bare or literal(bare):
            self.put(literal(bare) or "null")
        else:
            self.put('"' + "".join(map(escaped, text)) + '"')

    def end(self):
        """The call is finished: one JSON object."""
        if self.wrapper:
            _, value, _, _ = self.wrapper
            text = self.m.slice(value)
            if unique_object(text):
                for p in list(value)[len(text) - len(text.lstrip(SPACE)) : len(text.rstrip(SPACE))]:
                    self.put(self.m.input.text[p], self.m.input.piece[p])
                self.m.event("call_end", self.index)
                return
        self.unwrap()
        self.put("}" if self.keys else "{}")
        self.m.event("call_end", self.index)


# ------------------------------------------------------------------------------------------------ machine
class Machine:
    """A state is a method that returns the next one, or None at the end.

    `parsing` holds the fields of `ParsingOptions`, `tools` the parameters of each name, `custom` the custom names.
    """

    def __init__(self, source, parsing, tools=None, custom=()):
        self.input, self.parsing, self.tools, self.custom = source, parsing, tools or {}, set(custom)
        self.events, self.last, self.pos, self.calls, self.ended_calls, self.over = [], None, 0, 0, 0, None
        self.stage = parsing.get("thinking_initial_stage")
        self.json = parsing.get("parse_json_output") and self.stage != "ContentContinuation"
        self.stops = [s for s in parsing.get("stop_sequences") or [] if s]
        self.closes = source.outcome == ("finish", "Stop")
        self.before = "content"  # the state before a block: reasoning, content, or after (behind a JSON value)
        self.skip = "" if self.stage in ("ReasoningContinuation", "ContentContinuation") else "\n"

    def run(self):
        if self.parsing.get("starts_in_tool_calls"):
            state = self.block
        elif (self.stage or "").startswith("Reasoning"):
            self.before = "reasoning"
            state = self.reasoning
        else:
            state = self.content_or_json
        while state:
            state = state()
        self.finish()
        return self.events

    def finish(self):
        """The end."""
        outcome = self.input.outcome
        if self.over:
            self.event("finish", *self.over)
        elif outcome is None:
            self.event("error", NO_FINISH)
        elif outcome[0] == "finish":
            called = "tool_calls" if self.ended_calls else "stop"
            self.event(
                "finish", {"Stop": called, "Length": "length", "ContentFilter": "content_filter"}[outcome[1]], None
            )
        else:
            self.event(*outcome)

    # -- output
    def event(self, *event):
        self.events.append(list(event))
        self.last = None

    def cut(self):
        self.last = None

    def delta(self, event, piece):
        """Consecutive characters of one piece are one delta."""
        if piece is not None and self.last == (event[:-1], piece):
            self.events[-1][-1] += event[-1]
        else:
            self.events.append(event)
        self.last = (event[:-1], piece) if piece is not None else None

    def emit(self, channel, positions):
        self.cut()
        for p in positions:
            if p < self.input.end:
                self.empty_pieces(channel, p)
                self.delta([channel, self.input.text[p]], self.input.piece[p])
        self.cut()

    def empty_pieces(self, channel, p):
        for _ in range(self.input.empty.pop(p, 0)):
            self.event(channel, "")

    def slice(self, positions):
        return "".join(self.input.text[p] for p in positions)

    # -- matching
    def at(self, p, word, kinds, end=None):
        e = p + len(word)
        return (
            e <= (self.input.end if end is None else end)
            and self.input.text.startswith(word, p)
            and all(k in kinds for k in self.input.kind[p:e])
        )

    def think_at(self, p):
        return self.at(p, END_THINK, "ts")

    def dsml_at(self, p, head):
        """`<§` or `</§`: the first part plain, the second special (or both in a text chunk)."""
        first = len(head) - len(DSML)
        return self.at(p, head[:first], "tp") and self.at(p + first, DSML, "ts")

    def tag_at(self, p, inside=False):
        """The tag that starts at p, or None. Closers are tags only inside a block, there whatever their name."""
        s, end = self.input.text, self.input.end
        closer = self.dsml_at(p, CLOSE)
        if not (closer and inside) and not self.dsml_at(p, OPEN):
            return None
        q = p + len(CLOSE if closer else OPEN)
        found = TAG_NAME.match(s, q, end)
        tag = Tag(found and found[1], closer)
        if not found and not closer:
            rest = s[q:end]
            if any((" " + n).startswith(rest) or n.startswith(rest) for n in (*BLOCK_NAMES, "invoke", "parameter")):
                tag.cut, tag.end = True, end
                return tag
            return None
        q = found.end() if found else q
        while q < end and s[q] not in ">\n<":
            attribute = ATTRIBUTE.match(s, q, end)
            stop = attribute and quoted(s, attribute.end(), attribute[2], end)
            if stop is None:
                q += 1
                continue
            tag.attrs.setdefault(attribute[1], (attribute.end(), stop))
            q = min(stop + 1, end)
        tag.complete, tag.cut = q < end and s[q] == ">", q >= end
        tag.end = q + 1 if tag.complete else q
        return tag

    def cut_at(self, p):
        """Whether the output ends in the middle of `<§` or `</§`: inside a block (not in a value) that is not shown."""
        return any(
            self.partial(p, self.input.end, word) for word in (OPEN, CLOSE) if 0 < self.input.end - p < len(word)
        )

    def trimmed(self, p, start, word):
        """The newlines directly before a marker go with it, but not one that broke a partial match of it ."""
        first = p
        while first > start and self.input.text[first - 1] == "\n":
            first -= 1
        if first < p and any(self.partial(q, first, word) for q in range(max(start, first - len(word) + 1), first)):
            first += 1
        return first

    def partial(self, p, e, word):
        """Whether p to e is the beginning of a marker."""
        split = len(word) - len(DSML) if word.endswith(DSML) else 0
        kinds = ["tp"] * split + ["ts"] * (len(word) - split)
        return all(self.input.text[q] == word[q - p] and self.input.kind[q] in kinds[q - p] for q in range(p, e))

    def stop_at(self, e, start):
        """The first stop sequence in the order of the request that ends before e and begins not before `start`."""
        for stop in self.stops:
            p = e - len(stop)
            if p >= start and self.at(p, stop, "tp", len(self.input.text)):
                return stop, p
        return None

    def trigger(self, start, stops, brackets=False):
        """What completes first: (kind, from, tag or stop). A tag completes with its `<§`."""
        for e in range(start + 1, len(self.input.text) + 1):
            stop = self.stop_at(e, start) if stops else None
            if stop:
                return "stop", stop[1], stop[0]
            if e > self.input.end:
                continue
            p = e - len(END_THINK)
            if p >= start and self.think_at(p):
                return "think", p, None
            if brackets and self.input.text[e - 1] in "{[" and self.input.kind[e - 1] in "tp":
                return "bracket", e - 1, None
            p = e - len(OPEN)
            if p >= start and self.parsing.get("parse_tool_calls") and self.dsml_at(p, OPEN):
                tag = self.tag_at(p)
                if tag:
                    return "tag", p, tag
        return None, len(self.input.text), None

    def skip_space(self):
        """*skip*: newlines (behind a block: all white space) are dropped until another character comes."""
        first, text = self.pos, self.input.text
        while self.pos < self.input.end and self.skip and text[self.pos] in (SPACE if self.skip == "space" else "\n"):
            self.pos += 1
        waiting = sum(self.input.empty.pop(p, 0) for p in range(first, self.pos + 1)) if self.skip else 0
        if waiting and first == 0 and self.pos < self.input.end:  # an empty piece at the start waits for the next one
            self.input.empty[self.pos] = waiting

    # -- states
    def reasoning(self):
        """REASONING: one `<think>` repeated at its start is dropped."""
        self.skip_space()
        if self.stage == "ReasoningStart" and self.skip == "\n" and self.at(self.pos, THINK, "ts"):
            self.pos += len(THINK)
            self.skip_space()
        self.skip, start = "", self.pos
        kind, p, tag = self.trigger(start, stops=False)
        word = {"think": END_THINK, "tag": OPEN}.get(kind)
        self.emit("reasoning", range(start, self.trimmed(p, start, word) if word else p))
        if kind == "think":
            self.pos, self.skip = p + len(END_THINK), "\n"
            return self.content_or_json
        return self.enter(tag, "reasoning")

    def content_or_json(self):
        self.before = "content"
        return self.seek if self.json else self.content

    def content(self):
        """CONTENT."""
        self.skip_space()
        self.skip, start = "", self.pos
        kind, p, found = self.trigger(start, stops=True)
        self.emit("content", range(start, self.trimmed(p, start, OPEN) if kind == "tag" else p))
        if kind == "stop":
            self.over = ("stop", found)
            return None
        if kind == "think":
            self.pos = p + len(END_THINK)
            return self.content
        return self.enter(found, "content")

    def enter(self, tag, before):
        """A tag outside a block, or the end."""
        if tag is None:
            self.empty_pieces(before, len(self.input.text))
            return None
        self.before = before
        return self.opened(tag)

    def opened(self, tag):
        """An opener that is no parameter of a call: an `invoke` with a name starts one, others enter the block."""
        self.pos = tag.end
        if tag.name == "invoke" and not tag.cut and "name" in tag.attrs and tag.attrs["name"][0] < tag.attrs["name"][1]:
            name = self.slice(range(*tag.attrs["name"]))
            return lambda: self.call(name)
        return self.block

    def left(self, think=False):
        """Behind a block: the state before it (the end of reasoning goes on to CONTENT), white space skipped."""
        self.skip = "space"
        if think:
            self.pos += len(END_THINK)
            return self.content_or_json
        return {"reasoning": self.reasoning, "content": self.content_or_json, "after": self.after}[self.before]

    def ends_reasoning(self):
        """The end of a reasoning that the block began in; elsewhere in a block it is removed from the text."""
        return self.before == "reasoning" and self.think_at(self.pos)

    def text_of_block(self, run):
        """Text inside a block belongs to the state before it.

        Newlines around it and white space alone are dropped, `</think>` is removed.
        """
        run = [p for p in run if not any(self.think_at(q) for q in range(p - len(END_THINK) + 1, p + 1))]
        text = self.slice(run)
        if text.strip(SPACE) and self.before != "after":  # in JSON mode before the value: content, at once
            self.emit(self.before, run[len(text) - len(text.lstrip("\n")) : len(text.rstrip("\n"))])

    def block(self):
        """BLOCK."""
        run = []
        while self.pos < self.input.end:
            tag = self.tag_at(self.pos, inside=True)
            if tag or self.ends_reasoning():
                self.text_of_block(run)
                if not tag:
                    return self.left(think=True)
                if not tag.closer:
                    return self.opened(tag)
                self.pos, run = tag.end, []
                if tag.name in BLOCK_NAMES and not tag.cut:
                    return self.left()
            elif self.cut_at(self.pos):
                self.pos = self.input.end
            else:
                run.append(self.pos)
                self.pos += 1
        self.text_of_block(run)
        return None

    def call(self, name):
        """INVOKE: text is held to the call's end and then is text of BLOCK."""
        call = Call(self, self.calls, name)
        self.calls += 1
        run, passing = [], False  # passing: behind a value, before its closer

        def end(finished=True):
            call.runs.append(run)
            if finished:
                call.end()
                self.ended_calls += 1
            else:
                call.unwrap()
            for held in call.runs:
                self.text_of_block(held)
            if finished and not self.parsing.get("parallel_tool_calls", True):
                self.over = ("tool_calls", None)  # the one call that was wanted
            return self.over

        while self.pos < self.input.end:
            tag = self.tag_at(self.pos, inside=True)
            if self.ends_reasoning():
                return None if end() else self.left(think=True)
            if self.cut_at(self.pos) or (tag and tag.cut):
                self.pos = self.input.end
            elif not tag:
                run.append(self.pos)
                self.pos += 1
            elif not tag.closer and tag.name == "invoke":
                return None if end() else self.opened(tag)
            elif tag.closer and tag.name != "parameter" and not (passing and tag.name is None):
                self.pos = tag.end
                return None if end() else self.left() if tag.name in BLOCK_NAMES else self.block
            else:
                call.runs.append(run)
                run, self.pos, passing = [], tag.end, False
                if not tag.closer and tag.name == "parameter" and "name" in tag.attrs and call.takes_parameters():
                    self.value(call, tag)
                    passing = True
        end(self.closes)
        return None

    def value(self, call, tag):
        """VALUE: ends before any `</§` and before a complete `parameter` opener with a name.

        Behind a complete JSON value it is INVOKE.
        """
        start, end, ended = self.pos, self.input.end, self.closes
        json_value = not call.is_string(*call.key_and_kind(tag))
        while self.pos < self.input.end:
            found = self.tag_at(self.pos, inside=True)
            if (found or self.ends_reasoning() or self.cut_at(self.pos)) and json_value:
                text = self.slice(range(start, self.pos)).lstrip(SPACE)
                if text[:1] in ("{", "[", '"') and text and Repair(text, True).complete:
                    end, ended = self.pos, True
                    break
            if found and (found.closer or (found.name == "parameter" and found.complete and "name" in found.attrs)):
                end, ended = self.pos, True
                break
            if found and found.cut and found.name in (None, "parameter"):  # may become such an opener
                end = self.pos
                break
            self.pos += 1
        call.parameter(tag, range(start, end), ended)

    # -- JSON mode
    def seek(self):
        """Held until the first bracket: then dropped; before a tool block and at the end it is text."""
        self.skip_space()
        self.skip, start, kept = "", self.pos, []
        begin = start
        while True:
            kind, p, tag = self.trigger(begin, stops=False, brackets=True)
            if kind == "bracket":
                self.pos = p
                bare = not re.search(r"```(json)?\n[ \t\r\n]*\Z", self.input.text[start:p])
                return lambda: self.json_value(bare)
            kept += range(begin, self.trimmed(p, begin, OPEN) if kind == "tag" else p)
            if kind != "think":
                break
            begin = p + len(END_THINK)  # removed, as in CONTENT
        self.emit("content", kept)
        return self.enter(tag, "content")

    def json_value(self, bare):
        """The value, by nesting depth and strings; stops are looked for behind its first bracket."""
        text, start, depth, string, escape = self.input.text, self.pos, 0, False, False
        for p in range(start, len(text)):
            c = text[p]
            stop = self.stop_at(p + 1, start + 1)
            if stop:
                self.emit_value(start, stop[1], bare)
                self.over = ("stop", stop[0])
                return None
            if string:
                string = escape or c != '"'
                escape = c == "\\" and not escape
            elif c == '"':
                string = True
            elif c in "{[":
                depth += 1
            elif c in "}]":
                depth -= 1
                if not depth:
                    self.emit_value(start, p + 1, bare)
                    self.pos = p + 1
                    return self.after
        self.emit_value(start, len(text), bare)
        return None

    def emit_value(self, start, end, bare):
        if bare:
            self.emit("content", range(start, start + 1))
            start += 1
        self.emit("content", range(start, end))

    def after(self):
        """Behind the value all is dropped, tool blocks are parsed."""
        kind, p, tag = self.trigger(self.pos, stops=False)
        while kind == "think":
            kind, p, tag = self.trigger(p + len(END_THINK), stops=False)
        if tag is None:
            return None
        self.before = "after"
        return self.opened(tag)


def merged(events):
    """Adjacent events of one kind and index joined, empty ones dropped: what does not depend on cuts."""
    out = []
    for e in events:
        if e[0] in ("reasoning", "content", "call_arguments"):
            if not e[-1]:
                continue
            if out and out[-1][:-1] == e[:-1]:
                out[-1][-1] += e[-1]
                continue
        out.append(list(e))
    return out
