"""What is written at one time is sent together and in order."""

import asyncio

from regard.serve.joined_writes import _LARGE, JoinedWrites


class Transport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.closed = True


def test_head_and_body_are_sent_together_and_much_data_at_once() -> None:
    async def run() -> list[bytes]:
        transport = Transport()
        joined = JoinedWrites(transport, asyncio.get_running_loop())  # type: ignore[arg-type]
        joined.write(b"head ")
        joined.write(b"body")
        assert transport.sent == []
        await asyncio.sleep(0)
        joined.write(b"x" * _LARGE)
        assert len(transport.sent) == 2
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        assert transport.closed and joined.closed
        return transport.sent

    assert asyncio.run(run()) == [b"head body", b"x" * _LARGE, b"last"]
