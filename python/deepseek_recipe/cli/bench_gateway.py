"""The process that `bench` measures: a gateway on the replay engine, which tells its clock and its CPU time.

`python -m deepseek_recipe.cli.bench_gateway TOKENS PACE` prints its port, then answers each line of standard input with
a line of JSON, and ends where the input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator

from ..adapters import GenerateRequest, SamplingSpec, TokenDelta, Wrapped
from ..adapters.replay import ReplayEngine
from ..server import Gateway, Settings
from ..server.serve import bind, run, serve


class Clocked(Wrapped):
    """An engine that notes when it got each request and when it gave each token, by `time.monotonic`.

    Requests are known by the `x-request-id` of their client.
    """

    def __init__(self, engine: ReplayEngine):
        super().__init__(engine)
        self.got: dict[str, float] = {}
        self.gave: dict[str, list[float]] = {}

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenDelta, None]:
        """The engine's output."""
        name = request.request_id.rpartition("-")[0]
        self.got[name] = time.monotonic()
        gave = self.gave[name] = []
        deltas = self._engine.generate(request)
        try:
            async for delta in deltas:
                gave.append(time.monotonic())
                yield delta
        finally:
            await deltas.aclose()

    def told(self) -> str:
        """What was noted since the last call, and the process's CPU time in seconds, as JSON."""
        noted = {"cpu": time.process_time(), "got": self.got, "gave": self.gave}
        self.got, self.gave = {}, {}
        return json.dumps(noted)


def replayed(tokens: int, pace: float) -> ReplayEngine:
    """An engine whose every output has so many tokens of plain text, and an end."""
    engine = ReplayEngine(pace=pace)
    (word,) = engine.tokenizer.encode(" word")
    text = "".join(" word" for _ in range(tokens))
    assert engine.tokenizer.encode(text) == [word] * tokens
    return ReplayEngine([text], pace=pace)


async def engine_alone(tokens: int, pace: float, streams: int) -> float:
    """CPU seconds that the replay engine takes a token, without a gateway, where `streams` run at a time."""
    engine = Clocked(replayed(tokens, pace))

    async def stream(number: int) -> None:
        request = GenerateRequest(f"alone-{number}", [0], SamplingSpec(tokens + 1))
        async for _ in engine.generate(request):
            pass

    before = time.process_time()
    await asyncio.gather(*(stream(number) for number in range(streams)))
    return (time.process_time() - before) / (streams * tokens)


def main() -> None:
    """Serves until standard input ends."""
    tokens, pace = int(sys.argv[1]), float(sys.argv[2])
    engine = Clocked(replayed(tokens, pace))

    def answer() -> None:
        for _ in sys.stdin:
            print(engine.told(), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

    with bind("127.0.0.1", 0) as listener:
        print(listener.getsockname()[1], flush=True)
        threading.Thread(target=answer, daemon=True).start()
        run(serve(Gateway(engine, Settings(max_waiting=100_000)), listener))


if __name__ == "__main__":
    main()
